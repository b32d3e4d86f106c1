"""What every format of files with arrays has: names, shapes, and numbers that are checked before they are read.

A new format is one file with a function like `open_npy`, and one line in `_formats.py`.
"""

import dataclasses
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tempering.frontends._guard import FileError, check_dtype, check_size


@dataclasses.dataclass(frozen=True)
class ArrayFile:
    """The arrays of a file that is open.

    Attributes:
        names: the names of the arrays.
        shape_of: from the name of an array to the shape that it claims.
        read: from the name of an array, and the bytes that an element will take once it is converted, to the array.
    """

    names: tuple[str, ...]
    shape_of: Callable[[str], tuple[int, ...]]
    read: Callable[[str, int], np.ndarray]


def check_claims(label: str, shape: tuple[int, ...], dtype: np.dtype, item_bytes: int) -> None:
    """Refuse an array by what its header claims, before memory is allocated for it.

    Args:
        label: names the array in messages.
        shape: of the array.
        dtype: of the array as stored.
        item_bytes: the size of an element after the caller has converted it.
    """
    check_dtype(label, dtype)
    check_size(label, math.prod(shape) * max(dtype.itemsize, item_bytes))


def import_reader(module: str, extra: str, path: Path) -> Any:
    """The library that reads a format; a refusal names the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise FileError(f"{path} is read by {name} ({error}): pip install 'tempering[{extra}]'.") from error
