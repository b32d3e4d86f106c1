"""Bennett's acceptance ratio: the ratio of two Z from draws at both, and log Z as the sum of such ratios."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.estimators._mbar_solver import TINY
from tempering.estimators._pool import Pool, add_by_unit, nonfinite_in_pool
from tempering.estimators.log_z import LogZ
from tempering.estimators.multistate import MAX_CUT_ERROR, Cut, bennett_variance, no_overlap
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.findings import unreached
from tempering.stats import ReducedDraws


def bar(draws: ReducedDraws, lower: int, upper: int) -> LogZ:
    """Bennett's acceptance ratio: log(Z_upper / Z_lower) from the draws at two rungs, eq. 17 with its optimal α.

    It equals MBAR of these two rungs (Bennett 1976).

    Args:
        draws: Kept draws.
        lower: The rung of the denominator.
        upper: The rung of the numerator, above `lower`.

    Returns:
        An answer with two values, 0 for `lower` and the log ratio for `upper`.

    Caveats: If the two rungs share no draws their ratio is unknown, which NO_OVERLAP reports. Otherwise as for `mbar`.
    """
    if not 0 <= lower < upper < draws.num_rungs:
        raise InputError(
            f"`lower` and `upper` must be two rungs of 0 … {draws.num_rungs - 1} in rising order; got {lower}, {upper}."
        )
    pool = Pool.from_draws(draws)
    return _along(pool, np.array([lower, upper]), pool.counts[[lower, upper]])


def bar_chain(draws: ReducedDraws, *, log_z_base: float = 0.0) -> LogZ:
    """log Z along the ladder, as the sum of `bar` between neighbours.

    A draw serves two neighbours, so errors come from the contribution of each chain to the whole sum.

    Args:
        draws: Kept draws.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung; NaN at rungs without draws, which are stepped over.

    Caveats: As for `bar`. `mbar` gives values at rungs without draws too.
    """
    pool = Pool.from_draws(draws)
    answer = _along(pool, np.arange(draws.num_rungs), pool.counts)
    return dataclasses.replace(answer, values=log_z_base + answer.values)


@dataclasses.dataclass(frozen=True)
class _Bridge:
    """One ratio, the contributions of units whose mean is its error, and the overlap of the two rungs."""

    log_ratio: float
    influences: Float[np.ndarray, " unit"]
    cut: Cut


def _along(pool: Pool, rungs: np.ndarray, counts: HostPerRung) -> LogZ:
    """The sum of bridges between the rungs that have draws."""
    has_draws = np.flatnonzero(counts > 0)
    visited = rungs[has_draws]
    bridges = [_bridge(pool, pair) for pair in np.stack([visited[:-1], visited[1:]], axis=1)]
    values, uncertainty = np.full(len(rungs), np.nan), Uncertainty.unknown(len(rungs))
    if counts[0] > 0:
        influences = np.cumsum([np.zeros(pool.num_units), *(b.influences for b in bridges)], axis=0).T
        values[has_draws] = np.cumsum([0.0, *(b.log_ratio for b in bridges)])
        uncertainty = uncertainty_of_mean(influences).placed(has_draws, len(rungs))
        uncertainty.std_error[has_draws] = np.maximum(uncertainty.std_error[has_draws], _error_across_broken(bridges))
    cure = 'draw at every rung, or use `method="mbar"`, which reweights to those without draws'
    empty = unreached(rungs[counts == 0], len(rungs), "have no draws", cure)
    findings = (nonfinite_in_pool(pool), empty, *(no_overlap(b.cut) for b in bridges))
    return LogZ.from_uncertainty("bar", values, uncertainty, findings)


def _bridge(pool: Pool, rungs: Int[np.ndarray, "2"]) -> _Bridge:
    """The log ratio that solves Σ_i p_upper(x_i) = n_upper, whose left side falls with it."""
    from scipy.optimize import root_scalar  # takes long to import

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
    surprise = np.where(is_upper, expit(-logits), -expit(logits)) / max(shared, TINY)
    influence = np.where(is_upper, 1 / counts[1], -1 / counts[0]) - surprise
    variance = bennett_variance(np.array([shared]), counts[:1], counts.sum())[0]
    cut = Cut(int(rungs[0]), int(rungs[1]), float(np.sqrt(variance)), min(1.0, shared * (1 / counts).sum()))
    by_unit = np.zeros((pool.num_units, 1))
    add_by_unit(by_unit, pair.units, (pair.weights * influence)[:, None])
    influences = by_unit[:, 0] * pool.num_units
    return _Bridge(log_ratio, influences, cut.seen_by(influences) if pool.num_units > 1 else cut)


def _error_across_broken(bridges: list[_Bridge]) -> HostPerRung:
    """Bennett's error across rungs that share no draws: the scatter of chains does not show it."""
    errors = np.array([0.0, *(b.cut.std_error for b in bridges)])
    return np.sqrt(np.cumsum(np.where(errors > MAX_CUT_ERROR, errors, 0.0) ** 2))
