"""Checks before a file is parsed, and errors of parsers turned into one clear line."""

import os
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.io

from tempering._errors import InputError

MAX_ARRAY_BYTES = 4 * 2**30
"""The largest array that is read, in bytes once in memory; a file that claims a larger one is refused."""

# What zipfile, NumPy and SciPy raise on damaged bytes.
_PARSE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError, EOFError, OSError),
    *(ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, scipy.io.matlab.MatReadError),
)


class FileError(InputError):
    """A file that cannot be used as asked; the message is one line with the cause and the cure."""

    def __init__(self, message: str) -> None:
        # Names inside a file may contain control characters.
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """A file opened for reading; an empty one is refused."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise FileError(f"cannot read {path}: {short_reason(error)}. Check its permissions.") from error
    with stream:
        if not os.fstat(stream.fileno()).st_size:
            raise FileError(f"{path} is empty (0 bytes). Save or copy it again.")
        yield stream


def checked_suffix(path: Path, understood: tuple[str, ...]) -> str:
    """The suffix in lower case, of a regular file with one of the suffixes `understood`."""
    wanted = " or ".join(understood)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = "no such file" if isinstance(error, FileNotFoundError) else short_reason(error)
        raise FileError(f"cannot read {path}: {why}. Check the path.") from error
    if not stat.S_ISREG(mode):  # opening a pipe would wait forever
        came = "directory" if stat.S_ISDIR(mode) else "pipe or device"
        raise FileError(f"{path} is a {came}, expected a file. Give the path of a {wanted} file.")
    if path.suffix.lower() not in understood:
        came = f"suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise FileError(f"{path} has {came}, expected {wanted}. Save it in such a file.")
    return path.suffix.lower()


@contextmanager
def parse_errors_named(label: str, cure: str = "Save or copy it again") -> Iterator[None]:
    """Turn what parsers raise on damaged bytes into one line about the file."""
    try:
        # Parsers also warn, of files written by Python 2, and of variables that are refused later.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except FileError:
        raise
    except MemoryError as error:
        raise FileError(f"{label} does not fit in this machine's memory. Save a smaller array.") from error
    except _PARSE_ERRORS as error:
        raise FileError(f"{label} is truncated or damaged ({short_reason(error)}). {cure}.") from error


def short_reason(error: Exception) -> str:
    """The message of a parser or the system, short and in one line."""
    words = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(words.split())[:100].rstrip(".")


def name_list(names: Iterable[str]) -> str:
    """Names for a message, no more than fit in a line."""
    names = list(names)
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join(names[:12] + more)[:1000] or "nothing"


def check_size(label: str, num_bytes: int) -> None:
    """Refuse an array that is too large, before memory is allocated for it."""
    if num_bytes > MAX_ARRAY_BYTES:
        size, limit = num_bytes / 2**30, MAX_ARRAY_BYTES / 2**30
        raise FileError(f"{label} would take {size:.3g} GiB, the limit is {limit:.3g} GiB. Save less data.")


def check_dtype(label: str, dtype: np.dtype) -> None:
    """Refuse an array that does not hold real numbers."""
    if dtype.hasobject:
        raise FileError(
            f"{label} holds Python objects, expected numbers. They are refused because reading them means "
            "unpickling, which can run any code. Save an array of floats."
        )
    if dtype.kind not in "biuf":
        raise FileError(f"{label} must hold real numbers, got dtype {str(dtype)[:60]}. Save it as floats.")
