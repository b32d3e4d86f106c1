"""Thermodynamic integration: log Z as the integral of its derivative over β, by a rule over the rungs."""

import dataclasses
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from tempering._errors import InputError
from tempering._logspace import rounding_of
from tempering._types import HostPerRung
from tempering.estimators.inputs import check_base, draws_made, nonfinite_draws, not_kept
from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import summed_by_unit, uncertainty_of_mean
from tempering.findings import unexpectedly_empty, unreached
from tempering.stats import BlockedStats, TemperingStats
from tempering.verdicts import Finding, Verdict

PerUnit: TypeAlias = Float[np.ndarray, "unit rung"]

RULES = ("riemann", "trapezoid", "simpson", "corrected")

_MAX_MISSED = 1.0  # standard errors between rungs: more of it than noise
_LEAST_COUNT = 0.5  # draws at a rung that its mean is taken from
_LEAST_WEIGHT = 1e-20  # Σ q(k | x); products below 1e-38 are lost in float32, and 10¹⁰ of them do not matter here
_LEAST_SHARE = 1e-12  # of a rung's weight; if less is left without one unit, it is rounding


def ti(
    stats: TemperingStats | BlockedStats,
    rule: str = "trapezoid",
    *,
    rao_blackwell: bool = False,
    log_z_base: float = 0.0,
) -> LogZ:
    """Thermodynamic integration: log Z_k = log Z_0 + ∫ E_β[s] dβ up to β_k, with s = d log f_β/dβ (eq. 20).

    E_k is the mean of s over the draws made at rung k. Rungs without draws get theirs by interpolation in β (Section
    4.3). The rules are "riemann", from the upper end of each step as in the paper, "trapezoid", "simpson", and
    "corrected", the trapezoid minus h²/12 (V_{k+1} − V_k) with V = d² log Z/dβ² = Var(s) + E[ds/dβ] (Friel, Hurn and
    Wyse 2014; the second term is 0 on a geometric path).

    There are two errors. `std_errors` is the noise of the draws. `biases` is the error of the rule between rungs: its
    distance from the corrected rule, plus the next term of the error of that. It does not fall when the run is made
    longer; COARSE is reported where it exceeds the noise.

    ```python
    stats = TemperingStats.empty(ladder, with_slopes=True)  # what a run must keep
    answer = ti(stats, "simpson", log_z_base=path.log_z_base())
    ```

    Args:
        stats: The statistics of a tempered run, with `tp.stats.Keep(slopes=True)`.
        rule: "riemann", "trapezoid", "simpson" or "corrected".
        rao_blackwell: Take E_k over all draws with weight q(k | x) instead (eq. 21).
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: It is biased while chains remember their start. It has no answer where s has no mean, as for a target that
    is 0 where the base is not.
    """
    check_base(log_z_base, "thermodynamic integration")
    if rule not in RULES:
        raise InputError(f"`rule` must be one of {', '.join(RULES)}; got {rule!r}.")
    stats = stats.on_host()
    curve = _Curve.from_stats(stats, rao_blackwell)
    method = f"ti_{rule}" if not rao_blackwell else "ti_rb" if rule == "trapezoid" else f"ti_rb_{rule}"
    common = (nonfinite_draws(stats), _unreached(stats, curve.is_known))
    if not np.isfinite(curve.whole).all():  # no rung was reached, or a slope is infinite
        return LogZ.unknown(method, len(stats.betas), (*common, _no_mean()))
    values, left_out = (_integrated(rule, stats.betas, *part) for part in (curve.whole, curve.left_out))
    error = _Discretisation.from_curve(curve, values)
    uncertainty = uncertainty_of_mean((len(left_out) - 1) * (values - left_out), error.bias)
    std_error = np.nan_to_num(uncertainty.std_error, nan=np.inf)  # NaN where one unit has all draws
    uncertainty = dataclasses.replace(uncertainty, std_error=std_error)
    findings = (*common, error.finding(float(std_error[-1]), rounding_of(log_z_base + values[-1])))
    return LogZ.from_uncertainty(method, log_z_base + values, uncertainty, findings, keep_influences=True)


