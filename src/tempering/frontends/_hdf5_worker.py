"""Reads one HDF5 file in a process of its own, with little memory and time: libhdf5 never ends on some damaged files.

It imports nothing of this package, so that it starts quickly. Requests and answers are lines of JSON; an array follows
its answer as bytes.
"""

import json
import re
import sys
from contextlib import suppress
from typing import Any, BinaryIO

import h5py
import numpy as np

_RBMS_KINDS = ("BBRBM", "PBRBM")  # of bits, and of categories
_RBMS_NAMES = {"W": "weight_matrix", "vbias": "vbias", "hbias": "hbias"}
_UPDATE = re.compile(r"update_([0-9]{1,18})")
_MOST_NAMES = 1000  # of datasets that are listed
ROOM = 256 * 2**20  # bytes for the structure of a file
_PAGE = 4096


class Refused(Exception):
    """A file that is not damaged but cannot be used; the message is for its owner."""


def limit(cpu_seconds: int | None, more_bytes: int) -> None:
    """Allow so much processor time, and so much memory beyond what is taken already, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        if cpu_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        with open("/proc/self/statm") as pages:
            taken = int(pages.read().split()[0]) * _PAGE
        resource.setrlimit(resource.RLIMIT_AS, (taken + more_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))


def places_of(file: h5py.File, path: str) -> dict[str, str]:
    """Where each array is, by its name."""
    return _places_of_updates(file, path) if "model_type" in file else _all_places(file)


def own_dataset(file: h5py.File, path: str, place: str) -> Any:
    """A dataset whose numbers are in this file: links, virtual datasets and raw files could lead to any other."""
    group: Any = file
    parts = place.split("/")
    for depth, part in enumerate(parts):
        link = group.get(part, getlink=True)
        if link is None:
            raise Refused(f"{path} has no {place}. Save or copy it again.")
        if not isinstance(link, h5py.HardLink):
            raise Refused(f"{'/'.join(parts[: depth + 1])} in {path} is a link to elsewhere. Save a copy instead.")
        group = group[part]
    if not isinstance(group, h5py.Dataset) or group.is_virtual or group.external:
        raise Refused(f"{place} in {path} keeps its numbers elsewhere, or has none. Save a plain dataset.")
    return group


def _places_of_updates(file: h5py.File, path: str) -> dict[str, str]:
    """Where the parameters of each update are, the last one first."""
    stored = own_dataset(file, path, "model_type")
    kind = stored.asstr()[()] if stored.shape == () and h5py.check_string_dtype(stored.dtype) else "model"
    if kind not in _RBMS_KINDS:
        raise Refused(f"{path} holds a {kind}, expected {' or '.join(_RBMS_KINDS)} of rbms. Save W, vbias and hbias.")
    updates = sorted((int(found[1]), found[0]) for found in map(_UPDATE.fullmatch, file) if found)[::-1]
    if not updates:
        raise Refused(f"{path} holds no update of the RBM. Train it for at least one.")
    places = {}
    for number, group in updates:
        inner = f"{group}/params" if f"{group}/params" in file else group  # older versions had no group of parameters
        for role, name in _RBMS_NAMES.items():
            places.setdefault(role, f"{inner}/{name}")
            places[f"{role}_{number}"] = f"{inner}/{name}"
    return places


def _all_places(file: h5py.File) -> dict[str, str]:
    """The datasets of the file by name; links are not followed."""
    places: dict[str, str] = {}

    def note(name: str, thing: Any) -> bool | None:
        if isinstance(thing, h5py.Dataset):
            places[name] = name
        return True if len(places) >= _MOST_NAMES else None

    file.visititems(note)
    return places


def answered(file: h5py.File, path: str, places: dict[str, str], request: dict[str, Any]) -> tuple[dict, bytes]:
    """The answer to a request, and the bytes that follow it."""
    if "name" not in request:
        return {"places": places}, b""
    found = own_dataset(file, path, places[request["name"]])
    about = {"shape": found.shape, "dtype": found.dtype.str, "is_plain": found.dtype.kind in "biuf"}
    if "num_bytes" not in request or not about["is_plain"]:
        return about, b""
    limit(None, ROOM + 2 * request["num_bytes"])
    array = np.asarray(found[()])
    return about, array.tobytes()


def serve(path: str, requests: Any, answers: BinaryIO) -> None:
    """Answer until there are no more requests, or until the file turns out to be damaged."""
    try:
        with h5py.File(path, "r") as file:
            places = places_of(file, path)
            for line in requests:
                about, data = answered(file, path, places, json.loads(line))
                answers.write(json.dumps(about | {"num_bytes": len(data)}).encode() + b"\n" + data)
                answers.flush()
    except Refused as error:
        answers.write(json.dumps({"refused": str(error)}).encode() + b"\n")
    except MemoryError:
        answers.write(json.dumps({"damaged": "it asks for more memory than it can need"}).encode() + b"\n")
    except Exception as error:  # noqa: BLE001  libhdf5 raises what it likes on damaged bytes
        answers.write(json.dumps({"damaged": str(error) or type(error).__name__}).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    limit(int(sys.argv[2]), ROOM)
    serve(sys.argv[1], sys.stdin, sys.stdout.buffer)
