"""MNIST on two cores: an RBM of 784 × 500 units by persistent chains, its test likelihood tracked, AIS beside it.

    python experiments/mnist_training.py [--updates 10000] [--out DIR]

Prints a table and writes benchmarks/results/mnist_training.json and docs/figures/mnist_training.svg.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import repeats
from figure5 import plot, summary

import tempering as tp
from tempering.training.session import TrainingRun
from tempering.training.settings import TrainSettings


def rows_of(name: str) -> np.ndarray:
    return tp.load_data(f"{repeats.DATA / 'mnist_binarized.npz'}:{name}", num_visible=784)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--every", type=int, default=10, help="updates between two looks at the likelihood")
    parser.add_argument("--check", default="ais:2500")
    parser.add_argument("--out", type=Path, help="keep checkpoints there, and go on from them")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    train, test = (rows_of(name) for name in ("train_packed", "test_packed"))
    settings = TrainSettings(
        num_hidden=500, method="pcd", optimizer="adam", learning_rate=arguments.rate, num_updates=arguments.updates,
        num_chains=100, num_sweeps=5, track_every=arguments.every, check=arguments.check,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        directory, started = arguments.out or Path(scratch), time.perf_counter()
        with TrainingRun(train, test, settings=settings, directory=directory, resume=True) as run:
            for row in run:
                if row.num_updates % 500 == 0:
                    print(row.num_updates, f"{time.perf_counter() - started:.0f} s", row.to_dict(), flush=True)
            rows = run.outcome().rows
        seconds = time.perf_counter() - started
    summaries = {f"{row['update']} updates": summary(row) for row in rows if "ais_log_z" in row}
    for found in summaries.values():
        found["seconds_in_all"] = seconds
    repeats.print_table(summaries)
    repeats.write("mnist_training", summaries, {"curve": rows[:: max(1, len(rows) // 400)]})
    plot(rows, "mnist_training", "MNIST, 784 × 500 units", low=np.quantile([row["valid"] for row in rows], 0.05))


if __name__ == "__main__":
    main()
