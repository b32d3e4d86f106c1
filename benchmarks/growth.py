"""How time grows with chains, rungs, units and dimensions: seconds at a few sizes, and the exponent.

    python benchmarks/growth.py [--rounds 5] [--quick]

One thing grows at a time: from the 784×500 RBM with 100 chains and 100 rungs, and from `tp.estimate` with default
settings on the posterior of experiments/long_ladders.py. All sizes of one thing take turns. The exponent p of
seconds ∝ size^p is fitted by least squares to the logarithms of medians, over all sizes and for the last two. Writes
benchmarks/results/growth.json.
"""

import argparse
import os
from collections.abc import Callable
from typing import Any

import gibbs
import jax
import numpy as np
import turns

import tempering as tp

# isort: split
import long_ladders

UNITS = (784, 500)
SIZES = {
    "chains": (100, 200, 400, 800, 1600),
    "rungs": (50, 100, 200, 400, 800, 1600),
    "hidden units": (125, 250, 500, 1000, 2000),
    "dimensions": (10, 30, 100, 300),
}
WHAT = {
    "chains": "an RTS sweep, 784×500, K = 100",
    "rungs": "an RTS sweep, 784×500, 100 chains",
    "hidden units": "an RTS sweep, 784 visible units, K = 100, 100 chains",
    "dimensions": "`tp.estimate(posterior)`, normal, whole call",
}


def random_rbm(num_hidden: int) -> tp.RBM:
    rng = np.random.default_rng(0)
    sizes = (UNITS[0], num_hidden)
    return tp.RBM(rng.normal(0, 0.1, sizes), rng.normal(-1, 1, sizes[0]), rng.normal(-1, 1, num_hidden))


def call_of(grows: str, size: int) -> Callable[[], Any]:
    """What is timed when one thing has a size."""
    if grows == "dimensions":
        model = long_ladders.posterior(size)
        return lambda: tp.estimate(model, seed=0)
    sizes = {"hidden units": UNITS[1], "rungs": 100, "chains": 100} | {grows: size}
    return gibbs.rts_runner(random_rbm(sizes["hidden units"]), sizes["rungs"], sizes["chains"])


def measured(grows: str, sizes: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Medians over rounds, and exponents."""
    found = turns.in_turns({str(size): call_of(grows, size) for size in sizes}, rounds)
    divide_by = 1 if grows == "dimensions" else gibbs.SWEEPS
    seconds = {size: float(np.median(values)) / divide_by for size, values in found.items()}
    return {"what": WHAT[grows], "seconds": seconds, **exponents(sizes, list(seconds.values()))}


def exponents(sizes: tuple[int, ...], seconds: list[float]) -> dict[str, float]:
    """p of seconds ∝ size^p: over all sizes, and at the end, where what does not grow matters least."""
    return {
        "exponent": float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]),
        "last_exponent": float(np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="the two smallest sizes, and no file")
    asked = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    rows = {}
    for grows, sizes in SIZES.items():
        rows[grows] = measured(grows, sizes[:2] if asked.quick else sizes, asked.rounds)
        print(grows, rows[grows], flush=True)
    if not asked.quick:
        turns.write("growth", {"rows": rows})


if __name__ == "__main__":
    main()