@dataclasses.dataclass(frozen=True)
class _Curve:
    """E = d log Z/dβ and its derivative V at every rung; from the whole run, and with one unit left out at a time."""

    betas: HostPerRung
    is_known: Bool[np.ndarray, " rung"]  # not interpolated
    whole: tuple[HostPerRung, HostPerRung]
    left_out: tuple[PerUnit, PerUnit]

    @classmethod
    def from_stats(cls, stats: BlockedStats, rao_blackwell: bool) -> "_Curve":
        if stats.slope_reference is None or stats.counted_slopes is None or stats.weighted_slopes is None:
            raise not_kept("ti_trapezoid", "slopes", "derivatives of log f by β")
        sums = summed_by_unit(stats.weighted_slopes if rao_blackwell else stats.counted_slopes)
        sums = np.where(np.isfinite(sums), sums, np.nan)  # without ∞ − ∞
        if rao_blackwell:
            weights, least = np.exp(summed_by_unit(stats.log_sums, np.logaddexp)), _LEAST_WEIGHT
        else:
            weights, least = summed_by_unit(draws_made(stats)), _LEAST_COUNT
        total = weights.sum(axis=0)
        (slopes,), (curvatures,) = _moments(stats, sums.sum(axis=0)[None], total[None], np.full_like(total, least))
        least_left = np.maximum(least, _LEAST_SHARE * total)
        left_out = _moments(stats, sums.sum(axis=0) - sums, total - weights, least_left)
        return cls(stats.betas, total > least, (slopes, curvatures), left_out)


def _moments(
    stats: BlockedStats, sums: Float[np.ndarray, "unit rung moment"], weights: PerUnit, least: HostPerRung
) -> tuple[PerUnit, PerUnit]:
    """E = E[s] and V = Var(s) + E[ds/dβ] at every rung; interpolated where the weight is at most `least`."""
    is_known = weights > least
    means = sums / np.where(is_known, weights, 1.0)[..., None]
    off, square, curvature = np.moveaxis(means, -1, 0)
    slopes, curvatures = stats.slope_reference + off, square - off**2 + curvature
    return _imputed(stats.betas, slopes, is_known), _imputed(stats.betas, curvatures, is_known)


def _imputed(betas: HostPerRung, values: np.ndarray, is_known: np.ndarray) -> PerUnit:
    """Linear in β between known rungs, constant beyond them; NaN if none is known."""
    rows = [
        np.interp(betas, betas[known], row[known]) if known.any() else np.full_like(betas, np.nan)
        for row, known in zip(values, is_known, strict=True)
    ]
    return np.array(rows)


