"""What the weights r_k of the rungs do to RTS on Salakhutdinov's 784×500 RBM: noise against memory of the start.

    python experiments/prior.py [--sweeps 1000] [--seeds 40]

Prints a table and writes benchmarks/results/prior.json. Seeds start at 100, apart from those of the other studies.
"""

import argparse

import repeats
from figure3 import LOG_Z

import tempering as tp

PRIORS = ("uniform", "ends:0.1", "ends:0.2", "ends:0.3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=40)
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    rows, summaries = {}, {}
    for prior in PRIORS:
        seeds = range(100, 100 + arguments.seeds)
        rows[prior] = repeats.repeat(rbm, base, LOG_Z, seeds, num_sweeps=arguments.sweeps, rung_weights=prior)
        summaries[prior] = repeats.summary(rows[prior])
    repeats.print_table(summaries)
    repeats.write("prior", summaries, rows)


if __name__ == "__main__":
    main()
