"""Annealed importance sampling: log Z from the weights of annealing passes."""

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri, stdtrit

from tempering._errors import InputError
from tempering._logspace import log_mean_exp, rounding_of
from tempering._types import HostPerRung
from tempering.estimators.log_z import LogZ
from tempering.estimators.pareto import heavy_tails
from tempering.estimators.uncertainty import Uncertainty, uncertainty_by_jackknife, uncertainty_of_log_ratio
from tempering.findings import nonfinite
from tempering.stats import chain_groups
from tempering.verdicts import Finding

_BY_CHANCE = 3e-5  # in one tail: beyond 4 standard errors of a normal law


def ais(log_weights: Float[np.ndarray, "chain rung"], *, log_z_base: float = 0.0) -> LogZ:
    """Annealed importance sampling: log of the mean weight at each rung (Neal 2001), eq. 23 with one factor per rung.

    The mean is unbiased, so by Jensen's inequality its logarithm is too low on average, by about half the squared
    standard error (`biases`): a stochastic lower bound.

    ```python
    answer = tp.estimators.ais(weights.log_weights(), log_z_base=path.log_z_base())
    ```

    Args:
        log_weights: Log weights of passes up, 0 at rung 0, as `AnnealWeights.log_weights()` gives them.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: If the weights that carry the mean are too rare to have been drawn, the estimate is many nats too low with
    a small error. `HEAVY_TAILS` reports most such cases, but not a mode that no pass reached.
    """
    if np.any(log_weights[:, 0] != 0):
        raise InputError("`ais` needs log weights of passes up, 0 at rung 0; take `AnnealWeights.log_weights()`.")
    return from_mean_weights("ais", log_weights, -1, log_z_base)


def from_mean_weights(
    method: str, log_weights: Float[np.ndarray, "chain rung"], far_end: int, log_z_base: float
) -> LogZ:
    """log of the mean weight at each rung minus that at rung 0; `far_end` is the rung where the passes ended."""
    usable = np.where(log_weights < np.inf, log_weights, -np.inf)  # a NaN or infinite weight counts as 0
    findings = (not_finite(log_weights), heavy_tails(usable[:, far_end]))
    return LogZ.from_uncertainty(method, log_z_base + _log_ratios(usable), uncertainty_of_weights(usable), findings)


def uncertainty_of_weights(log_weights: Float[np.ndarray, "chain rung"]) -> Uncertainty:
    """The larger of two errors: by the delta method over chains, and by leaving out a tenth of the chains at a time.

    They agree unless a few weights carry the mean. Then only the second accounts for the logarithm.
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
    return log_mean - (log_mean[0] if np.isfinite(log_mean[0]) else np.nan)


def not_finite(log_weights: Float[np.ndarray, "..."]) -> Finding | None:
    """The finding for passes with a NaN or infinite weight; a weight of 0 is valid."""
    is_bad = np.any(~(log_weights < np.inf), axis=-1)
    return nonfinite(int(is_bad.sum()), is_bad.size, "passes had a NaN or infinite weight, which counts as 0")


@dataclasses.dataclass(frozen=True)
class Annealed:
    """The estimate of log Z by an annealing pass alone, kept as an independent check of the answer.

    Attributes:
        log_z: log Z of the target by annealed importance sampling.
        std_error: Its standard error.
        log_weight_variance: The variance of the log weights at the target, of those that are not 0.
        num_families: The effective number of independent parts that the error was estimated from, where they are few:
            particles of sequential Monte Carlo with a common ancestor are one part.
    """

    log_z: float
    std_error: float
    log_weight_variance: float
    num_families: float | None = None

    @classmethod
    def from_weights(cls, log_weights: Float[np.ndarray, "chain rung"], log_z_base: float) -> "Annealed":
        """The summary of an annealing pass at the target.

        Args:
            log_weights: Log weights of passes up, 0 at rung 0.
            log_z_base: log Z of rung 0.
        """
        answer = ais(log_weights, log_z_base=log_z_base)
        at_target = log_weights[np.isfinite(log_weights[:, -1]), -1]
        variance = float(np.var(at_target)) if len(at_target) else np.nan
        return cls(answer.log_z, answer.std_error, variance)

    def disagreement(self, answer: LogZ) -> float:
        """The standard errors between this check and an answer, as far as its bias cannot explain the difference.

        Annealing with log weights of standard deviation σ may be too low by σ²/2. Its error is `widened_error`.

        Args:
            answer: Another estimate of the same log Z.
        """
        gap = answer.log_z - self.log_z
        if abs(gap) <= rounding_of(answer.log_z):
            return 0.0  # as where the base is the target, and both errors are 0
        excused = min(max(gap, 0.0), self.log_weight_variance / 2)
        std_error = np.hypot(answer.std_error, self.widened_error)
        if np.isinf(std_error):
            return 0.0  # of a rung that was not reached the answer is infinite too
        return float(abs(gap - excused) / std_error) if std_error > 0 else np.inf

    @property
    def widened_error(self) -> float:
        """The standard error, wider if it comes from a few families and is itself known poorly.

        It is widened by as much as Student's law is wider than a normal one where chance is excluded.
        """
        if self.num_families is None:
            return self.std_error
        widening = stdtrit(max(self.num_families - 1, 1.0), 1 - _BY_CHANCE) / ndtri(1 - _BY_CHANCE)
        return float(self.std_error * widening)

    @property
    def error_alone(self) -> float:
        """What can be claimed where no tempered chain checks the pass: `widened_error`, and a bias of σ²/2 with it."""
        return float(np.hypot(self.widened_error, np.nan_to_num(self.log_weight_variance) / 2))
