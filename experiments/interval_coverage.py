"""Do the intervals hold, and do the verdicts warn? Models with exact log Z × run lengths × seeds.

    python experiments/interval_coverage.py [--seeds 100] [--budgets 300 1000 3000] [--jobs 1] [--only "Ising"]

Prints a table and writes benchmarks/results/coverage.json. Seeds start at 1000, apart from those on which anything was
chosen. With several jobs each problem has a process of its own; on a GPU all seeds of a problem run at once.
"""

import sys
from typing import Any

import numpy as np
import repeats
from problems import PROBLEMS

FIRST_SEED = 1000


def main() -> None:
    parser = repeats.study_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budgets", type=int, nargs="+", default=[300, 1000, 3000])
    arguments = parser.parse_args()
    names = [name for name in PROBLEMS if arguments.only in name]
    if arguments.jobs > 1 and len(names) > 1:
        options = ["--seeds", str(arguments.seeds), "--budgets", *map(str, arguments.budgets)]
        rows = repeats.in_processes(__file__, names, arguments.jobs, options)
    else:
        if arguments.rows is None:  # else other processes have the other cores
            repeats.use_all_cores()
        seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
        rows = {name: runs_of(name, arguments.budgets, seeds) for name in names}
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
        return
    summaries = table(rows)
    repeats.print_table(summaries)
    repeats.write("coverage", summaries, rows)


def runs_of(name: str, budgets: list[int], seeds: range) -> list[dict[str, Any]]:
    """All runs of one problem, shortest first."""
    problem, rows = PROBLEMS[name](), []
    for budget in budgets:
        found = repeats.repeat(problem.model, problem.base, problem.log_z, seeds, num_sweeps=budget)
        rows += [row | {"budget": budget} for row in found]
        print(name, budget, summary(rows[-len(found) :]), flush=True, file=sys.stderr)
    return rows


def table(rows: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """A line for each problem and budget, for each problem, and for all."""
    lines = {}
    for name, runs in rows.items():
        for budget in sorted({run["budget"] for run in runs}):
            lines[f"{name}, {budget}"] = summary([run for run in runs if run["budget"] == budget])
        lines[f"{name}, all"] = summary(runs)
    largest = max(run["budget"] for runs in rows.values() for run in runs)
    everything = [run for runs in rows.values() for run in runs]
    lines[f"all problems, {largest}"] = summary([run for run in everything if run["budget"] == largest])
    return lines | {"all problems, all": summary(everything)}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What a line of the table says."""
    errors = np.array([run["error"] for run in runs])
    good = [run for run in runs if run["verdict"] == "good"]
    verdicts = sorted({run["verdict"] for run in runs})
    return {
        "runs": len(runs),
        "bias": float(errors.mean()),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "mean_std_error": float(np.mean([run["std_error"] for run in runs])),
        **{
            f"covers_{100 * level:.0f}": share([run["at_levels"][str(level)] for run in runs])
            for level in repeats.LEVELS
        },
        "good": len(good),
        "good_covers_95": share([run["at_levels"]["0.95"] for run in good]),
        "good_worst": max((abs(run["error"]) / run["std_error"] for run in good), default=None),
        "verdicts": {verdict: sum(run["verdict"] == verdict for run in runs) for verdict in verdicts},
    }


def share(held: list[bool]) -> float | None:
    return float(np.mean(held)) if held else None


if __name__ == "__main__":
    main()
