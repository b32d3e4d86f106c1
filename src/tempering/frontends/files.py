"""RBM parameters and binary data from disk, as NumPy arrays.

Files are not trusted: nothing is unpickled, and no array is allocated before its size was looked at.
"""

import io
import math
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
from typing import IO, BinaryIO, Literal, NamedTuple

import numpy as np
import scipy.io

from tempering._errors import InputError

MAX_ARRAY_BYTES = 4 * 2**30
"""The largest array that is read, in bytes once in memory; a file that claims a larger one is refused."""

_NPZ_NAMES = ("W", "vbias", "hbias")
_MAT_NAMES = ("vishid", "visbiases", "hidbiases")  # as in Salakhutdinov's code
_MAT_NUMERIC = {"double", "single", "logical", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}
_MAT_CODES = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}  # int8 to uint32, single, double, int64, uint64
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HEADER_BYTES = 2**14  # more than NumPy accepts as an npy header
_CHUNK_BYTES = 2**20
_BLOCK_ROWS = 4096
# What zipfile, NumPy and SciPy raise on damaged bytes.
_PARSE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError, EOFError, OSError),
    *(ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, scipy.io.matlab.MatReadError),
)


class FileError(InputError):
    """A file that cannot be used as asked; the message is one line with the cause and the cure."""

    def __init__(self, message: str) -> None:
        """Keep `message`, with control characters (from names inside the file) written as escapes."""
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class RBMArrays(NamedTuple):
    """The parameters of an RBM, all float64: log f(v, h) = v·vbias + v·weights·h + h·hbias."""

    weights: np.ndarray  # (visible, hidden)
    vbias: np.ndarray  # (visible,)
    hbias: np.ndarray  # (hidden,)


def read_rbm(spec: str | os.PathLike) -> RBMArrays:
    """Read an RBM from `FILE.npz` (W, vbias, hbias), `FILE.npz:NAME` (W_NAME, ...) or `FILE.mat`.

    A MATLAB file holds vishid (visible x hidden), visbiases and hidbiases.
    """
    path, pick = _split(spec)
    if _suffix(path, (".npz", ".mat")) == ".mat":
        return _checked_rbm(path, _MAT_NAMES, _load_mat(path))
    names = _NPZ_NAMES if pick is None else tuple(f"{name}_{pick}" for name in _NPZ_NAMES)
    with _open_npz(path) as archive:
        members = _members(archive)
        missing = [name for name in names if name not in members]
        if missing:
            raise FileError(f"{path} has no array {_listing(missing)}. {_rbm_hint(path, members)}")
        arrays = [_read_member(archive, members[name], f"{name} in {path}", item_bytes=8) for name in names]
    return _checked_rbm(path, names, arrays)


def read_data(
    spec: str | os.PathLike, *, num_visible: int | None = None, binarize: str | None = None, seed: int = 0
) -> np.ndarray:
    """Read 0/1 data (n, visible) as uint8 from `FILE.npz` or `FILE.npz:NAME`; images are flattened by rows.

    With `num_visible`, packed bits are unpacked. Grey values need `binarize`: "threshold" (above half of full
    scale) or "random" (1 with the grey value as probability, drawn with `seed`).
    """
    _check_options(num_visible, binarize, seed)
    path, pick = _split(spec)
    _suffix(path, (".npz",))
    with _open_npz(path) as archive:
        members = _members(archive)
        name = _pick_data(archive, members, path, pick)
        label = f"{name} in {path}"
        stored = _read_member(archive, members[name], label)
    rows = _rows(stored, num_visible, label)
    white = 1 if rows.dtype.kind == "f" else 255
    if _is_binary(rows, white, label):
        return rows.astype(np.uint8)
    if binarize is None:
        packed = " If these are packed bits, give num_visible." if num_visible is None else ""
        raise FileError(
            f"{label} must be 0/1, got grey values up to {rows.max()}. "
            f"Choose how to make them binary with --binarize threshold|random.{packed}"
        )
    return _binarized(rows, white, binarize, seed)


