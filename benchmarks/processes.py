"""Two processes on two cores against one process on one core: sweeps per second, in one run.

    python benchmarks/processes.py [--rounds 3]

Each process is bound to a core of its own. One run has 400 sweeps more than the other, so that starting and compiling
cancel. Rounds alternate. Needs a machine with nothing else to do. Writes benchmarks/results/processes.json.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

RECORD = Path(__file__).parent / "results" / "processes.json"
MORE = 400
RUN = [
    "estimate",
    "rbm:784x500:0.03",
    "--chains",
    "200",
    "--rungs",
    "100",
    "--warmup",
    "annealed",
    "--quiet",
    "--devices",
    "1",
]


def seconds(num_processes: int, sweeps: int) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    cores = sorted(os.sched_getaffinity(0))
    started, processes = time.perf_counter(), []
    for rank in range(num_processes):
        joined = ["--coordinator", address, "--num-processes", str(num_processes), "--process-id", str(rank)]
        command = [
            sys.executable,
            "-m",
            "tempering",
            *RUN,
            "--sweeps",
            str(sweeps),
            *(joined if num_processes > 1 else []),
        ]
        bind = ["taskset", "-c", str(cores[rank])]
        processes.append(subprocess.Popen([*bind, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    assert all(process.wait() in (0, 3) for process in processes)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for number in (1, 2):
        seconds(number, 64)  # what is compiled is kept
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(asked.rounds):
        for number, found in speeds.items():
            found.append(MORE / (seconds(number, 64 + MORE) - seconds(number, 64)))
    ratio = statistics.median(two / one for one, two in zip(speeds[1], speeds[2], strict=True))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    told = {"machine": machine, "sweeps_per_second": speeds, "ratio": ratio}
    print(json.dumps(told, indent=1))
    RECORD.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
