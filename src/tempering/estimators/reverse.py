"""Annealing down from the target: upper bounds of log Z, and lower bounds of a log-likelihood.

A pass down starts at x_{K−1}, draws x_{k−1} from T_k(· | x_k), and has the weight

    log w = Σ_k log f_{k−1}(x_{k−1}) − log f_k(x_{k−1}),      k = K − 1 … 1.

Log weights are given by rung, as by `AnnealWeights.log_weights_down()`: the whole pass at rung 0, 0 at the target.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering._logspace import log_mean_exp
from tempering.estimators.annealed import from_mean_weights, not_finite
from tempering.estimators.log_z import LogZ, with_error
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.verdicts import Finding, Verdict, without_none

_MAX_CROSSING = 3.0  # standard errors by which a lower bound may exceed an upper one
_MAX_LOOSENESS = 2.0  # standard errors between a bound and log Z, beyond which it is no longer an estimate


def reverse_ais(log_weights: Float[np.ndarray, "chain rung"], *, log_z_base: float = 0.0) -> LogZ:
    """Reverse annealed importance sampling: log Z_0 − log of the mean weight, with E[w] = Z_0 / Z_{K−1}.

    The expectation is over passes down from exact draws of the target. By Jensen's inequality the estimate is too high
    on average: a stochastic upper bound, as AIS is a lower one (Grosse et al. 2015).

    Args:
        log_weights: Log weights of passes down, 0 at the target.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: It is a bound only if the starts are independent draws of the target, which the weights do not show.
    From data, from the ends of passes up, or from one mode of several it may lie below log Z with a small error.
    """
    _check_passes_down("reverse_ais", log_weights)
    return from_mean_weights("reverse_ais", log_weights, 0, log_z_base)


def raise_bound(log_weights: Float[np.ndarray, "row *chain rung"], *, log_z_base: float = 0.0) -> LogZ:
    """The mean over rows v of log Z_0 − log w, with w the mean weight of the passes down from v (Burda et al. 2015).

    For rows drawn from the target the mean lies above log Z, by Jensen's inequality for w and because the annealed
    distribution differs from the target. Both differences vanish as the annealing slows.

    Args:
        log_weights: Log weights of passes down from each row, 0 at the target.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        An upper bound at every rung. `std_errors` are those of the bound over rows. `biases` is its distance from
        log Z if log weights are normal; COARSE is reported if that exceeds the noise.

    Caveats: For rows of data the second difference may have either sign.
    """
    _check_passes_down("raise_bound", log_weights)
    per_row = _mean_over_chains(log_weights)
    if not np.all(np.isfinite(per_row)):  # some row has no weight at all: log Z lies below infinity
        values = np.append(log_z_base, np.full(log_weights.shape[-1] - 1, np.inf))
        return LogZ.from_uncertainty("raise", values, Uncertainty.unknown(len(values)), (not_finite(log_weights),))
    ratios = per_row - per_row[:, :1]  # log(Z_k / Z_0) as each row sees it
    uncertainty = uncertainty_of_mean(ratios, bias=ratios.var(axis=0) / 2)
    values = log_z_base + ratios.mean(axis=0)
    findings = (not_finite(log_weights), _loose(uncertainty.bias[-1], uncertainty.std_error[-1]))
    return LogZ.from_uncertainty("raise", values, uncertainty, findings)


@dataclasses.dataclass(frozen=True)
class RowLikelihood:
    """log p(v) of each row of data, and their mean.

    Attributes:
        rows: log p(v) of each row.
        mean: Their mean.
        std_error: Its standard error over rows; infinite for one row.
        findings: What the estimator noticed.
    """

    rows: Float[np.ndarray, " row"]
    mean: float
    std_error: float
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        return f"mean log p(v) = {with_error(self.mean, self.std_error)} over {len(self.rows)} rows"


def raise_log_likelihood(
    log_weights: Float[np.ndarray, "row *chain rung"], log_f: Float[np.ndarray, "..."], *, log_z_base: float
) -> RowLikelihood:
    """The log-likelihood log f(v) − log Z_0 + log w of each row, without log Z of the target (Burda et al. 2015).

    w is the mean weight of the passes down from v. Its expectation gives the probability of v under the annealed
    distribution, so each row is too low on average; that distribution tends to the target as the annealing slows.

    Args:
        log_weights: Log weights of passes down from each row, 0 at the target.
        log_f: log f(v) of each row under the target, such as `rbm.log_density(data)`.
        log_z_base: log Z of rung 0.

    Returns:
        The log-likelihood of each row, and their mean.
    """
    _check_passes_down("raise_log_likelihood", log_weights)
    if log_f.shape != log_weights.shape[:1]:
        raise InputError(
            f"`raise_log_likelihood` needs log f of each of {len(log_weights)} rows; got shape {log_f.shape}."
        )
    per_row = _mean_over_chains(log_weights)[:, 0]
    rows = log_f - log_z_base + per_row
    std_error, loose = np.inf, None
    if len(rows) > 1 and np.all(np.isfinite(rows)):
        std_error = float(rows.std(ddof=1) / np.sqrt(len(rows)))
        loose = _loose(per_row.var() / 2, std_error)
    return RowLikelihood(rows, float(rows.mean()), std_error, without_none(not_finite(log_weights), loose))


@dataclasses.dataclass(frozen=True)
class Sandwich:
    """A lower and an upper bound of the same log Z, as AIS and reverse AIS give them.

    ```python
    between = Sandwich(ais(up, log_z_base=base), reverse_ais(down, log_z_base=base))
    between.gap, between.interval
    ```

    Attributes:
        lower: The lower bound.
        upper: The upper bound.

    Caveats: A small gap means that both are near log Z only if the passes down started from draws of the target.
    """

    lower: LogZ
    upper: LogZ

    @property
    def gap(self) -> float:
        """The distance between the bounds, in nats."""
        return self.upper.log_z - self.lower.log_z

    @property
    def interval(self) -> tuple[float, float]:
        """From the lower end of the lower bound's 95 % interval to the upper end of the upper's."""
        return self.lower.interval[0], self.upper.interval[1]

    @property
    def is_crossed(self) -> bool:
        """Whether the lower bound exceeds the upper one by more than their errors, so that one of them is wrong."""
        return self.gap < -_MAX_CROSSING * float(np.hypot(self.lower.std_error, self.upper.std_error))

    def __repr__(self) -> str:
        return f"{self.lower.log_z:.6g} ({self.lower.method}) ≤ log Z ≤ {self.upper.log_z:.6g} ({self.upper.method})"


def _check_passes_down(name: str, log_weights: np.ndarray) -> None:
    if np.any(log_weights[..., -1] != 0):
        raise InputError(
            f"`{name}` needs log weights of passes down, 0 at the last rung; take `AnnealWeights.log_weights_down()`."
        )


def _mean_over_chains(log_weights: Float[np.ndarray, "row *chain rung"]) -> Float[np.ndarray, "row rung"]:
    usable = np.where(log_weights < np.inf, log_weights, -np.inf)  # a NaN or infinite weight counts as 0
    return log_mean_exp(usable.reshape(len(usable), -1, usable.shape[-1]), axis=1)


def _loose(bias: float, std_error: float) -> Finding | None:
    if bias <= _MAX_LOOSENESS * std_error:
        return None
    seen = f"the scatter of log weights over rows puts the bound {bias:.2g} off, {bias / std_error:.1f} standard errors"
    return Finding(Verdict.COARSE, seen, "read it as a bound only, or anneal in more steps")
