"""Do the intervals hold, and do the verdicts warn? Models with exact log Z × run lengths × seeds.

    python experiments/interval_coverage.py [--seeds 100] [--budgets 300 1000] [--jobs 1] [--only "Ising"]

Prints a table and writes benchmarks/results/coverage.json. Seeds start at 1000, apart from those on which anything was
chosen. Problems with more than 100 chains have the shortest length only. With several jobs each problem and length has
a process of its own; `--finished` makes a table of the parts that are done, which names the others. With `--add` all
problems that are not asked for keep their rows of the present table, whose code and machine are named too. Every row
also has the errors of other readings of the same draws: `auto_readings.py` compares them.
"""

import json
import sys
from typing import Any

import numpy as np
import repeats
from problems import PROBLEMS

import tempering as tp
from tempering.api.settings import Settings

FIRST_SEED = 1000
LIGHT, NOT_LIGHT = "light bases", "all other problems"
READINGS = ("rts", "bridge", "stepping_up", "stepping_down", "ti_trapezoid", "ti_rb")


def main() -> None:
    parser = repeats.study_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budgets", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--finished", action="store_true", help="run nothing: a table of the parts that are done")
    parser.add_argument("--add", action="store_true", help="keep the rows of all other problems")
    arguments = parser.parse_args()
    names = [name for name in PROBLEMS if arguments.only in name]
    if arguments.only in names:  # not also those whose names go on after it
        names = [arguments.only]
    asked = [(name, budget) for name in names for budget in lengths_of(name, arguments.budgets)]
    if arguments.finished or (arguments.jobs > 1 and len(asked) > 1):
        options = [["--only", name, "--budgets", str(n), "--seeds", str(arguments.seeds)] for name, n in asked]
        parts = repeats.by_processes(__file__, options, arguments.jobs, only_finished=arguments.finished)
    else:
        if arguments.rows is None:  # else other processes have the other cores
            repeats.use_all_cores()
        seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
        parts = [{name: runs_of(name, budget, seeds)} for name, budget in asked]
    missing = [f"{name}, {budget}" for (name, budget), part in zip(asked, parts, strict=True) if not part]
    rows = {name: [row for part in parts for row in part.get(name, [])] for name in names}
    rows = {name: found for name, found in rows.items() if found}
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
        return
    if arguments.add:
        repeats.count_as_used({"code": "", "machine": repeats.machine()})  # beside that of the rows that are kept
        rows = kept_rows() | rows
        missing = [f"{name}, {n}" for name in PROBLEMS if name not in rows for n in lengths_of(name, arguments.budgets)]
        rows = {name: rows[name] for name in PROBLEMS if name in rows}
    summaries = table(rows)
    repeats.print_table(summaries)
    repeats.write("coverage", summaries, rows, "; ".join(missing))


def kept_rows() -> repeats.Rows:
    """The rows of the present table."""
    content = json.loads((repeats.RESULTS / "coverage.json").read_text())
    repeats.count_as_used(content["about"])
    return content["rows"]


def lengths_of(name: str, budgets: list[int]) -> list[int]:
    """The numbers of sweeps that a problem is run with."""
    return sorted(budgets)[:1] if PROBLEMS[name].num_chains > Settings.num_chains else sorted(budgets)


def runs_of(name: str, budget: int, seeds: range) -> list[dict[str, Any]]:
    """All runs of one problem with one length."""
    problem = PROBLEMS[name]
    made = problem.make()
    found = tp.compare(
        made.model, made.base, methods=("auto", *READINGS), num_chains=problem.num_chains, num_sweeps=budget,
        repeats=len(seeds), seed=seeds.start, truth=made.log_z,
    )  # fmt: skip
    rows = [row_of(side, made.log_z) | {"budget": budget} for side in found.repeats]
    print(name, budget, summary(rows), flush=True, file=sys.stderr)
    return rows


def row_of(side: Any, truth: float) -> dict[str, Any]:
    """One seed: the error of the answer and what it claims, and the errors of other readings of the same draws."""
    entries = {entry.method.name: entry for entry in side.entries}
    answer = entries["auto"].answer
    ends = {str(level): answer.interval_at(level) for level in repeats.LEVELS}
    return {
        "seed": side.seed,
        "error": answer.log_z - truth,
        "std_error": answer.std_error,
        "at_levels": {level: bool(low <= truth <= high) for level, (low, high) in ends.items()},
        "verdict": entries["auto"].verdict.label,
        "weight_of_rts": answer.weights[0],
        "readings": {name: entries[name].answer.log_z - truth for name in READINGS},
        "seconds": entries["auto"].seconds,
    }


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
    light = [run for name, runs in rows.items() if PROBLEMS[name].has_light_base for run in runs]
    others = [run for name, runs in rows.items() if not PROBLEMS[name].has_light_base for run in runs]
    lines |= {f"{kind}, all": summary(runs) for kind, runs in ((LIGHT, light), (NOT_LIGHT, others)) if runs}
    return lines | {"all problems, all": summary(everything)}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What a line of the table says."""
    errors = np.array([run["error"] for run in runs])
    good = [run for run in runs if run["verdict"] == "good"]
    verdicts = sorted({run["verdict"] for run in runs})
    right = [run for run in runs if run["at_levels"]["0.95"] and run["verdict"] not in ("stuck", "knot")]
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
        "right": len(right),  # with enough round trips
        "alarms": sum(run["verdict"] != "good" for run in right),
        "verdicts": {verdict: sum(run["verdict"] == verdict for run in runs) for verdict in verdicts},
    }


def share(held: list[bool]) -> float | None:
    return float(np.mean(held)) if held else None


if __name__ == "__main__":
    main()
