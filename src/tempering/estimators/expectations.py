"""Expectations under the target from the draws of all rungs (end of Section 2.1)."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering.estimators.log_z import with_error
from tempering.estimators.uncertainty import interval_around, uncertainty_of_mean
from tempering.stats import HostTargetSums, TargetSums


@dataclasses.dataclass(frozen=True)
class Expectation:
    """E[g(x)] under the target with its error; arrays have the shape that g returns.

    Attributes:
        value: The expectation.
        std_error: Its standard error.
        interval: The lower and upper ends of its 95 % interval.
        effective_chains: (Σw)²/Σw² of the chains' weights; if it is far below their number, few reached the target.
    """

    value: Float[np.ndarray, "*value"]
    std_error: Float[np.ndarray, "*value"]
    interval: tuple[np.ndarray, np.ndarray]
    effective_chains: float

    def __repr__(self) -> str:
        if self.value.ndim == 0:
            return f"E[g(x)] = {with_error(float(self.value), float(self.std_error))}"
        return f"E[g(x)] of shape {self.value.shape}, largest standard error {self.std_error.max(initial=0.0):.2g}"


def expectation(sums: TargetSums | HostTargetSums) -> Expectation:
    """E[g(x)] = Σ_i q(K−1 | x_i) g(x_i) / Σ_i q(K−1 | x_i), importance sampling from the mixture of all rungs.

    Every draw counts with the probability that it belongs to the target, whatever its rung (end of Section 2.1). The
    error is that of a ratio, from the scatter of chains.

    ```python
    mean = tp.estimators.expectation(result.recording.target)
    mean.value, mean.std_error
    ```

    Args:
        sums: Weighted sums of g(x), kept by `tp.stats.Keep(expect=g)` or `tp.estimate(model, expect=g)`.

    Returns:
        The expectation; NaN if no draw has any weight at the target.
    """
    sums = sums.on_host()
    weight, total = sums.weight, sums.total.reshape(len(sums.weight), -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = total.sum(axis=0) / weight.sum()
        influence = (total - weight[:, None] * value) / weight.mean()
        effective = float(weight.sum() ** 2 / (weight**2).sum())
    uncertainty = uncertainty_of_mean(influence)
    low, high = interval_around(value, uncertainty.std_error, uncertainty.skewness, uncertainty.dof)
    shape = sums.total.shape[1:]
    value, std_error, low, high = (np.asarray(a).reshape(shape) for a in (value, uncertainty.std_error, low, high))
    return Expectation(value, std_error, (low, high), effective)
