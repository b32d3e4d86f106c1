"""Tensors of a safetensors file, as PyTorch and others save them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tempering.frontends._array_files import ArrayFile, check_claims, import_reader
from tempering.frontends._guard import FileError, open_file, parse_errors_named, short_reason

_DTYPES = {
    "BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64",
    **{f"{sign}{bits}": f"{'u' if sign == 'U' else ''}int{bits}" for sign in "IU" for bits in (8, 16, 32, 64)},
}  # fmt: skip


@contextmanager
def open_safetensors(path: Path) -> Iterator[ArrayFile]:
    """The tensors of a safetensors file, which holds numbers and no programs."""
    library = import_reader("safetensors", "safetensors", path)
    with open_file(path):
        pass  # refused if it is empty or not readable
    with _errors_named(library, path), library.safe_open(str(path), framework="numpy") as tensors:

        def shape_of(name: str) -> tuple[int, ...]:
            return tuple(tensors.get_slice(name).get_shape())

        def read(name: str, item_bytes: int) -> np.ndarray:
            label, stored = f"{name} in {path}", str(tensors.get_slice(name).get_dtype())
            if stored not in _DTYPES:
                raise FileError(f"{label} holds numbers of type {stored}. Save it as float32 or float64.")
            check_claims(label, shape_of(name), np.dtype(_DTYPES[stored]), item_bytes)
            return np.array(tensors.get_tensor(name))

        yield ArrayFile(tuple(tensors.keys()), shape_of, read)


@contextmanager
def _errors_named(library: Any, path: Path) -> Iterator[None]:
    with parse_errors_named(str(path)):
        try:
            yield
        except library.SafetensorError as error:
            raise FileError(f"{path} is damaged ({short_reason(error)}). Save or copy it again.") from error
