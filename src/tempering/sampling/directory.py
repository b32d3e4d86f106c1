"""A directory that one run has to itself, and a file in it that is whole at every moment."""

import errno
import hashlib
import io
import json
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import filelock
import jax
import numpy as np

from tempering._errors import InputError, RecoveryWarning
from tempering.sampling.processes import by_first_process, is_first_process

_MAGIC = b"tempering checkpoint 2 "
MOST_UNPACKED = 4 * 2**30  # bytes of the arrays of one file
_SEAL = "crc32"  # of the rest of a line of JSON
_DIGEST = "sha256 "
_READ, _UNREAD = b"+", b"-"
# What zipfile, NumPy, JSON and a tree that does not fit raise on a body that nobody here wrote.
MALFORMED = (
    *(
        OSError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        EOFError,
        MemoryError,
        RuntimeError,
        ArithmeticError,
    ),
    *(NotImplementedError, SyntaxError, tokenize.TokenError, struct.error, zlib.error, zipfile.BadZipFile),
)

T = TypeVar("T")


class CheckpointError(InputError):
    """A directory that cannot be used as asked; one line with the cause and the cure."""


class DamagedError(CheckpointError):
    """A checkpoint that is not what was written.

    Attributes:
        cause: The message without its cure.
    """

    def __init__(self, cause: str):
        super().__init__(f"{cause} Choose another directory.")
        self.cause = cause


