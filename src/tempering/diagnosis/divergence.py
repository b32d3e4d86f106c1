"""Trajectories that diverged: whether the answer can bear them, and what they mean where it can.

A divergent trajectory is rejected like any bad proposal, so the law that is sampled stays right. But a region in which
trajectories fail is hardly moved through. Chains still come to it through the lower rungs, as long as it can be reached
there. So divergences that are as frequent half-way up, such as those of far-out draws of the base, only cost time.
What is more frequent at the target belongs to its own shape, such as the neck of a funnel. How much of the target is
there is known only from the chains that came through the lower rungs, about once in a round trip.
"""

import numpy as np

from tempering._types import HostPerRung
from tempering.diagnosis.rung_flow import count_ends
from tempering.stats import MoveCounts
from tempering.verdicts import Finding, Verdict

MIN_DIVERGENT = 10  # trajectories at the target: their share is then known to a third
MIN_RISE = 1.5  # of that share over the one at the middle of the ladder; noise of ten trajectories is less
MAX_BIAS = 0.5  # standard errors: with a bias of so many an interval of 95 % holds in 92 %
_MIDDLE = (0.5, 0.75)  # of the ladder, by prior mass


def divergent(
    moves: MoveCounts, log_rung_mass: HostPerRung, std_error: float, num_round_trips: float
) -> Finding | None:
    """The finding for divergences at the target that the answer cannot bear.

    The region that only round trips come to is taken to be as heavy as the share p of trajectories that fail at the
    target, less the share that fails at the middle rungs. A mass p that is known from n independent visits has an error
    of √(p/n), which is that of log Z in nats. It must be less than half of the standard error.

    Args:
        moves: How the moves of a run went.
        log_rung_mass: The log of the share of draws that each rung is meant to have.
        std_error: The standard error of log Z.
        num_round_trips: Of all chains together.

    Returns:
        The finding; None if divergences at the target are few, or hardly more frequent there than at the middle rungs.
    """
    prior = np.exp(log_rung_mass)
    place, num_top = np.cumsum(prior) - prior / 2, count_ends(prior)[1]
    is_middle = (place > _MIDDLE[0]) & (place < _MIDDLE[1])
    at_top, at_middle = _share(moves, np.arange(len(prior)) >= len(prior) - num_top), _share(moves, is_middle)
    num_at_top = moves.num_divergent[-num_top:].sum()
    if num_at_top < MIN_DIVERGENT or at_top <= MIN_RISE * at_middle:
        return None
    risked = float(np.sqrt((at_top - at_middle) / max(num_round_trips, 1.0)))
    if not risked > MAX_BIAS * std_error:
        return None
    seen = f"{at_top:.2g} of the trajectories at the target diverged, {at_middle:.2g} at the middle rungs"
    risk = f"after {num_round_trips:.0f} round trips log Z may be off by {risked:.2g} nats"
    return Finding(
        Verdict.DIVERGENT, f"{seen}: {risk}, and its error is {std_error:.2g}",
        "take a smaller step, `move=tp.HMC(0.01)`, or rescale x",
    )  # fmt: skip


def divergences_in_words(moves: MoveCounts | None) -> str:
    """What the divergences of a run that is not called divergent mean, in a line; empty if there were none.

    Args:
        moves: How the moves of a run went; None if that was not kept.

    Returns:
        How many there were, and that they cost time only.
    """
    if moves is None or not moves.num_divergent.any():
        return ""
    how_many = f"{moves.num_divergent.sum():.0f} of {moves.num_moves.sum():.0f} trajectories diverged"
    return f"{how_many} and were rejected, which costs time; a smaller step, or another scale of x, has fewer"


def _share(moves: MoveCounts, where: np.ndarray) -> float:
    return float(moves.num_divergent[where].sum() / max(moves.num_moves[where].sum(), 1.0))
