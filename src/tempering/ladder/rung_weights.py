"""Rung weights r_k: the share of a run's draws that each rung is meant to have."""

import numpy as np
from jaxtyping import Int

from tempering._errors import InputError
from tempering._types import HostPerRung

BOTTOM, TOP = 1, 2  # which end of the ladder a rung belongs to, see `rung_ends`
END_MASS = 0.05  # of the prior: the share of rungs that counts as an end of the ladder

_MAX_RATE = 80.0  # of weights exp(rate · β): beyond it the lightest rung has none in float32


def uniform_log_prior(num_rungs: int) -> HostPerRung:
    """log r_k for r_k = 1/K, the paper's choice.

    Args:
        num_rungs: K.

    Returns:
        log r_k of every rung, normalised.
    """
    return np.full(num_rungs, -np.log(num_rungs))


def ends_log_prior(num_rungs: int, share: float = 0.1) -> HostPerRung:
    """log r_k with more weight on both ends of the ladder.

    log Z is the ratio of how often chains are at the two ends, so that draws there are the most informative. The first
    twentieth of the rungs has `share` of the weight, and so has the last; weights are uniform within each and between
    them. A short ladder, whose ends have that much already, stays uniform. A larger share gives less noise, but chains
    then equilibrate more slowly.

    Args:
        num_rungs: K.
        share: the weight of each end, between 0 and 0.5.

    Returns:
        log r_k of every rung, normalised.
    """
    if not 0 < share < 0.5:
        raise InputError(f"ends_log_prior(share=...) must lie between 0 and 0.5, got {share}.")
    num_outer = -(-num_rungs // 20)  # rounded up: a rung far heavier than its neighbour is slow to leave
    num_inner = num_rungs - 2 * num_outer
    if num_inner <= 0 or share * num_rungs <= num_outer:
        return uniform_log_prior(num_rungs)
    outer, inner = np.full(num_outer, share / num_outer), np.full(num_inner, (1 - 2 * share) / num_inner)
    return np.log(np.concatenate([outer, inner, outer]))


def top_log_prior(num_rungs: int, share: float = 0.2) -> HostPerRung:
    """log r_k with more weight near the target, and all other rungs alike.

    Where chains are slowest near the target, as in RBMs, most of the noise comes from there, and draws of the base are
    cheap. The last twentieth of the rungs has `share` of the weight. A short ladder, whose top has that much already,
    stays uniform. Chains forget their start more slowly than with `ends_log_prior`.

    Args:
        num_rungs: K.
        share: the weight of the last twentieth, between 0 and 1.

    Returns:
        log r_k of every rung, normalised.
    """
    if not 0 < share < 1:
        raise InputError(f"top_log_prior(share=...) must lie between 0 and 1, got {share}.")
    num_top = -(-num_rungs // 20)
    num_below = num_rungs - num_top
    if share * num_rungs <= num_top:
        return uniform_log_prior(num_rungs)
    return np.log(np.concatenate([np.full(num_below, (1 - share) / num_below), np.full(num_top, share / num_top)]))


def exponential_log_prior(betas: HostPerRung, rate: float) -> HostPerRung:
    """log r_k for r_k ∝ exp(rate · β_k): more draws near the target, as in the paper's training runs.

    Args:
        betas: the inverse temperatures.
        rate: from −80 to 80; negative rates favour the base.

    Returns:
        log r_k of every rung, normalised.
    """
    if not abs(rate) <= _MAX_RATE:
        cure = f'take one from −{_MAX_RATE:g} to {_MAX_RATE:g}, such as `rung_weights="exp:2"`'
        raise InputError(f"A rate of {rate:g} gives one end of the ladder no weight at all in float32: {cure}.")
    log_prior = rate * np.asarray(betas, np.float64)
    return log_prior - np.logaddexp.reduce(log_prior)


def rung_ends(log_prior: HostPerRung) -> Int[np.ndarray, " rung"]:
    """BOTTOM for the first rungs that hold `END_MASS` of the prior, TOP for the last, 0 between them.

    Crossings are counted from one end to the other. Their number then does not depend on K.
    """
    below = np.cumsum(np.exp(log_prior))
    above = np.cumsum(np.exp(log_prior)[::-1])[::-1]
    ends = np.where(below <= END_MASS + 1e-9, BOTTOM, np.where(above <= END_MASS + 1e-9, TOP, 0))
    ends[0], ends[-1] = BOTTOM, TOP
    return ends.astype(np.int32)
