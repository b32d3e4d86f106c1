"""MNIST on two cores: an RBM of 784 × 500 units by persistent chains, its test likelihood tracked, AIS beside it.

    python experiments/mnist_training.py [--updates 12000] [--out DIR]

CD-1 first, with a large learning rate; then PCD with a small one, so that the tracker's chains can follow.
Prints a table and writes benchmarks/results/mnist_training.json and docs/figures/mnist_training.svg.
"""

import argparse
from pathlib import Path

import learning
import numpy as np
import repeats

import tempering as tp
from tempering.training import RunSettings


def rows_of(name: str) -> np.ndarray:
    return tp.load_data(f"{repeats.DATA / 'mnist_binarized.npz'}:{name}", num_visible=784)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=12_000)
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--pretrain", default="cd1:20000:1e-3")
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--every", type=int, default=50, help="updates between two looks at the likelihood of all rows")
    parser.add_argument("--check", default="ais:2000")
    parser.add_argument("--out", type=Path, help="keep checkpoints there, and go on from them")
    arguments = parser.parse_args()
    train, test = (rows_of(name) for name in ("train_packed", "test_packed"))
    settings = RunSettings(
        num_hidden=500, method="pcd", optimizer="adam", learning_rate=arguments.rate, num_updates=arguments.updates,
        num_chains=100, num_sweeps=5, track_every=arguments.every, alpha=arguments.alpha, check=arguments.check,
        pretrain=arguments.pretrain,
    )  # fmt: skip
    outcome, seconds = learning.learned(train, test, settings, arguments.out, print_every=500)
    summaries = learning.checks(outcome.rows)
    for row in summaries.values():
        row["seconds_in_all"] = seconds
    repeats.print_table(summaries)
    repeats.write("mnist_training", summaries, {"curve": outcome.rows[:: max(1, len(outcome.rows) // 400)]})
    heights = [row["valid"] for row in outcome.rows if row["std_error"] is not None]
    learning.plot(outcome.rows, "mnist_training", "MNIST, 784 × 500 units", low=float(np.quantile(heights, 0.02)))


if __name__ == "__main__":
    main()
