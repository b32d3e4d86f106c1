"""Expectations under the target from the draws of all rungs (end of Section 2.1)."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering.estimators.uncertainty import interval_around, uncertainty_of_mean
from tempering.stats import HostTargetSums, TargetSums


@dataclasses.dataclass(frozen=True)
class Expectation:
    """E[g(x)] under the target with its error, of the shape that g returns."""

    value: Float[np.ndarray, "*value"]
    std_error: Float[np.ndarray, "*value"]
    interval: tuple[np.ndarray, np.ndarray]  # lower and upper ends, 95 %
    effective_chains: float  # (Σw)²/Σw² of the chains' weights: far fewer than chains means that few saw the target


def expectation(sums: TargetSums | HostTargetSums) -> Expectation:
    """Σ_i q(K−1 | x_i) g(x_i) / Σ_i q(K−1 | x_i): importance sampling from the mixture of all rungs.

    Draws near the target count for nearly all of their weight, draws near the base for next to none, so nothing is
    wasted on the rung that happened to be drawn. The error is that of a ratio, from the scatter of chains.
    """
    sums = sums.on_host()
    weight, total = sums.weight, sums.total.reshape(len(sums.weight), -1)
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # no draw suits the target: there is no answer, and NaN says so
        value = total.sum(axis=0) / weight.sum()
        influence = (total - weight[:, None] * value) / weight.mean()
        effective = float(weight.sum() ** 2 / (weight**2).sum())
    uncertainty = uncertainty_of_mean(influence)
    low, high = interval_around(value, uncertainty.std_error, uncertainty.skewness, uncertainty.dof)
    shape = sums.total.shape[1:]
    value, std_error, low, high = (np.asarray(a).reshape(shape) for a in (value, uncertainty.std_error, low, high))
    return Expectation(value, std_error, (low, high), effective)
