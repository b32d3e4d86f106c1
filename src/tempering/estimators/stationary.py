"""log Z from the stationary distribution of the transition matrix over rungs (Appendix G)."""

import numpy as np
from jaxtyping import Float

from tempering._logspace import log_or_minus_inf
from tempering._types import HostPerRung
from tempering.estimators.inputs import not_kept
from tempering.estimators.log_z import LogZ
from tempering.estimators.tempered import log_ratios
from tempering.estimators.uncertainty import uncertainty_by_jackknife
from tempering.stats import BlockedStats, Recording


def sd(recording: Recording, *, log_z_base: float = 0.0) -> LogZ:
    """log Z from the stationary distribution π = πP of the counted transitions between rungs (Appendix G).

    Args:
        recording: What a tempered run kept.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung; −inf at rungs that were never reached.

    Caveats: It is exact only if moves redraw x exactly, so that the rung alone is a Markov chain.
    """
    return _from_transitions("sd", recording.stats, recording.transition_counts, log_z_base)


def rsd(recording: Recording, *, log_z_base: float = 0.0) -> LogZ:
    """The same as `sd` from Rao-Blackwellized transitions, sums of q(k | x) in place of counts.

    Args:
        recording: What a tempered run kept, with `tp.stats.Keep(transitions=True)`.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: As for `sd`.
    """
    if recording.transition_sums is None:
        raise not_kept("rsd", "transitions", "Rao-Blackwellized transitions")
    return _from_transitions("rsd", recording.stats, recording.transition_sums, log_z_base)


def stationary_law(transitions: Float[np.ndarray, "rung rung"]) -> HostPerRung:
    """The left eigenvector at 1 of the row-normalised matrix, by a linear solve; a rung never left stays put."""
    num_rungs = len(transitions)
    totals = transitions.sum(axis=1, keepdims=True)
    matrix = np.where(totals > 0, transitions / np.where(totals > 0, totals, 1), np.eye(num_rungs))
    # πP = π and Σπ = 1: one equation is redundant, so least squares takes them all.
    system = np.vstack([matrix.T - np.eye(num_rungs), np.ones(num_rungs)])
    law = np.linalg.lstsq(system, np.append(np.zeros(num_rungs), 1.0), rcond=None)[0]
    return np.maximum(law, 0.0)


def _from_transitions(method: str, stats: BlockedStats, transitions: np.ndarray, log_z_base: float) -> LogZ:
    """The estimate from all transitions; its error from leaving out one group of chains at a time."""
    total = transitions.sum(axis=0, dtype=np.float64)
    values = log_ratios(stats, log_or_minus_inf(stationary_law(total)))
    left_out = [log_ratios(stats, log_or_minus_inf(stationary_law(total - group))) for group in transitions]
    return LogZ.from_uncertainty(method, log_z_base + values, uncertainty_by_jackknife(values, np.array(left_out)))
