"""Is the joint answer of `method="auto"` as good as the best of its readings, and do its intervals hold?

    python experiments/auto_readings.py [--seeds 40] [--sweeps 300] [--only "Ising"]

All readings are made from the same runs. Prints a table and writes benchmarks/results/auto_readings.json. Seeds start
at 3000, apart from those on which anything was chosen.
"""

import argparse
from typing import Any

import jax.numpy as jnp
import numpy as np
import repeats
from problems import PROBLEMS, Problem

import tempering as tp

FIRST_SEED = 3000


def narrow_normal() -> Problem:
    """20 dimensions, scale 0.2, from a standard normal."""
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum((x / 0.2) ** 2), tp.Normal(np.zeros(20), 1.0))
    return Problem(model, None, float(10 * np.log(2 * np.pi * 0.2**2)))


CHOSEN = {
    "normal, 20-d, scale 0.2": narrow_normal,
    "paper's mixture": lambda: Problem(tp.paper_mixture(), None, 0.0),
    **{name: PROBLEMS[name] for name in ("RBM 64×16, digits", "RBM 784×10", "Ising 8×8, 0.44", "mixture, near modes")},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--sweeps", type=int, default=300)
    parser.add_argument("--only", default="", help="part of a problem's name")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    rows = {name: runs_of(CHOSEN[name](), seeds, arguments.sweeps) for name in CHOSEN if arguments.only in name}
    summaries = {name: summary(runs) for name, runs in rows.items()}
    repeats.print_table(summaries)
    repeats.write("auto_readings", summaries, rows)


def runs_of(problem: Problem, seeds: range, num_sweeps: int) -> list[dict[str, Any]]:
    """One row per seed: the error of the answer and of each reading, and the weight of RTS."""
    rows = []
    runs = tp.estimate_many(
        problem.model, problem.base, seeds=seeds, num_sweeps=num_sweeps, method="auto", keep_draws=False
    )
    for result in runs:
        answer = result.log_z_by_rung
        low, high = result.interval
        rows.append(
            {
                "seed": result.seed,
                "auto": result.log_z - problem.log_z,
                **{each.method: each.log_z - problem.log_z for each in answer.readings},
                "std_error": result.std_error,
                "weight_of_rts": answer.weights[0],
                "covers": low <= problem.log_z <= high,
                "verdict": result.verdict.label,
            }
        )
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Root mean squared errors, and what the answer claims."""
    names = ("auto", "rts", "stepping_up", "stepping_down")
    rmse = {name: float(np.sqrt(np.mean([row[name] ** 2 for row in rows]))) for name in names}
    good = [row["covers"] for row in rows if row["verdict"] == "good"]
    return {
        "runs": len(rows),
        **rmse,
        "auto_to_best": rmse["auto"] / min(rmse[name] for name in names[1:]),
        "mean_std_error": float(np.mean([row["std_error"] for row in rows])),
        "weight_of_rts": float(np.mean([row["weight_of_rts"] for row in rows])),
        "covers": float(np.mean([row["covers"] for row in rows])),
        "good": len(good),
        "good_covers": float(np.mean(good)) if good else None,
    }


if __name__ == "__main__":
    main()
