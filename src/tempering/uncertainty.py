"""From the scatter of independent chains to a standard error, an interval and the bias of a log ratio."""

import dataclasses

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import stdtrit

from tempering._types import HostPerRung
from tempering.stats import BlockedStats

MIN_UNITS = 16  # below this many chains, each is cut into stretches so that a variance can be estimated


@dataclasses.dataclass(frozen=True)
class Spread:
    """Section 2.5 of the paper, for every rung: the error of log ĉ_k − log ĉ_0."""

    std_error: HostPerRung
    bias: HostPerRung  # E[log Ẑ_k] − log Z_k to second order
    skewness: HostPerRung  # of what each independent unit contributes to the estimate
    dof: int


def interval_around(values, std_error, skewness, dof: int, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a two-sided Student interval, corrected for skewness; infinite where no error could be estimated.

    Units that rarely contribute much make an estimate that is usually too low with an error that is then too small.
    With λ = skewness/√n, Hall's transformation g(T) = T + λT²/3 + λ²T³/27 + λ/6 of the Studentised error T is
    symmetric to second order (Hall 1992), so its inverse at the Student quantiles gives the ends.
    """
    values, std_error = np.asarray(values), np.asarray(std_error)
    if dof < 1:
        return np.full(values.shape, -np.inf), np.full(values.shape, np.inf)
    quantile = stdtrit(dof, 0.5 + level / 2)
    per_root = np.asarray(skewness) / np.sqrt(dof + 1)
    return values - std_error * _unskewed(quantile, per_root), values - std_error * _unskewed(-quantile, per_root)


def _unskewed(x: float, per_root: np.ndarray) -> np.ndarray:
    """The inverse of Hall's g, which is x itself where there is no skewness."""
    safe = np.where(np.abs(per_root) < 1e-9, 1.0, per_root)
    return np.where(safe == per_root, 3 / safe * (np.cbrt(1 + safe * (x - safe / 6)) - 1), x)


def spread_of_log_ratio(log_parts: Float[np.ndarray, "unit rung"]) -> Spread:
    """Delta method for log ĉ_k − log ĉ_0, where ĉ is the mean of exp(log_parts) over independent units.

    bias = ½ (σ²_0/ĉ²_0 − σ²_k/ĉ²_k) and Var = σ²_0/ĉ²_0 + σ²_k/ĉ²_k − 2σ_{0k}/(ĉ_0 ĉ_k), eqs. 15 and 16, with σ the
    covariance of the mean over units. It is far too small while the units have not forgotten their start.
    """
    num_units = len(log_parts)
    if num_units < 2:
        unknown = np.full(log_parts.shape[1], np.inf)
        return Spread(unknown, np.zeros_like(unknown), np.zeros_like(unknown), 0)
    log_sum, relative = _relative_parts(log_parts)
    spread = spread_of_mean(relative - relative[:, :1])  # the influence of each unit on log ĉ_k − log ĉ_0
    own_variance = ((relative - 1) ** 2).sum(axis=0) / (num_units * (num_units - 1))
    is_known = np.isfinite(log_sum) & np.isfinite(log_sum[0])  # not where no draw was finite
    std_error = np.where(is_known, spread.std_error, np.inf)
    return dataclasses.replace(spread, std_error=std_error, bias=(own_variance[0] - own_variance) / 2)


def spread_of_mean(influence: Float[np.ndarray, "unit rung"], bias: HostPerRung | None = None) -> Spread:
    """The spread of an estimate whose error is, to first order, the mean of what independent units contribute."""
    num_units, num_rungs = influence.shape
    bias = np.zeros(num_rungs) if bias is None else bias
    if num_units < 2:
        return Spread(np.full(num_rungs, np.inf), bias, np.zeros(num_rungs), 0)
    centred = influence - influence.mean(axis=0)
    variance = (centred**2).sum(axis=0) / (num_units * (num_units - 1))
    return Spread(np.sqrt(variance), bias, _skewness(centred), num_units - 1)


def _relative_parts(log_parts: Float[np.ndarray, "unit rung"]) -> tuple[HostPerRung, Float[np.ndarray, "unit rung"]]:
    """log of the sum over units, and each unit's part over their mean; 0 where all parts are."""
    log_sum = np.logaddexp.reduce(log_parts, axis=0)
    return log_sum, len(log_parts) * np.exp(log_parts - np.where(np.isfinite(log_sum), log_sum, 0.0))


def _skewness(influence: Float[np.ndarray, "unit rung"]) -> HostPerRung:
    second, third = (influence**2).mean(axis=0), (influence**3).mean(axis=0)
    return np.divide(third, second**1.5, out=np.zeros_like(third), where=second > 0)


def spread_by_jackknife(whole: HostPerRung, left_out: Float[np.ndarray, "unit rung"]) -> Spread:
    """The spread of an estimate from its values with one independent unit left out at a time."""
    num_units = len(left_out)
    is_known = np.isfinite(whole) & np.isfinite(left_out).all(axis=0) & (num_units > 1)
    left_out = np.where(is_known, left_out, 0.0)
    scatter = (left_out - left_out.mean(axis=0)) ** 2
    std_error = np.sqrt((num_units - 1) / num_units * scatter.sum(axis=0))
    bias = (num_units - 1) * (left_out.mean(axis=0) - np.where(is_known, whole, 0.0))
    std_error, bias = np.where(is_known, std_error, np.inf), np.where(is_known, bias, 0.0)
    return Spread(std_error, bias, np.zeros_like(bias), num_units - 1)


def independent_parts(stats: BlockedStats) -> Float[np.ndarray, "unit rung"]:
    """log ĉ_k of each independent unit of a run."""
    # Each unit's share of the whole: units of unequal length weigh by their draws.
    return log_summed_by_unit(stats.log_sums) - np.log(summed_by_unit(stats.num_draws).mean())


def summed_by_unit(array: Shaped[np.ndarray, "chain block *rest"]) -> Shaped[np.ndarray, "unit *rest"]:
    """Sums over each independent unit of a run: its chains, or stretches of them when chains are few."""
    return _reduced_by_unit(np.add, array)


def log_summed_by_unit(array: Shaped[np.ndarray, "chain block *rest"]) -> Shaped[np.ndarray, "unit *rest"]:
    """The same for sums kept by their logarithms."""
    return _reduced_by_unit(np.logaddexp, array)


def _reduced_by_unit(add: np.ufunc, array: np.ndarray) -> np.ndarray:
    num_chains, num_blocks = array.shape[:2]
    stretches = 1 if num_chains >= MIN_UNITS else min(-(-MIN_UNITS // num_chains), num_blocks)
    starts = np.arange(stretches) * num_blocks // stretches
    return add.reduceat(array, starts, axis=1).reshape(-1, *array.shape[2:])


def drift_between_halves(stats: BlockedStats) -> float:
    """How far log Z of the target moved from the first half of a run to the second, in standard errors.

    Each chain's own change is one observation, so what chains share cancels and their correlation in time counts.
    0 where there are too few chains or blocks to tell.
    """
    middle = stats.num_blocks // 2
    if stats.num_chains < MIN_UNITS or middle == 0:
        return 0.0
    changes, log_ratios = [], []
    for half in (stats.log_sums[:, :middle], stats.log_sums[:, middle:]):
        log_sum, relative = _relative_parts(np.logaddexp.reduce(half, axis=1)[:, [0, -1]])
        if not np.all(np.isfinite(log_sum)):
            return 0.0
        changes.append(relative[:, 1] - relative[:, 0])
        log_ratios.append(log_sum[1] - log_sum[0])
    std_error = np.std(changes[1] - changes[0], ddof=1) / np.sqrt(stats.num_chains)
    return float((log_ratios[1] - log_ratios[0]) / std_error) if std_error > 0 else 0.0
