"""The formats of files with arrays, by suffix: one line each."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tempering.frontends._array_files import ArrayFile
from tempering.frontends._csv import open_csv
from tempering.frontends._guard import FileError, checked_suffix
from tempering.frontends._hdf5 import open_hdf5
from tempering.frontends._npy import open_npy
from tempering.frontends._npz import members_of, open_npz, read_member, shape_of
from tempering.frontends._safetensors import open_safetensors


@contextmanager
def _open_npz_arrays(path: Path) -> Iterator[ArrayFile]:
    """The arrays of an npz file."""
    with open_npz(path) as archive:
        members = members_of(archive)
        yield ArrayFile(
            tuple(members),
            lambda name: shape_of(archive, members[name], f"{name} in {path}"),
            lambda name, item_bytes: read_member(archive, members[name], f"{name} in {path}", item_bytes=item_bytes),
        )


Opener = Callable[[Path], AbstractContextManager[ArrayFile]]

NAMED: dict[str, Opener] = {
    ".npz": _open_npz_arrays,
    ".safetensors": open_safetensors,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
}
"""Formats whose arrays have names, so that a file may hold a model."""

SINGLE: dict[str, Opener] = {".npy": open_npy, ".csv": open_csv, ".tsv": open_csv}
"""Formats that hold one array, of data."""

WITH_DATA = (*NAMED, *SINGLE)
WITH_MODELS = (*NAMED, ".mat")


@contextmanager
def open_arrays(path: Path, suffixes: tuple[str, ...]) -> Iterator[ArrayFile]:
    """The arrays of a file with one of the given suffixes."""
    opener = (NAMED | SINGLE)[checked_suffix(path, suffixes)]
    with opener(path) as found:
        yield found


def split_place(spec: str | os.PathLike) -> tuple[Path, str | None]:
    """Split `FILE.npz:NAME`, or the same with another suffix, in two, unless a file of exactly that name exists."""
    text = os.fsdecode(spec)
    head, _, name = text.rpartition(":")
    if not head.lower().endswith(tuple(NAMED)) or os.path.isfile(text):
        return Path(text), None
    if not name:
        raise FileError(f"{text} ends in ':', expected a name after it. Write {head} or {head}:NAME.")
    return Path(head), name
