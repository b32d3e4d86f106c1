"""MNIST RBMs with 10, 15 and 20 hidden units, whose log Z is exact: error and coverage over seeds.

    python experiments/small_rbms.py [--sweeps 2000] [--seeds 20] [--warmup sequential|annealed|iterations]

Prints a table and writes benchmarks/results/small_rbms.json.
"""

import argparse

import repeats

import tempering as tp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--warmup", default="sequential", choices=["sequential", "annealed", "iterations"])
    arguments = parser.parse_args()
    repeats.use_all_cores()
    base = repeats.mnist_base()
    rows, summaries = {}, {}
    for num_hidden in (10, 15, 20):
        rbm = tp.load(f"{repeats.DATA / 'rbm_mnist_small.npz'}:{num_hidden}")
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        name = f"784×{num_hidden}"
        rows[name] = repeats.repeat(
            rbm, base, rbm.exact_log_z(), seeds, num_sweeps=arguments.sweeps, warmup=arguments.warmup
        )
        summaries[name] = repeats.summary(rows[name])
    repeats.print_table(summaries)
    name = "small_rbms" if arguments.warmup == "sequential" else f"small_rbms_{arguments.warmup}"
    repeats.write(name, summaries, rows)


if __name__ == "__main__":
    main()