class RunDirectory:
    """The directory of one run. While it is open no other run can enter it.

    It keeps the last two checkpoints. Where the last is damaged, the one before it is used, with a `RecoveryWarning`.
    Of several processes only the first reads and writes, and tells the others.

    ```python
    with RunDirectory(path, identity, resume=True) as directory:
        kept = directory.read()                # None: nothing to resume, begin
        directory.write({"done": 3}, {"states": tree})
    ```
    """

    def __init__(self, path: str | os.PathLike, identity: dict[str, Any], *, resume: bool):
        """`identity` is what must not change between a run and its continuation, as JSON values.

        Its names are shown to people where it differs: arguments are in backticks.
        """
        self.path = Path(path)
        self.identity = identity
        self.resume = resume
        self.checkpoint, self.previous = self.path / "checkpoint", self.path / "checkpoint.previous"
        self._lock = filelock.FileLock(self.path / "lock", timeout=0)

    def __enter__(self) -> "RunDirectory":
        """Make the directory, lock it, and refuse it if it holds a run that was not asked for."""
        by_first_process(self._enter)
        return self

    def _enter(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except filelock.Timeout:
            raise CheckpointError(f"{self.path} is in use by another run. Choose another directory.") from None
        except OSError as error:
            raise CheckpointError(
                f"{self.path} cannot be used as a directory: {error.strerror}. Choose another."
            ) from None
        if (self.checkpoint.exists() or self.previous.exists()) and not self.resume:
            self._lock.release()
            raise CheckpointError(
                f"{self.path} already holds a run. Go on with it by `resume`, or choose another directory."
            )

    def __exit__(self, *_) -> None:
        """Let others in."""
        self._lock.release()

    def write(self, about: dict[str, Any], trees: dict[str, Any]) -> None:
        """Replace the checkpoint; a kill at any moment leaves the old one or the new one, whole."""
        by_first_process(lambda: self._write(about, trees))

    def _write(self, about: dict[str, Any], trees: dict[str, Any]) -> None:
        about = about | {"identity": self.identity}
        arrays = {f"{part}.{i}": leaf for part, tree in trees.items() for i, leaf in enumerate(jax.tree.leaves(tree))}
        payload = io.BytesIO()
        np.savez(payload, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
        body = payload.getvalue()
        data = _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        write_atomically(self.checkpoint, data, previous=self.previous)

    def read(self, fill: Callable[[dict[str, Any], dict[str, np.ndarray]], T]) -> T | None:
        """What `fill` makes of the plain values and the arrays that were written; None where there are none."""
        damage: DamagedError | None = None
        for file in (self.checkpoint, self.previous):
            content = by_first_process(lambda: _content(file))  # noqa: B023
            if not content:
                continue
            try:
                found = self._filled_from(file, content, fill)
            except DamagedError as error:
                damage = damage or error
                continue
            if damage is not None:
                how = "The run goes on from the checkpoint before it."
                warnings.warn(RecoveryWarning(f"{damage.cause} {how}"), stacklevel=2)
            if file == self.previous and is_first_process():  # which a later write would replace by the damaged one
                with suppress(OSError):
                    os.replace(self.previous, self.checkpoint)
            return found
        if damage is not None:
            raise damage
        return None

    def _filled_from(self, file: Path, content: bytes, fill: Callable[[dict[str, Any], dict[str, np.ndarray]], T]) -> T:
        try:
            arrays = _read(file, content)
            about = json.loads(arrays.pop("about").tobytes())
            self._check_identity(about["identity"])
            return fill(about, arrays)
        except CheckpointError:
            raise
        except MALFORMED as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
            raise DamagedError(f"{file} cannot be read ({why}).") from error

    def _check_identity(self, saved: dict[str, Any]) -> None:
        mine = json.loads(json.dumps(self.identity))
        differing = [name for name in sorted(mine.keys() | saved.keys()) if mine.get(name) != saved.get(name)]
        if differing:
            listing = ", ".join(_difference(name, saved.get(name), mine.get(name)) for name in differing)
            raise CheckpointError(
                f"{self.path} holds another run; it differs in {listing}. "
                "Ask for the same, or choose another directory."
            )


def digest(*arrays: Any) -> str:
    """Arrays as a short text for an identity, which tells them apart from others and is not shown to people."""
    found = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return _DIGEST + found.hexdigest()[:16]


def _difference(name: str, there: Any, here: Any) -> str:
    """What differs between two runs; names of arguments are in backticks."""
    is_digest = any(isinstance(value, str) and value.startswith(_DIGEST) for value in (there, here))
    return name if is_digest else f"{name} ({there} there, {here} here)"


def _content(file: Path) -> bytes:
    """All of a file after a mark, or why it cannot be read after another; nothing where there is none."""
    if not file.exists():
        return b""
    try:
        return _READ + file.read_bytes()
    except OSError as error:
        return _UNREAD + f"{type(error).__name__}: {error.strerror}".encode()


def _read(file: Path, content: bytes) -> dict[str, np.ndarray]:
    mark, data = content[:1], content[1:]
    if mark == _UNREAD:
        raise DamagedError(f"{file} cannot be read ({data.decode()}).")
    head, _, body = data.partition(b"\n")
    if not head.startswith(_MAGIC):
        raise DamagedError(f"{file} is not a checkpoint of this version.")
    if hashlib.sha256(body).hexdigest().encode() != head.removeprefix(_MAGIC):
        raise DamagedError(f"{file} is damaged: its checksum is wrong.")
    return unpacked(io.BytesIO(body), len(body))  # which is not compressed


def unpacked(source: Path | io.BytesIO, most_bytes: int = MOST_UNPACKED) -> dict[str, np.ndarray]:
    """The arrays of an npz file. Nothing is unpickled, and what would take more memory than that is a `ValueError`.

    Args:
        source: The file, or its content.
        most_bytes: The most that all arrays may take.
    """
    with np.load(source, allow_pickle=False) as archive:
        num_bytes = sum(member.file_size for member in archive.zip.infolist())
        if num_bytes > most_bytes:
            raise ValueError(f"it would take {num_bytes / 2**30:.3g} GiB, and {most_bytes / 2**30:.3g} are allowed")
        return dict(archive)


def write_atomically(path: Path, data: bytes, *, previous: Path | None = None) -> None:
    """Write beside the target, flush to disk, then rename over it; what was there becomes `previous`."""
    beside = path.with_name(path.name + ".new")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            os.replace(path, previous)
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise unwritable(path, error) from error


def sealed(values: dict[str, Any]) -> str:
    """Plain values as one line of JSON, with a checksum of themselves at its end."""
    return json.dumps(values | {_SEAL: zlib.crc32(json.dumps(values).encode())})


def unsealed(line: str | bytes) -> dict[str, Any] | None:
    """The values of such a line; None where it is not as it was written."""
    try:
        values = json.loads(line)
        is_whole = isinstance(values, dict) and values.pop(_SEAL) == zlib.crc32(json.dumps(values).encode())
    except (ValueError, KeyError, RecursionError):  # ValueError also where bytes are no text
        return None
    return values if is_whole else None


def unwritable(path: Path, error: OSError) -> CheckpointError:
    """The refusal for a file that the system does not let us write."""
    cure = "Make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Make its directory writable"
    return CheckpointError(f"{path} cannot be written: {error.strerror}. {cure}, then resume.")


def filled(part: str, tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree with the saved values in place of its own."""
    leaves = [_fitting(arrays[f"{part}.{i}"], leaf) for i, leaf in enumerate(jax.tree.leaves(tree))]
    return jax.tree.unflatten(jax.tree.structure(tree), leaves)


def _fitting(saved: np.ndarray, like: Any) -> Any:
    """A saved leaf, once its kind is that of the leaf it replaces; plain numbers come back plain."""
    kind = np.dtype(getattr(like, "dtype", type(like))).kind
    if saved.dtype.kind != kind:
        raise TypeError(f"found dtype {saved.dtype} where kind {kind!r} belongs")
    return saved.item() if isinstance(like, int) else saved
