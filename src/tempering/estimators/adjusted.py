"""log Z as the weights of self-adjusting runs: what Wang-Landau and stochastic MBAR end with."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtrit

from tempering._types import HostPerRung
from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.verdicts import Finding, Verdict, left_out

_MAX_UNEVENNESS = 0.2  # of ĉ_k/r_k, over the second half of the adjustment
_MAX_SCATTER = 1.0  # nats between groups; beyond it they are not near enough to the truth to say how near
_FALSE_ALARM = 0.01  # the probability that a settled adjustment is said to drift


@dataclasses.dataclass(frozen=True)
class Adjusted:
    """What independent groups of chains, each adjusting its own Ẑ, have come to."""

    log_z: Float[np.ndarray, "group rung"]  # log Ẑ_k − log Ẑ_0 at the end
    halfway: Float[np.ndarray, "group rung"]  # and after half of the updates
    posterior: Float[np.ndarray, "group rung"]  # Σ q(k | x) over the second half
    visits: Float[np.ndarray, "group rung"]
    has_slowed: Bool[np.ndarray, " group"]  # whether the gain fell as 1/t at the end
    log_prior: HostPerRung

    def occupancy(self) -> HostPerRung:
        """ĉ_k / r_k over the second half of the updates: 1 at every rung once Ẑ has settled."""
        total = self.posterior.sum(axis=0)
        return total / max(total.sum(), 1.0) / np.exp(self.log_prior)

    @property
    def is_equilibrated(self) -> bool:
        """Whether the rungs were visited evenly and groups agree."""
        return _uneven(self) is None and _scattered(self) is None and _still_flooding(self) is None


def sams(adjusted: Adjusted, *, log_z_base: float = 0.0) -> LogZ:
    """log Ẑ after self-adjusted mixture sampling, the stochastic MBAR of eq. 19 (Tan 2017): the mean over groups.

    Groups are independent, so their scatter is the error, with Student's quantiles; what they share, the memory of
    their start, is added to it as far as the second half shows it. It lies if Ẑ creeps so slowly that it does not show.
    """
    return _mean_over_groups("sams", adjusted, log_z_base)


def wang_landau(adjusted: Adjusted, *, log_z_base: float = 0.0) -> LogZ:
    """The same from counted visits, with the gain of Wang and Landau (2001) over rungs (Atchadé and Liu 2010).

    Visits are noisier than posteriors, so expect a larger error than that of `sams`. It lies in the same way.
    """
    return _mean_over_groups("wang_landau", adjusted, log_z_base)


def _mean_over_groups(method: str, adjusted: Adjusted, log_z_base: float) -> LogZ:
    # At a gain of 1/t the last Ẑ is itself an average over the trajectory, so it is not averaged again.
    findings = [finding(adjusted) for finding in (_nonfinite, _unreached, _uneven, _scattered, _still_flooding, _drift)]
    return LogZ.from_uncertainty(method, log_z_base + adjusted.log_z.mean(axis=0), _uncertainty(adjusted), findings)


def _uncertainty(adjusted: Adjusted) -> Uncertainty:
    """The scatter of the groups, and what is left of their start, which they share.

    A bias that falls as 1/t is as large at the end as what it lost since half of the time. That loss squared, less the
    variance of its noise, is added to the variance.
    """
    scatter, moved = uncertainty_of_mean(adjusted.log_z), adjusted.halfway - adjusted.log_z
    bias = moved.mean(axis=0)
    if scatter.dof < 1:
        return scatter
    squared_bias = np.maximum(bias**2 - uncertainty_of_mean(moved).std_error ** 2, 0.0)
    return Uncertainty(
        std_error=np.sqrt(scatter.std_error**2 + squared_bias),
        bias=bias,
        skewness=np.zeros_like(bias),  # not to be had from ten values
        dof=scatter.dof,
    )


def _nonfinite(adjusted: Adjusted) -> Finding | None:
    """Every finite draw has posteriors that add up to 1."""
    total = int(adjusted.visits.sum())
    bad = round(total - float(adjusted.posterior.sum()))
    return left_out(bad if bad > total * 1e-4 else 0, total)  # sums were kept in float32


def _unreached(adjusted: Adjusted) -> Finding | None:
    visits = adjusted.visits.sum(axis=0)
    expected = np.exp(adjusted.log_prior) * visits.sum()
    empty = np.flatnonzero((visits == 0) & (expected >= 20))  # by chance once in e^20
    if len(empty) == 0:
        return None
    return Finding(
        Verdict.UNREACHED,
        f"{len(empty)} of {len(visits)} rungs were never visited in the second half, the first of them rung {empty[0]}",
        "adjust for longer, or from a guess of log Z by annealing",
    )


def _uneven(adjusted: Adjusted) -> Finding | None:
    off = np.abs(adjusted.occupancy() - 1)
    rung = int(off.argmax())
    if off[rung] <= _MAX_UNEVENNESS:
        return None
    return Finding(
        Verdict.UNEQUILIBRATED,
        f"rung {rung} had {adjusted.occupancy()[rung]:.2g} of the probability it should have in the second half",
        "adjust for longer, or with a gain that falls more slowly",
    )


def _scattered(adjusted: Adjusted) -> Finding | None:
    if len(adjusted.log_z) < 2:
        return None
    scatter = adjusted.log_z[:, -1].std(ddof=1)
    if scatter <= _MAX_SCATTER:
        return None
    return Finding(
        Verdict.UNEQUILIBRATED,
        f"groups of chains scatter by {scatter:.2g} nats around their mean, more than {_MAX_SCATTER:g}",
        "adjust for longer",
    )


def _still_flooding(adjusted: Adjusted) -> Finding | None:
    flooding = int((~adjusted.has_slowed).sum())
    if flooding == 0:
        return None
    return Finding(
        Verdict.UNEQUILIBRATED,
        f"in {flooding} of {len(adjusted.has_slowed)} groups the gain had not yet begun to fall as 1/t",
        "adjust for longer; until then log Z keeps jumping by the size of the gain",
    )


def _drift(adjusted: Adjusted) -> Finding | None:
    """At a gain of 1/t what is left of a bad start is as large as what the second half removed."""
    uncertainty = uncertainty_of_mean(adjusted.log_z - adjusted.halfway)
    moved = float((adjusted.log_z - adjusted.halfway).mean(axis=0)[-1])
    if uncertainty.dof < 1 or abs(moved) <= stdtrit(uncertainty.dof, 1 - _FALSE_ALARM / 2) * uncertainty.std_error[-1]:
        return None
    return Finding(
        Verdict.RELAXING,
        f"log Z moved by {moved:+.2g} in the second half, {abs(moved) / uncertainty.std_error[-1]:.1f} standard errors",
        "adjust for longer: as much again may be missing",
    )