def _split(spec: str | os.PathLike) -> tuple[Path, str | None]:
    """Cut `FILE.npz:NAME` in two, unless a file of that very name exists."""
    text = os.fsdecode(spec)
    head, _, name = text.rpartition(":")
    if not head.lower().endswith(".npz") or os.path.isfile(text):
        return Path(text), None
    if not name:
        raise FileError(f"{text} ends in ':', expected a name after it. Write {head} or {head}:NAME.")
    return Path(head), name


def _suffix(path: Path, understood: tuple[str, ...]) -> str:
    """The suffix in lower case, once it is known that the file is there and of a kind that is read."""
    wanted = " or ".join(understood)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = "no such file" if isinstance(error, FileNotFoundError) else _reason(error)
        raise FileError(f"cannot read {path}: {reason}. Check the path.") from error
    if not stat.S_ISREG(mode):  # opening a pipe would wait for ever
        came = "directory" if stat.S_ISDIR(mode) else "pipe or device"
        raise FileError(f"{path} is a {came}, expected a file. Give the path of a {wanted} file.")
    if path.suffix.lower() not in understood:
        came = f"suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise FileError(f"{path} has {came}, expected {wanted}. Save it in such a file.")
    return path.suffix.lower()


def _rbm_hint(path: Path, members: Iterable[str]) -> str:
    """What can be read instead, for an archive without the wanted arrays."""
    held = set(members)
    usable = [str(path)] if held.issuperset(_NPZ_NAMES) else []
    picks = [name.removeprefix("W_") for name in members if name.startswith("W_")]
    usable += [f"{path}:{pick}" for pick in picks if {f"vbias_{pick}", f"hbias_{pick}"} <= held]
    if usable:
        return f"Pick one of: {_listing(usable)}."
    return f"It holds: {_listing(members)}. Save the arrays W (visible, hidden), vbias and hbias."


def _pick_data(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: Path, pick: str | None) -> str:
    """The name of the array to read as data: the one asked for, the only one, or the training images."""
    if not members:
        raise FileError(f"{path} holds no arrays, expected one of 0/1 data. Save it with numpy.savez.")
    if pick in members:
        return pick
    if pick is None and len(members) == 1:
        return next(iter(members))
    options = _listing(f"{path}:{name}" for name in members)
    if pick is not None:
        raise FileError(f"{path} has no array {pick}. Pick one of: {options}.")
    train = []
    for name in filter(lambda name: name.startswith("train"), members):
        with _open_member(archive, members[name], f"{name} in {path}") as member:
            train += [name] if len(_parse_header(member.read(_HEADER_BYTES))[0]) >= 2 else []  # labels are 1-d
    if len(train) == 1:
        return train[0]
    raise FileError(f"{path} holds {len(members)} arrays, expected one. Pick one of: {options}.")


def _check_options(num_visible: int | None, binarize: str | None, seed: int) -> None:
    """Refuse options that no file could satisfy."""
    if binarize not in (None, "threshold", "random"):
        raise FileError(f"--binarize must be threshold or random, got {binarize!r}. Use one of these.")
    if num_visible is not None and num_visible < 1:
        raise FileError(f"num_visible must be at least 1, got {num_visible}. Give the model's number.")
    if seed < 0:
        raise FileError(f"seed must be 0 or more, got {seed}. Give another integer.")


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, of which there is at least one."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise FileError(f"cannot read {path}: {_reason(error)}. Check its permissions.") from error
    with stream:
        if not os.fstat(stream.fileno()).st_size:
            raise FileError(f"{path} is empty (0 bytes). Save or copy it again.")
        yield stream


@contextmanager
def _open_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip archive of an npz file."""
    with _open_file(path) as stream:
        start = stream.read(6)
        if not start.startswith(b"PK"):
            came = "a single npy array" if start == b"\x93NUMPY" else "something else"
            raise FileError(f"{path} is not an npz: expected a zip, got {came}. Save it with numpy.savez.")
        stream.seek(0)
        with _blaming(str(path)):
            archive = zipfile.ZipFile(stream)
        with archive:
            yield archive


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name, in their order."""
    return {i.filename.removesuffix(".npy"): i for i in archive.infolist() if i.filename.endswith(".npy")}


