"""The three arrays of an RBM from a MATLAB file with the names of Salakhutdinov's code."""

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import scipy.io

from tempering.frontends._guard import FileError, check_dtype, check_size, name_list, open_file, parse_errors_named
from tempering.frontends._npz import HEADER_BYTES
from tempering.frontends._rbm_names import has_spreads

MAT_NAMES = ("vishid", "visbiases", "hidbiases")
_MAT_NUMERIC = {"double", "single", "logical", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}
_MAT_CODES = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}  # int8 to uint32, single, double, int64, uint64
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def load_mat(path: Path) -> list[np.ndarray]:
    """The arrays `MAT_NAMES` of a MATLAB file (version 4 to 7), as stored."""
    with open_file(path) as stream:
        start = stream.read(520)
        if _HDF5_SIGNATURE in (start[:8], start[512:]) or start.startswith(b"MATLAB 7.3"):
            raise FileError(f"{path} is MATLAB 7.3 (HDF5), expected 7 or older. Re-save with -v7 or as npz.")
        stream.seek(0)
        # SciPy fails on strings and tables of newer MATLABs as it does on damaged files.
        with parse_errors_named(
            str(path), cure="Copy it again, or save it with nothing but vishid, visbiases and hidbiases"
        ):
            held = scipy.io.whosmat(stream)
        _check_variables(path, held)
        with parse_errors_named(str(path)):
            if 0 not in start[:4]:  # else MATLAB 4
                _check_number_types(path, stream)
            stream.seek(0)
            found = scipy.io.loadmat(stream, variable_names=list(MAT_NAMES))
            arrays = [np.asarray(found[name]) for name in MAT_NAMES]
    for name, array in zip(MAT_NAMES, arrays, strict=True):
        check_dtype(f"{name} in {path}", array.dtype)
    return arrays


def _check_variables(path: Path, held: list[tuple[str, tuple[int, ...], str]]) -> None:
    """Check names, shapes and classes of a MATLAB file's variables before any is loaded."""
    names = [name for name, _, _ in held]
    missing = [name for name in MAT_NAMES if name not in names]
    if missing:
        raise FileError(
            f"{path} has no {name_list(missing)}. It holds: {name_list(names)}. Save vishid (visible x hidden), "
            "visbiases and hidbiases, or copy the file again if it was truncated."
        )
    spreads = has_spreads(names)
    if spreads:
        raise FileError(
            f"{path} also holds {name_list(spreads)}, which a binary RBM does not use: it seems to be a GaussianRBM. "
            "Save it as npz with W, vbias, hbias and sigmas, or without that array."
        )
    for name, shape, kind in held:
        if name not in MAT_NAMES:
            continue
        label = f"{name} in {path}"
        if names.count(name) > 1 or any(length < 0 for length in shape):
            raise FileError(f"{label} is damaged: it is there twice or claims {shape}. Save it again.")
        if kind not in _MAT_NUMERIC:
            raise FileError(f"{label} must be a full real array, got class {kind}. Save full(double(x)).")
        check_size(label, math.prod(shape) * 8)


def _check_number_types(path: Path, stream: BinaryIO) -> None:
    """Refuse number types that MATLAB 5 does not have: SciPy 1.17 would crash the interpreter.

    See https://github.com/scipy/scipy/pull/25349.
    """
    sound = set()
    for name, flags, code in _mat_headers(stream):
        if name in MAT_NAMES and flags & 0x800:
            raise FileError(f"{name} in {path} must hold real numbers, got complex ones. Save real(x).")
        if flags & 0xFF in range(6, 16) and code in _MAT_CODES:  # classes double to uint64
            sound.add(name)
    for name in MAT_NAMES:
        if name not in sound:
            raise FileError(f"{name} in {path} is damaged: unknown type of numbers. Save or copy it again.")


def _mat_headers(stream: BinaryIO) -> Iterator[tuple[str, int, int]]:
    """Name, flags and number type of each variable of a MATLAB 5 file; meaningless for what is not an array."""
    stream.seek(126)
    order: Literal["little", "big"] = "little" if stream.read(2) == b"IM" else "big"
    while tag := stream.read(8):
        code, size = (int.from_bytes(part, order) for part in (tag[:4], tag[4:]))
        end = stream.tell() + size
        head = stream.read(min(size, HEADER_BYTES))
        if code == 15:  # compressed, with a tag of its own inside
            head = zlib.decompressobj().decompress(head, HEADER_BYTES)[8:]
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
