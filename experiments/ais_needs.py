"""How many sweeps AIS needs for the RMSE of RTS on Salakhutdinov's 784×500 RBM.

    python experiments/ais_needs.py [--steps 1500 4500 10500 30000 120000] [--seeds 50]

Each repeat is 100 passes. Between the lengths that were run, log RMSE is read as linear in log sweeps. The RMSE of RTS
comes from benchmarks/results/figure3.json, its warm-up counted. Writes benchmarks/results/ais_needs.json.
"""

import argparse
import json
from typing import Any

import jax
import numpy as np
import repeats
from figure3 import LOG_Z
from scipy.special import logsumexp

import tempering as tp
from tempering.sampling import Setup, run_chains
from tempering.warmups import AnnealedStart

PASSES = 100  # of one repeat, as many as RTS has chains


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[1500, 4500, 10_500, 30_000, 120_000])
    parser.add_argument("--seeds", type=int, default=50)
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rows, summaries = {}, {}
    for steps in arguments.steps:
        errors = errors_of_ais(steps, arguments.seeds)
        rows[f"{steps} steps"] = [{"seed": seed, "error": float(error)} for seed, error in enumerate(errors)]
        summaries[f"{steps} steps"] = {"steps": steps, "rmse": rmse(errors), "bias": float(errors.mean())}
        print(summaries[f"{steps} steps"], flush=True)
    lengths = [found["steps"] for found in summaries.values()]
    measured = [found["rmse"] for found in summaries.values()]
    for name, found in json.loads((repeats.RESULTS / "figure3.json").read_text())["summaries"].items():
        summaries[f"RTS, {name}"] = needs(found, int(name.split()[0]), lengths, measured)
        print(name, summaries[f"RTS, {name}"], flush=True)
    repeats.write("ais_needs", summaries, rows)


def errors_of_ais(steps: int, num_repeats: int) -> np.ndarray:
    """All passes at once, then as so many repeats."""
    rbm, key = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), jax.random.key(0)
    ladder = tp.Ladder.create(rbm.path(repeats.mnist_base(), np.linspace(0, 1, 100)))
    setup = Setup(key, ladder, rbm.move(), num_repeats * PASSES, num_steps=1)
    stage, log_weights = AnnealedStart(anneal_steps=steps).first(setup), 0.0
    record = stage.empty_record()
    blocks = run_chains(
        key, stage.ladder, stage.kernel, record, stage.states, num_steps=steps, block_steps=stage.block_steps
    )
    for block in blocks:
        log_weights = log_weights + block.record.on_host().log_increments.sum(axis=1)
    by_repeat = np.asarray(log_weights).reshape(num_repeats, PASSES)
    return ladder.path.log_z_base() + logsumexp(by_repeat, axis=1) - np.log(PASSES) - LOG_Z


def needs(rts: dict[str, Any], num_sweeps: int, lengths: list[int], measured: list[float]) -> dict[str, Any]:
    """Where AIS reaches the RMSE of RTS; nothing where it was not run for as long."""
    total, within = num_sweeps + rts["warmup_sweeps"], min(measured) <= rts["rmse"] <= max(measured)
    order = np.argsort(measured)
    needed = np.exp(np.interp(np.log(rts["rmse"]), np.log(measured)[order], np.log(lengths)[order])) if within else None
    return {
        "sweeps": total,
        "rmse": rts["rmse"],
        "ais_sweeps": None if needed is None else float(needed),
        "ais_to_rts": None if needed is None else float(needed / total),
    }


def rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


if __name__ == "__main__":
    main()
