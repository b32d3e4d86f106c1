"""Figure 3 (left) of the paper: RMSE of RTS on Salakhutdinov's 784×500 RBM against the number of sweeps.

    python experiments/figure3.py [--sweeps 1000 3000 10000] [--seeds 50] [--jobs 1]

The longest runs are made once more with the heavier ends that pay in long runs. Prints a table beside the paper's
values and writes benchmarks/results/figure3.json. log Z is that of experiments/reference.py.
"""

import argparse
from pathlib import Path
from typing import Any

import repeats

import tempering as tp
from tempering.paper.runs import REFERENCE_500

LOG_Z = REFERENCE_500
PAPER = {1000: 0.42, 10_000: 0.11, 100_000: 0.05}  # read off the figure, to about 10 %


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--warmup", default="sequential", choices=["sequential", "annealed", "iterations"])
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--rows", type=Path, help="write the runs there, and no table")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.jobs > 1:
        options = ["--warmup", arguments.warmup, "--sweeps", *map(str, arguments.sweeps)]
        rows = repeats.in_seed_ranges(__file__, seeds, arguments.jobs, options)
    else:
        if arguments.rows is None:  # else other processes have the other cores
            repeats.use_all_cores()
        rows = runs_of(arguments.sweeps, seeds, arguments.warmup)
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
        return
    summaries = {
        name: repeats.summary(part) | {"paper_rmse": PAPER.get(int(name.split()[0]))} for name, part in rows.items()
    }
    repeats.print_table(summaries)
    repeats.write("figure3" if arguments.warmup == "sequential" else f"figure3_{arguments.warmup}", summaries, rows)


def runs_of(lengths: list[int], seeds: range, warmup: str) -> dict[str, list[dict[str, Any]]]:
    """All runs, by their number of sweeps."""
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    settings = [(num_sweeps, "ends:0.1") for num_sweeps in lengths] + [(max(lengths), "ends:0.2")]
    return {
        f"{num_sweeps} sweeps" + ("" if prior == "ends:0.1" else f", {prior}"): repeats.repeat(
            rbm, base, LOG_Z, seeds, num_sweeps=num_sweeps, warmup=warmup, rung_weights=prior
        )
        for num_sweeps, prior in settings
    }


if __name__ == "__main__":
    main()
