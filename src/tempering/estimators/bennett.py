"""Bennett's acceptance ratio: the ratio of two Z from draws at both, and log Z along a ladder of such ratios."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import root_scalar
from scipy.special import expit

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.estimators._pool import Pool, nonfinite
from tempering.estimators.log_z import LogZ
from tempering.estimators.multistate import MAX_CUT_ERROR, Cut, bennett_variance, no_overlap
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.stats import ReducedDraws
from tempering.verdicts import Finding, Verdict

_TINY = 1e-300


def bar(draws: ReducedDraws, lower: int, upper: int) -> LogZ:
    """log(Z_upper / Z_lower) from the draws at these two rungs (Bennett 1976): eq. 17 with its optimal α.

    The answer has two values, 0 for `lower` and the ratio for `upper`. It is MBAR of two rungs, found as the root of
    one falling function. It lies where the two share no draws, and says so; otherwise as `mbar` does.
    """
    if not 0 <= lower < upper < draws.num_rungs:
        raise InputError(
            f"`lower` and `upper` must be two rungs of 0 … {draws.num_rungs - 1} in rising order; got {lower}, {upper}."
        )
    pool = Pool.from_draws(draws)
    return _along(pool, np.array([lower, upper]), pool.counts[[lower, upper]])


def bar_chain(draws: ReducedDraws, *, log_z_base: float = 0.0) -> LogZ:
    """log Z along the ladder, as the sum of `bar` between neighbours.

    A draw serves two neighbours, so errors are taken from what each chain (or stretch, or group) contributes to the
    whole sum. A rung without draws is stepped over and has no answer; MBAR reweights to it.
    """
    pool = Pool.from_draws(draws)
    answer = _along(pool, np.arange(draws.num_rungs), pool.counts)
    return dataclasses.replace(answer, values=log_z_base + answer.values)


@dataclasses.dataclass(frozen=True)
class _Bridge:
    """One ratio, what each unit contributes to its error, and how well the two rungs are joined."""

    log_ratio: float
    influences: Float[np.ndarray, " unit"]  # their mean is its error to first order
    cut: Cut


def _along(pool: Pool, rungs: np.ndarray, counts: HostPerRung) -> LogZ:
    """Bridges between those of the rungs that have draws, added up."""
    has_draws = np.flatnonzero(counts > 0)
    visited = rungs[has_draws]
    bridges = [_bridge(pool, pair) for pair in np.stack([visited[:-1], visited[1:]], axis=1)]
    values, std_errors = np.full(len(rungs), np.nan), np.full(len(rungs), np.inf)
    bias, skewness, dof = np.zeros(len(rungs)), np.zeros(len(rungs)), 0
    if counts[0] > 0:
        influences = np.cumsum([np.zeros(pool.num_units), *(b.influences for b in bridges)], axis=0).T
        uncertainty = uncertainty_of_mean(influences)
        values[has_draws] = np.cumsum([0.0, *(b.log_ratio for b in bridges)])
        std_errors[has_draws] = np.maximum(uncertainty.std_error, _error_across_broken(bridges))
        skewness[has_draws], dof = uncertainty.skewness, uncertainty.dof
    findings = (nonfinite(pool), _unreached(rungs, counts), *(no_overlap(b.cut) for b in bridges))
    return LogZ.from_uncertainty("bar", values, Uncertainty(std_errors, bias, skewness, dof), findings)


def _bridge(pool: Pool, rungs: Int[np.ndarray, "2"]) -> _Bridge:
    """The root of Σ_i p_upper(x_i) = n_upper, which falls with log(Z_upper/Z_lower), and what follows at it."""
    pair = pool.restricted_to(rungs)
    log_steps = pair.features.astype(np.float64) @ (pair.matrix[1] - pair.matrix[0])  # log f_upper/f_lower
    counts = pair.counts
    log_odds = np.log(counts[1] / counts[0])

    def excess(log_ratio: float) -> float:
        return float(pair.weights @ expit(log_steps - log_ratio + log_odds) - counts[1])

    # At the largest step no draw is likelier than n_upper/N to be at `upper`, at the smallest none is less likely.
    ends = (log_steps.min() - 1.0, log_steps.max() + 1.0)
    log_ratio = float(root_scalar(excess, bracket=ends, method="brentq", xtol=1e-13, maxiter=1000).root)
    logits = log_steps - log_ratio + log_odds
    is_upper = pair.rungs == 1
    shared = float(pair.weights @ (expit(logits) * expit(-logits)))
    # The derivative by weight: 1{upper}/n_upper − 1{lower}/n_lower − (1{upper} − p_upper)/Σ p_lower p_upper.
    surprise = np.where(is_upper, expit(-logits), -expit(logits)) / max(shared, _TINY)
    influence = np.where(is_upper, 1 / counts[1], -1 / counts[0]) - surprise
    variance = bennett_variance(np.array([shared]), counts[:1], counts.sum())[0]
    cut = Cut(int(rungs[0]), int(rungs[1]), float(np.sqrt(variance)), min(1.0, shared * (1 / counts).sum()))
    by_unit = pair.summed_by_unit(influence[:, None])[:, 0] * pool.num_units
    return _Bridge(log_ratio, by_unit, cut.seen_by(by_unit) if pool.num_units > 1 else cut)


def _error_across_broken(bridges: list[_Bridge]) -> HostPerRung:
    """Rungs that share nothing leave no scatter to see, so that the error across them is at least Bennett's."""
    errors = np.array([0.0, *(b.cut.std_error for b in bridges)])
    return np.sqrt(np.cumsum(np.where(errors > MAX_CUT_ERROR, errors, 0.0) ** 2))


def _unreached(rungs: np.ndarray, counts: HostPerRung) -> Finding | None:
    empty = rungs[counts == 0]
    if len(empty) == 0:
        return None
    return Finding(
        Verdict.UNREACHED,
        f"{len(empty)} of {len(rungs)} rungs have no draws, the first of them rung {empty[0]}",
        "draw at every rung, or use MBAR, which reweights to those without draws",
    )
