"""Arrays of an HDF5 file, and of those in which the package `rbms` keeps the updates of a training."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tempering.frontends._array_files import ArrayFile, check_claims, import_reader
from tempering.frontends._guard import FileError, open_file, parse_errors_named

_RBMS_KINDS = ("BBRBM", "PBRBM")  # of bits, and of categories
_RBMS_NAMES = {"W": "weight_matrix", "vbias": "vbias", "hbias": "hbias"}
_UPDATE = re.compile(r"update_([0-9]{1,18})")
_MOST_NAMES = 1000  # of datasets that are listed


@contextmanager
def open_hdf5(path: Path) -> Iterator[ArrayFile]:
    """The arrays of an HDF5 file.

    Those of a file of `rbms` are W, vbias and hbias of its last update, and W_N, vbias_N and hbias_N of each update N.
    """
    h5py = import_reader("h5py", "hdf5", path)
    with open_file(path):
        pass  # refused if it is empty or not readable
    with parse_errors_named(str(path)), h5py.File(path, "r") as file:
        places = _places_of_updates(h5py, path, file) if "model_type" in file else _all_places(h5py, file)

        def dataset(name: str) -> Any:
            return _own_dataset(h5py, path, file, places[name])

        def read(name: str, item_bytes: int) -> np.ndarray:
            found = dataset(name)
            check_claims(f"{places[name]} in {path}", found.shape, found.dtype, item_bytes)
            return np.asarray(found[()])

        yield ArrayFile(tuple(places), lambda name: dataset(name).shape, read)


def _places_of_updates(h5py: Any, path: Path, file: Any) -> dict[str, str]:
    """Where the parameters of each update are, the last one first."""
    stored = _own_dataset(h5py, path, file, "model_type")
    kind = stored.asstr()[()] if stored.shape == () and h5py.check_string_dtype(stored.dtype) else "model"
    if kind not in _RBMS_KINDS:
        raise FileError(f"{path} holds a {kind}, expected {' or '.join(_RBMS_KINDS)} of rbms. Save W, vbias and hbias.")
    updates = sorted((int(found[1]), found[0]) for found in map(_UPDATE.fullmatch, file) if found)[::-1]
    if not updates:
        raise FileError(f"{path} holds no update of the RBM. Train it for at least one.")
    places = {}
    for number, group in updates:
        inner = f"{group}/params" if f"{group}/params" in file else group  # older versions had no group of parameters
        for role, name in _RBMS_NAMES.items():
            places.setdefault(role, f"{inner}/{name}")
            places[f"{role}_{number}"] = f"{inner}/{name}"
    return places


def _all_places(h5py: Any, file: Any) -> dict[str, str]:
    """The datasets of the file by name; links are not followed."""
    places: dict[str, str] = {}

    def note(name: str, thing: Any) -> bool | None:
        if isinstance(thing, h5py.Dataset):
            places[name] = name
        return True if len(places) >= _MOST_NAMES else None

    file.visititems(note)
    return places


def _own_dataset(h5py: Any, path: Path, file: Any, place: str) -> Any:
    """A dataset whose numbers are in this file: links, virtual datasets and raw files could lead to any other."""
    group, parts = file, place.split("/")
    for depth, part in enumerate(parts):
        link = group.get(part, getlink=True)
        if link is None:
            raise FileError(f"{path} has no {place}. Save or copy it again.")
        if not isinstance(link, h5py.HardLink):
            raise FileError(f"{'/'.join(parts[: depth + 1])} in {path} is a link to elsewhere. Save a copy instead.")
        group = group[part]
    if not isinstance(group, h5py.Dataset) or group.is_virtual or group.external:
        raise FileError(f"{place} in {path} keeps its numbers elsewhere, or has none. Save a plain dataset.")
    return group
