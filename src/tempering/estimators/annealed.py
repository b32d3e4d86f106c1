"""Annealed importance sampling: log Z from the weights of annealing passes."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering._logspace import log_mean_exp
from tempering._types import HostPerRung
from tempering.estimators.log_z import LogZ
from tempering.estimators.pareto import heavy_tails
from tempering.estimators.uncertainty import Uncertainty, uncertainty_by_jackknife, uncertainty_of_log_ratio
from tempering.stats import chain_groups
from tempering.verdicts import Finding, Verdict


def ais(log_weights: Float[np.ndarray, "chain rung"], *, log_z_base: float = 0.0) -> LogZ:
    """log of the mean weight at each rung (Neal 2001), eq. 23 with one factor per rung.

    The mean is unbiased, so by Jensen its logarithm errs low on average: a stochastic lower bound, by about half the
    squared standard error, see `biases`. It lies when the weights that carry the mean are too rare to have been drawn:
    the estimate is then many nats low and its error small. `HEAVY_TAILS` sees most of this, not a mode never reached.
    """
    if np.any(log_weights[:, 0] != 0):
        raise InputError("`ais` needs log weights of passes up, 0 at rung 0; take `AnnealWeights.log_weights()`.")
    return from_mean_weights("ais", log_weights, -1, log_z_base)


def from_mean_weights(
    method: str, log_weights: Float[np.ndarray, "chain rung"], far_end: int, log_z_base: float
) -> LogZ:
    """log of the mean weight at each rung, less that at rung 0; `far_end` is the rung where the passes ended."""
    usable = np.where(log_weights < np.inf, log_weights, -np.inf)  # a NaN or infinite weight counts as 0
    findings = (not_finite(log_weights), heavy_tails(usable[:, far_end]))
    return LogZ.from_uncertainty(method, log_z_base + _log_ratios(usable), uncertainty_of_weights(usable), findings)


def uncertainty_of_weights(log_weights: Float[np.ndarray, "chain rung"]) -> Uncertainty:
    """The larger of two errors: by the delta method over chains, and by leaving out a tenth of the chains at a time.

    With honest weights they agree. When a few weights carry the mean, only the second sees that a logarithm is taken.
    """
    by_chain = uncertainty_of_log_ratio(log_weights)
    if len(log_weights) < 2:
        return by_chain
    groups = chain_groups(len(log_weights))
    left_out = np.array([_log_ratios(log_weights[groups != group]) for group in range(groups.max() + 1)])
    by_batch = uncertainty_by_jackknife(_log_ratios(log_weights), left_out)
    dof = by_batch.dof if by_batch.std_error[-1] > by_chain.std_error[-1] else by_chain.dof
    return dataclasses.replace(by_chain, std_error=np.maximum(by_chain.std_error, by_batch.std_error), dof=dof)


def _log_ratios(log_weights: Float[np.ndarray, "chain rung"]) -> HostPerRung:
    log_mean = log_mean_exp(log_weights, axis=0)
    return log_mean - (log_mean[0] if np.isfinite(log_mean[0]) else np.nan)  # no weight at all: there is no answer


def not_finite(log_weights: Float[np.ndarray, "..."]) -> Finding | None:
    """Weights that are NaN or infinite; a weight of 0 is a number like any other."""
    num_bad = int(np.sum(np.any(~(log_weights < np.inf), axis=-1)))
    if num_bad == 0:
        return None
    return Finding(
        Verdict.NONFINITE,
        f"{num_bad} of {log_weights[..., 0].size} passes had a NaN or infinite weight, which counts as 0",
        "check the log density for overflow, log of zero, or weights that are too large",
    )


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
