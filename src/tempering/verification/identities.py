"""Estimators without randomness: the exact statistics of an infinitely long run go in, log Z must come out.

Everything that is expected here comes from `enumerated`, which lists all states of a small RBM in float64.
"""

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from tempering.estimators import Adjusted
from tempering.estimators.methods import METHODS, RunKind, TemperedRun
from tempering.estimators.thermodynamic import RULES
from tempering.stats import AnnealWeights, BlockedStats, Recording, ReducedDraws
from tempering.verification import enumerated as exact
from tempering.verification.check import Check, check_equal
from tempering.warmups.self_adjusting import corrected

TOLERANCE = 1e-9
HOW = "exact statistics"
_FINE_BETAS = np.linspace(0, 1, 9)
_LOG_Z_BASE = 2.5  # any will do: it must be added once
_COUNTS = np.array([70.0, 25.0, 45.5])
_OTHER_GUESSES = ([0.0, -2.0, 1.5], [0.0, 4.0, 6.0])


def identities() -> Iterator[Check]:
    """Every method of `METHODS` by name.

    Returns:
        One check for each.
    """
    truth = _LOG_Z_BASE + _relative(exact.log_z(exact.small_path()))
    expected = {name: truth for name in METHODS} | {f"ti_{rule}": _integrated(rule) for rule in RULES}
    expected |= {"ti_rb": _integrated("trapezoid"), "raise": _raised()}
    runs = _runs()
    for name, method in METHODS.items():
        run = runs.get(name, runs[method.kind])
        values = method.answer(run, log_z_base=_LOG_Z_BASE).values
        shown = values if len(values) == len(expected[name]) else values[[0, -1]]  # rules are written out for the ends
        yield check_equal(name, HOW, shown, expected[name], TOLERANCE)


def _runs() -> dict[RunKind | str, Any]:
    """What each kind of run leaves, and what some methods take instead, by name."""
    tempered = TemperedRun(exact.small_path(), _recording(), tuple(_under(guess) for guess in _OTHER_GUESSES))
    steps = dataclasses.replace(_recording(), stats=_with_steps(exact.BETAS, exact.LOG_PRIOR, exact.LOG_Z_GUESS))
    draws = SimpleNamespace(features=SimpleNamespace(reduced_draws=lambda path: _draws()))
    fine = np.log(np.linspace(1, 2, 9) / np.linspace(1, 2, 9).sum())
    slopes = dataclasses.replace(_recording(), stats=_with_steps(_FINE_BETAS, fine, np.sin(np.arange(9.0))))
    by_name = {
        name: TemperedRun(exact.small_path(), steps) for name in ("auto", "stepping_up", "stepping_down", "bridge")
    }
    by_name |= {name: SimpleNamespace(path=None, recording=draws) for name in ("bar", "mbar")}
    by_name |= {name: TemperedRun(exact.small_path(), slopes) for name in METHODS if name.startswith("ti_")}
    return by_name | {
        RunKind.TEMPERED: tempered,
        RunKind.CONTINUOUS: _continuous(),
        RunKind.ANNEALED: AnnealWeights(_passes((0, 1, 2))),
        RunKind.DOWN_FROM_TARGET: AnnealWeights(_passes((2, 1, 0))),
        RunKind.DOWN_FROM_DATA: AnnealWeights(_increments_down()),
        RunKind.SAMS: _adjusted(),
        RunKind.WANG_LANDAU: _adjusted(),
    }


def _recording() -> Recording:
    recording = exact.recording_from_law(exact.small_path())
    # So many visits that the 0.1 which TS adds to each is below rounding.
    return dataclasses.replace(recording, stats=_under(exact.LOG_Z_GUESS))


def _under(log_z_guess: Any) -> BlockedStats:
    return exact.stats_from_law(exact.log_densities(exact.small_path()), log_z_guess=np.asarray(log_z_guess))


def _with_steps(betas: np.ndarray, log_prior: np.ndarray, log_z_guess: np.ndarray) -> BlockedStats:
    path = exact.small_rbm().path(exact.BASE_FREQUENCIES, betas)
    return exact.stats_with_slopes_and_steps(path, log_prior, log_z_guess - log_z_guess[0])


def _relative(log_z: np.ndarray) -> np.ndarray:
    return log_z - log_z[0]