def _integrated(rule: str, betas: HostPerRung, slopes: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
    """∫ E dβ from the base up to every rung, along the last axis."""
    if rule == "riemann":
        return summed_from_base(np.diff(betas) * slopes[..., 1:])
    if rule == "simpson":
        from scipy.integrate import cumulative_simpson  # takes long to import

        return cumulative_simpson(slopes, x=betas, axis=-1, initial=0.0)
    trapezoid = summed_from_base(np.diff(betas) * (slopes[..., 1:] + slopes[..., :-1]) / 2)
    if rule == "corrected":
        return trapezoid - summed_from_base(np.diff(betas) ** 2 / 12 * np.diff(curvatures))
    return trapezoid


def summed_from_base(parts: np.ndarray) -> np.ndarray:
    """Sums of the steps between rungs, from the base up to every rung."""
    return np.concatenate([np.zeros_like(parts[..., :1]), np.cumsum(parts, axis=-1)], axis=-1)


@dataclasses.dataclass(frozen=True)
class _Discretisation:
    """The error of an integration rule, which knows the curve at the rungs only."""

    bias: HostPerRung  # value − ∫ E dβ to leading order
    hidden: float  # the error of either sign that a jump of E between rungs may cause

    @classmethod
    def from_curve(cls, curve: _Curve, values: HostPerRung) -> "_Discretisation":
        """From the known rungs alone: interpolated ones lie on a line, which seems to need no correction."""
        nodes, betas, slopes, curvatures = _nodes(curve)
        integral = _integrated("corrected", betas, slopes, curvatures) - _error_of_corrected(betas, slopes, curvatures)
        bias = np.interp(curve.betas, betas, values[nodes] - integral)
        steps = np.diff(betas)
        # −h³/12 V'' where the rungs resolve the curve; the whole jump where it jumps between two of them.
        unexplained = np.diff(slopes) - steps * (curvatures[1:] + curvatures[:-1]) / 2
        return cls(bias, float(abs(np.sum(steps * unexplained)) / 2))

    def finding(self, std_error: float, rounding: float) -> Finding | None:
        """The finding for an error of the rule that exceeds the noise of the draws and rounding, at the target."""
        missed = max(abs(float(self.bias[-1])), self.hidden)
        if not np.isfinite(std_error) or missed <= max(_MAX_MISSED * std_error, rounding):
            return None
        rule = f"between rungs the rule is off by about {self.bias[-1]:+.2g}, and a jump may hide {self.hidden:.2g}"
        cure = 'use more rungs, `method="ti_corrected"`, or `method="rts"`, which has no such error'
        return Finding(Verdict.COARSE, f"{rule}; the standard error is {std_error:.2g}", cure)


def _nodes(curve: _Curve) -> tuple[np.ndarray, HostPerRung, HostPerRung, HostPerRung]:
    """The known rungs and the two ends, which follow the tangent if they are not known."""
    known = np.flatnonzero(curve.is_known)
    slopes, curvatures = curve.whole[0].copy(), curve.whole[1]
    for end, nearest in ((0, known[0]), (-1, known[-1])):
        slopes[end] += (curve.betas[end] - curve.betas[nearest]) * curvatures[nearest]
    nodes = np.unique(np.concatenate([[0], known, [len(slopes) - 1]]))
    return nodes, curve.betas[nodes], slopes[nodes], curvatures[nodes]


def _error_of_corrected(betas: HostPerRung, slopes: HostPerRung, curvatures: HostPerRung) -> HostPerRung:
    """−Σ h⁵ E''''/720, with E'''' from the difference between two steps and one of twice the size (Richardson)."""
    steps = np.diff(betas)
    if len(steps) < 2:
        return np.zeros_like(betas)
    fine = np.diff(_integrated("corrected", betas, slopes, curvatures))
    wide = betas[2:] - betas[:-2]
    as_one = wide * (slopes[2:] + slopes[:-2]) / 2 - wide**2 * (curvatures[2:] - curvatures[:-2]) / 12
    change = as_one - fine[1:] - fine[:-1]
    per_fifth_power = wide**5 - steps[1:] ** 5 - steps[:-1] ** 5
    padded = np.pad(wide, 1)  # a step belongs to two pairs, at the ends to one; the wider is taken
    pair = np.arange(len(steps)) - (padded[:-1] > padded[1:])
    share = np.minimum(steps**5 / per_fifth_power[pair], 1.0)  # for a step much longer than its neighbours
    return summed_from_base(share * change[pair])


def _unreached(stats: BlockedStats, is_known: Bool[np.ndarray, " rung"]) -> Finding | None:
    empty = unexpectedly_empty(~is_known, stats.log_rung_mass, float(stats.num_draws.sum()))
    if is_known.any() and len(empty) == 0:
        return None
    what = "have no draws, and their slopes were interpolated"
    cure = "use a longer warm-up, more sweeps, or fewer rungs"
    return unreached(np.flatnonzero(~is_known), len(is_known), what, cure)


def _no_mean() -> Finding:
    seen = "the slope of log f has no finite mean at some rung, or no rung has a finite draw"
    cure = 'use `method="rts"` if the target vanishes where the base does not; otherwise check the log density'
    return Finding(Verdict.NONFINITE, seen, cure)
