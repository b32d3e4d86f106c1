"""Figure 4 of the paper, in our design: RMSE of RTS on Salakhutdinov's 784×500 RBM against the number of rungs K.

    python experiments/figure4.py [--rungs 26 100 400 1000] [--sweeps 3000] [--seeds 200]

Every estimate is from a run of its own; `tempering.paper.figure4` has the paper's design and other methods beside it.
Prints a table and writes benchmarks/results/figure4.json; benchmarks/gibbs.py has what a sweep costs.
"""

import argparse

import repeats
from figure3 import LOG_Z

import tempering as tp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rungs", type=int, nargs="+", default=[26, 100, 400, 1000])
    parser.add_argument("--sweeps", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=200)
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    rows, summaries = {}, {}
    for num_rungs in arguments.rungs:
        name, seeds = f"K = {num_rungs}", range(arguments.seeds)
        settings = {"num_sweeps": arguments.sweeps, "num_rungs": num_rungs}
        rows[name] = repeats.repeat(rbm, base, LOG_Z, seeds, **settings)
        summaries[name] = repeats.summary(rows[name])
        print(name, summaries[name], flush=True)
    repeats.write("figure4", summaries, rows)


if __name__ == "__main__":
    main()
