"""Every method on the 784×20 MNIST RBM, whose log Z is exact: errors and coverage at a matched number of sweeps.

    python experiments/side_by_side.py [--sweeps 2000] [--seeds 50] [--jobs 1]

The same as `tempering compare rbm_mnist_small.npz:20 --base mnist_binarized.npz --sweeps 2000 --repeats 50`. Prints a
table and writes benchmarks/results/side_by_side.json.
"""

import argparse

import repeats

import tempering as tp


def main() -> None:
    parser = repeats.seeds_parser(__doc__, num_seeds=50)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--methods", default="all")
    arguments = parser.parse_args()
    options = ["--sweeps", str(arguments.sweeps), "--methods", arguments.methods]
    rows = repeats.shared_out(__file__, arguments, options, lambda seeds: runs_of(arguments, seeds))
    if arguments.rows is None:
        summaries = repeats.compared(rows)
        repeats.print_table(summaries)
        repeats.write("side_by_side", summaries, rows)


def runs_of(arguments: argparse.Namespace, seeds: range) -> repeats.Rows:
    """All methods over some seeds."""
    rbm = tp.load(f"{repeats.DATA / 'rbm_mnist_small.npz'}:20")
    data = tp.load_data(repeats.DATA / "mnist_binarized.npz", num_visible=784)
    found = tp.compare(
        rbm, data, methods=arguments.methods, num_sweeps=arguments.sweeps, seed=seeds[0], repeats=len(seeds)
    )
    return repeats.compared_rows(found)


if __name__ == "__main__":
    main()
