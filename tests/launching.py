"""The command line in several processes on this machine, joined by the loopback address."""

import json
import os
import socket
import subprocess
import sys
from typing import Any


def start_all(num_processes: int, devices: int, *arguments: object) -> list[subprocess.Popen]:
    """Start `tempering` with these arguments in every process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    joined = ["--coordinator", f"127.0.0.1:{port}", "--num-processes", str(num_processes)]
    common = [sys.executable, "-m", "tempering", *map(str, arguments), "--devices", str(devices)]
    each = [[*common, *joined, "--process-id", str(i)] for i in range(num_processes)] if num_processes > 1 else [common]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen(command, env={**os.environ, "COLUMNS": "150"}, **pipes) for command in each]


def run_all(num_processes: int, devices: int, *arguments: object, timeout: float = 240) -> list[tuple[int, str, str]]:
    """Status, standard output and standard error of every process, once all have ended."""
    processes = start_all(num_processes, devices, *arguments)
    try:
        told = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *texts) for process, texts in zip(processes, told, strict=True)]


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
