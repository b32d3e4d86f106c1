"""The array of an npy file, never unpickled."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tempering.frontends._array_files import ArrayFile, check_claims
from tempering.frontends._guard import FileError, open_file, parse_errors_named
from tempering.frontends._npz import HEADER_BYTES, parse_header

_NAME = "the array"  # there is only one


@contextmanager
def open_npy(path: Path) -> Iterator[ArrayFile]:
    """The only array of an npy file."""
    with open_file(path) as stream, parse_errors_named(str(path)):
        shape, fortran_order, dtype, rest = parse_header(stream.read(HEADER_BYTES))
        num_bytes = os.fstat(stream.fileno()).st_size
        start = min(num_bytes, HEADER_BYTES) - len(rest)  # of the numbers

        def read(name: str, item_bytes: int) -> np.ndarray:
            check_claims(f"{name} in {path}", shape, dtype, item_bytes)
            if start + math.prod(shape) * dtype.itemsize != num_bytes:
                raise FileError(
                    f"{path} is damaged: its header claims shape {shape} of {dtype}, but it holds {num_bytes - start} "
                    "bytes. Save or copy the file again."
                )
            stream.seek(start)
            return np.ndarray(shape, dtype, buffer=bytearray(stream.read()), order="F" if fortran_order else "C")

        yield ArrayFile((_NAME,), lambda name: shape, read)
