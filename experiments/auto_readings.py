"""Is the joint answer of `method="auto"` as good as the best reading of the same runs?

    python experiments/auto_readings.py [--repeats 100] [--sweeps 1000] [--jobs 1] [--only "Ising"]

The problems of the coverage study, and a 20-d normal. All readings are made from the same runs. Prints a table and
writes benchmarks/results/auto_readings.json. Seeds start at 3000, apart from those on which anything was chosen. With
several jobs each problem has a process of its own.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import repeats
from problems import PROBLEMS, Problem

import tempering as tp

FIRST_SEED = 3000
READINGS = ("rts", "stepping_up", "stepping_down", "ti_trapezoid", "ti_rb")


def narrow_normal() -> Problem:
    """20 dimensions, scale 0.2, from a standard normal."""
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum((x / 0.2) ** 2), tp.Normal(np.zeros(20), 1.0))
    return Problem(model, None, float(10 * np.log(2 * np.pi * 0.2**2)))


CHOSEN = {"normal, 20-d, scale 0.2": narrow_normal, **PROBLEMS}


def main() -> None:
    parser = repeats.study_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--sweeps", type=int, default=1000)
    arguments = parser.parse_args()
    names = [name for name in CHOSEN if arguments.only in name]
    if arguments.jobs > 1 and len(names) > 1:
        options = ["--repeats", str(arguments.repeats), "--sweeps", str(arguments.sweeps)]
        rows = repeats.in_processes(__file__, names, arguments.jobs, options)
    else:
        rows = {name: runs_of(CHOSEN[name](), arguments.repeats, arguments.sweeps) for name in names}
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
        return
    summaries = {name: summary(runs) for name, runs in rows.items()}
    repeats.print_table(summaries)
    repeats.write("auto_readings", summaries, rows)


def runs_of(problem: Problem, num_repeats: int, num_sweeps: int) -> list[dict[str, Any]]:
    """One row per seed: the error of the answer and of each reading, and what the answer claims."""
    found = tp.compare(
        problem.model, problem.base, methods=("auto", *READINGS), num_sweeps=num_sweeps, repeats=num_repeats,
        truth=problem.log_z, seed=FIRST_SEED,
    )  # fmt: skip
    return [row_of(side, problem.log_z) for side in found.repeats]


def row_of(side: Any, truth: float) -> dict[str, Any]:
    """The row of one seed."""
    entries = {entry.method.name: entry for entry in side.entries}
    answer = entries["auto"].answer
    low, high = answer.interval
    return {
        "seed": side.seed,
        **{name: entry.answer.log_z - truth for name, entry in entries.items()},
        "std_error": answer.std_error,
        "weight_of_rts": answer.weights[0],
        "covers": bool(low <= truth <= high),
        "verdict": entries["auto"].verdict.label,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Root mean squared errors, and what the answer claims."""
    rmse = {name: float(np.sqrt(np.mean([row[name] ** 2 for row in rows]))) for name in ("auto", *READINGS)}
    good = [row["covers"] for row in rows if row["verdict"] == "good"]
    return {
        "runs": len(rows),
        **rmse,
        "auto_to_best": rmse["auto"] / min(rmse[name] for name in READINGS),
        "rts_to_auto": rmse["rts"] / rmse["auto"],
        "mean_std_error": float(np.mean([row["std_error"] for row in rows])),
        "weight_of_rts": float(np.mean([row["weight_of_rts"] for row in rows])),
        "good": len(good),
        "good_covers": float(np.mean(good)) if good else None,
    }


if __name__ == "__main__":
    main()
