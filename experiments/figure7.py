"""Figure 7 of the paper: a uniform base on Salakhutdinov's 784×500 RBM, and a path of averaged moments as the cure.

    python experiments/figure7.py [--sweeps 10000] [--seeds 6] [--knots 9]

Prints a table and writes benchmarks/results/figure7.json. The knots are trained once; the paper's RMSE at 10⁴ sweeps is
3.5 for RTS and 7 for AIS, read off the figure.
"""

import argparse

import repeats
from figure3 import LOG_Z

import tempering as tp
from tempering.paper.figure7 import AT_THE_KNOT, halves_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--knots", type=int, default=9)
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz")
    model = tp.MomentAveragedRBM.fitted(rbm, "uniform", num_knots=arguments.knots)
    print("largest mismatch of a knot", model.mismatches.max(), flush=True)
    rows, summaries = {}, {}
    start, length = halves_of(arguments.sweeps)  # together as many sweeps as the others have after their warm-ups
    for name, (tempered, base, how) in {
        "geometric": (rbm, "uniform", {"warmup": tp.AnnealedStart(1000, (150,) * 30)}),  # each settling corrects Ẑ
        "geometric, slowed at the knot": (rbm, "uniform", {"warmup": start, "num_sweeps": length, **AT_THE_KNOT}),
        "averaged moments": (model, None, {"warmup": tp.AnnealedStart(1000, (100, 250))}),
    }.items():
        seeds = range(arguments.seeds)
        how = {"num_sweeps": arguments.sweeps} | how
        rows[name] = repeats.repeat(tempered, base, LOG_Z, seeds, **how)
        summaries[name] = repeats.summary(rows[name]) | {
            "sweep_to_geometric": repeats.seconds(rows[name]) / repeats.seconds(rows["geometric"]),
            "round_trips": repeats.median(rows[name], "round_trips"),
            "knot": repeats.median(rows[name], "knot"),
        }
        print(name, summaries[name], flush=True)
    repeats.write("figure7", summaries, rows)


if __name__ == "__main__":
    main()
