"""Chains that come to a place and do not leave it again, which shows in a comparison with time reversed.

In equilibrium a run is as probable backwards as forwards: the moves are reversible, and so are the draws of the rung.
So the tours that the end of a run cuts off have the law of those that its start cuts off. Where much of the target is
hard to find and harder to leave, chains are caught there one after the other. Long tours are then cut off by the end of
the run and not by its start, although chains cross the ladder often and the two halves of the run hardly differ.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betainc, betaln

from tempering._logspace import log_or_minus_inf
from tempering.findings import twice_as_many
from tempering.stats import Tours
from tempering.verdicts import Finding, Verdict

MAX_ODDS = 500.0  # against luck; a run in equilibrium exceeds them at most once in 500 times


def captured(tours: Tours, num_sweeps: int) -> Finding | None:
    """The finding for chains that were caught on their way through the target.

    Args:
        tours: The tours of a run whose chains began spread over the rungs.
        num_sweeps: The sweeps of the run.

    Returns:
        The finding; None if long tours are cut off by the start of the run as often as by its end, or luck may be why.
    """
    first, last = tours.at_target_when_cut()
    found = most_one_sided(last - first)
    if found is None:
        return None
    seen = f"of the {found.number} chains that are away from the base for longest at either end of the run"
    return Finding(
        Verdict.CAPTURED,
        f"{seen}, {found.num_positive} are so at its end; in equilibrium it would be half of them",
        twice_as_many(num_sweeps),
    )


class OneSided(NamedTuple):
    """Numbers that are positive more often than luck allows.

    Attributes:
        number: How many of the largest were looked at.
        num_positive: How many of these are positive.
    """

    number: int
    num_positive: int


def most_one_sided(signed: Float[np.ndarray, " number"]) -> OneSided | None:
    """The largest of these numbers in size, where too many are positive to be luck; None where there are none.

    If both signs are equally probable, whatever the size, the signs are fair coins.

    Args:
        signed: Numbers of any size; those that are 0 or not finite do not count.
    """
    signed = signed[np.isfinite(signed) & (signed != 0)]
    is_positive = (signed > 0)[np.argsort(-np.abs(signed), kind="stable")]
    odds = log_odds(is_positive)
    most = int(odds.argmax())
    return OneSided(most, int(is_positive[:most].sum())) if odds[most] > np.log(MAX_ODDS) else None


def log_odds(is_positive: Bool[np.ndarray, " chain"]) -> Float[np.ndarray, " number"]:
    """The log odds against fair coins after 0, 1, 2, … of these, for coins that say yes too often.

    They are the likelihood ratio with the coin's bias p uniform on [1/2, 1],

        2 ∫ (2p)^b (2 − 2p)^c dp  after b times yes and c times no.

    Under fair coins this is a martingale that begins at 1. It exceeds M, however many coins are looked at, with
    probability 1/M at most (Ville 1939).

    Args:
        is_positive: What each coin said.

    Returns:
        One number more than there are coins.
    """
    yes = np.concatenate([[0], np.cumsum(is_positive)])
    no = np.arange(len(yes)) - yes
    above_half = log_or_minus_inf(betainc(no + 1, yes + 1, 0.5))  # the share of p > 1/2 after them
    return (yes + no + 1) * np.log(2) + betaln(yes + 1, no + 1) + above_half
