"""Figure 4 of the paper, in our design: RMSE of RTS on Salakhutdinov's 784×500 RBM against the number of rungs K.

    python experiments/figure4.py [--rungs 26 100 400 1000] [--sweeps 3000] [--seeds 200] [--jobs 1]

Every estimate is from a run of its own; `tempering.paper.figure4` has the paper's design and other methods beside it.
Prints a table and writes benchmarks/results/figure4.json; benchmarks/gibbs.py has what a sweep costs.
"""

import argparse

import repeats
from figure3 import LOG_Z

import tempering as tp


def main() -> None:
    parser = repeats.seeds_parser(__doc__, num_seeds=200)
    parser.add_argument("--rungs", type=int, nargs="+", default=[26, 100, 400, 1000])
    parser.add_argument("--sweeps", type=int, default=3000)
    arguments = parser.parse_args()
    options = ["--sweeps", str(arguments.sweeps), "--rungs", *map(str, arguments.rungs)]
    rows = repeats.shared_out(__file__, arguments, options, lambda seeds: runs_of(arguments, seeds))
    if arguments.rows is None:
        summaries = {name: repeats.summary(part) for name, part in rows.items()}
        repeats.print_table(summaries)
        repeats.write("figure4", summaries, rows)


def runs_of(arguments: argparse.Namespace, seeds: range) -> repeats.Rows:
    """Runs with each number of rungs."""
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    return {
        f"K = {num_rungs}": repeats.repeat(
            rbm, base, LOG_Z, seeds, num_sweeps=arguments.sweeps, num_rungs=num_rungs
        )
        for num_rungs in arguments.rungs
    }  # fmt: skip


if __name__ == "__main__":
    main()
