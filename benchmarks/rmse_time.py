"""Seconds to an RMSE of 0.1 on Salakhutdinov's 784×500 RBM: this package, and the AIS of the package rbms.

    python benchmarks/rmse_time.py [--rounds 6] [--runs 10] [--steps 10000] [--limit 900]

The two take turns, each in a process of its own that uses all cores. Ours is `tp.estimate` with 100 chains, from the
data's frequencies as its base, and as one would ask for it: it goes on until its error is 0.1 and its verdict is good.
rbms anneals from its own base, the model without its weights, in linear steps; it anneals 500 chains at once, which is
faster for each than 100, and every 100 of them are a repeat. The square of the RMSE falls as one over the time, so that
an RMSE r in t seconds means (r / 0.1)² · t seconds to an RMSE of 0.1. For AIS that holds once runs are long: short ones
are worse. Writes benchmarks/results/rmse_time.json.
"""

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
import turns
from scipy.special import logsumexp
from turns import repeats

import tempering as tp
from tempering.paper.runs import REFERENCE_500

TARGET = 0.1  # nats
FILE = repeats.DATA / "rbm_mnist_cd25_500.npz"
CHAINS = 100  # of a repeat
GROUPS = 5  # repeats of rbms in one go
FIRST_SEED = 7700  # not used in development
OURS, THEIRS = f"tempering, until the error is {TARGET}", "rbms' AIS, steps: "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--runs", type=int, default=10, help="of ours, in each round and at each length")
    parser.add_argument("--steps", type=int, nargs="+", default=[10_000], help="of rbms")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which a process is ended")
    parser.add_argument("--alone", nargs=4, metavar=("WHO", "LENGTH", "RUNS", "SEED"), help="print runs as JSON")
    asked = parser.parse_args()
    if asked.alone:
        {"ours": print_ours, "rbms": print_rbms}[asked.alone[0]](*map(int, asked.alone[1:]))
        turns.print_code()
        return
    settings = {OURS: ("ours", 0), **{THEIRS + str(length): ("rbms", length) for length in asked.steps}}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in settings}
    why: dict[str, str] = {}
    for number in range(asked.rounds):
        for name, (who, length) in settings.items():
            found, reason = part(who, length, asked.runs, FIRST_SEED + number * asked.runs, asked.limit)
            rows[name] += found
            why |= {} if reason is None else {name: reason}
    summaries = {name: summary(found) if found else {"why": why[name]} for name, found in rows.items()}
    for name, found in summaries.items():
        print(name, found, flush=True)
    told = {"target": TARGET, "ratio": ratio(rows, asked), "why": why, "summaries": summaries, "rows": rows}
    turns.write("rmse_time", told | {"versions": {name: turns.version_of(name) for name in ("rbms", "torch")}})
    print(told["ratio"])


def part(who: str, length: int, runs: int, seed: int, limit: float) -> tuple[list[dict[str, Any]], str | None]:
    """The runs of one process, and why there are no more."""
    if who == "rbms" and turns.version_of("rbms") is None:
        return [], "not installed"
    return turns.alone(sys.argv[0], ["--alone", who, str(length), str(runs), str(seed)], limit)


def print_ours(_: int, num_runs: int, first_seed: int) -> None:
    repeats.use_all_cores()
    rbm, base = tp.load(FILE), repeats.mnist_base()
    for seed in range(first_seed, first_seed + num_runs):
        seconds, found = turns.timed(lambda seed=seed: tp.estimate(rbm, base, target_error=TARGET, seed=seed))
        row = {"error": found.log_z - REFERENCE_500, "seconds": seconds, "compiles": seed == first_seed}
        row |= {"sweeps": found.num_sweeps, "std_error": found.std_error, "verdict": found.verdict.label}
        print(json.dumps(row), flush=True)


def print_rbms(num_steps: int, num_runs: int, seed: int) -> None:
    """GROUPS repeats at once, whatever the number of runs that was asked of ours."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM

    weights, vbias, hbias = (torch.tensor(np.array(a), dtype=torch.float32) for a in tp.load(FILE).on_host())
    torch.manual_seed(seed)
    started = time.perf_counter()
    found = annealed_log_z(BBRBM(weight_matrix=weights, vbias=vbias, hbias=hbias), num_steps, GROUPS)
    seconds = (time.perf_counter() - started) / GROUPS
    for log_z in found:
        print(json.dumps({"error": float(log_z) - REFERENCE_500, "seconds": seconds, "compiles": False}), flush=True)


def annealed_log_z(params: Any, num_steps: int, num_groups: int) -> np.ndarray:
    """log Z of each group of 100 chains: `compute_partition_function_ais` of rbms, which gives one number for all."""
    import torch
    from rbms.partition_function.ais import interpolate_ebm, update_weights_ais

    start = params.independent_model()
    chains = start.init_chains(num_samples=num_groups * CHAINS)
    models = interpolate_ebm(start, params, steps=torch.linspace(start=0, end=1, steps=num_steps))
    log_weights, current = torch.zeros(num_groups * CHAINS), next(models)
    for following in models:
        before, current = current.clone(), following
        log_weights, chains = update_weights_ais(before, current, chains, log_weights)
    by_group = log_weights.double().numpy().reshape(num_groups, CHAINS)
    return logsumexp(by_group, axis=1) - np.log(CHAINS) + params.ref_log_z()


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the runs of one length."""
    errors = np.array([row["error"] for row in rows])
    later = [row["seconds"] for row in rows if not row["compiles"]]
    first = [row["seconds"] for row in rows if row["compiles"]]
    return {
        "runs": len(rows),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "bias": float(errors.mean()),
        "seconds": float(np.median(later)),
        "first_seconds": float(np.median(first)) if first else None,
        "seconds_to_target": to_target(errors, later),
    }


def to_target(errors: np.ndarray, seconds: list[float]) -> float:
    """The square of the RMSE falls as one over the time."""
    return float(np.median(seconds) * np.mean(errors**2) / TARGET**2)


def ratio(rows: dict[str, list[dict[str, Any]]], asked: argparse.Namespace) -> dict[str, float] | None:
    """How many times as long rbms takes, by its longest runs, and 90 % of what resampled runs give."""
    longest = [rows[OURS], rows[THEIRS + str(max(asked.steps))]]
    if not all(longest):
        return None
    errors = [np.array([row["error"] for row in part]) for part in longest]
    seconds = [[row["seconds"] for row in part if not row["compiles"]] for part in longest]
    ours, theirs = (to_target(e, s) for e, s in zip(errors, seconds, strict=True))
    rng = np.random.default_rng(0)
    again = [[to_target(rng.choice(e, len(e)), s) for e, s in zip(errors, seconds, strict=True)] for _ in range(2000)]
    low, high = np.quantile([b / a for a, b in again], [0.05, 0.95])
    return {"value": theirs / ours, "low": float(low), "high": float(high)}


if __name__ == "__main__":
    main()