@contextmanager
def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str) -> Iterator[IO[bytes]]:
    """The unpacked bytes of one array, as a stream that can be read in bounded pieces."""
    # zipfile unpacks deflate in pieces, but bzip2 and LZMA in one go, however large the outcome.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FileError(f"{label} is compressed unlike npz arrays are. Save it with numpy.savez.")
    with _blaming(label), archive.open(info) as member:
        yield member


def _parse_header(start: bytes) -> tuple[tuple[int, ...], bool, np.dtype, bytes]:
    """The shape, Fortran order and dtype that an npy header claims, and the bytes after it."""
    head = io.BytesIO(start)  # not the file: a header may claim to be 4 GiB long, and NumPy would read that
    version = np.lib.format.read_magic(head)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"npy version {version}")
    # Version 3 differs from 2 only in the letters of field names, and arrays with fields are refused.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(head)
    if any(length < 0 for length in shape):
        raise ValueError(f"shape {shape}")
    return shape, fortran_order, dtype, head.read()


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str, *, item_bytes: int = 1) -> np.ndarray:
    """Read one array, after its size was checked in the zip directory and in its own header.

    `item_bytes` is what an element will take once the caller has converted it.
    """
    _check_size(label, info.file_size)
    with _open_member(archive, info, label) as member:
        shape, fortran_order, dtype, start = _parse_header(member.read(_HEADER_BYTES))
        _check_dtype(label, dtype)
        _check_size(label, math.prod(shape) * max(dtype.itemsize, item_bytes))
        num_bytes = math.prod(shape) * dtype.itemsize
        content = bytearray(start)  # grows with what arrives: a claim alone allocates nothing
        while (left := num_bytes - len(content)) > 0 and (chunk := member.read(min(left, _CHUNK_BYTES))):
            content += chunk
        if len(content) != num_bytes or member.read(1):
            held = "less" if left > 0 else "more"
            raise FileError(
                f"{label} is damaged: its header claims shape {shape} of {dtype}, {num_bytes} bytes, "
                f"but it holds {held}. Save or copy the file again."
            )
        return np.ndarray(shape, dtype, buffer=content, order="F" if fortran_order else "C")


def _load_mat(path: Path) -> list[np.ndarray]:
    """The three arrays of a MATLAB file (version 4 to 7) as stored."""
    with _open_file(path) as stream:
        start = stream.read(520)
        if _HDF5_SIGNATURE in (start[:8], start[512:]) or start.startswith(b"MATLAB 7.3"):
            raise FileError(f"{path} is MATLAB 7.3 (HDF5), expected 7 or older. Re-save with -v7 or as npz.")
        stream.seek(0)
        # SciPy stumbles over strings and tables of newer MATLABs as it does over damage.
        with _blaming(str(path), cure="Copy it again, or save it with nothing but vishid, visbiases and hidbiases"):
            held = scipy.io.whosmat(stream)
        _check_mat(path, held)
        with _blaming(str(path)):
            if 0 not in start[:4]:  # else MATLAB 4
                _check_mat_codes(path, stream)
            stream.seek(0)
            found = scipy.io.loadmat(stream, variable_names=list(_MAT_NAMES))
            arrays = [np.asarray(found[name]) for name in _MAT_NAMES]
    for name, array in zip(_MAT_NAMES, arrays, strict=True):
        _check_dtype(f"{name} in {path}", array.dtype)
    return arrays


def _check_mat(path: Path, held: list[tuple[str, tuple[int, ...], str]]) -> None:
    """Look at names, shapes and classes of a MATLAB file's variables before any is loaded."""
    names = [name for name, _, _ in held]
    missing = [name for name in _MAT_NAMES if name not in names]
    if missing:
        raise FileError(
            f"{path} has no {_listing(missing)}. It holds: {_listing(names)}. Save vishid (visible x hidden), "
            "visbiases and hidbiases, or copy the file again if it was truncated."
        )
    for name, shape, kind in held:
        if name not in _MAT_NAMES:
            continue
        label = f"{name} in {path}"
        if names.count(name) > 1 or any(length < 0 for length in shape):
            raise FileError(f"{label} is damaged: it is there twice or claims {shape}. Save it again.")
        if kind not in _MAT_NUMERIC:
            raise FileError(f"{label} must be a full real array, got class {kind}. Save full(double(x)).")
        _check_size(label, math.prod(shape) * 8)


