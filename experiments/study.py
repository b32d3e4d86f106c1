"""All studies of docs/measured/results.md, one after the other; each uses all cores.

    python experiments/study.py [--plan] [--again] [NAME ...]

A study whose table is as new as the code is left out, so that a study that was interrupted goes on where it stopped;
`--again` makes all of them. Before it begins it says how long the rest will take, from what each took the last time;
`--plan` says no more than that. Names are those of the files in benchmarks/results.
"""

import argparse
import json
import os
import subprocess
import sys
from typing import NamedTuple

import ages

JOBS = ("--jobs", str(os.cpu_count() or 1))


class Study(NamedTuple):
    """A script, its arguments, and the result that it writes."""

    result: str
    script: str
    arguments: tuple[str, ...] = ()

    def seconds(self) -> float | None:
        """What it took the last time, on the cores of that time: in all, or its runs alone; None where not known."""
        file = ages.RESULTS / f"{self.result}.json"
        content = json.loads(file.read_text()) if file.exists() else {}
        parts = content["rows"].values() if isinstance(content.get("rows"), dict) else []
        rows = [row for part in parts if isinstance(part, list) for row in part if isinstance(row, dict)]
        of_runs = sum(row.get("seconds", 0.0) for row in rows)
        return content.get("about", {}).get("seconds", of_runs or None)

    def is_current(self) -> bool:
        """Whether its table is there, made by this code, and not a quick one."""
        file = ages.RESULTS / f"{self.result}.json"
        return file.exists() and not ages.older_than(file) and not json.loads(file.read_text()).get("is_quick", False)


STUDIES = (
    Study("reference", "experiments/reference.py"),
    Study("many_chains", "experiments/many_chains.py", JOBS),
    Study("coverage", "experiments/interval_coverage.py", JOBS),
    Study("long_ladders", "experiments/long_ladders.py"),
    Study("hard_posteriors", "experiments/hard_posteriors.py", JOBS),
    Study("auto_readings", "experiments/auto_readings.py"),
    Study("easy_models", "experiments/easy_models.py"),
    Study("time_limit", "experiments/time_limit.py"),
    Study("small_rbms", "experiments/small_rbms.py"),
    Study("figure3", "experiments/figure3.py", ("--seeds", "200", *JOBS)),
    Study("ais_needs", "experiments/ais_needs.py"),
    Study("stuck", "experiments/stuck.py"),
    Study("witnesses", "experiments/witnesses.py"),
    Study("initial_iterations", "experiments/initial_iterations.py"),
    Study("figure4", "experiments/figure4.py", JOBS),
    Study("prior", "experiments/prior.py"),
    Study("learned_weights", "experiments/learned_weights.py", JOBS),
    Study("side_by_side", "experiments/side_by_side.py", JOBS),
    Study("matched_cost", "experiments/matched_cost.py", JOBS),
    Study("exact_answers", "experiments/exact_answers.py", JOBS),
    Study("tracking", "experiments/tracking.py"),
    Study("mnist_training", "experiments/mnist_training.py"),
    *(Study(f"paper_fig{n}", "experiments/figures.py", (f"fig{n}", *JOBS)) for n in range(1, 9)),
    Study("tracker_end", "experiments/tracker_end.py"),  # of a training that figure 5 leaves, see there
    Study("tracking_cost", "benchmarks/tracking.py"),
    Study("mbar", "benchmarks/mbar.py"),
    Study("gibbs", "benchmarks/gibbs.py"),
    Study("evidence", "benchmarks/evidence.py"),
    Study("rmse_time", "benchmarks/rmse_time.py"),
    Study("growth", "benchmarks/growth.py"),
    Study("hmc", "benchmarks/hmc.py"),
    Study("lattice", "benchmarks/lattice.py"),
    Study("first_calls", "benchmarks/first_calls.py"),
    Study("gpu_sweeps", "benchmarks/gpu_sweeps.py"),
    Study("gpu_calls", "benchmarks/gpu_calls.py"),
    Study("gpu_tests", "benchmarks/gpu_tests.py"),
    Study("processes", "benchmarks/processes.py"),
    Study("memory", "benchmarks/memory.py"),
    Study("same_bits", "benchmarks/same_bits.py"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--plan", action="store_true", help="say what would be run, and how long it takes")
    parser.add_argument("--again", action="store_true", help="also what is as new as the code")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {study.result for study in STUDIES}
    if unknown:
        parser.error(f"no study writes {', '.join(sorted(unknown))}")
    asked = [study for study in STUDIES if not arguments.names or study.result in arguments.names]
    to_do = [study for study in asked if arguments.again or not study.is_current()]
    print(plan(to_do, len(asked)), flush=True)
    if arguments.plan:
        return
    for number, study in enumerate(to_do):
        print(f"[{number + 1} of {len(to_do)}] {study.script} {' '.join(study.arguments)}", flush=True)
        subprocess.run([sys.executable, str(ages.ROOT / study.script), *study.arguments], check=True)
        ages.write_list()
        subprocess.run([sys.executable, str(ages.ROOT / "benchmarks" / "report.py")], check=True)


def plan(to_do: list[Study], num_asked: int) -> str:
    """What will be run, and how long it took the last time."""
    lines = [f"{len(to_do)} of {num_asked} studies are to be run; the others are as new as the code."]
    known = [seconds for study in to_do if (seconds := study.seconds()) is not None]
    lines += [f"  {study.result:<18} {_in_minutes(study.seconds())}" for study in to_do]
    lines.append(f"In all about {_in_minutes(sum(known))}, and {len(to_do) - len(known)} whose time is not known.")
    return "\n".join(lines)


def _in_minutes(seconds: float | None) -> str:
    return "not known yet" if seconds is None else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    main()
