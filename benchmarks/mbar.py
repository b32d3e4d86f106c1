"""MBAR beside pymbar and FastMBAR, solving and uncertainties together, and its peak memory at a million draws.

    python benchmarks/mbar.py [--rounds 3]

Independent draws on a geometric path between two Gaussians in 20 dimensions, an equal number at each rung. The packages
take turns, so that a noisy machine disturbs them alike. pymbar runs its default protocol with JAX; its first call
compiles, so that first and later calls are compared apart. FastMBAR runs its default, Newton's method in float64 on the
CPU; where it is not installed its columns are empty. Memory is that of a process of its own. Writes
benchmarks/results/mbar.json.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import turns
from turns import repeats

import tempering as tp
from tempering.estimators import mbar

Solver = Callable[[], tuple[np.ndarray, np.ndarray]]  # log Z at every rung, and errors
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


def energies_of(draws: tp.stats.ReducedDraws) -> tuple[np.ndarray, np.ndarray]:
    """Reduced energies (rung, draw), rungs rising along draws as both others want, and draws of each rung."""
    return -(draws.matrix @ draws.features[:, 0].T), np.bincount(draws.rungs[:, 0])


def with_pymbar(draws: tp.stats.ReducedDraws) -> Solver:
    import pymbar

    reduced, counts = energies_of(draws)

    def call() -> tuple[np.ndarray, np.ndarray]:
        result = pymbar.MBAR(reduced, counts).compute_free_energy_differences()
        return -result["Delta_f"][0], result["dDelta_f"][0]

    return call


def with_fastmbar(draws: tp.stats.ReducedDraws) -> Solver | None:
    try:
        from FastMBAR import FastMBAR
    except ImportError:
        return None
    reduced, counts = energies_of(draws)

    def call() -> tuple[np.ndarray, np.ndarray]:
        result = FastMBAR(reduced, counts, cuda=False)
        return -result.DeltaF[0], result.DeltaF_std[0]

    return call


def with_tempering(draws: tp.stats.ReducedDraws) -> Solver:
    def call() -> tuple[np.ndarray, np.ndarray]:
        answer = mbar(draws)
        assert answer.verdict.is_good, answer.findings
        return answer.values, answer.std_errors

    return call


def compare(num_rungs: int, num_draws: int, rounds: int) -> dict[str, float | None]:
    draws, _ = draws_of(num_rungs, num_draws)
    calls = {"ours": with_tempering(draws), "pymbar": with_pymbar(draws), "fastmbar": with_fastmbar(draws)}
    calls = {name: call for name, call in calls.items() if call is not None}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    answers: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            taken, answers[name] = turns.timed(call)
            seconds[name].append(taken)
    row: dict[str, float | None] = {
        "rungs": num_rungs, "draws": num_draws, "seconds": float(np.median(seconds["ours"][1:])),
    }  # fmt: skip
    for name in ("pymbar", "fastmbar"):
        row |= beside(name, seconds, answers)
    return row


def beside(name: str, seconds: dict[str, list[float]], answers: dict[str, Any]) -> dict[str, float | None]:
    """What the table says of another package, or nothing where it is not installed."""
    if name not in seconds:
        parts = ("seconds", "to_ours_first", "to_ours_later", "largest_difference", "largest_difference_of_errors")
        return {f"{name}_{part}": None for part in parts}
    ratios = np.array(seconds[name]) / np.array(seconds["ours"])
    (values, errors), (their_values, their_errors) = answers["ours"], answers[name]
    return {
        f"{name}_seconds": float(np.median(seconds[name][1:])),
        f"{name}_to_ours_first": float(ratios[0]),
        f"{name}_to_ours_later": float(np.median(ratios[1:])),
        f"{name}_largest_difference": float(np.abs(values - their_values).max()),
        f"{name}_largest_difference_of_errors": float(np.abs(errors - their_errors).max()),
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
    repeats.print_table({f"K = {row['rungs']}": row for row in rows})
    print(f"K = {LARGE[0]}, N = {LARGE[1]}: {peak:.0f} MB at most, {large_seconds:.0f} s with making the data")
    large = {"rungs": LARGE[0], "draws": LARGE[1], "peak_megabytes": peak, "seconds": large_seconds}
    versions = {name: turns.version_of(name) for name in ("pymbar", "FastMBAR")}
    turns.write("mbar", {"versions": versions, "rows": rows, "large": large})


if __name__ == "__main__":
    main()
