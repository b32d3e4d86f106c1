"""MBAR beside pymbar, solving and uncertainties together, and its peak memory at a million draws.

    python benchmarks/mbar.py [--rounds 3]

Independent draws on a geometric path between two Gaussians in 20 dimensions, an equal number at each rung. The two take
turns, so that a noisy machine disturbs them alike; pymbar runs its default protocol with JAX. Its first call compiles,
so that first and later calls are compared apart. Memory is that of a process of its own. Writes
benchmarks/results/mbar.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tempering as tp
from tempering.estimators import mbar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

SIZES = ((100, 10_000), (300, 30_000))  # rungs, draws
LARGE = (300, 1_000_000)
DIMENSIONS, PRECISION = 20, 30.0  # of the target; the base is the standard Gaussian


def draws_of(num_rungs: int, num_draws: int) -> tuple[tp.stats.ReducedDraws, np.ndarray]:
    """Draws by their Δ = −(precision − 1)|x|²/2, and log Z."""
    betas = np.linspace(0, 1, num_rungs)
    rungs = np.arange(num_draws) * num_rungs // num_draws
    precisions = 1 + betas * (PRECISION - 1)
    squares = np.random.default_rng(0).chisquare(DIMENSIONS, num_draws) / precisions[rungs]
    delta = -(PRECISION - 1) / 2 * squares
    return tp.stats.ReducedDraws.on_geometric_path(delta, betas, rungs), -DIMENSIONS / 2 * np.log(precisions)


def with_pymbar(draws: tp.stats.ReducedDraws) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    import pymbar

    reduced = -(draws.matrix @ draws.features[:, 0].T)  # (rung, draw), rungs rising along draws as pymbar wants
    counts = np.bincount(draws.rungs[:, 0])

    def call() -> tuple[np.ndarray, np.ndarray]:
        result = pymbar.MBAR(reduced, counts).compute_free_energy_differences()
        return -result["Delta_f"][0], result["dDelta_f"][0]

    return call


def with_tempering(draws: tp.stats.ReducedDraws) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def call() -> tuple[np.ndarray, np.ndarray]:
        answer = mbar(draws)
        assert answer.verdict.is_good, answer.findings
        return answer.values, answer.std_errors

    return call


def timed(call: Callable) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


def compare(num_rungs: int, num_draws: int, rounds: int) -> dict[str, float]:
    draws, _ = draws_of(num_rungs, num_draws)
    ours, theirs = with_tempering(draws), with_pymbar(draws)
    seconds = np.empty((rounds + 1, 2))
    for i in range(rounds + 1):
        seconds[i, 0], (values, errors) = timed(ours)
        seconds[i, 1], (their_values, their_errors) = timed(theirs)
    ratios = seconds[:, 1] / seconds[:, 0]
    return {
        "rungs": num_rungs,
        "draws": num_draws,
        "seconds": float(np.median(seconds[1:, 0])),
        "pymbar_seconds": float(np.median(seconds[1:, 1])),
        "pymbar_to_ours_first": float(ratios[0]),
        "pymbar_to_ours_later": float(np.median(ratios[1:])),
        "largest_difference": float(np.abs(values - their_values).max()),
        "largest_difference_of_errors": float(np.abs(errors - their_errors).max()),
    }


def peak_megabytes() -> float:
    """The largest resident set of a process that makes the large data set and solves it."""
    process = subprocess.Popen([sys.executable, __file__, "--large"])
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("the large data set was not solved")
    return usage.ru_maxrss / 1024


def solve_large() -> None:
    draws, log_z = draws_of(*LARGE)
    answer = mbar(draws)
    assert answer.verdict.is_good, answer.findings
    print(
        f"K = {LARGE[0]}, N = {LARGE[1]}: off by {answer.log_z - log_z[-1]:+.4f} ± {answer.std_error:.4f}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="only solve the large data set")
    arguments = parser.parse_args()
    if arguments.large:
        solve_large()
        return
    start = time.perf_counter()
    peak = peak_megabytes()
    large_seconds = time.perf_counter() - start
    rows = [compare(*size, arguments.rounds) for size in SIZES]
    print("| K | N | s | pymbar's s | × first call | × later calls | difference |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        print(
            f"| {row['rungs']} | {row['draws']} | {row['seconds']:.2f} | {row['pymbar_seconds']:.2f} | "
            f"{row['pymbar_to_ours_first']:.1f} | {row['pymbar_to_ours_later']:.1f} | {row['largest_difference']:.0e} |"
        )
    print(f"K = {LARGE[0]}, N = {LARGE[1]}: {peak:.0f} MB at most, {large_seconds:.0f} s with making the data")
    content = {
        "about": repeats.about(),
        "rows": rows,
        "large": {"rungs": LARGE[0], "draws": LARGE[1], "peak_megabytes": peak, "seconds": large_seconds},
    }
    repeats.RESULTS.mkdir(parents=True, exist_ok=True)
    (repeats.RESULTS / "mbar.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
