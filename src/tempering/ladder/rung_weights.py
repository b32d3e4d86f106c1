"""Rung weights r_k: the share of a run's draws that each rung is meant to have."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from tempering._errors import InputError
from tempering._types import HostPerRung

BOTTOM, TOP = 1, 2  # which end of the ladder a rung belongs to, see `rung_ends`
END_MASS = 0.05  # of the prior: the share of rungs that counts as an end of the ladder

_KEPT = 0.1  # share of the present weights in learned ones: what seemed to cost nothing may have been seen too rarely
_SMOOTHED = 15  # learned weights are smoothed over one in so many of the rungs
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


class LearnedWeights(NamedTuple):
    """Rung weights that were learned from a run.

    Attributes:
        log_prior: log r_k, normalised.
        gain: By what factor the variance of log Z should be smaller with them, in a run of the same length.
    """

    log_prior: HostPerRung
    gain: float


def least_variance_weights(variances: HostPerRung, log_prior: HostPerRung) -> LearnedWeights:
    """The rung weights with which log Z of the target has the least variance, by that of a run with other weights.

    Chains diffuse along the ladder, so that the errors of the steps add up: Var log Z = Σ_k v_k. A step is known the
    better the more draws are made there, v_k = a_k / r_k, where a_k says how slowly states relax. Under Σ_k r_k = 1 the
    sum is smallest for r_k ∝ √a_k = √(v_k r_k). Katzgraber, Trebst, Huse and Troyer (2006) place temperatures by the
    same rule. A tenth of the present weights is kept.

    ```python
    learned = least_variance_weights(answer.std_errors**2, stats.log_prior)
    learned.gain  # 2.5: a run with `learned.log_prior` needs two fifths of the sweeps
    ```

    Args:
        variances: the variance of log(Z_k / Z_0) at every rung, in a run that has seen all rungs.
        log_prior: log r_k of that run.

    Returns:
        The weights, and what they should gain. Where variances are not finite, or nothing varies, the weights are those
        of the run.

    Caveats: It is right where states at a rung are forgotten by staying there. Where they are forgotten only at other
    rungs, as in a mode that chains leave only near the base, the gain is smaller than promised.
    """
    present = np.exp(np.asarray(log_prior, np.float64))
    rising = np.maximum.accumulate(np.asarray(variances, np.float64))
    if len(present) < 3 or not np.isfinite(rising).all() or rising[-1] <= rising[0]:
        return LearnedWeights(log_prior, 1.0)
    added = _smoothed(np.diff(rising), len(present) // _SMOOTHED // 2)
    of_steps = np.sqrt(added * _between(present))
    of_rungs = _between(np.pad(of_steps, 1, mode="edge"))
    learned = (1 - _KEPT) * of_rungs / of_rungs.sum() + _KEPT * present
    gain = added.sum() / np.sum(added * _between(present) / _between(learned))
    return LearnedWeights(np.log(learned / learned.sum()), float(gain))


def _between(numbers: np.ndarray) -> np.ndarray:
    return (numbers[1:] + numbers[:-1]) / 2


def _smoothed(numbers: np.ndarray, reach: int) -> np.ndarray:
    """Means over so many neighbours on each side; past an end its number is repeated."""
    width = 2 * reach + 1
    return np.convolve(np.pad(numbers, reach, mode="edge"), np.full(width, 1 / width), "valid")


def rung_ends(log_prior: HostPerRung) -> Int[np.ndarray, " rung"]:
    """BOTTOM for the first rungs that hold `END_MASS` of the prior, TOP for the last, 0 between them.

    Crossings are counted from one end to the other. Their number then does not depend on K.
    """
    below = np.cumsum(np.exp(log_prior))
    above = np.cumsum(np.exp(log_prior)[::-1])[::-1]
    ends = np.where(below <= END_MASS + 1e-9, BOTTOM, np.where(above <= END_MASS + 1e-9, TOP, 0))
    ends[0], ends[-1] = BOTTOM, TOP
    return ends.astype(np.int32)
