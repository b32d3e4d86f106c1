"""The other side of annealing: passes down from the target bound log Z from above, and a likelihood from below.

All of it is made from one weight. A pass down starts at x_{K−1}, draws x_{k−1} from T_k(· | x_k), and gathers

    log w = Σ_k log f_{k−1}(x_{k−1}) − log f_k(x_{k−1}),      k = K − 1 … 1.

Log weights come by rung, as `AnnealWeights.log_weights_down()` gives them: the whole pass at rung 0, 0 at the target.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering._logspace import log_mean_exp
from tempering.estimators.annealed import from_mean_weights, not_finite
from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.verdicts import Finding, Verdict

_MAX_CROSSING = 3.0  # standard errors by which a lower bound may exceed an upper one
_MAX_LOOSENESS = 2.0  # standard errors between a bound and log Z before it is no estimate any more


def reverse_ais(log_weights: Float[np.ndarray, "chain rung"], *, log_z_base: float = 0.0) -> LogZ:
    """log Z_0 − log of the mean weight, E[w] = Z_0 / Z_{K−1} over passes down from exact draws of the target.

    By Jensen it errs high on average: a stochastic upper bound, as AIS is a lower one (Grosse et al. 2015). That holds
    only as well as the starts follow the target, which no weight can tell, and the error takes them for independent:
    from data, from where passes up arrived, or from one mode of several it may lie below log Z with a small error.
    """
    return from_mean_weights("reverse_ais", _checked("reverse_ais", log_weights), 0, log_z_base)


def raise_bound(log_weights: Float[np.ndarray, "row *chain rung"], *, log_z_base: float = 0.0) -> LogZ:
    """The mean over rows v of log Z_0 − log w, with w the mean over the passes down from v (Burda et al. 2015).

    log f(v) − log w_RAISE is just this, see `raise_log_likelihood`. For rows drawn from the target its mean lies above
    log Z for any number of steps, by Jensen's inequality for w and by how much the annealed law differs from the
    target. For data the second part may have either sign; both vanish as the annealing slows. `std_errors` are those
    of the bound over rows, `biases` how far above log Z it lies if log weights are normal; `COARSE` says that this is
    more than noise.
    """
    log_weights = _checked("raise_bound", log_weights)
    per_row = _mean_over_chains(log_weights)
    if not np.all(np.isfinite(per_row)):
        return _no_bound(log_weights, log_z_base)
    ratios = per_row - per_row[:, :1]  # log(Z_k / Z_0) as each row sees it
    uncertainty = uncertainty_of_mean(ratios, bias=ratios.var(axis=0) / 2)
    values = log_z_base + ratios.mean(axis=0)
    findings = (not_finite(log_weights), _loose(uncertainty.bias[-1], uncertainty.std_error[-1]))
    return LogZ.from_uncertainty("raise", values, uncertainty, findings)


@dataclasses.dataclass(frozen=True)
class RowLikelihood:
    """log p(v) of each row of data, and their mean."""

    rows: Float[np.ndarray, " row"]
    mean: float
    std_error: float  # over rows; infinite for one row
    findings: tuple[Finding, ...] = ()


def raise_log_likelihood(
    log_weights: Float[np.ndarray, "row *chain rung"], log_f: Float[np.ndarray, "..."], *, log_z_base: float
) -> RowLikelihood:
    """log w_RAISE(v) = log f(v) − log Z_0 + log w, with w the mean over the passes down from v (Burda et al. 2015).

    E[w_RAISE] is the probability of v under the annealing pass itself, so each row errs low, on average, as an
    estimate of that, and of log p(v) as the annealing slows. `log_f` is log f(v) of the target, as
    `RBM.log_density(data)` gives it. Nothing here knows log Z of the target.
    """
    log_weights = _checked("raise_log_likelihood", log_weights)
    if log_f.shape != log_weights.shape[:1]:
        raise InputError(
            f"`raise_log_likelihood` needs log f of each of {len(log_weights)} rows; got shape {log_f.shape}."
        )
    per_row = _mean_over_chains(log_weights)[:, 0]
    rows = log_f - log_z_base + per_row
    if len(rows) < 2 or not np.all(np.isfinite(rows)):
        return RowLikelihood(rows, float(rows.mean()), np.inf, _noticed(not_finite(log_weights)))
    std_error = float(rows.std(ddof=1) / np.sqrt(len(rows)))
    findings = _noticed(not_finite(log_weights), _loose(per_row.var() / 2, std_error))
    return RowLikelihood(rows, float(rows.mean()), std_error, findings)


@dataclasses.dataclass(frozen=True)
class Sandwich:
    """A lower and an upper bound of the same log Z, as AIS and reverse AIS give them.

    ```python
    between = Sandwich(ais(up, log_z_base=base), reverse_ais(down, log_z_base=base))
    between.gap, between.interval
    ```

    A small gap says that both are near log Z, if the upper one started from draws of the target.
    """

    lower: LogZ
    upper: LogZ

    @property
    def gap(self) -> float:
        """How far the bounds lie apart, in nats."""
        return self.upper.log_z - self.lower.log_z

    @property
    def interval(self) -> tuple[float, float]:
        """From the lower end of the lower bound's 95 % interval to the upper end of the upper's."""
        return self.lower.interval[0], self.upper.interval[1]

    @property
    def is_crossed(self) -> bool:
        """Whether the lower bound exceeds the upper one by more than their errors: then one of them is no bound."""
        return self.gap < -_MAX_CROSSING * float(np.hypot(self.lower.std_error, self.upper.std_error))


def _checked(name: str, log_weights: np.ndarray) -> np.ndarray:
    if np.any(log_weights[..., -1] != 0):
        raise InputError(
            f"`{name}` needs log weights of passes down, 0 at the last rung; take `AnnealWeights.log_weights_down()`."
        )
    return log_weights


def _mean_over_chains(log_weights: Float[np.ndarray, "row *chain rung"]) -> Float[np.ndarray, "row rung"]:
    usable = np.where(log_weights < np.inf, log_weights, -np.inf)  # a NaN or infinite weight counts as 0
    return log_mean_exp(usable.reshape(len(usable), -1, usable.shape[-1]), axis=1)


def _no_bound(log_weights: Float[np.ndarray, "row *chain rung"], log_z_base: float) -> LogZ:
    """Some row has no weight at all: what it says is that log Z lies below infinity."""
    values = np.append(log_z_base, np.full(log_weights.shape[-1] - 1, np.inf))
    unknown = Uncertainty(np.full_like(values, np.inf), np.zeros_like(values), np.zeros_like(values), 0)
    return LogZ.from_uncertainty("raise", values, unknown, (not_finite(log_weights),))


def _loose(bias: float, std_error: float) -> Finding | None:
    if bias <= _MAX_LOOSENESS * std_error:
        return None
    return Finding(
        Verdict.COARSE,
        f"the scatter of log weights over rows puts the bound {bias:.2g} off, {bias / std_error:.1f} standard errors",
        "read it as a bound only, or anneal in more steps",
    )


def _noticed(*findings: Finding | None) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding is not None)
