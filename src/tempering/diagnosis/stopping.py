"""When a run towards a target error may end: a pure rule that looks at the run rarely.

A run that stops when its own numbers allow it stops more often when the error happens to be underestimated, and the
more often it is looked at, the stronger the effect. So looks are few, and each is placed where the error should have
come down to the target.
"""

import dataclasses
import enum

import numpy as np

from tempering._defaults import LENGTH
from tempering._types import HostPerRung
from tempering.findings import rounded_up, whole_rounded_up
from tempering.ladder import LearnedWeights, PathLength
from tempering.verdicts import Finding, Verdict

MIN_GROWTH, MAX_GROWTH = 1.4, 4.0  # of a run's length from one look to the next
MIN_GROWTH_OF_TRIPS = 1.1  # where the error is small enough, and only round trips are missing
BUDGET = 40  # times the first look, where none is given: on a 784×500 RBM many runs need more than 20
MIN_BUDGET = 5000  # sweeps, where none is given
MAX_BUDGET = 1_000_000  # likewise
MARGIN = 1.2  # the error is itself known to some 7 % for 100 chains, its square to 14 %
MOST_ANEW = 0.75  # of the sweeps that are left: a run starts again with other weights where it saves a quarter of them
TARGET_ERROR = 0.1  # of log Z, where neither an error nor a length was asked for
_PER_SQUARE = 2.1  # sweeps per squared length in √KL: a round trip takes 1.7 of them on normal targets
_SHORTEST = 64  # sweeps; with fewer, 32 blocks would be single draws
_LONGEST = 200_000  # sweeps, for ladders that are more than 300 long: if they end in nothing, people want to know soon


def first_look(length: PathLength | None) -> int:
    """Sweeps after which a run is first looked at: about what a chain needs to cross the ladder and come back.

    Chains diffuse along a ladder, so this grows with the square of its length.

    Args:
        length: The length of the path, where it was measured.
    """
    if length is None or not np.isfinite(length.root_kl):
        return LENGTH
    return int(np.clip(np.ceil(_PER_SQUARE * length.root_kl**2), _SHORTEST, _LONGEST))


def expected_length(length: PathLength | None, max_sweeps: int) -> str:
    """What is known beforehand about the length of a run that ends when its error is small enough.

    Args:
        length: The length of the path, where it was measured.
        max_sweeps: The most sweeps per chain.
    """
    if length is None:
        return ""
    return f"the ladder is {length.root_kl:.0f} long: about {first_look(length)} sweeps, at most {max_sweeps}"


class Hope(enum.Enum):
    """What more sweeps can do about a finding."""

    MORE = "more sweeps may cure it"
    MORE_IF_NOISY = "more sweeps may cure it while the error is larger than the target, not after"
    ANEW = "only a better Ẑ cures it, and the draws so far give one"
    NONE = "no number of sweeps cures it"


