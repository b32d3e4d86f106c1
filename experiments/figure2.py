"""Figure 2: RTS, MBAR and thermodynamic integration on the mixture of two 10-d normals, against the number of samples.

    python experiments/figure2.py [--seeds 100]

Each run is one chain after a warm-up of its own with 100 chains, on 200 rungs that the warm-up spaces; all methods read
the same draws. Prints a table, writes benchmarks/results/figure2.json and docs/figures/figure2.svg.
"""

import argparse
import dataclasses
from typing import Any

import numpy as np
import repeats

import tempering as tp
from tempering.estimators.methods import METHODS, TemperedRun
from tempering.ladder import power_betas
from tempering.stats import Keep

NUM_SAMPLES = (1100, 2000, 4000)
NUM_RUNGS = 200
# log RMSE at these numbers of samples, read off the published figure (natural logarithm).
PUBLISHED = {
    "rts": (0.2, -0.5, -0.85),
    "mbar": (0.1, -0.6, -0.93),
    "ti_corrected": (0.2, -0.5, -0.95),
    "ti_trapezoid": (0.35, -0.25, -0.55),
    "ti_riemann": (0.35, -0.25, -0.55),
    "ti_rb": (0.35, -0.25, -0.55),
}


def answers(seed: int) -> dict[str, list[float]]:
    """log Z by each method after each number of samples; the truth is 0."""
    warmup = tp.warmups.Tuned(tp.AnnealedStart(respaces=True))
    stage = repeats.one_chain(tp.paper_mixture(), seed, power_betas(NUM_RUNGS), warmup)
    found: dict[str, list[float]] = {name: [] for name in PUBLISHED}
    for num_samples in NUM_SAMPLES:
        stage = repeats.walked(
            dataclasses.replace(stage, num_steps=num_samples), seed, Keep(slopes=True, features=True)
        )
        run = TemperedRun(stage.ladder.path, stage.recording)
        for name in PUBLISHED:
            found[name].append(METHODS[name].answer(run, log_z_base=0.0).log_z)
    return found


def plot(log_rmse: dict[str, list[float]]) -> None:
    """Ours against the published curves."""
    plt = repeats.pyplot()
    figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for name, values in log_rmse.items():
        (line,) = axes.plot(NUM_SAMPLES, values, "o-", ms=4, label=name)
        axes.plot(NUM_SAMPLES, PUBLISHED[name], ":", color=line.get_color(), lw=1)
    axes.set(xlabel="samples of one chain", ylabel="log RMSE", title="Two 10-d normals; dotted: as published")
    axes.legend(fontsize=7)
    repeats.save(figure, "figure2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    arguments = parser.parse_args()
    repeats.use_all_cores()
    runs = [answers(seed) for seed in range(arguments.seeds)]
    errors = {name: np.array([run[name] for run in runs]) for name in PUBLISHED}  # (run, number of samples)
    log_rmse = {name: np.log(np.sqrt(np.mean(each**2, axis=0))).tolist() for name, each in errors.items()}
    table: dict[str, dict[str, Any]] = {}
    for name, values in log_rmse.items():
        table[name] = {"runs": len(runs)}
        for i, num_samples in enumerate(NUM_SAMPLES):
            table[name] |= {f"log_rmse_{num_samples}": values[i], f"published_{num_samples}": PUBLISHED[name][i]}
        table[name]["bias_4000"] = float(errors[name][:, -1].mean())
    repeats.print_table(table)
    plot(log_rmse)
    repeats.write("figure2", table, {name: errors[name].tolist() for name in errors})


if __name__ == "__main__":
    main()
