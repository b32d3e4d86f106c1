"""Several estimates from the same draws joined to one: weights of least variance, and their disagreements."""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from tempering._logspace import rounding_of
from tempering.estimators.log_z import LogZ, with_error
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.verdicts import Finding, Verdict

MIN_UNITS_FOR_WEIGHTS = 30  # independent units; with fewer, the noise of the weights costs more than they gain
_BY_CHANCE = 1e-4  # the rate at which estimates that agree are said to disagree, all pairs together


@dataclasses.dataclass(frozen=True)
class Combination:
    """Estimates of the same draws, and the weight of each.

    Attributes:
        readings: The estimates, with their influences by unit.
        weights: Their weights, which add up to 1.
        num_chosen: How many weights were chosen from the scatter of units; 1 if none were.
    """

    readings: tuple[LogZ, ...]
    weights: Float[np.ndarray, " reading"]
    num_chosen: int = 1

    @property
    def values(self) -> Float[np.ndarray, " rung"]:
        """The combined estimate at every rung."""
        return sum_of(self.weights, [reading.values for reading in self.readings])

    @property
    def influences(self) -> Float[np.ndarray, "unit rung"]:
        """What each unit contributes to the error of the combined estimate."""
        return sum_of(self.weights, [influences_of(reading) for reading in self.readings])

    @property
    def uncertainty(self) -> Uncertainty:
        """Its uncertainty, with the error that the choice of the weights adds.

        Differences between m readings are m − 1 control variates with mean 0. With n units the scatter about them has
        n − m degrees of freedom, and fitted weights make the variance (n − 2)/(n − m − 1) times as large (Lavenberg
        and Welch 1981).
        """
        bias = sum_of(self.weights, [reading.biases for reading in self.readings])
        uncertainty = uncertainty_of_mean(self.influences, bias)
        n, m = uncertainty.dof + 1, self.num_chosen
        factor = np.sqrt((n - 1) / (n - m) * (n - 2) / (n - m - 1)) if m > 1 else 1.0
        return dataclasses.replace(uncertainty, std_error=factor * uncertainty.std_error, dof=n - m)


def combination(readings: list[LogZ]) -> Combination:
    """The convex combination of least variance at the target, by the scatter of the readings' units.

    Weights may not be negative: readings of the same draws are nearly equal, and large weights of opposite sign would
    magnify errors of second order, which no scatter shows. With fewer than 30 units all weigh the same.

    Args:
        readings: Estimates from the same units.

    Returns:
        The readings with their weights.
    """
    at_target = np.stack([influences_of(reading)[:, -1] for reading in readings], axis=1)  # (unit, reading)
    if len(readings) == 1 or len(at_target) < MIN_UNITS_FOR_WEIGHTS:
        return Combination(tuple(readings), np.full(len(readings), 1 / len(readings)))
    return Combination(tuple(readings), least_variance_weights(at_target), len(readings))


def least_variance_weights(influences: Float[np.ndarray, "unit reading"]) -> Float[np.ndarray, " reading"]:
    """Weights ≥ 0 with sum 1 that minimise the variance of the combined influences.

    The minimum of |Xw|² + (Σw − 1)² over w ≥ 0 is proportional to them: for w = t·u with Σu = 1, the least value over t
    rises with |Xu|². It is the least of the minima without a bound, over all subsets of the readings, that have no
    negative weight: readings are few, and so are subsets.
    """
    centred = influences - influences.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=0).min())
    if scale == 0:  # a reading without error
        return np.eye(centred.shape[1])[int((centred**2).sum(axis=0).argmin())]
    rows, aim = np.vstack([centred / scale, np.ones(centred.shape[1])]), np.append(np.zeros(len(centred)), 1.0)
    best, least = np.zeros(centred.shape[1]), np.inf
    for subset in _subsets(centred.shape[1]):
        weights = np.linalg.lstsq(rows[:, subset], aim)[0]
        misfit = np.sum((rows[:, subset] @ weights - aim) ** 2)
        if np.all(weights >= 0) and misfit < least:
            best, least = np.zeros(centred.shape[1]), misfit
            best[subset] = weights
    return best / best.sum()


def _subsets(number: int) -> list[list[int]]:
    """All subsets of 0 … number − 1 but the empty one; small ones first."""
    return [list(one) for size in range(1, number + 1) for one in itertools.combinations(range(number), size)]


def disagreement(readings: list[LogZ], std_error: float) -> Finding | None:
    """The pair of readings that differ most, if by more than their correlated errors allow and than the answer's error.

    The difference of two readings has its own contribution by each unit, so that its error is known. Biases to second
    order are taken off before. A difference below the standard error of the answer is within what is claimed.
    """
    pairs = list(itertools.combinations(readings, 2))
    worst, worst_pair = 0.0, None
    for pair in pairs:
        difference, error = _difference(*pair)
        allowed = max(error * _threshold(pair[0].dof, len(pairs)), std_error, rounding_of(pair[0].log_z))
        if abs(difference) > max(allowed, worst):
            worst, worst_pair = abs(difference), pair
    return None if worst_pair is None else _disagrees(*worst_pair)


def _difference(one: LogZ, other: LogZ) -> tuple[float, float]:
    """How far the readings of the target differ, and the error of that."""
    by_unit = (influences_of(one) - influences_of(other))[:, -1:]
    difference = (one.values - one.biases - other.values + other.biases)[-1]
    return float(difference), float(uncertainty_of_mean(by_unit).std_error[0])


def _threshold(dof: int, num_pairs: int) -> float:
    """The standard errors that a difference exceeds by chance at the rate `_BY_CHANCE` in any of the pairs."""
    return float(stdtrit(dof, 1 - _BY_CHANCE / (2 * num_pairs))) if dof > 0 else np.inf


def _disagrees(one: LogZ, other: LogZ) -> Finding:
    names = f"log Z of the same draws is {one.log_z:.2f} by {one.method} and {other.log_z:.2f} by {other.method}"
    seen = f"{names}; beyond their biases they differ by {with_error(*_difference(one, other))}"
    cure = f"run more sweeps, or use more rungs, `num_rungs={2 * len(one.values)}`; trust neither until they agree"
    return Finding(Verdict.DISAGREES, seen, cure)


def influences_of(reading: LogZ) -> Float[np.ndarray, "unit rung"]:
    """The influences of an estimate that kept them."""
    if reading.influences is None:
        raise ValueError(f"The estimate by {reading.method} kept no influences, so that it cannot be combined.")
    return reading.influences


def sum_of(weights: Float[np.ndarray, " reading"], arrays: list[np.ndarray]) -> np.ndarray:
    """Σ w_i a_i over the arrays with a weight; one without may be infinite."""
    return np.sum([weight * array for weight, array in zip(weights, arrays, strict=True) if weight > 0], axis=0)
