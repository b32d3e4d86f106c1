"""Do intervals hold with few and with very many chains? Salakhutdinov's 784×500 RBM, whose log Z is known to ± 0.01.

    python experiments/many_chains.py [--seeds 200] [--jobs 1] [--only "1000 chains × 1000"]

Prints a table and writes benchmarks/results/many_chains.json. Meant for a GPU; with several jobs, a study that was cut
short goes on after the last run that was done. Seeds start at 6000, 7000, 8000 and 9000: a chain has the same random
numbers in any company, so that settings with the same seeds would err together.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import repeats
from figure3 import LOG_Z

import tempering as tp

FIRST_SEED, BETWEEN_SETTINGS = 6000, 1000  # apart from the seeds on which anything was chosen
SETTINGS = ((10_000, 1000), (10_000, 300), (1000, 1000), (100, 1000))  # chains and sweeps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="of each setting")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--rows", type=Path, help="write the runs there, and no table")
    parser.add_argument("--only", default="", help="how a setting's name begins: print its line, and write no table")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.jobs > 1:
        rows = repeats.in_seed_ranges(__file__, seeds, arguments.jobs, ["--only", arguments.only])
    else:
        rows = runs_of(seeds, arguments.rows, arguments.only)
    if arguments.rows is None:
        summaries = {name: summary(part) for name, part in rows.items()}
        summaries["all"] = summary([row for part in rows.values() for row in part])
        repeats.print_table(summaries)
        if not arguments.only:
            repeats.write("many_chains", summaries, rows)


def runs_of(seeds: range, file: Path | None, only: str) -> dict[str, list[dict[str, Any]]]:
    """All runs by setting. What there is goes to the file after each, and what is there already is not run again."""
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    rows: repeats.Rows = repeats.parse(file) if file is not None and file.exists() else {}
    for number, (num_chains, num_sweeps) in enumerate(SETTINGS):
        name = f"{num_chains} chains × {num_sweeps} sweeps"
        if not name.startswith(only):
            continue
        part = rows.setdefault(name, [])
        for seed in seeds[len(part) :]:
            own = seed + number * BETWEEN_SETTINGS
            result = tp.estimate(rbm, base, seed=own, num_chains=num_chains, num_sweeps=num_sweeps, progress=False)
            part.append(repeats.row_of(result, LOG_Z))
            if file is not None:
                repeats.dump(file, rows)
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The error, and of the runs called good how many intervals hold and how far the worst is off."""
    errors = np.array([row["error"] for row in rows])
    good = [row for row in rows if row["verdict"] == "good"]
    off = [abs(row["error"]) / row["std_error"] for row in good]
    return {
        "runs": len(rows),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "bias": float(errors.mean()),
        "mean_std_error": float(np.mean([row["std_error"] for row in rows])),
        "good": len(good),
        "good_covers": float(np.mean([row["covers"] for row in good])) if good else None,
        "worst_good": max(off) if off else None,
        "seconds": repeats.seconds(rows),
    }


if __name__ == "__main__":
    main()