def _integrated(rule: str) -> np.ndarray:
    """∫ E dβ at both ends by the rule, from E and V = dE/dβ by enumeration."""
    path = exact.small_rbm().path(exact.BASE_FREQUENCIES, _FINE_BETAS)
    log_f, (slopes, curvatures) = exact.log_densities(path), exact.slope_laws(path)
    law = np.exp(log_f - np.logaddexp.reduce(log_f, axis=0))
    means = np.sum(law * slopes, axis=0)
    changes = np.sum(law * ((slopes - means) ** 2 + curvatures), axis=0)
    step = _FINE_BETAS[1]
    trapezoid = step * (means.sum() - (means[0] + means[-1]) / 2)
    whole = {
        "riemann": step * means[1:].sum(),
        "trapezoid": trapezoid,
        "simpson": step / 3 * (means[0] + means[-1] + 4 * means[1::2].sum() + 2 * means[2:-1:2].sum()),
        "corrected": trapezoid - step**2 / 12 * (changes[-1] - changes[0]),
    }[rule]
    return _LOG_Z_BASE + np.array([0.0, whole])


def _continuous() -> BlockedStats:
    """With a continuous β, q(β) ∝ Z(β)/Ẑ(β): as a density, with r(β) = 1."""
    stats, guess = _under(exact.LOG_Z_GUESS), exact.LOG_Z_GUESS
    log_density = exact.log_z(exact.small_path()) - guess
    return dataclasses.replace(stats, log_prior=np.zeros(3), log_sums=log_density[None, None])


def _draws() -> ReducedDraws:
    """Every x at every rung with the weight n_k p_k(x); a function of x alone is added to log f, as it may be."""
    log_f = exact.log_densities(exact.small_path())
    law = np.exp(log_f - np.logaddexp.reduce(log_f, axis=0))
    num_states, num_rungs = log_f.shape
    shifted = log_f + np.linspace(-3, 5, num_states)[:, None]
    rungs = np.repeat(np.arange(num_rungs), num_states)
    draws = ReducedDraws.from_log_densities(np.tile(shifted, (num_rungs, 1)), rungs)
    return dataclasses.replace(draws, weights=(law * _COUNTS).T.reshape(-1, 1))


def _passes(rungs: tuple[int, int, int]) -> np.ndarray:
    """The log weights of every pass over the rungs, each times its probability and their number: means are then E[w].

    Only the move at the middle rung counts. One at the target, from which passes down start, leaves its law as it is.
    """
    log_f, matrix = exact.log_densities(exact.small_path()), exact.gibbs_matrix(exact.small_path(), 1)
    first, middle, last = (log_f[:, rung] for rung in rungs)
    probability = np.exp(first - np.logaddexp.reduce(first))[:, None] * matrix
    to_middle = np.broadcast_to((middle - first)[:, None], matrix.shape) + np.log(probability * matrix.size)
    to_last = np.broadcast_to(last - middle, matrix.shape)
    return np.stack([to_middle.ravel(), to_last.ravel()], axis=1)


def _increments_down() -> np.ndarray:
    """Of one pass from each of a few rows, made up."""
    return np.array([[0.5, -2.0], [1.5, 0.25], [-0.75, 1.0]])


def _raised() -> np.ndarray:
    """RAISE is the mean over rows of log Z_0 − log w, at the middle rung less the second step."""
    first, second = _increments_down().mean(axis=0)
    return _LOG_Z_BASE - np.array([0.0, second, first + second])


def _adjusted() -> Adjusted:
    """Where eq. 19 comes to rest, started from a wrong guess, if ĉ is q(k) exactly."""
    log_f, prior = exact.log_densities(exact.small_path()), np.exp(exact.LOG_PRIOR)
    log_z = exact.LOG_Z_GUESS[None]
    for _ in range(200):
        occupancy = exact.joint_law(log_f, exact.LOG_PRIOR, log_z[0]).sum(axis=0)
        log_z = corrected(log_z, occupancy[None], np.array([[0.8]]), prior)
    groups = np.repeat(log_z, 4, axis=0)
    even = np.tile(100 * prior, (4, 1))
    return Adjusted(groups, groups, even, even, np.ones(4, bool), exact.LOG_PRIOR)
