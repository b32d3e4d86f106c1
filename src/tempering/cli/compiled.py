"""Compiled programs that the command line keeps, so that the next run of the same model compiles nothing."""

import os
import warnings
from contextlib import suppress
from pathlib import Path

import platformdirs

MAX_BYTES = 2**29
"""The most that is kept from one run to the next."""


def keep_compiled(is_asked: bool) -> None:
    """Let JAX keep compiled programs in the user's cache directory, if that can be written to.

    Only an application may decide this, and not one whose user has set JAX_COMPILATION_CACHE_DIR.

    Args:
        is_asked: Whether the user wants it.
    """
    if not is_asked or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    directory = cache_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_oldest(directory, MAX_BYTES)
    except OSError:
        return
    if not os.access(directory, os.W_OK | os.X_OK):
        return
    import jax

    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # A disk that is full, or a program that another process is just writing, costs time and nothing else.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")


def cache_directory() -> Path:
    """The directory for compiled programs: by the custom of the platform, and XDG_CACHE_HOME where it is set."""
    return platformdirs.user_cache_path("tempering", appauthor=False) / "compiled"


def remove_oldest(directory: Path, max_bytes: int) -> None:
    """Remove the programs that were read or written longest ago, until the rest fits.

    JAX would do so itself (`jax_compilation_cache_max_size`), but it looks at every file for each program that it adds,
    which takes seconds where there are many.

    Args:
        directory: Where they are.
        max_bytes: What may stay.
    """
    with os.scandir(directory) as entries:
        found = [(entry.stat(), entry.path) for entry in entries if entry.is_file(follow_symlinks=False)]
    left = sum(status.st_size for status, _ in found)
    for status, path in sorted(found, key=lambda pair: max(pair[0].st_atime, pair[0].st_mtime)):
        if left <= max_bytes:
            return
        with suppress(OSError):  # another process may have removed it
            os.unlink(path)
        left -= status.st_size
