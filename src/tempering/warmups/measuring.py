"""Warm-ups that pass along the whole path first, and so can say where the rungs go."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Int

from tempering._errors import InputError
from tempering.ladder import Ladder, LadderRule, StepLengths
from tempering.ladder.step_lengths import check_measure
from tempering.sampling import AbstractWarmup

_GOLDEN_SECTION = (5**0.5 - 1) / 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class AbstractMeasuringWarmup(AbstractWarmup):
    """A warm-up whose first stages measure how far apart neighbouring densities of the path are.

    Attributes:
        respaces: Whether rungs are spaced anew, by what was measured.
        measure: Of the steps between rungs that are made equal: "kl" for √KL, or "rejection"; see `StepLengths`.
        chooses_number: Whether it also says how many rungs there are. This needs a rule.
        least_rungs: The least number of rungs that it chooses.
        rule: Where rungs lie that are not spaced anew, and the weights of new ones.
    """

    respaces: bool = False
    measure: str = "kl"
    chooses_number: bool = False
    least_rungs: int = 2
    rule: LadderRule | None = None

    def __post_init__(self) -> None:
        check_measure(self.measure)
        if self.chooses_number and self.rule is None:
            name = type(self).__name__
            raise InputError(f"{name}(chooses_number=True) needs a `rule` for the weights of any number of rungs.")

    @property
    def shapes_the_run(self) -> bool:
        return self.tunes_moves or self.respaces or self.chooses_number

    @property
    def can_respace(self) -> bool:
        return True

    def respacing(
        self, measure: str | None, chooses_number: bool, rule: LadderRule | None, least_rungs: int = 2
    ) -> "AbstractMeasuringWarmup":
        asked: dict[str, Any] = {"chooses_number": chooses_number, "least_rungs": least_rungs}
        if measure is not None:
            asked |= {"respaces": True, "measure": measure}
        if rule is not None:
            asked |= {"rule": rule}
        return dataclasses.replace(self, **asked)

    def reshaped(self, ladder: Ladder, lengths: StepLengths) -> Ladder:
        """The rungs where they are wanted, as many as are wanted; the same ladder if nothing is to be chosen.

        Args:
            ladder: The ladder that was asked for.
            lengths: What was measured along its path.
        """
        if not (self.respaces or self.chooses_number):
            return ladder
        betas_of = lengths.betas if self.respaces or self.rule is None else self.rule.betas_of
        num_rungs = ladder.path.num_rungs
        if self.chooses_number:
            num_rungs = max(lengths.num_rungs(betas_of), self.least_rungs)
        betas = betas_of(num_rungs)
        return ladder.with_betas(betas, None if self.rule is None else self.rule.log_prior_of(betas))


def rungs_by_weight(ladder: Ladder, num_chains: int) -> Int[np.ndarray, " chain"]:
    """One rung a chain, in the proportions of the rung weights; any stretch of chains starts all along the ladder.

    Groups of neighbouring chains are compared with one another, so they must begin alike.

    Args:
        ladder: The ladder.
        num_chains: The number of chains.

    Returns:
        The rungs.
    """
    below = np.cumsum(np.exp(np.asarray(ladder.log_prior, np.float64)))
    places = np.argsort(np.argsort(np.arange(num_chains) * _GOLDEN_SECTION % 1))  # spread as evenly as can be
    middle = (places + 0.5) / num_chains
    return np.minimum(np.searchsorted(below, middle), len(below) - 1).astype(np.int32)
