"""Figure 3 (left) of the paper: RMSE of RTS on Salakhutdinov's 784×500 RBM against the number of sweeps.

    python experiments/figure3.py [--sweeps 1000 3000 10000] [--seeds 50] [--jobs 1]

The longest runs are made once more with the heavier ends that pay in long runs. Prints a table beside the paper's
values and writes benchmarks/results/figure3.json. log Z is that of experiments/reference.py.
"""

import argparse

import repeats

import tempering as tp
from tempering.paper.runs import REFERENCE_500

LOG_Z = REFERENCE_500
PAPER = {1000: 0.42, 10_000: 0.11, 100_000: 0.05}  # read off the figure, to about 10 %


def main() -> None:
    parser = repeats.seeds_parser(__doc__, num_seeds=50)
    parser.add_argument("--sweeps", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--warmup", default="sequential", choices=["sequential", "annealed", "iterations"])
    arguments = parser.parse_args()
    options = ["--warmup", arguments.warmup, "--sweeps", *map(str, arguments.sweeps)]
    rows = repeats.shared_out(__file__, arguments, options, lambda seeds: runs_of(arguments, seeds))
    if arguments.rows is not None:
        return
    summaries = {
        name: repeats.summary(part) | {"paper_rmse": PAPER.get(int(name.split()[0]))} for name, part in rows.items()
    }
    repeats.print_table(summaries)
    repeats.write("figure3" if arguments.warmup == "sequential" else f"figure3_{arguments.warmup}", summaries, rows)


def runs_of(arguments: argparse.Namespace, seeds: range) -> repeats.Rows:
    """All runs, by their number of sweeps. Those of one length are printed when they are done."""
    lengths = arguments.sweeps
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    settings = [(num_sweeps, "ends:0.1") for num_sweeps in lengths] + [(max(lengths), "ends:0.2")]
    rows = {}
    for num_sweeps, prior in settings:
        name = f"{num_sweeps} sweeps" + ("" if prior == "ends:0.1" else f", {prior}")
        how = {"num_sweeps": num_sweeps, "warmup": arguments.warmup, "rung_weights": prior}
        rows[name] = repeats.repeat(rbm, base, LOG_Z, seeds, **how)
        print(name, repeats.summary(rows[name]), flush=True)
        if arguments.rows is not None:
            repeats.dump(arguments.rows, rows)  # what a study that is cut short leaves behind
    return rows


if __name__ == "__main__":
    main()
