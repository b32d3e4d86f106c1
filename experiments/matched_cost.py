"""RTS and AIS on Salakhutdinov's 784×500 RBM at the same number of sweeps, warm-up included (figure 3, left).

    python experiments/matched_cost.py [--budgets 1500 10500] [--seeds 20] [--jobs 1]

Prints a table and writes benchmarks/results/matched_cost.json.
"""

import argparse

import repeats
from figure3 import LOG_Z

import tempering as tp


def main() -> None:
    parser = repeats.seeds_parser(__doc__, num_seeds=20)
    parser.add_argument("--budgets", type=int, nargs="+", default=[1500, 10_500])
    parser.add_argument("--methods", default="rts,mixed,ais")
    arguments = parser.parse_args()
    options = ["--methods", arguments.methods, "--budgets", *map(str, arguments.budgets)]
    rows = repeats.shared_out(__file__, arguments, options, lambda seeds: runs_of(arguments, seeds))
    if arguments.rows is None:
        summaries = repeats.compared(rows)
        repeats.print_table(summaries)
        repeats.write("matched_cost", summaries, rows)


def runs_of(arguments: argparse.Namespace, seeds: range) -> repeats.Rows:
    """All methods over some seeds, at each budget."""
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    rows = {}
    for budget in arguments.budgets:
        found = tp.compare(
            rbm, base, methods=arguments.methods, budget=budget, seed=seeds[0], repeats=len(seeds), truth=LOG_Z
        )
        rows |= {f"{method}, {budget} sweeps": part for method, part in repeats.compared_rows(found).items()}
    return rows


if __name__ == "__main__":
    main()
