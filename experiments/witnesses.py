"""Witnesses: whether a run that misses a part of its target is told so, and whether others are left alone.

    python experiments/witnesses.py [--seeds 20] [--first-seed 7000]

Two targets with two modes, of which a narrow base sees one: two normals in five dimensions, 12 apart, and an RBM of
16 × 4 units that is nearly all on or nearly all off. One witness is in the other mode. Then the same with a base that
sees both, and witnesses that matter to nobody, of runs that miss nothing or hardly anything: states far out, random
rows under the example RBM, and a mode of its own with a thousandth of the mass. These have five times as many runs in
all. Some runs are also made without witnesses, for the time that takes. Prints a table and writes
benchmarks/results/witnesses.json.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import repeats

import tempering as tp
from tempering.verdicts import gravest

NUM_TIMED = 5  # runs of each case that are also made without witnesses
APART = 12.0
CENTER = np.eye(5)[0] * APART


class Case(NamedTuple):
    """A model, its base, witnesses for each seed, and how much of the mass a run from this base misses."""

    model: tp.AbstractModel
    base: Any
    witnesses: Callable[[np.random.Generator], np.ndarray]
    missing: float
    share_of_runs: float = 1.0  # times `--seeds`


def two_normals(second: float) -> tp.LogDensity:
    """Normals around 0 and 12 apart from it, the second with this share of the mass."""

    def log_f(x):
        first, other = -0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - CENTER) ** 2)
        return jnp.logaddexp(jnp.log(1 - second) + first, jnp.log(second) + other) - 2.5 * jnp.log(2 * jnp.pi)

    return tp.LogDensity(log_f, tp.Normal(jnp.zeros(5), 1.2))


def on_or_off() -> tp.RBM:
    """An RBM of 16 × 4 units with nearly all of them on, or nearly all off."""
    return tp.RBM(np.full((16, 4), 1.6), np.full(16, 0.05 - 2 * 1.6), np.full(4, -8 * 1.6))


def mass_of_on(rbm: tp.RBM) -> float:
    """The probability that more than half of the visible units are on, exactly."""
    patterns = (np.arange(2**16)[:, None] >> np.arange(16)) & 1
    log_f = rbm.log_density(patterns)
    weights = np.exp(log_f - log_f.max())
    return float(weights[patterns.sum(axis=1) > 8].sum() / weights.sum())


def cases() -> dict[str, Case]:
    normals, rbm, (example, frequencies) = two_normals(0.5), on_or_off(), tp.load_example()
    wide, mostly_off = tp.Normal(CENTER / 2, jnp.array([7.0, 2.0, 2.0, 2.0, 2.0])), np.full(16, 0.02)
    return {
        "two normals, narrow base": Case(normals, None, lambda _: CENTER[None], 0.5),
        "two normals, wide base": Case(normals, wide, lambda _: CENTER[None], 0.0),
        "RBM, base of one mode": Case(rbm, mostly_off, lambda _: np.ones((1, 16)), mass_of_on(rbm)),
        "RBM, uniform base": Case(rbm, "uniform", lambda _: np.ones((1, 16)), 0.0),
        "states far out": Case(normals, wide, lambda rng: -10 - 30 * rng.random((5, 5)), 0.0, 2),
        "random rows": Case(example, frequencies, lambda rng: rng.integers(0, 2, (20, 64)).astype(float), 0.0, 2),
        "a mode of 0.001": Case(two_normals(0.001), None, lambda _: CENTER[None], 0.001),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=7000)
    arguments = parser.parse_args()
    rows, summaries = {}, {}
    for name, case in cases().items():
        seeds = range(arguments.first_seed, arguments.first_seed + round(case.share_of_runs * arguments.seeds))
        rows[name] = [one(case, seed, is_timed=number < NUM_TIMED) for number, seed in enumerate(seeds)]
        summaries[name] = summary(case, rows[name])
        print(name, summaries[name], flush=True)
    repeats.write("witnesses", summaries, rows)


def one(case: Case, seed: int, *, is_timed: bool) -> dict[str, Any]:
    """A run with witnesses; `is_timed` makes the same run without them first."""
    alone = tp.estimate(case.model, case.base, seed=seed).seconds if is_timed else None
    witnesses = case.witnesses(np.random.default_rng(seed))
    told = tp.estimate(case.model, case.base, seed=seed, witnesses=witnesses)
    assert told.witnesses is not None
    mass, away = told.witnesses.missing, told.witnesses.away
    return {
        "seed": seed,
        "log_z": told.log_z,
        "std_error": told.std_error,
        "verdict_alone": gravest(f for f in told.diagnosis.findings if f.verdict is not tp.Verdict.MISSED).label,
        "verdict": told.verdict.label,
        "missed": told.diagnosis.found(tp.Verdict.MISSED),
        "stayed_away": None if away is None else away.share,
        "share": None if mass is None else mass.share,
        "low": None if mass is None else mass.low,
        "high": None if mass is None else mass.high,
        "seconds_alone": alone,
        "seconds": told.seconds,
    }


def summary(case: Case, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the verdicts say, and how far the missing share is from the truth."""
    shares = [run["share"] for run in runs if run["share"] is not None]
    asked = [run for run in runs if run["low"] is not None]
    return {
        "runs": len(runs),
        "missing": case.missing,
        "good_alone": sum(run["verdict_alone"] == "good" for run in runs),
        "good": sum(run["verdict"] == "good" for run in runs),
        "missed": sum(run["missed"] for run in runs),
        "second_runs": len(shares),
        "median_share": float(np.median(shares)) if shares else None,
        "lowest_share": min(shares, default=None),
        "highest_share": max(shares, default=None),
        "low_holds": sum(run["low"] <= case.missing for run in asked),
        "seconds_alone": repeats.median(runs, "seconds_alone"),
        "seconds": repeats.seconds(runs),
    }


if __name__ == "__main__":
    main()
