"""What whole calls of `estimate` cost on a GPU, the first and the second, and where the host's time goes.

    python benchmarks/gpu_calls.py [--only NAME ...] [--profile] [--out FILE]

The second call compiles nothing. Without names the four calls of very many chains are timed. With `--profile` a third
one runs under Python's profiler, whose longest entries are printed. Writes benchmarks/results/gpu_calls.json, or
another file.
"""

import argparse
import cProfile
import io
import json
import pstats
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import tempering as tp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

RECORD = Path(__file__).parent / "results" / "gpu_calls.json"


def make_rbm() -> tp.RBM:
    rng = np.random.default_rng(0)
    return tp.RBM(rng.normal(0, 0.05, (784, 500)), rng.normal(-1, 1, 784), rng.normal(-1, 1, 500))


def make_posterior() -> tp.Posterior:
    """A linear regression with ten coefficients."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 10))
    seen = jnp.asarray(rows @ rng.normal(size=10) + rng.normal(size=50), jnp.float32)
    rows = jnp.asarray(rows, jnp.float32)
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
    asked = parser.parse_args()
    rows = []
    for name in asked.only:
        make, chains, sweeps = CALLS[name]
        if make is make_posterior:
            model = make()  # one density, so that the second call finds what the first compiled
            make = lambda model=model: model  # noqa: E731
        first, _ = call(make, chains, sweeps, 0)
        second, result = call(make, chains, sweeps, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        row = {"call": name, "sweeps": sweeps, "first": first, "second": second, "peak_host_gb": memory}
        rows.append(
            row | {"log_z": result.log_z, "std_error": result.std_error, "verdict": result.verdict.name.lower()}
        )
        print(rows[-1], flush=True)
        asked.out.write_text(json.dumps({"about": repeats.about(), "calls": rows}, indent=1) + "\n")
        if asked.profile:
            profile = cProfile.Profile()
            profile.runcall(call, make, chains, sweeps, 2)
            told = io.StringIO()
            pstats.Stats(profile, stream=told).sort_stats("tottime").print_stats(22)
            pstats.Stats(profile, stream=told).sort_stats("cumtime").print_stats("tempering", 45)
            print(told.getvalue(), flush=True)


if __name__ == "__main__":
    main()
