"""Rao-Blackwellized tempered sampling (RTS), and tempered sampling from counted visits."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._logspace import log_sum_exp
from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import independent_parts, uncertainty_of_log_ratio
from tempering.stats import BlockedStats, TemperingStats


def rts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """Rao-Blackwellized tempered sampling: log Z_k = log Ẑ_k + log(r_0 / r_k) + log(ĉ_k / ĉ_0), eq. 12.

    ĉ_k is the mean of q(k | x) over all draws.

    ```python
    answer = rts(stats, log_z_base=path.log_z_base())
    answer.log_z, answer.std_error, answer.interval
    ```

    Args:
        stats: The statistics of a tempered run.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: While chains remember where they started, the estimate is biased and its error too small. `diagnose` the
    run, or use `equilibrated_rts`, which leaves the transient out.
    """
    stats = stats.on_host()
    uncertainty = uncertainty_of_log_ratio(independent_parts(stats))
    values = log_z_base + log_ratios(stats, log_occupancy(stats))
    return LogZ.from_uncertainty("rts", values, uncertainty, keep_influences=True)


def bias_corrected_rts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """RTS minus the estimate of its bias, eq. 15. The paper saw no gain (Section 5): noise outweighs the bias.

    Args:
        stats: The statistics of a tempered run.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung, with `biases` 0.
    """
    answer = rts(stats, log_z_base=log_z_base)
    corrected = answer.values - answer.biases
    return dataclasses.replace(answer, method="rts_corrected", values=corrected, biases=np.zeros_like(corrected))


def continuous_rts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """RTS with a continuous β: eq. 12 with densities q(β) in place of probabilities (Appendix C).

    Args:
        stats: The statistics of a run along a ladder made by `Ladder.continuous`.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at the betas of the ladder.

    Caveats: If log f is not linear in β between them, the normaliser of q(β | x) has an error of the order of their
    squared distance. The paper found the method less accurate than RTS.
    """
    return dataclasses.replace(rts(stats, log_z_base=log_z_base), method="continuous")


def ts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0, pseudo_count: float = 0.1) -> LogZ:
    """Tempered sampling: eq. 12 with counted visits in place of posteriors (Section 4.3).

    Args:
        stats: The statistics of a tempered run.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.
        pseudo_count: What is added to the count of every rung, so that log Z of empty ones is finite.

    Returns:
        log Z at every rung.

    Caveats: As for `rts`. Counts are noisier than posteriors, and an empty rung gets a value without support.
    """
    stats = stats.on_host()
    visits = stats.visits.sum(axis=1).astype(np.float64)  # (chain, rung)
    log_c = np.log(visits.sum(axis=0) + pseudo_count)
    per_chain = np.log(visits + pseudo_count / stats.num_chains)
    return LogZ.from_uncertainty("ts", log_z_base + log_ratios(stats, log_c), uncertainty_of_log_ratio(per_chain))


def log_occupancy(stats: BlockedStats) -> Float[np.ndarray, " rung"]:
    """log ĉ_k of eq. 9, over all chains and blocks, without draws that were left out."""
    num_draws = stats.num_draws.sum() - stats.num_unused.sum()
    return log_sum_exp(stats.log_sums, axis=(0, 1)) - np.log(max(num_draws, 1))


def log_ratios(stats: BlockedStats, log_c: Float[np.ndarray, " rung"]) -> Float[np.ndarray, " rung"]:
    """log(Z_k / Z_0) from log q(β_k), eq. 11; NaN if no draw was finite."""
    log_z = stats.log_z_guess - stats.log_prior + log_c
    return log_z - (log_z[0] if np.isfinite(log_z[0]) else np.nan)
