"""Rao-Blackwellized tempered sampling, and its plain cousin that counts visits."""

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import independent_parts, uncertainty_of_log_ratio
from tempering.stats import BlockedStats, TemperingStats


def rts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """log Z_k = log Ẑ_k + log(r_0 / r_k) + log(ĉ_k / ĉ_0), eq. 12, with ĉ_k the mean of q(k | x) over all draws.

    It lies while chains still remember where they started: look at the verdict, not at the error bar alone.
    Without `log_z_base` the answer is the ratio to rung 0.

    ```python
    answer = rts(stats, log_z_base=path.log_z_base())
    answer.log_z, answer.std_error, answer.interval
    ```
    """
    stats = stats.on_host()
    log_c = log_occupancy(stats)
    uncertainty = uncertainty_of_log_ratio(independent_parts(stats))
    return LogZ.from_uncertainty("rts", log_z_base + log_ratios(stats, log_c), uncertainty)


def bias_corrected_rts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """RTS less its own estimate of its bias, eq. 15. The paper saw no gain (Section 5): noise outweighs the bias."""
    answer = rts(stats, log_z_base=log_z_base)
    corrected = answer.values - answer.biases
    return dataclasses.replace(answer, method="rts_corrected", values=corrected, biases=np.zeros_like(corrected))


def continuous_rts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """RTS with a continuous β: eq. 12 with densities q(β) in the place of probabilities (Appendix C).

    `stats` must come from a ladder made by `Ladder.continuous`. Where log f is not linear in β between knots, the
    normaliser of q(β | x) is off by a term of the order of their squared distance. The paper found it less accurate.
    """
    return dataclasses.replace(rts(stats, log_z_base=log_z_base), method="continuous")


def ts(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0, pseudo_count: float = 0.1) -> LogZ:
    """The same from counted visits instead of posteriors; empty rungs get the paper's 0.1 (Section 4.3)."""
    stats = stats.on_host()
    visits = stats.visits.sum(axis=1).astype(np.float64)  # (chain, rung)
    log_c = np.log(visits.sum(axis=0) + pseudo_count)
    per_chain = np.log(visits + pseudo_count / stats.num_chains)
    return LogZ.from_uncertainty("ts", log_z_base + log_ratios(stats, log_c), uncertainty_of_log_ratio(per_chain))


def log_occupancy(stats: BlockedStats) -> Float[np.ndarray, " rung"]:
    """log ĉ_k of eq. 9, over all chains and blocks; draws that were not finite do not count."""
    num_draws = stats.num_draws.sum() - stats.num_nonfinite.sum()
    return np.asarray(logsumexp(stats.log_sums, axis=(0, 1))) - np.log(max(num_draws, 1))


def log_ratios(stats: BlockedStats, log_c: Float[np.ndarray, " rung"]) -> Float[np.ndarray, " rung"]:
    """log(Z_k / Z_0) from log q(β_k), eq. 11."""
    log_z = stats.log_z_guess - stats.log_prior + log_c
    return log_z - (log_z[0] if np.isfinite(log_z[0]) else np.nan)  # no draw was finite: there is no answer
