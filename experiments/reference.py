"""The reference log Z of Salakhutdinov's 784×500 RBM, from runs that are many and long.

    python experiments/reference.py [--seeds 100] [--sweeps 40000] [--try]

100 chains each, by RTS alone. Prints the mean and its error, and writes benchmarks/results/reference.json, unless it is
only tried. `tempering.paper.runs.REFERENCE_500` is this mean, rounded; a test compares them.
"""

import argparse

import numpy as np
import repeats

import tempering as tp

PUBLISHED = 451.28  # by AIS, with an interval from 450.97 to 451.52 (Salakhutdinov and Murray 2008)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--sweeps", type=int, default=40_000)
    parser.add_argument("--try", dest="is_tried", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    seeds = range(10_000, 10_000 + arguments.seeds)  # apart from those of all studies
    runs = list(tp.estimate_many(rbm, base, seeds=seeds, method="rts", num_sweeps=arguments.sweeps))
    values = np.array([run.log_z for run in runs])
    found = {
        "runs": len(runs),
        "sweeps": arguments.sweeps,
        "log_z": float(values.mean()),
        "std_error": float(values.std(ddof=1) / len(values) ** 0.5),
        "published": PUBLISHED,
    }
    print(found)
    rows = [{"seed": run.seed, "log_z": run.log_z, "std_error": run.std_error} for run in runs]
    if not arguments.is_tried:
        repeats.write("reference", {"784×500": found}, {"784×500": rows})


if __name__ == "__main__":
    main()
