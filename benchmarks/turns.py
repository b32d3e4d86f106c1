"""What benchmarks share: rows that take turns, and packages in processes of their own with a time limit."""

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

CODE = "code:"  # begins a line that is no row


def in_turns(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each call: (round,). They take turns, so that a noisy machine disturbs them alike."""
    for call in calls.values():
        call()  # compile
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(timed(call)[0])
    return {name: np.array(values) for name, values in seconds.items()}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what the call gave."""
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


def version_of(package: str) -> str | None:
    """Of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def alone(script: str, arguments: list[str], limit: float) -> tuple[list[dict[str, Any]], str | None]:
    """Rows that `script ARGUMENTS` prints as lines of JSON, in a process of its own, and why there are no more.

    The process is ended after `limit` seconds; what it printed before is kept. Lines that are no JSON objects are not
    rows. None means that it came to its end.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, fresh_environment() as environment:
        command = [sys.executable, script, *arguments]
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True)
        try:
            code = process.wait(limit)
            reason = None if code == 0 else f"failed: {last_line(err)}"
        except subprocess.TimeoutExpired:
            stop(process)
            reason = f"did not end in {limit:.0f} s"
        out.seek(0)
        lines = out.readlines()
    repeats._used_by_parts.update(entry for line in lines if line.startswith(CODE) for entry in line.split()[1:])
    return [json.loads(line) for line in lines if line.startswith("{")], reason


def print_code() -> None:
    """At the end of a process of its own: the code of this package that it used, for the record of the table."""
    print(CODE, repeats.ages.code_record())


@contextlib.contextmanager
def fresh_environment() -> Iterator[dict[str, str]]:
    """Without what JAX and PyTensor have compiled before: first runs are to be timed with compiling."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        kept = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        yield kept | {"PYTENSOR_FLAGS": f"base_compiledir={folder}"}


def stop(process: subprocess.Popen) -> None:
    """End a process and those that it started: PyMC's chains are processes too."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_line(file: Any) -> str:
    """What an error says at last, at most 200 characters."""
    file.seek(0)
    lines = [line.strip() for line in file if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


def write(name: str, content: dict[str, Any]) -> None:
    """Keep a result with where it came from."""
    repeats.RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"about": repeats.about(), **content}, indent=1)
    (repeats.RESULTS / f"{name}.json").write_text(text + "\n")