HOPES = {
    Verdict.SHORT: Hope.MORE,  # by definition
    Verdict.RELAXING: Hope.ANEW,  # the start stays in the average as 1/length, unless it is left out
    Verdict.CAPTURED: Hope.ANEW,  # the time before chains were caught stays in the average too
    Verdict.UNEQUILIBRATED: Hope.ANEW,  # the warm-up's Ẑ stays what it was
    Verdict.UNEVEN: Hope.ANEW,  # the occupancy follows from Ẑ, however long the run
    Verdict.UNREACHED: Hope.ANEW,  # the same; Rao-Blackwellized sums give Ẑ at rungs that were not visited
    Verdict.UNSURE: Hope.MORE,  # with more tours and longer chains the estimates of the error agree
    Verdict.STUCK: Hope.MORE,  # round trips add up
    Verdict.KNOT: Hope.MORE,  # and so do passages
    Verdict.NO_ERROR: Hope.MORE,  # a longer run has more blocks to compare
    Verdict.UNCONVERGED: Hope.MORE,  # more draws make the equations better conditioned
    Verdict.NO_OVERLAP: Hope.MORE_IF_NOISY,  # rare draws may still come, unless the rungs are too far apart
    Verdict.HEAVY_TAILS: Hope.MORE_IF_NOISY,  # the same
    Verdict.DISAGREES: Hope.MORE_IF_NOISY,  # the annealing pass does not improve: in the end it alone is wrong
    Verdict.MISSED: Hope.NONE,  # seen after the run; chains do not come where the base does not lead
    Verdict.LOST: Hope.NONE,  # said of trackers only
    Verdict.COARSE: Hope.NONE,  # less noise makes the error between rungs more visible
    Verdict.DIVERGENT: Hope.NONE,  # the same step fails at the same places
    Verdict.FROZEN: Hope.NONE,  # steps are not tuned again
    Verdict.NONFINITE: Hope.NONE,  # the draws stay left out
}


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a run was asked for: an error and a good verdict, within a budget.

    Attributes:
        target_error: The standard error of log Z at which the run may end.
        max_sweeps: The most sweeps per chain after the warm-up.
    """

    target_error: float
    max_sweeps: int

    @classmethod
    def from_settings(
        cls,
        target_error: float | None,
        num_sweeps: int | None,
        max_sweeps: int | None,
        length: PathLength | None = None,
    ) -> "Goal | None":
        """The goal of a run with these settings.

        Args:
            target_error: The error that was asked for; 0.1 where no `num_sweeps` was asked for either.
            num_sweeps: Sweeps per chain before the first look. If they are given without an error, there is no goal.
            max_sweeps: The budget, by default 40 times the sweeps before the first look, at least 5000 and at most 10⁶.
            length: The length of the path, which decides on the first look where `num_sweeps` does not.
        """
        if target_error is None and num_sweeps is not None:
            return None
        look = first_look(length) if num_sweeps is None else num_sweeps
        budget = max(min(BUDGET * look, MAX_BUDGET), MIN_BUDGET, look) if max_sweeps is None else max_sweeps
        return cls(TARGET_ERROR if target_error is None else target_error, budget)


@dataclasses.dataclass(frozen=True)
class Look:
    """What is known about a run when it is looked at.

    Attributes:
        num_sweeps: Sweeps per chain that count.
        num_discarded: Sweeps per chain after the warm-up and before those, which no longer count.
        std_error: The standard error of log Z.
        findings: What was found about the run.
        chain_error: The part of the error that falls as a run gets longer, where it is known: the scatter of chains.
        missing: How many times as long the run must be for chains to have crossed the ladder often enough.
        learned: Rung weights that were learned from the run, where they are wanted.
    """

    num_sweeps: int
    num_discarded: int
    std_error: float
    findings: tuple[Finding, ...]
    chain_error: float | None = None
    missing: float = 0.0
    learned: LearnedWeights | None = None

    @property
    def num_done(self) -> int:
        """Sweeps per chain since the warm-up."""
        return self.num_discarded + self.num_sweeps

    def num_sweeps_for(self, target_error: float, gain: float = 1.0) -> float:
        """How many sweeps should bring the error down to a target, with a margin: it falls as 1/√length.

        Args:
            target_error: The standard error to reach.
            gain: The factor by which other rung weights make the variance smaller.
        """
        error = self.std_error if self.chain_error is None else self.chain_error
        return self.num_sweeps * max(MARGIN * (error / target_error) ** 2 / gain, self.missing)


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do after a look: end the run, continue it, or start again with a better Ẑ, or better rung weights.

    Attributes:
        num_more: Sweeps per chain until the next look; 0 ends the run.
        is_anew: Whether earlier draws are discarded, after Ẑ was taken from them.
        log_prior: log r_k of the run that starts again, where they change.
    """

    num_more: int = 0
    is_anew: bool = False
    log_prior: HostPerRung | None = None

    @property
    def ends(self) -> bool:
        """Whether the run ends here."""
        return self.num_more == 0


