"""Bridge sampling with control variates: what has mean 0 at each rung takes noise off the steps."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._types import HostPerRung
from tempering.estimators.bridging import bridge_sampling
from tempering.estimators.combining import influences_of
from tempering.estimators.inputs import draws_made, not_kept
from tempering.estimators.log_z import LogZ
from tempering.estimators.thermodynamic import summed_from_base
from tempering.estimators.uncertainty import summed_by_unit, uncertainty_of_mean
from tempering.stats import BlockedStats, TemperingStats

_LEAST_DRAWS = 10  # at a rung, from which its coefficients are estimated
_LEAST_VARIANCE = 1e-6  # of the mean square; below it a control does not vary


def controlled_bridge(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """Bridge sampling, less the regression of its steps on control variates.

    A step is made of log b̄, where b̄ is the mean over the draws made at a rung of the share b of a neighbouring density
    (see `bridge_sampling`). Let c be a number with mean 0 at that rung, and c̄ its mean over the same draws. To first
    order, log b̄ − θ c̄ with θ = Cov(b, c)/(b̄ Var(c)) has the same expectation and the least variance. HMC gives such
    numbers on geometric and likelihood paths: the divergence of a flow that carries x from rung to rung, plus the
    change of log f along it (Stein's identity). For normal laws c = −(s − E[s]) with s = d log f/dβ, and hardly any
    noise is left. Oates, Papamarkou and Girolami (2016) control thermodynamic integrals in this way.

    ```python
    answer = controlled_bridge(result.recording.stats, log_z_base=path.log_z_base())
    ```

    Args:
        stats: The statistics of a tempered run, with `tp.stats.Keep(bridges=True, controls=True)`.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: c has mean 0 only where log f is continuous on the whole space. So moves give none where an operation of
    log f may jump. Rungs at which c was infinite, or has few draws, are not controlled.
    """
    stats = stats.on_host()
    if stats.controls is None:
        raise not_kept("bridge_controlled", "bridges", "control variates, which HMC gives for continuous densities")
    plain = bridge_sampling(stats, log_z_base=log_z_base)
    correction, by_unit = _corrections(stats)
    uncertainty = uncertainty_of_mean(influences_of(plain) - by_unit, plain.biases)
    unknown = np.where(np.isfinite(plain.std_errors), 0.0, np.inf)
    uncertainty = dataclasses.replace(uncertainty, std_error=uncertainty.std_error + unknown)
    return LogZ.from_uncertainty(
        "bridge_controlled", plain.values - correction, uncertainty, plain.findings, keep_influences=True
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
    assert stats.log_bridges is not None
    control, square, *products = (_ratio(part, count) for part in total.T)
    variance = square - control**2
    log_sums = np.logaddexp.reduce(stats.log_bridges, axis=(0, 1))
    shares = _ratio(np.exp(log_sums), count[:, None])
    is_known = ((count >= _LEAST_DRAWS) & (variance > _LEAST_VARIANCE * square))[:, None] & (shares > 0)
    covariances = np.stack(products, axis=1) - control[:, None] * shares
    return np.where(is_known, _ratio(covariances, shares * variance[:, None]), 0.0)


def _added_up(coefficients: Float[np.ndarray, "rung side"], controls: np.ndarray) -> np.ndarray:
    """Σ over the steps from the base: each has the mean at its lower rung, less that at its upper one."""
    up, down = coefficients[:, 0] * controls, coefficients[:, 1] * controls
    return summed_from_base(up[..., :-1] - down[..., 1:])


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """0 where there is nothing to divide by."""
    return np.divide(sums, counts, out=np.zeros_like(sums), where=np.broadcast_to(counts > 0, sums.shape))
