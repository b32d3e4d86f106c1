"""From the scatter of independent chains to a standard error, an interval and the bias of a log ratio."""

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, stdtrit

from tempering._types import HostPerRung
from tempering.stats import BlockedStats

_MIN_UNITS = 16  # below this many chains, each is cut into stretches so that a variance can be estimated


@dataclasses.dataclass(frozen=True)
class Spread:
    """Section 2.5 of the paper, for every rung: the error of log ĉ_k − log ĉ_0."""

    std_error: HostPerRung
    bias: HostPerRung  # E[log Ẑ_k] − log Z_k to second order
    dof: int

    def half_width(self, level: float = 0.95) -> HostPerRung:
        """Half of a two-sided Student interval."""
        return interval_half_width(self.std_error, self.dof, level)


def interval_half_width(std_error, dof: int, level: float = 0.95):
    """Student's quantile times the standard error; infinite where no error could be estimated."""
    if dof < 1:
        return np.full(np.shape(std_error), np.inf)
    return stdtrit(dof, 0.5 + level / 2) * np.asarray(std_error)


def spread_of_log_ratio(log_parts: Float[np.ndarray, "unit rung"]) -> Spread:
    """Delta method for log ĉ_k − log ĉ_0, where ĉ is the mean of exp(log_parts) over independent units.

    bias = ½ (σ²_0/ĉ²_0 − σ²_k/ĉ²_k) and Var = σ²_0/ĉ²_0 + σ²_k/ĉ²_k − 2σ_{0k}/(ĉ_0 ĉ_k), eqs. 15 and 16, with σ the
    covariance of the mean over units. It is far too small while the units have not forgotten their start.
    """
    num_units = len(log_parts)
    log_mean = logsumexp(log_parts, axis=0) - np.log(num_units)
    is_known = np.isfinite(log_mean)  # not where no draw was finite
    relative = np.exp(log_parts - np.where(is_known, log_mean, 0.0))  # ĉ_k of each unit / ĉ_k; its mean is 1
    if num_units < 2:
        unknown = np.full(log_parts.shape[1], np.inf)
        return Spread(unknown, np.zeros_like(unknown), 0)
    per_mean = num_units * (num_units - 1)
    variance = ((relative - relative[:, :1]) ** 2).sum(axis=0) / per_mean
    own_variance = ((relative - 1) ** 2).sum(axis=0) / per_mean
    std_error = np.where(is_known & is_known[0], np.sqrt(variance), np.inf)
    return Spread(std_error, (own_variance[0] - own_variance) / 2, num_units - 1)


def spread_by_jackknife(whole: HostPerRung, left_out: Float[np.ndarray, "unit rung"]) -> Spread:
    """The spread of an estimate from its values with one independent unit left out at a time."""
    num_units = len(left_out)
    is_known = np.isfinite(whole) & np.isfinite(left_out).all(axis=0) & (num_units > 1)
    left_out = np.where(is_known, left_out, 0.0)
    scatter = (left_out - left_out.mean(axis=0)) ** 2
    std_error = np.sqrt((num_units - 1) / num_units * scatter.sum(axis=0))
    bias = (num_units - 1) * (left_out.mean(axis=0) - np.where(is_known, whole, 0.0))
    return Spread(np.where(is_known, std_error, np.inf), np.where(is_known, bias, 0.0), num_units - 1)


def independent_parts(stats: BlockedStats) -> Float[np.ndarray, "unit rung"]:
    """log ĉ_k of each independent unit of a run: its chains, or stretches of them when chains are few."""
    stretches = 1 if stats.num_chains >= _MIN_UNITS else min(-(-_MIN_UNITS // stats.num_chains), stats.num_blocks)
    starts = np.arange(stretches) * stats.num_blocks // stretches
    log_sums = np.logaddexp.reduceat(stats.log_sums, starts, axis=1)
    num_draws = np.add.reduceat(stats.num_draws, starts, axis=1)
    # Each unit's share of the whole: units of unequal length weigh by their draws.
    log_parts = log_sums - np.log(num_draws.mean())
    return log_parts.reshape(-1, log_parts.shape[-1])


def drift_between_halves(stats: BlockedStats) -> float:
    """How far log Z of the target moved from the first half of a run to the second, in standard errors.

    Each chain's own change is one observation, so what chains share cancels and their correlation in time counts.
    0 where there are too few chains or blocks to tell.
    """
    middle = stats.num_blocks // 2
    if stats.num_chains < _MIN_UNITS or middle == 0:
        return 0.0
    halves = (stats.log_sums[:, :middle], stats.log_sums[:, middle:])
    influences, log_ratio = [], []
    for half in halves:
        log_parts = np.logaddexp.reduce(half, axis=1)[:, [0, -1]]  # (chain, end)
        log_mean = np.logaddexp.reduce(log_parts, axis=0)
        if not np.all(np.isfinite(log_mean)):
            return 0.0
        relative = np.exp(log_parts - log_mean) * len(log_parts)
        influences.append(relative[:, 1] - relative[:, 0])
        log_ratio.append(log_mean[1] - log_mean[0])
    std_error = np.std(influences[1] - influences[0], ddof=1) / np.sqrt(stats.num_chains)
    return float((log_ratio[1] - log_ratio[0]) / std_error) if std_error > 0 else 0.0
