"""Where the paper's initial iterations end, and whether their own rule says so.

    python experiments/initial_iterations.py [--seeds 10] [--only NAME]

RBMs of 784 × 20 and 784 × 500 units on 100 linear rungs, 100 chains: how many iterations there were, whether they met
their rule, how far Ẑ was then from a long run, and what was said of the 1000 sweeps that followed. Prints a table and
writes benchmarks/results/initial_iterations.json.
"""

import argparse
from typing import Any

import numpy as np
import repeats
from figure3 import LOG_Z

import tempering as tp
from tempering import Verdict

FIRST_SEED = 300  # apart from those on which anything was chosen
LADDER = {"betas": "uniform", "num_rungs": 100, "method": "rts"}
LONG = 10_000  # sweeps of the run that Ẑ is held against
KINDS: dict[str, tuple[str, dict[str, Any]]] = {  # hidden units, and what is not as by default
    "784×20": ("20", {}),
    "784×20, weights exp:5, 3 iterations": ("20", {"rung_weights": "exp:5", "warmup": "iterations:3"}),
    "784×500": ("500", {}),
    "784×500, ten of 50 sweeps": ("500", {"warmup": tp.InitialIterations(max_iterations=10, min_iterations=10)}),
    "784×500, 4 iterations": ("500", {"warmup": "iterations:4"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="part of a row's name")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    base, known = repeats.mnist_base(), {}
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, (num_hidden, settings) in KINDS.items():
        if arguments.only not in name:
            continue
        rbm = load(num_hidden)
        if num_hidden not in known:
            known[num_hidden] = log_z_by_rung(rbm, base, num_hidden)
        seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
        rows[name] = [row(rbm, base, seed, settings, known[num_hidden]) for seed in seeds]
        print(name, summary(rows[name]), flush=True)
    repeats.write("initial_iterations", {name: summary(found) for name, found in rows.items()}, rows)


def load(num_hidden: str) -> tp.RBM:
    """An RBM by the number of its hidden units."""
    file = "rbm_mnist_cd25_500.npz" if num_hidden == "500" else f"rbm_mnist_small.npz:{num_hidden}"
    rbm = tp.load(f"{repeats.DATA / file}")
    assert isinstance(rbm, tp.RBM)
    return rbm


def log_z_by_rung(rbm: tp.RBM, base: np.ndarray, num_hidden: str) -> np.ndarray:
    """log Z of every rung by a long run; that of the target as it is known, by enumeration or longer runs."""
    values = tp.estimate(rbm, base, num_sweeps=LONG, seed=FIRST_SEED - 1, **LADDER).log_z_by_rung.values
    target = LOG_Z if num_hidden == "500" else rbm.exact_log_z()
    return np.append(values[:-1], target)


def row(rbm: tp.RBM, base: np.ndarray, seed: int, settings: dict[str, Any], known: np.ndarray) -> dict[str, Any]:
    """One run: its iterations, the Ẑ that they gave, and the answer."""
    result = tp.estimate(rbm, base, num_sweeps=1000, seed=seed, **LADDER | {"warmup": "iterations"} | settings)
    guess = result.recording.stats.log_z_guess
    return {
        "seed": seed,
        "num_warmup_sweeps": result.num_warmup_sweeps,
        "settled": not result.diagnosis.found(Verdict.UNEQUILIBRATED),
        "guess_error": float(np.abs(guess - (known - known[0])).max()),
        "error": result.log_z - known[-1],
        "std_error": result.std_error,
        "covers": bool(result.interval[0] <= known[-1] <= result.interval[1]),
        "verdict": result.verdict.label,
        "seconds": result.seconds,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a table shows of the runs."""
    verdicts = [row["verdict"] for row in rows]
    return {
        "runs": len(rows),
        "settled": sum(row["settled"] for row in rows),
        "warmup_sweeps": float(np.median([row["num_warmup_sweeps"] for row in rows])),
        "guess_error": float(np.median([row["guess_error"] for row in rows])),
        "largest_guess_error": max(row["guess_error"] for row in rows),
        "covered": sum(row["covers"] for row in rows),
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
    }


if __name__ == "__main__":
    main()
