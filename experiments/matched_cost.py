"""RTS and AIS on Salakhutdinov's 784×500 RBM at the same number of sweeps, warm-up included (figure 3, left).

    python experiments/matched_cost.py [--budgets 1500 10500] [--repeats 20]

Prints a table and writes benchmarks/results/matched_cost.json.
"""

import argparse

import repeats
from figure3 import LOG_Z

import tempering as tp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budgets", type=int, nargs="+", default=[1500, 10_500])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--methods", default="rts,mixed,ais")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz")
    base = repeats.mnist_base()
    summaries, rows = {}, {}
    for budget in arguments.budgets:
        found = tp.compare(rbm, base, methods=arguments.methods, budget=budget, repeats=arguments.repeats, truth=LOG_Z)
        for method, summary in repeats.compared(found).items():
            summaries[f"{method}, {budget} sweeps"] = summary
        rows[str(budget)] = [found.to_dict()]
    repeats.print_table(summaries)
    repeats.write("matched_cost", summaries, rows)


if __name__ == "__main__":
    main()
