"""Two processes on two cores against one process on one core: sweeps per second, in one run.

    python benchmarks/processes.py [--rounds 5]

The RBM has 784 × 500 random weights. Each process is bound to a core of its own. Of two runs
one has 4000 sweeps more than the other, so that starting and compiling cancel. One process and two take turns, and the
ratio is the median over rounds. Needs two cores with nothing else to do: where the machine was busy before, nothing is
recorded. Writes benchmarks/results/processes.json.
"""

import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

import tempering.api.estimation
import tempering.cli  # noqa: F401  both are measured, so that their code is recorded

MOST_LOAD = 0.5  # of the machine before the benchmark: what others do
SHORT, MORE = 500, 4000  # sweeps: whole blocks, so that both runs need the same programs
RUN = shlex.split("estimate rbm:784x500:0.03 --chains 200 --rungs 100 --warmup annealed --quiet --devices 1")


def seconds(num_processes: int, sweeps: int) -> tuple[float, float]:
    """How long the run took, and the processor time of all its processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    cores = sorted(os.sched_getaffinity(0))
    started, before, processes = time.perf_counter(), os.times(), []
    for rank in range(num_processes):
        joined = ["--coordinator", address, "--num-processes", str(num_processes), "--process-id", str(rank)]
        command = [sys.executable, "-m", "tempering", *RUN, "--sweeps", str(sweeps)]
        bind = ["taskset", "-c", str(cores[rank])]
        processes.append(
            subprocess.Popen(
                [*bind, *command, *(joined if num_processes > 1 else [])],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
    statuses = [process.wait() for process in processes]
    assert set(statuses) <= {0, 3}, statuses
    after = os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - started, spent


def measured(num_processes: int, more: int) -> dict[str, float]:
    """Sweeps of all chains a second, and processor seconds of a thousand of them."""
    (long, busy), (short, less_busy) = seconds(num_processes, SHORT + more), seconds(num_processes, SHORT)
    return {"sweeps_per_second": more / (long - short), "processor_seconds": 1000 * (busy - less_busy) / more}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--more", type=int, default=MORE, help="sweeps by which one run is longer")
    asked = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("two cores are needed")
    load = os.getloadavg()[0]
    for number in (1, 2):
        seconds(number, SHORT)  # what is compiled is kept
    rounds: list[dict[str, Any]] = []
    for _ in range(asked.rounds):
        one, two = measured(1, asked.more), measured(2, asked.more)
        ratio = two["sweeps_per_second"] / one["sweeps_per_second"]
        rounds.append({"one": one, "two": two, "ratio": ratio})
        print(json.dumps(rounds[-1]), flush=True)
    rows = {
        name: {kind: statistics.median(each[name][kind] for each in rounds) for kind in rounds[0][name]}
        for name in ("one", "two")
    }
    ratio = statistics.median(each["ratio"] for each in rounds)
    print(f"two processes on two cores: {ratio:.2f} × one on one core; load before: {load:.1f}")
    if load > MOST_LOAD:
        sys.exit("The machine was busy, so that this means nothing: it is not recorded.")
    told = {"about": repeats.about(), "load_before": load, "ratio": ratio, "rows": rows, "rounds": rounds}
    (repeats.RESULTS / "processes.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
