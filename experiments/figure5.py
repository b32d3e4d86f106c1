"""Figure 5 of the paper: the likelihood of an RBM with 180 × 500 units while it learns the dna data, and AIS beside it.

    python experiments/figure5.py [--updates 8000] [--pretrain cd1:500] [--batch 350] [--out DIR]

The paper's settings: RMSspectral with step 1e-5 and λ = 0.99, K = 100, 25 sweeps of 2000 chains between updates,
r_k ∝ exp(2β), α = 0.2; AIS with 10,000 steps and 100 chains after every 500 updates, and after the last a tempered run
of 400,000 sweeps. The paper does not say how large its batches were: with 350 rows, a quarter of the data, the curve
climbs as fast as the paper's. Writes benchmarks/results/figure5.json and docs/figures/figure5.svg. About an hour on 2
cores, minutes on a GPU.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import repeats

import tempering as tp
from tempering.training.session import TrainingRun
from tempering.training.settings import TrainSettings

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
    settings = TrainSettings(
        num_hidden=500, learning_rate=arguments.rate, num_updates=arguments.updates, num_chains=arguments.chains,
        batch_size=arguments.batch, pretrain=arguments.pretrain, check=arguments.check,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        directory, started = arguments.out or Path(scratch), time.perf_counter()
        with TrainingRun(train, valid, settings=settings, directory=directory, resume=True) as run:
            for row in run:
                if row.num_updates % 250 == 0:
                    print(row.num_updates, f"{time.perf_counter() - started:.0f} s", row.to_dict(), flush=True)
            outcome = run.outcome()
    rows = outcome.rows
    checked = [summary(row) for row in rows if "ais_log_z" in row]
    summaries = {f"{row['update']} updates": row for row in checked}
    repeats.print_table(summaries)
    long = tp.estimate(outcome.rbm, base=train, num_sweeps=arguments.long)
    print(long.summary())
    long_run = {"sweeps": arguments.long, "log_z": long.log_z, "std_error": long.std_error}
    summaries[f"{checked[-1]['update']} updates"] |= {"log_z": rows[-1]["log_z"], "long_run": long_run}
    repeats.write("figure5", summaries, {"curve": rows[:: max(1, len(rows) // 800)]})
    plot(rows, "figure5", "dna, 180 × 500 units", low=-101.0)


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """A line of the table: AIS against the tracked log Z."""
    off = row["ais_log_z"] - row["log_z"]
    error = float(np.hypot(row["ais_std_error"], row["std_error"]))
    paper = PAPER.get(row["update"], (None, None))
    return {
        "update": row["update"],
        "train": row["train"],
        "paper_train": paper[0],
        "valid": row["valid"],
        "paper_valid": paper[1],
        "band": row["train_high"] - row["train"],
        "ais_minus_tracked": off,
        "combined_error": error,
        "agrees": bool(abs(off) < max(1.0, 3 * error)),
        "verdict": row["verdict"],
    }


def plot(rows: list[dict[str, Any]], name: str, title: str, low: float) -> None:
    """The likelihoods with their bands, and what AIS says of them."""
    plt = repeats.pyplot()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    rows = [row for row in rows if row["std_error"] is not None]
    updates = [row["update"] for row in rows]
    for part, color in (("train", "C0"), ("valid", "C1")):
        axes.plot(updates, [row[part] for row in rows], color=color, label=f"{part}, tracked", linewidth=1)
        band = ([row[f"{part}_{end}"] for row in rows] for end in ("low", "high"))
        axes.fill_between(updates, *band, color=color, alpha=0.3, linewidth=0)
        checked = [row for row in rows if "ais_log_z" in row]
        heights = [row[part] + row["log_z"] - row["ais_log_z"] for row in checked]
        axes.errorbar(
            [row["update"] for row in checked], heights, [2 * row["ais_std_error"] for row in checked],
            fmt="o", color=color, mfc="none", markersize=5, label=f"{part}, AIS",
        )  # fmt: skip
    axes.set(xlabel="updates", ylabel="mean log p(v), nats", title=title, ylim=(low, None))
    axes.legend()
    repeats.save(figure, name)


if __name__ == "__main__":
    main()
