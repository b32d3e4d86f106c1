"""RTS as maximum likelihood (Section 2.3): the same estimate derived in another way, kept as a check.

`mixed` maximises the sum of such likelihoods over runs with different Ẑ, which has no closed form.
"""

import dataclasses

import numpy as np
from scipy.special import logsumexp

from tempering._types import HostPerRung
from tempering.estimators.log_z import LogZ
from tempering.estimators.tempered import log_occupancy, rts
from tempering.stats import BlockedStats, TemperingStats


def log_likelihood(stats: TemperingStats | BlockedStats, log_z: HostPerRung) -> float:
    """L_RB[Z]/N of eq. 14, up to a constant: Σ_k ĉ_k log Z_k − log Σ_k r_k Z_k/Ẑ_k.

    Args:
        stats: The statistics of a tempered run.
        log_z: log Z_k at every rung; a constant added to all of them changes nothing.

    Returns:
        The log-likelihood per draw.
    """
    stats = stats.on_host()
    occupancy = np.exp(log_occupancy(stats))
    return float(occupancy @ log_z - logsumexp(stats.log_prior + log_z - stats.log_z_guess))


def maximum_likelihood(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """The maximiser of eq. 14 with Z_0 fixed, from the K − 1 linear equations of its derivatives; it equals RTS.

    In y_k = r_k Z_k / (Ẑ_k r_0) they read y_k/ĉ_k − Σ_j y_j = 1, where j and k go over all rungs but the base.

    Args:
        stats: The statistics of a tempered run.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: It loses digits where some ĉ_k is tiny. `rts` has the solution in closed form and does not.
    """
    stats = stats.on_host()
    occupancy = np.exp(log_occupancy(stats))[1:]
    system = np.diag(1 / occupancy) - 1
    y = np.linalg.solve(system, np.ones(len(occupancy)))
    ratios = np.log(y) + (stats.log_z_guess - stats.log_prior)[1:] + stats.log_prior[0]
    values = log_z_base + np.append(0.0, ratios)
    return dataclasses.replace(rts(stats, log_z_base=log_z_base), method="likelihood", values=values)