def _check_mat_codes(path: Path, stream: BinaryIO) -> None:
    """Refuse number types that MATLAB 5 does not have: SciPy would crash the interpreter.

    Seen with 1.17, told in https://github.com/scipy/scipy/pull/25349.
    """
    sound = set()
    for name, flags, code in _mat_headers(stream):
        if name in _MAT_NAMES and flags & 0x800:
            raise FileError(f"{name} in {path} must hold real numbers, got complex ones. Save real(x).")
        if flags & 0xFF in range(6, 16) and code in _MAT_CODES:  # classes double to uint64
            sound.add(name)
    for name in _MAT_NAMES:
        if name not in sound:
            raise FileError(f"{name} in {path} is damaged: unknown type of numbers. Save or copy it again.")


def _mat_headers(stream: BinaryIO) -> Iterator[tuple[str, int, int]]:
    """Name, flags and type of numbers of each variable of a MATLAB 5 file; nonsense if it is not an array."""
    stream.seek(126)
    order: Literal["little", "big"] = "little" if stream.read(2) == b"IM" else "big"
    while tag := stream.read(8):
        code, size = (int.from_bytes(part, order) for part in (tag[:4], tag[4:]))
        end = stream.tell() + size
        head = stream.read(min(size, _HEADER_BYTES))
        if code == 15:  # compressed, with a tag of its own inside
            head = zlib.decompressobj().decompress(head, _HEADER_BYTES)[8:]
        at, parts = 16, []
        for _ in ("shape", "name", "numbers"):
            code, size = (int.from_bytes(head[i : i + 4], order) for i in (at, at + 4))
            if code >> 16:  # at most four bytes, kept inside the tag
                parts.append((code & 0xFFFF, head[at + 4 : at + 4 + (code >> 16)]))
                at += 8
            else:
                parts.append((code, head[at + 8 : at + 8 + size]))
                at += 8 + size + -size % 8
        yield parts[1][1].decode("latin1"), int.from_bytes(head[8:12], order), parts[2][0]
        stream.seek(end)


@contextmanager
def _blaming(label: str, cure: str = "Save or copy it again") -> Iterator[None]:
    """Turn what the parsers raise on bad bytes into one line about the file."""
    try:
        # They also warn: of files written by Python 2, and of variables that we then find unreadable.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except FileError:
        raise
    except MemoryError as error:
        raise FileError(f"{label} does not fit in this machine's memory. Save a smaller array.") from error
    except _PARSE_ERRORS as error:
        why = _reason(error)
        raise FileError(f"{label} is truncated or damaged ({why}). {cure}.") from error


def _reason(error: Exception) -> str:
    """A parser's or the system's own words, short and in one line."""
    words = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(words.split())[:100].rstrip(".")


def _listing(names: Iterable[str]) -> str:
    """Names for a message, not more than a line can hold."""
    names = list(names)
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join(names[:12] + more)[:1000] or "nothing"


def _check_size(label: str, num_bytes: int) -> None:
    """Refuse an array that is too large, before anything is allocated for it."""
    if num_bytes > MAX_ARRAY_BYTES:
        size, limit = num_bytes / 2**30, MAX_ARRAY_BYTES / 2**30
        raise FileError(f"{label} would take {size:.3g} GiB, the limit is {limit:.3g} GiB. Save less data.")


def _check_dtype(label: str, dtype: np.dtype) -> None:
    """Refuse what is not real numbers."""
    if dtype.hasobject:
        raise FileError(
            f"{label} holds Python objects, expected numbers. They are refused because reading them means "
            "unpickling, which can run any code. Save an array of floats."
        )
    if dtype.kind not in "biuf":
        raise FileError(f"{label} must hold real numbers, got dtype {str(dtype)[:60]}. Save it as floats.")


