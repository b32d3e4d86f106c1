"""Annealed importance sampling: log Z from the weights of annealing passes."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._logspace import log_mean_exp
from tempering.estimators.logz import LogZ
from tempering.uncertainty import spread_of_log_ratio


def ais(log_weights: Float[np.ndarray, "chain rung"], *, log_z_base: float = 0.0) -> LogZ:
    """log of the mean weight at each rung (Neal 2001). The mean is unbiased, so its logarithm errs low."""
    values = log_z_base + log_mean_exp(log_weights, axis=0)
    return LogZ.from_spread("ais", values, spread_of_log_ratio(log_weights))


@dataclasses.dataclass(frozen=True)
class Annealed:
    """What an annealing pass says of log Z by itself, kept beside the answer as an independent check."""

    log_z: float
    std_error: float
    log_weight_variance: float

    @classmethod
    def from_weights(cls, log_weights: Float[np.ndarray, "chain rung"], log_z_base: float) -> "Annealed":
        """The summary of a pass at the target."""
        answer = ais(log_weights, log_z_base=log_z_base)
        return cls(answer.log_z, answer.std_error, float(np.var(log_weights[:, -1])))

    def disagreement(self, answer: LogZ) -> float:
        """Standard errors between this check and an answer, after what annealing may hide is allowed for.

        Weights whose logarithms scatter by σ may miss as much as σ²/2 on the low side.
        """
        gap = answer.log_z - self.log_z
        excused = min(max(gap, 0.0), self.log_weight_variance / 2)
        return float(abs(gap - excused) / np.hypot(answer.std_error, self.std_error))
