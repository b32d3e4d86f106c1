"""Single arrays of an npz archive, read in bounded pieces and never unpickled."""

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from tempering.frontends._guard import FileError, check_dtype, check_size, open_file, parse_errors_named

HEADER_BYTES = 2**14  # more than NumPy accepts as an npy header
_CHUNK_BYTES = 2**20


@contextmanager
def open_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip archive of an npz file."""
    with open_file(path) as stream:
        start = stream.read(6)
        if not start.startswith(b"PK"):
            came = "a single npy array" if start == b"\x93NUMPY" else "something else"
            raise FileError(f"{path} is not an npz: expected a zip, got {came}. Save it with numpy.savez.")
        stream.seek(0)
        with parse_errors_named(str(path)):
            archive = zipfile.ZipFile(stream)
        with archive:
            yield archive


def members_of(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name, in their order; one that is there twice is refused."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in found and info.filename.endswith(".npy"):
            raise FileError(f"{archive.filename} holds the array {name} twice. Save the file again, with each once.")
        if info.filename.endswith(".npy"):
            found[name] = info
    return found


@contextmanager
def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str) -> Iterator[IO[bytes]]:
    """The unpacked bytes of one array, as a stream that can be read in bounded pieces."""
    # zipfile unpacks deflate in pieces, but bzip2 and LZMA at once, however large the result.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FileError(f"{label} is compressed in another way than npz arrays are. Save it with numpy.savez.")
    with parse_errors_named(label), archive.open(info) as member:
        yield member


def parse_header(start: bytes) -> tuple[tuple[int, ...], bool, np.dtype, bytes]:
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


def shape_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str) -> tuple[int, ...]:
    """The shape that the header of one array claims."""
    with open_member(archive, info, label) as member:
        return parse_header(member.read(HEADER_BYTES))[0]


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str, *, item_bytes: int = 1) -> np.ndarray:
    """One array, after its size was checked in the zip directory and in its own header.

    Args:
        archive: the open archive.
        info: the array's entry in it.
        label: names the array in messages.
        item_bytes: the size of an element after the caller has converted it.
    """
    check_size(label, info.file_size)
    with open_member(archive, info, label) as member:
        shape, fortran_order, dtype, start = parse_header(member.read(HEADER_BYTES))
        check_dtype(label, dtype)
        check_size(label, math.prod(shape) * max(dtype.itemsize, item_bytes))
        num_bytes = math.prod(shape) * dtype.itemsize
        content = bytearray(start)  # grows with what is read: a false size in the header allocates nothing
        while (left := num_bytes - len(content)) > 0 and (chunk := member.read(min(left, _CHUNK_BYTES))):
            content += chunk
        if len(content) != num_bytes or member.read(1):
            held = "less" if left > 0 else "more"
            raise FileError(
                f"{label} is damaged: its header claims shape {shape} of {dtype}, {num_bytes} bytes, "
                f"but it holds {held}. Save or copy the file again."
            )
        return np.ndarray(shape, dtype, buffer=content, order="F" if fortran_order else "C")
