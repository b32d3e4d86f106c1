"""Figure 3 (left) of the paper: RMSE of RTS on Salakhutdinov's 784×500 RBM against the number of sweeps.

    python experiments/figure3.py [--sweeps 1000 3000 10000] [--seeds 50]

The longest runs are made once more with the heavier ends that pay in long runs. Prints a table beside the paper's
values and writes benchmarks/results/figure3.json. log Z = 451.25 is the mean of
40 repeats of 100 chains and 4·10⁴ sweeps (± 0.01); the published value is 451.28.
"""

import argparse

import repeats

import tempering as tp

LOG_Z = 451.25
PAPER = {1000: 0.42, 10_000: 0.11, 100_000: 0.05}  # read off the figure, to about 10 %


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--warmup", default="sequential", choices=["sequential", "annealed", "iterations"])
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz")
    base = repeats.mnist_base()
    rows, summaries = {}, {}
    for sweeps, prior in [*((sweeps, "ends:0.1") for sweeps in arguments.sweeps), (max(arguments.sweeps), "ends:0.2")]:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        name = f"{sweeps} sweeps" if prior == "ends:0.1" else f"{sweeps} sweeps, {prior}"
        rows[name] = repeats.repeat(
            rbm, base, LOG_Z, seeds, num_sweeps=sweeps, warmup=arguments.warmup, rung_weights=prior
        )
        summaries[name] = repeats.summary(rows[name]) | {"paper_rmse": PAPER.get(sweeps)}
    repeats.print_table(summaries)
    repeats.write("figure3" if arguments.warmup == "sequential" else f"figure3_{arguments.warmup}", summaries, rows)


if __name__ == "__main__":
    main()