def _checked_rbm(path: Path, names: tuple[str, ...], arrays: list[np.ndarray]) -> RBMArrays:
    """The arrays as float64 with biases as vectors, once shapes fit together and all values are finite."""
    _check_shapes(path, names, *arrays)
    with np.errstate(all="ignore"):  # a number too large for float64 becomes infinite, and is refused next
        weights, vbias, hbias = (np.ascontiguousarray(array, dtype=np.float64) for array in arrays)
    for name, array in zip(names, (weights, vbias, hbias), strict=True):
        num_bad = array.size - np.count_nonzero(np.isfinite(array))
        if num_bad:
            raise FileError(
                f"{name} in {path} must be finite, got {num_bad} NaN or infinite of {array.size} values. "
                "If training diverged, save an earlier state."
            )
    return RBMArrays(weights, vbias.ravel(), hbias.ravel())


def _check_shapes(
    path: Path, names: tuple[str, ...], weights: np.ndarray, vbias: np.ndarray, hbias: np.ndarray
) -> None:
    """Refuse weights and biases that do not fit together; a bias may be a row or a column, as in MATLAB."""
    label, shape = f"{names[0]} in {path}", weights.shape
    if weights.ndim != 2 or not weights.size:
        raise FileError(f"{label} must be 2-d (visible, hidden), not empty, got {shape}. Save a matrix.")
    for name, bias in zip(names[1:], (vbias, hbias), strict=True):
        if bias.ndim == 0 or bias.size != max(bias.shape):
            raise FileError(f"{name} in {path} must be a vector, got shape {bias.shape}. Save a 1-d array.")
    sizes = (vbias.size, hbias.size)
    if sizes != shape and sizes == shape[::-1]:
        raise FileError(f"{label} must be {sizes} by its biases, got {shape}, looks transposed. Save its .T.")
    for axis, side in enumerate(("rows", "columns")):
        if sizes[axis] != shape[axis]:
            raise FileError(
                f"{names[1 + axis]} in {path} must have length {shape[axis]}, the {side} of {names[0]}, "
                f"got {sizes[axis]}. Save arrays of one RBM."
            )


def _rows(stored: np.ndarray, num_visible: int | None, label: str) -> np.ndarray:
    """The data as (n, visible): packed bits unpacked, images flattened by rows."""
    shape = stored.shape
    if stored.ndim < 2:
        raise FileError(f"{label} must be (n, visible) or images (n, h, w), got shape {shape}. Reshape it.")
    if not stored.size:
        raise FileError(f"{label} is empty, got shape {shape}, expected at least one row. Save some data.")
    rows = stored.reshape(len(stored), -1)
    if num_visible is None or rows.shape[1] == num_visible:
        return rows
    num_packed = -(-num_visible // 8)
    if stored.ndim == 2 and stored.dtype == np.uint8 and shape[1] == num_packed:
        _check_size(label, len(rows) * num_visible)
        return np.unpackbits(rows, axis=1, count=num_visible)
    raise FileError(
        f"{label} has {rows.shape[1]} columns, expected {num_visible} (visible units) or {num_packed} of "
        "packed bits. Use the data that the model was made for."
    )


def _is_binary(rows: np.ndarray, white: int, label: str) -> bool:
    """Whether all values are 0 or 1; if not, they must be grey values in 0..white."""
    if rows.dtype == np.bool_:
        return True
    low, high = rows.min(), rows.max()
    if np.isnan(low):
        num_nan = np.count_nonzero(np.isnan(rows))
        raise FileError(f"{label} must be 0/1 or grey values, got {num_nan} NaN. Drop or fill them.")
    if low < 0 or high > white:
        kind = "floats" if white == 1 else "integers"
        cure = "Divide by the largest grey value." if low >= 0 else "For -1/+1 units save (x + 1) / 2."
        raise FileError(f"{label} must be 0/1 or grey {kind} in 0..{white}, got {low} to {high}. {cure}")
    return bool(high <= 1) if white > 1 else bool(np.all((rows == 0) | (rows == 1)))


def _binarized(rows: np.ndarray, white: int, binarize: str, seed: int) -> np.ndarray:
    """Grey values as 0/1; in blocks of rows, so that no float64 copy of all data is needed."""
    rng = np.random.default_rng(seed)
    binary = np.empty(rows.shape, np.uint8)
    for start in range(0, len(rows), _BLOCK_ROWS):
        grey = rows[start : start + _BLOCK_ROWS] / white
        level = 0.5 if binarize == "threshold" else rng.random(grey.shape)
        binary[start : start + len(grey)] = grey > level
    return binary
