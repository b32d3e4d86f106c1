"""Figure 6 and Appendix E.1: adaptive step sizes against one averaged step, on the mixture of two 10-d normals.

    python experiments/figure6.py [--seeds 20]

Each run is one chain of 10,000 samples. Ẑ, states and step sizes come from a warm-up of its own with 100 chains; the
two ways to step differ in the last stage alone. Coordinates are not rescaled and r_k is uniform, as in the paper.
Prints a table, writes benchmarks/results/figure6.json and docs/figures/figure6.svg.
"""

import argparse
import dataclasses
from typing import Any

import numpy as np
import repeats

import tempering as tp
from tempering.sampling import Stage
from tempering.stats import Keep, Recording

NUM_SAMPLES = 10_000
BETAS = np.concatenate([[0.0], np.geomspace(0.69**12, 1.0, 13)])  # …, 0.33, 0.48, 0.69, 1, as read off the figure


def run(seed: int, *, is_fixed: bool) -> Stage:
    """One chain with steps of one kind."""
    warmup = tp.warmups.Tuned(tp.AnnealedStart(), is_fixed=is_fixed, rescales=False)
    stage = repeats.one_chain(tp.paper_mixture(), seed, BETAS, warmup)
    return repeats.walked(dataclasses.replace(stage, num_steps=NUM_SAMPLES), seed, Keep(features=True, moves=True))


def row(seed: int, stage: Stage) -> dict[str, Any]:
    """How far one run is off at β = 1, and how it moved."""
    recording: Recording = stage.recording
    answer = tp.rts(recording.stats)
    assert recording.moves is not None
    acceptance = recording.moves.acceptance
    return {
        "seed": seed,
        "error": answer.log_z,  # the mixture's own log Z is 0
        "std_error": answer.std_error,
        "round_trips": float(recording.stats.travel.num_crossings.sum() / 2),
        "acceptance_at_base": float(acceptance[0]),
        "acceptance_at_target": float(acceptance[-1]),
        "num_divergent": float(recording.moves.num_divergent.sum()),
    }


def plot(stages: dict[str, Stage], errors: dict[str, list[float]]) -> None:
    """The trace of β and log Z(β) of the first seed, and the errors of all."""
    plt = repeats.pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(8.5, 5.0), width_ratios=(2, 1), layout="constrained")
    truth, shown = exact_log_z(BETAS), range(1, len(BETAS), 3)
    for (name, stage), (trace, curve) in zip(stages.items(), axes, strict=True):
        rungs = stage.recording.features.rungs[0]
        trace.plot(np.arange(len(rungs)) * stage.recording.features.stride, rungs, lw=0.3, color="tab:blue")
        trace.set(title=f"{name} steps", ylabel="β", yticks=shown, xlabel="sample")
        trace.set_yticklabels([f"{BETAS[k]:.2g}" for k in shown])
        for error in errors[name]:
            curve.axhline(error, color="tab:orange", lw=0.4, alpha=0.6)
        answer = tp.rts(stage.recording.stats)
        curve.plot(BETAS, truth, "k-", lw=1, label="exact")
        curve.errorbar(BETAS, answer.values, 2 * answer.std_errors, fmt=".", color="tab:blue", label="RTS ± 2 errors")
        curve.set(xlabel="β", ylabel="log Z(β)")
        curve.set_title("orange: log Z at β = 1, all seeds", fontsize=8)
        curve.legend(fontsize=7)
    repeats.save(figure, "figure6")


def exact_log_z(betas: np.ndarray) -> np.ndarray:
    """log Z(β) of the geometric path from N(0, 30 I) to the mixture: nine dimensions in closed form, one on a grid."""
    grid = np.linspace(-60, 60, 200_001)
    log_base = -0.5 * grid**2 / 30 - 0.5 * np.log(2 * np.pi * 30)
    humps = np.logaddexp(-((grid - 2.5) ** 2), -((grid + 2.5) ** 2)) - np.log(2) - 0.5 * np.log(np.pi)
    mixed = (1 - betas[:, None]) * log_base + betas[:, None] * humps
    peak = mixed.max(axis=1, keepdims=True)
    first = np.log(np.exp(mixed - peak).sum(axis=1) * (grid[1] - grid[0])) + peak[:, 0]
    precision = (1 - betas) / 30 + betas / 0.5
    constants = -0.5 * (1 - betas) * np.log(2 * np.pi * 30) - 0.5 * betas * np.log(2 * np.pi * 0.5)
    return first + 9 * (constants + 0.5 * np.log(2 * np.pi / precision))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    repeats.use_all_cores()
    table, all_rows, firsts, errors = {}, {}, {}, {}
    for name, is_fixed in (("adaptive", False), ("fixed", True)):
        rows = []
        for seed in range(arguments.seeds):
            stage = run(seed, is_fixed=is_fixed)
            firsts.setdefault(name, stage)
            rows.append(row(seed, stage))
        errors[name] = [each["error"] for each in rows]
        off = np.abs(errors[name])
        table[name] = {
            "runs": len(rows),
            "rmse": float(np.sqrt(np.mean(off**2))),
            "within_0.6": int(np.sum(off < 0.6)),
            "worst": float(off.max()),
            "round_trips": float(np.mean([each["round_trips"] for each in rows])),
            "acceptance_at_base": float(np.mean([each["acceptance_at_base"] for each in rows])),
            "acceptance_at_target": float(np.mean([each["acceptance_at_target"] for each in rows])),
        }
        all_rows[name] = rows
    repeats.print_table(table)
    plot(firsts, errors)
    repeats.write("figure6", table, all_rows)


if __name__ == "__main__":
    main()
