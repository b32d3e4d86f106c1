"""Figure 5 of the paper: the likelihood of an RBM with 180 × 500 units while it learns the dna data, and AIS beside it.

    python experiments/figure5.py [--updates 8000] [--pretrain cd1:500] [--batch 350] [--out DIR]

The paper's settings: RMSspectral with step 1e-5 and λ = 0.99, K = 100, 25 sweeps of 2000 chains between updates,
r_k ∝ exp(2β), α = 0.2; AIS with 10,000 steps and 100 chains after every 500 updates, and after the last a tempered run
of 400,000 sweeps. The paper does not say how large its batches were; here they have 350 rows, a quarter of the data.
Writes benchmarks/results/figure5.json and docs/figures/figure5.svg. About an hour on 2
cores, minutes on a GPU.
"""

import argparse
from pathlib import Path

import learning
import numpy as np
import repeats

import tempering as tp
from tempering.training import RunSettings

PAPER = {500: (-90, -96), 1000: (-82, -91), 2000: (-75, -89), 4000: (-68, -88), 8000: (-53, -91)}  # off the figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=8000)
    parser.add_argument("--pretrain", default="cd1:500")
    parser.add_argument("--batch", type=int, default=350)
    parser.add_argument("--check", default="ais:500")
    parser.add_argument("--chains", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=1e-5)
    parser.add_argument("--long", type=int, default=400_000, help="sweeps of the tempered run after the last update")
    parser.add_argument("--out", type=Path, help="keep checkpoints there, and go on from them")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    with np.load(repeats.DATA / "dna_libsvm.npz") as archive:
        train, valid = archive["train"], archive["valid"]
    settings = RunSettings(
        num_hidden=500, learning_rate=arguments.rate, num_updates=arguments.updates, num_chains=arguments.chains,
        batch_size=arguments.batch, pretrain=arguments.pretrain, check=arguments.check,
    )  # fmt: skip
    outcome, _ = learning.learned(train, valid, settings, arguments.out, print_every=250)
    summaries = learning.checks(outcome.rows)
    for row in summaries.values():
        row["paper_train"], row["paper_valid"] = PAPER.get(row["update"], (None, None))
    repeats.print_table(summaries)
    long = tp.estimate(outcome.rbm, base=train, num_sweeps=arguments.long)
    print(long)
    last = list(summaries.values())[-1]
    found = {"log_z": long.log_z, "std_error": long.std_error, "verdict": long.verdict.label}
    last["long_run"] = {"sweeps": arguments.long} | found
    repeats.write("figure5", summaries, {"curve": outcome.rows[:: max(1, len(outcome.rows) // 800)]})
    learning.plot(outcome.rows, "figure5", "dna, 180 × 500 units", low=-101.0)


if __name__ == "__main__":
    main()