END = Decision()


def decide(look: Look, goal: Goal, block_steps: int = 1) -> Decision:
    """Decide whether a run may end, and if not, when to look again: at 1.4 to 4 times the present length.

    A run that has the error and waits for round trips may be looked at sooner, at 1.1 times its length, and is where
    half of the missing sweeps are done. A run that is far from its target starts again with learned rung weights where
    these save a quarter of the sweeps that are left.

    Args:
        look: What is known about the run.
        goal: What was asked for.
        block_steps: The next look is a whole number of blocks of so many steps away, within the budget.

    Returns:
        The end if the goal is reached, the budget is spent, or no number of sweeps cures what was found.
    """
    is_there = look.std_error <= goal.target_error
    hopes = {HOPES[finding.verdict] for finding in look.findings}
    left = goal.max_sweeps - look.num_done
    is_vain = Hope.NONE in hopes or (is_there and hopes <= {Hope.MORE_IF_NOISY})  # true if there are no findings
    if is_vain or left <= 0:
        return END
    # Round trips that are missing come sooner than the first: a chain must reach an end before one counts.
    looked = dataclasses.replace(look, missing=(1 + look.missing) / 2)
    needed, learned = looked.num_sweeps_for(goal.target_error), None
    if look.learned is not None and left > look.num_sweeps:
        with_learned = looked.num_sweeps_for(goal.target_error, look.learned.gain)
        if with_learned <= MOST_ANEW * (needed - look.num_sweeps):
            needed, learned = with_learned, look.learned.log_prior
    least = MIN_GROWTH_OF_TRIPS if is_there and look.missing > 1 else MIN_GROWTH
    length = float(np.clip(needed, least * look.num_sweeps, MAX_GROWTH * look.num_sweeps))
    # Not with less left than there is already: that would discard more than it adds.
    is_anew = (Hope.ANEW in hopes and left > look.num_sweeps) or learned is not None
    num_more = length if is_anew else length - look.num_sweeps
    num_blocks = int(np.ceil(num_more / block_steps - 1e-9))  # rounding must not add a block
    return Decision(min(block_steps * num_blocks, left), is_anew, learned)


def too_short(look: Look, goal: Goal, *, is_late: bool = False) -> Finding | None:
    """The finding for a budget that was spent before the error came down to its target, if it was.

    Args:
        look: What is known about the run at its end.
        goal: What was asked for.
        is_late: Whether the run ended because its time was up.
    """
    if look.std_error <= goal.target_error or not (is_late or look.num_done >= goal.max_sweeps):
        return None
    seen = f"the error is {look.std_error:.2g} after {look.num_done} sweeps, {goal.target_error:g} was asked for"
    if not np.isfinite(look.std_error):
        return Finding(Verdict.SHORT, seen, "run several chains, or more sweeps")
    needed = whole_rounded_up(look.num_discarded + look.num_sweeps_for(goal.target_error))
    more = "resume with a larger `max_seconds`" if is_late else f"allow `max_sweeps={needed}`"
    cure = f"{more}, or accept `target_error={rounded_up(1.05 * look.std_error):g}`"
    return Finding(Verdict.SHORT, f"{seen}; about {needed} would do", cure)


def cut_off(look: Look, num_steps: int) -> Finding | None:
    """The finding for a run of a fixed length that its time limit ended early, if it did.

    Args:
        look: What is known about the run at its end.
        num_steps: The sweeps per chain that were asked for.
    """
    if look.num_done >= num_steps:
        return None
    seen = f"the time was up after {look.num_done} of {num_steps} sweeps"
    return Finding(Verdict.SHORT, seen, "allow a larger `max_seconds`")


UNTEMPERED = Finding(
    Verdict.SHORT,
    "the time was up in the warm-up: the answer rests on its particles, and no chain was tempered",
    "allow a larger `max_seconds`",
)
"""The finding for a run whose time was up before its chains were tempered."""
