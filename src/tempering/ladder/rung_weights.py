"""Rung weights r_k: how much of a run each rung gets."""

import numpy as np
from jaxtyping import Int

from tempering._errors import InputError
from tempering._types import HostPerRung

BOTTOM, TOP = 1, 2  # which end of the ladder a rung belongs to


_END_MASS = 0.05


def uniform_log_prior(num_rungs: int) -> HostPerRung:
    """r_k = 1/K, the paper's choice."""
    return np.full(num_rungs, -np.log(num_rungs))


def ends_log_prior(num_rungs: int, share: float = 0.1) -> HostPerRung:
    """A `share` of r on the first twentieth of the rungs and another on the last, even within and between them.

    log Z is a ratio of how often chains are at the two ends, so that draws there say most. Larger shares have less
    noise still, but chains then forget their start more slowly.
    """
    if not 0 < share < 0.5:
        raise InputError(f"ends_log_prior(share=...) must lie between 0 and 0.5, got {share}.")
    num_outer = -(-num_rungs // 20)  # rounded up: a rung far heavier than its neighbour is slow to leave
    num_inner = num_rungs - 2 * num_outer
    if num_inner <= 0 or share * num_rungs <= num_outer:  # a short ladder's ends have as much already
        return uniform_log_prior(num_rungs)
    outer, inner = np.full(num_outer, share / num_outer), np.full(num_inner, (1 - 2 * share) / num_inner)
    return np.log(np.concatenate([outer, inner, outer]))


def exponential_log_prior(betas: HostPerRung, rate: float) -> HostPerRung:
    """r_k ∝ exp(rate · β_k): more time near the target, as in the paper's training runs."""
    log_prior = rate * np.asarray(betas, np.float64)
    return log_prior - np.logaddexp.reduce(log_prior)


def _ends(log_prior: HostPerRung) -> Int[np.ndarray, " rung"]:
    """The first and the last rungs that hold `_END_MASS` of the prior: round trips then do not depend on K."""
    below = np.cumsum(np.exp(log_prior))
    above = np.cumsum(np.exp(log_prior)[::-1])[::-1]
    ends = np.where(below <= _END_MASS + 1e-9, BOTTOM, np.where(above <= _END_MASS + 1e-9, TOP, 0))
    ends[0], ends[-1] = BOTTOM, TOP
    return ends.astype(np.int32)
