"""log Z from runs that adjust their own weights: Wang-Landau and self-adjusted mixture sampling."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtrit

from tempering._types import HostPerRung
from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.findings import FALSE_ALARM, NAN_IS_ZERO, nonfinite, unvisited
from tempering.verdicts import Finding, Verdict

_MAX_UNEVENNESS = 0.2  # of ĉ_k/r_k, over the second half of the adjustment
_MAX_SCATTER = 1.0  # nats between groups; beyond it their scatter is no measure of the error


@dataclasses.dataclass(frozen=True)
class Adjusted:
    """The outcome of independent groups of chains, each of which adjusted its own Ẑ.

    Attributes:
        log_z: log Ẑ_k − log Ẑ_0 of each group at the end.
        halfway: The same after half of the updates.
        posterior: Σ q(k | x) over the second half of the updates.
        visits: The number of draws at each rung in the second half.
        has_slowed: Whether the gain fell as 1/t at the end.
        log_prior: log r_k.
        num_nan: How many draws of the second half had a density of NaN at some rung, where it counts as 0.
    """

    log_z: Float[np.ndarray, "group rung"]
    halfway: Float[np.ndarray, "group rung"]
    posterior: Float[np.ndarray, "group rung"]
    visits: Float[np.ndarray, "group rung"]
    has_slowed: Bool[np.ndarray, " group"]
    log_prior: HostPerRung
    num_nan: float = 0.0

    def occupancy(self) -> HostPerRung:
        """ĉ_k / r_k over the second half of the updates: 1 at every rung once Ẑ has converged."""
        total = self.posterior.sum(axis=0)
        return total / max(total.sum(), 1.0) / np.exp(self.log_prior)

    @property
    def is_equilibrated(self) -> bool:
        """Whether the rungs were visited evenly, the groups agree, and the gain has slowed."""
        return not _unequilibrated(self)

    def __repr__(self) -> str:
        num_groups, num_rungs = self.log_z.shape
        return f"Adjusted({num_groups} groups, {num_rungs} rungs, log Z − log Z_0 = {self.log_z[:, -1].mean():.6g})"


def sams(adjusted: Adjusted, *, log_z_base: float = 0.0) -> LogZ:
    """log Ẑ after self-adjusted mixture sampling, the stochastic MBAR of eq. 19 (Tan 2017): the mean over groups.

    The groups are independent, so their scatter gives the error. The bias from their common start is added to it, as
    far as the second half of the updates shows it.

    Args:
        adjusted: The outcome of a self-adjusting run.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: If Ẑ moves too slowly for its drift to be seen, the error is too small.
    """
    return _mean_over_groups("sams", adjusted, log_z_base)


def wang_landau(adjusted: Adjusted, *, log_z_base: float = 0.0) -> LogZ:
    """log Ẑ after updates from counted visits with the gain of Wang and Landau (2001; Atchadé and Liu 2010).

    Args:
        adjusted: The outcome of a self-adjusting run.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: As for `sams`. Visits are noisier than posteriors, so the error is larger.
    """
    return _mean_over_groups("wang_landau", adjusted, log_z_base)


def _mean_over_groups(method: str, adjusted: Adjusted, log_z_base: float) -> LogZ:
    # At a gain of 1/t the last Ẑ is itself an average over the trajectory, so it is not averaged again.
    what, cure = "were never visited in the second half", "adjust for longer, or from a guess of log Z by annealing"
    empty = unvisited(adjusted.visits.sum(axis=0), adjusted.log_prior, what, cure)
    findings = (_nonfinite(adjusted), empty, *_unequilibrated(adjusted), _drift(adjusted))
    return LogZ.from_uncertainty(method, log_z_base + adjusted.log_z.mean(axis=0), _uncertainty(adjusted), findings)


def _uncertainty(adjusted: Adjusted) -> Uncertainty:
    """The scatter of the groups, and the bias from their common start.

    A bias that falls as 1/t is as large at the end as what it lost in the second half. That loss squared, minus the
    variance of its noise, is added to the variance.
    """
    scatter, moved = uncertainty_of_mean(adjusted.log_z), adjusted.halfway - adjusted.log_z
    bias = moved.mean(axis=0)
    if scatter.dof < 1:
        return scatter
    squared_bias = np.maximum(bias**2 - uncertainty_of_mean(moved).std_error ** 2, 0.0)
    std_error, skewness = np.sqrt(scatter.std_error**2 + squared_bias), np.zeros_like(bias)
    return Uncertainty(std_error, bias, skewness, scatter.dof)  # ten values do not determine the skewness


def _nonfinite(adjusted: Adjusted) -> Finding | None:
    """Draws with NaN, and draws that were left out: the posteriors of every other draw add up to 1."""
    total = int(adjusted.visits.sum())
    bad = round(total - float(adjusted.posterior.sum()))
    if bad > total * 1e-4:  # sums were kept in float32
        return nonfinite(bad, total)
    return nonfinite(int(adjusted.num_nan), total, NAN_IS_ZERO)


def _unequilibrated(adjusted: Adjusted) -> list[Finding]:
    """Uneven rungs, groups that scatter, and a gain that still makes log Z jump by its own size."""
    reasons = []
    occupancy = adjusted.occupancy()
    rung = int(np.abs(occupancy - 1).argmax())
    if not abs(occupancy[rung] - 1) <= _MAX_UNEVENNESS:
        seen = f"rung {rung} had {occupancy[rung]:.2g} of the probability it should have in the second half"
        reasons.append((seen, "adjust for longer, or with a gain that falls more slowly"))
    scatter = adjusted.log_z[:, -1].std(ddof=1) if len(adjusted.log_z) > 1 else 0.0
    if not scatter <= _MAX_SCATTER:
        seen = f"groups of chains scatter by {scatter:.2g} nats around their mean, more than {_MAX_SCATTER:g}"
        reasons.append((seen, "adjust for longer"))
    if num_fast := int((~adjusted.has_slowed).sum()):
        seen = f"in {num_fast} of {len(adjusted.has_slowed)} groups the gain had not yet begun to fall as 1/t"
        reasons.append((seen, "adjust for longer"))
    return [Finding(Verdict.UNEQUILIBRATED, seen, cure) for seen, cure in reasons]


def _drift(adjusted: Adjusted) -> Finding | None:
    """At a gain of 1/t what remains of a bad start is as large as what the second half removed."""
    uncertainty = uncertainty_of_mean(adjusted.log_z - adjusted.halfway)
    moved, std_error = float((adjusted.log_z - adjusted.halfway).mean(axis=0)[-1]), uncertainty.std_error[-1]
    if uncertainty.dof < 1 or abs(moved) <= stdtrit(uncertainty.dof, 1 - FALSE_ALARM / 2) * std_error:
        return None
    seen = f"log Z moved by {moved:+.2g} in the second half, {abs(moved) / std_error:.1f} standard errors"
    return Finding(Verdict.RELAXING, seen, "adjust for longer: as much again may be missing")
