"""Stepping stones with control variates: what has mean 0 at each rung takes noise off the steps."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._types import HostPerRung
from tempering.estimators.combining import influences_of
from tempering.estimators.inputs import draws_made, not_kept
from tempering.estimators.log_z import LogZ
from tempering.estimators.stepping import stepping_stone
from tempering.estimators.thermodynamic import summed_from_base
from tempering.estimators.uncertainty import summed_by_unit, uncertainty_of_mean
from tempering.stats import BlockedStats, TemperingStats

_LEAST_DRAWS = 10  # at a rung, from which its coefficients are estimated
_LEAST_VARIANCE = 1e-6  # of the mean square; below it a control does not vary
_MOST_OFF = 20.0  # nats by which a step of log Ẑ may be off; beyond, products with its ratios lose their digits


def controlled_stepping(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """The mean of stepping stones up and down, less their regression on control variates.

    A step from rung k is the log of a mean ratio w over the draws made there. Let c be a number with mean 0 under f_k
    and c̄ its mean over the same draws. To first order, log w̄ − θ c̄ with θ = Cov(w, c)/(w̄ Var(c)) has the same
    expectation and the least variance. HMC gives such numbers on geometric and likelihood paths: the divergence of a
    flow that carries x from rung to rung, plus the change of log f along it (Stein's identity). For normal laws
    c = −(s − E[s]) with s = d log f/dβ, and hardly any noise is left. Oates, Papamarkou and Girolami (2016) control
    thermodynamic integrals in this way.

    ```python
    answer = controlled_stepping(result.recording.stats, log_z_base=path.log_z_base())
    ```

    Args:
        stats: The statistics of a tempered run, with `tp.stats.Keep(steps=True, controls=True)`.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: c has mean 0 only where log f is continuous on the whole space. So moves give none where an operation of
    log f may jump. Rungs at which c was infinite, or has few draws, are not controlled.
    """
    stats = stats.on_host()
    if stats.controls is None:
        raise not_kept("stepping_controlled", "steps", "control variates, which HMC gives for continuous densities")
    up, down = (stepping_stone(stats, direction, log_z_base=log_z_base) for direction in ("up", "down"))
    correction, by_unit = _corrections(stats)
    influences = (influences_of(up) + influences_of(down)) / 2 - by_unit
    uncertainty = uncertainty_of_mean(influences, (up.biases + down.biases) / 2)
    unknown = np.where(np.isfinite(up.std_errors + down.std_errors), 0.0, np.inf)
    uncertainty = dataclasses.replace(uncertainty, std_error=uncertainty.std_error + unknown)
    findings = {finding.verdict: finding for finding in (*up.findings, *down.findings)}
    values = (up.values + down.values) / 2 - correction
    return LogZ.from_uncertainty(
        "stepping_controlled", values, uncertainty, tuple(findings.values()), keep_influences=True
    )


def _corrections(stats: BlockedStats) -> tuple[HostPerRung, Float[np.ndarray, "unit rung"]]:
    """What the controls add up to from the base to each rung, and what each unit contributes to that."""
    assert stats.controls is not None
    sums, counts = summed_by_unit(stats.controls), summed_by_unit(draws_made(stats)).astype(np.float64)
    is_finite = np.all(np.isfinite(sums), axis=(0, 2), keepdims=True)
    sums = np.where(is_finite, sums, 0.0)
    total, count = sums.sum(axis=0), counts.sum(axis=0)
    mean = _ratio(total[:, 0], count)
    left_out = _ratio(total[:, 0] - sums[..., 0], count - counts)
    by_unit = (len(counts) - 1) * (mean - left_out)  # the jackknife, as for the steps
    coefficients = _coefficients(stats, total, count)
    return _added_up(coefficients, mean), _added_up(coefficients, by_unit)


def _coefficients(
    stats: BlockedStats, total: Float[np.ndarray, "rung moment"], count: HostPerRung
) -> Float[np.ndarray, "rung side"]:
    """θ of the step up and of the step down from each rung; 0 where there are few draws, or where c does not vary."""
    assert stats.log_steps is not None
    control, square, *products = (_ratio(part, count) for part in total.T)
    variance = square - control**2
    log_ratio_sums = np.logaddexp.reduce(stats.log_steps, axis=(0, 1))
    beyond = np.pad(stats.log_z_guess, 1, mode="edge")
    guesses = np.stack([beyond[2:], beyond[:-2]], axis=1) - stats.log_z_guess[:, None]
    log_means = log_ratio_sums - np.log(np.maximum(count, 1.0))[:, None] - guesses  # of the ratios that `products` have
    is_known = (count >= _LEAST_DRAWS) & (variance > _LEAST_VARIANCE * square)
    is_known = is_known[:, None] & (np.abs(log_means) < _MOST_OFF)
    means = np.exp(np.where(is_known, log_means, 0.0))
    covariances = np.stack(products, axis=1) - control[:, None] * means
    return np.where(is_known, covariances / means / np.where(variance > 0, variance, 1.0)[:, None], 0.0)


def _added_up(coefficients: Float[np.ndarray, "rung side"], controls: np.ndarray) -> np.ndarray:
    """Σ over the steps from the base: half of each by the step up from its lower rung, half by that down to it."""
    up, down = coefficients[:, 0] * controls, -coefficients[:, 1] * controls
    return summed_from_base((up[..., :-1] + down[..., 1:]) / 2)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
