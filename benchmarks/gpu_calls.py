"""What whole calls of `estimate` cost on a GPU, the first and the second, and where the host's time goes.

    python benchmarks/gpu_calls.py [--only NAME ...] [--profile] [--out FILE]

The second call compiles nothing. Each pair of calls has a process of its own, so that the peak of the host's memory is
its own too; that of a process of JAX which multiplies two small matrices is recorded beside it. JAX reserves no memory
of the GPU in advance: for three quarters of a large one the driver's tables alone take gigabytes of the host's. Without
names the four calls of very many chains are timed. With `--profile` a third one runs under Python's profiler, whose
longest entries are printed. Writes benchmarks/results/gpu_calls.json, or another file.
"""

import argparse
import cProfile
import io
import json
import os
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import tempering as tp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

JAX_ALONE = """
import resource, jax.numpy as jnp
(jnp.ones((8, 8)) @ jnp.ones((8, 8))).block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""
RECORD = Path(__file__).parent / "results" / "gpu_calls.json"


def make_rbm() -> tp.RBM:
    rng = np.random.default_rng(0)
    return tp.RBM(rng.normal(0, 0.05, (784, 500)), rng.normal(-1, 1, 784), rng.normal(-1, 1, 500))


def regression() -> tuple[np.ndarray, np.ndarray]:
    """The rows and the data of a linear regression with ten coefficients."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 10))
    seen = rows @ rng.normal(size=10) + rng.normal(size=50)
    return rows.astype(np.float32), seen.astype(np.float32)


def regression_evidence() -> float:
    """Its log evidence in closed form, with coefficients that are N(0, 1) a priori."""
    rows, seen = (array.astype(np.float64) for array in regression())
    precision, pull = rows.T @ rows + np.eye(10), rows.T @ seen
    return 0.5 * (pull @ np.linalg.solve(precision, pull) - seen @ seen - np.linalg.slogdet(precision)[1])


def make_posterior() -> tp.Posterior:
    rows, seen = map(jnp.asarray, regression())
    return tp.Posterior(lambda x: -0.5 * jnp.sum((seen - rows @ x) ** 2), tp.Normal(jnp.zeros(10), 1.0))


CALLS: dict[str, tuple[Callable, int, int]] = {
    "posterior, 10,000 chains": (make_posterior, 10_000, 1000),
    "posterior, 100,000 chains": (make_posterior, 100_000, 300),
    "RBM, 10,000 chains": (make_rbm, 10_000, 1000),
    "RBM, 100,000 chains": (make_rbm, 100_000, 1000),
    "RBM, 100 chains": (make_rbm, 100, 1000),
    "posterior, 100 chains": (make_posterior, 100, 1000),
}


def call(make: Callable, chains: int, sweeps: int, seed: int) -> tuple[float, tp.Result]:
    started = time.perf_counter()
    result = tp.estimate(make(), num_chains=chains, num_sweeps=sweeps, seed=seed, progress=False)
    return time.perf_counter() - started, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(CALLS)[:4], help="names of calls")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--alone", action="store_true", help="time the one call in this process, and print its row")
    asked = parser.parse_args()
    if asked.alone:
        print(json.dumps(timed(asked.only[0], with_profile=asked.profile)))
        return
    rows, alone = [], float(told_by("-c", JAX_ALONE))
    for name in asked.only:
        options = ["--alone", "--only", name, *(["--profile"] if asked.profile else [])]
        told = told_by(__file__, *options)
        print(told, flush=True)
        rows.append(json.loads(told.splitlines()[-1]) | {"jax_alone_gb": alone})
        asked.out.write_text(json.dumps({"about": repeats.about(), "calls": rows}, indent=1) + "\n")


def told_by(*arguments: str) -> str:
    """What a Python process of its own prints."""
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def timed(name: str, *, with_profile: bool) -> dict[str, Any]:
    """The row of one call: seconds of the first and the second time, and the peak of the host's memory."""
    make, chains, sweeps = CALLS[name]
    if make is make_posterior:
        model = make()  # one density, so that the second call finds what the first compiled
        make = lambda model=model: model  # noqa: E731
    first, _ = call(make, chains, sweeps, 0)
    second, result = call(make, chains, sweeps, 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if with_profile:
        profile = cProfile.Profile()
        profile.runcall(call, make, chains, sweeps, 2)
        told = io.StringIO()
        pstats.Stats(profile, stream=told).sort_stats("tottime").print_stats(22)
        pstats.Stats(profile, stream=told).sort_stats("cumtime").print_stats("tempering", 45)
        print(told.getvalue(), flush=True)
    row = {"call": name, "sweeps": sweeps, "first": first, "second": second, "peak_host_gb": memory}
    row["error"] = result.log_z - regression_evidence() if name.startswith("posterior") else None
    return row | {"log_z": result.log_z, "std_error": result.std_error, "verdict": result.verdict.name.lower()}


if __name__ == "__main__":
    main()
