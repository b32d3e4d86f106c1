"""What a first call of `estimate` costs, and the same again with what it compiled kept, in processes of their own.

    python benchmarks/first_calls.py [--rounds 3]

The first call begins with an empty cache of compiled programs, the second finds what the first has left, as runs of
the command line do. Python's bytecode is there from the beginning, as an installation leaves it. Seconds are those of
the call alone, by the clock and of the CPU; importing is told apart. The numbers are medians over rounds. Writes
benchmarks/results/first_calls.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHILD = "--child"


def child(name: str) -> None:
    """One call, in this process; prints what it took."""
    began = time.process_time()
    import jax
    import jax.numpy as jnp
    import numpy as np

    import tempering as tp
    from tempering.frontends import load_example

    jax.devices()
    imported = time.process_time() - began

    def density(x):
        return -0.5 * jnp.sum((x - 1.0) ** 2 / np.linspace(0.5, 1.4, 10)) + jnp.log1p(jnp.sum(x[:2] ** 2))

    wall, cpu = time.perf_counter(), time.process_time()
    if name == "demo":
        model, base = load_example()
    else:
        model, base = tp.LogDensity(density, tp.Normal(np.zeros(10), 2.0)), None
    result = tp.estimate(model, base, seed=0, progress=False)
    seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "import_cpu": imported}
    print(json.dumps(seconds | {"log_z": result.log_z, "verdict": result.verdict.name.lower()}))


def called(name: str, cache: str, bytecode: str) -> dict[str, float]:
    environment = os.environ | {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": bytecode,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_ENABLE_COMPILATION_CACHE": "true",
    }
    command = [sys.executable, __file__, CHILD, name]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return json.loads(told.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
    import repeats

    import tempering.api.estimation  # noqa: F401  what is measured, so that its code is recorded

    with tempfile.TemporaryDirectory() as bytecode:
        rows = measured(asked.rounds, bytecode)
    about = repeats.about() | {"rounds": asked.rounds}
    (repeats.RESULTS / "first_calls.json").write_text(json.dumps({"about": about, "calls": rows}, indent=1) + "\n")


def measured(rounds: int, bytecode: str) -> list[dict[str, Any]]:
    rows = []
    for name, words in {"density": "a new density in 10 dimensions", "demo": "the demo's RBM"}.items():
        calls: dict[str, list[dict[str, float]]] = {"first": [], "second": []}
        with tempfile.TemporaryDirectory() as cache:
            called(name, cache, bytecode)  # leaves the bytecode
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                for which in calls:
                    calls[which].append(called(name, cache, bytecode))
        row: dict[str, Any] = {"call": words}
        for which, found in calls.items():
            row |= {f"{which}_{kind}": statistics.median(one[kind] for one in found) for kind in ("wall", "cpu")}
        row["import_cpu"] = statistics.median(one["import_cpu"] for one in calls["second"])
        rows.append(row)
        print(row, flush=True)
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        child(sys.argv[2])
    else:
        main()
