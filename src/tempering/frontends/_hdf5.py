"""Arrays of an HDF5 file, and of those in which the package `rbms` keeps the updates of a training.

A process of its own reads the file, see `_hdf5_worker.py`: a damaged one may make libhdf5 crash, or never end.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from tempering.frontends import _guard
from tempering.frontends._array_files import ArrayFile, check_claims, import_reader
from tempering.frontends._guard import FileError, open_file, parse_errors_named

_LEAST_SECONDS, _BYTES_PER_SECOND = 20, 10**7  # of processor time, for a file and for each of its bytes


@contextmanager
def open_hdf5(path: Path) -> Iterator[ArrayFile]:
    """The arrays of an HDF5 file.

    Those of a file of `rbms` are W, vbias and hbias of its last update, and W_N, vbias_N and hbias_N of each update N.
    """
    import_reader("h5py", "hdf5", path)
    with open_file(path):
        pass  # refused if it is empty or not readable
    with parse_errors_named(str(path)), _Reader(path) as reader:
        places = reader.ask({})[0]["places"]

        def read(name: str, item_bytes: int) -> np.ndarray:
            about, _ = reader.ask({"name": name})
            shape, dtype = tuple(about["shape"]), np.dtype(about["dtype"])
            check_claims(f"{places[name]} in {path}", shape, dtype, item_bytes)
            _, data = reader.ask({"name": name, "num_bytes": int(np.prod(shape, dtype=float)) * dtype.itemsize})
            return np.frombuffer(data, dtype).reshape(shape)

        yield ArrayFile(tuple(places), lambda name: tuple(reader.ask({"name": name})[0]["shape"]), read)


class _Reader:
    """The process that reads a file; it ends with the `with` block."""

    def __init__(self, path: Path):
        seconds = _LEAST_SECONDS + path.stat().st_size // _BYTES_PER_SECOND
        worker = Path(_guard.__file__).with_name("_hdf5_worker.py")
        command = [sys.executable, "-P", str(worker), str(path.absolute()), str(seconds)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process, self._path = subprocess.Popen(command, env=environment, **pipes), path

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """What the process answers; a file that it refuses, or that it dies of, is an error."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        with suppress(BrokenPipeError):
            requests.write(json.dumps(request).encode() + b"\n")
            requests.flush()
        line = answers.readline()
        if not line:
            raise ValueError("the library HDF5 crashed, or did not come to an end")
        about = json.loads(line)
        if "refused" in about:
            raise FileError(about["refused"].replace(str(self._path.absolute()), str(self._path)))
        if "damaged" in about:
            raise ValueError(about["damaged"])
        return about, answers.read(about["num_bytes"])
