"""The command line in several processes on this machine, joined by the loopback address."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Any


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start_python(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.Popen:
    """Start Python with these arguments."""
    command = [sys.executable, *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "COLUMNS": "150", **(environment or {})}, **pipes)


def start(arguments: Iterable[object], environment: dict[str, str] | None = None) -> subprocess.Popen:
    """Start `tempering` with these arguments."""
    return start_python("-m", "tempering", *arguments, environment=environment)


def start_all(num_processes: int, devices: int, *arguments: object) -> list[subprocess.Popen]:
    """Start `tempering` with these arguments in every process."""
    common = [*arguments, "--devices", devices]
    if num_processes == 1:
        return [start(common)]
    joined = ["--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", num_processes]
    return [start([*common, *joined, "--process-id", process]) for process in range(num_processes)]


def ended_all(processes: list[subprocess.Popen], timeout: float = 900) -> list[tuple[int, str, str]]:
    """Status, standard output and standard error of every process, once all have ended."""
    try:
        told = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return [(process.returncode, *texts) for process, texts in zip(processes, told, strict=True)]


def run_all(num_processes: int, devices: int, *arguments: object) -> list[tuple[int, str, str]]:
    """The same of `tempering` with these arguments in every process."""
    return ended_all(start_all(num_processes, devices, *arguments))


def answer_of(ended: list[tuple[int, str, str]]) -> dict[str, Any]:
    """What the first process printed as JSON, without how long it took and how it was asked for.

    Fails unless all processes ended with one status and the others said nothing.
    """
    statuses, (out, *others), errors = zip(*ended, strict=True)
    assert set(statuses) in ({0}, {3}), ended
    assert [*others, *errors] == [""] * (2 * len(ended) - 1), ended
    found = json.loads(out)
    for name in ("seconds", "settings", "command", "files", "estimate_command", "next_command"):
        found.pop(name, None)
    return found
