"""When a run that was asked for an error may end: a pure rule, which looks seldom.

Whoever stops at a moment chosen by the numbers themselves stops more often when the error happens to be
underestimated, and the more often one looks, the worse. So looks are few, and each next one lies where the error should
have come down to what was asked for.
"""

import dataclasses
import enum

import numpy as np

from tempering.verdicts import Finding, Verdict

MIN_GROWTH, MAX_GROWTH = 1.4, 4.0  # of a run's length from one look to the next
BUDGET = 100  # times the first look, where none is given
MARGIN = 1.2  # the error is itself known to some 7 % for 100 chains, its square to 14 %


class Hope(enum.Enum):
    """What more sweeps may do about a finding."""

    MORE = "more sweeps may cure it"
    MORE_IF_NOISY = "more sweeps may cure it while the error is larger than the one asked for, not after"
    ANEW = "only a better Ẑ cures it, and the draws so far give one"
    NONE = "no number of sweeps cures it"


HOPES = {
    Verdict.SHORT: Hope.MORE,  # by definition
    Verdict.RELAXING: Hope.ANEW,  # the start stays in the average as 1/length, unless it is left out
    Verdict.UNEQUILIBRATED: Hope.ANEW,  # the warm-up's Ẑ stays what it was
    Verdict.UNEVEN: Hope.ANEW,  # occupancy tends to what Ẑ makes it, however long the run
    Verdict.UNREACHED: Hope.ANEW,  # the same; Rao-Blackwellized sums know Ẑ where nobody was
    Verdict.UNSURE: Hope.MORE,  # with more tours and longer chains the ways to see the error come together
    Verdict.STUCK: Hope.MORE,  # round trips add up
    Verdict.KNOT: Hope.MORE,  # and so do passages
    Verdict.NO_ERROR: Hope.MORE,  # a longer run has more blocks to compare
    Verdict.UNCONVERGED: Hope.MORE,  # more draws make the equations better conditioned
    Verdict.NO_OVERLAP: Hope.MORE_IF_NOISY,  # rare draws may still come; where rungs are too far apart they do not
    Verdict.HEAVY_TAILS: Hope.MORE_IF_NOISY,  # the same
    Verdict.DISAGREES: Hope.MORE_IF_NOISY,  # the annealing pass stays what it was; once it alone errs, so do they
    Verdict.LOST: Hope.NONE,  # of a tracker, which no run is
    Verdict.COARSE: Hope.NONE,  # with less noise, what is missed between rungs only stands out more
    Verdict.FROZEN: Hope.NONE,  # steps are not tuned again
    Verdict.NONFINITE: Hope.NONE,  # the draws stay left out
}


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a run was asked for: this error and a good verdict, within this many sweeps per chain."""

    target_error: float
    max_sweeps: int

    @classmethod
    def from_settings(cls, target_error: float | None, num_sweeps: int, max_sweeps: int | None) -> "Goal | None":
        """What the settings say; None where no error is asked for."""
        if target_error is None:
            return None
        return cls(target_error, BUDGET * num_sweeps if max_sweeps is None else max_sweeps)


@dataclasses.dataclass(frozen=True)
class Look:
    """What is seen of a run when it is looked at."""

    num_sweeps: int  # per chain that count
    num_discarded: int  # before them, after the warm-up
    std_error: float
    findings: tuple[Finding, ...]

    @property
    def num_done(self) -> int:
        """Sweeps per chain since the warm-up."""
        return self.num_discarded + self.num_sweeps

    def num_sweeps_for(self, target_error: float) -> float:
        """How many that count should bring the error down to the target, with a margin: it falls as 1/√length."""
        return MARGIN * self.num_sweeps * (self.std_error / target_error) ** 2


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do after a look: end here, go on for so many sweeps, or do so with a new Ẑ and without earlier draws."""

    num_more: int = 0
    is_anew: bool = False

    @property
    def ends(self) -> bool:
        """Whether the run ends here."""
        return self.num_more == 0


END = Decision()


def decide(look: Look, goal: Goal, block_steps: int = 1) -> Decision:
    """Whether a run may end, and if not, when to look again: at whole blocks, between 1.4 and 4 times the length."""
    is_there = look.std_error <= goal.target_error
    hopes = {HOPES[finding.verdict] for finding in look.findings}
    left = goal.max_sweeps - look.num_done
    is_vain = Hope.NONE in hopes or (is_there and hopes <= {Hope.MORE_IF_NOISY})  # which no findings are too
    if is_vain or left <= 0:
        return END
    needed = look.num_sweeps_for(goal.target_error)
    length = float(np.clip(needed, MIN_GROWTH * look.num_sweeps, MAX_GROWTH * look.num_sweeps))
    # Not with less left than there is already: that would throw more away than it brings.
    is_anew = Hope.ANEW in hopes and left > look.num_sweeps
    num_more = length if is_anew else length - look.num_sweeps
    num_blocks = int(np.ceil(num_more / block_steps - 1e-9))  # not one more for a last digit
    return Decision(min(block_steps * num_blocks, left), is_anew)


def too_short(look: Look, goal: Goal, *, is_late: bool = False) -> Finding | None:
    """What is said where the budget, of sweeps or of time, is spent before the error is what was asked for."""
    if look.std_error <= goal.target_error or not (is_late or look.num_done >= goal.max_sweeps):
        return None
    seen = f"the error is {look.std_error:.2g} after {look.num_done} sweeps, {goal.target_error:g} was asked for"
    if not np.isfinite(look.std_error):
        return Finding(Verdict.SHORT, seen, "run several chains, or more sweeps")
    needed = rounded_up(look.num_discarded + look.num_sweeps_for(goal.target_error))
    more = "resume with more of --max-time" if is_late else f"allow --max-sweeps {needed}"
    easier = rounded_up(1.05 * look.std_error)
    return Finding(
        Verdict.SHORT, f"{seen}; about {needed} would do", f"{more}, or ask for less, --target-error {easier:g}"
    )


def rounded_up(number: float) -> float | int:
    """To two digits; whole numbers from 100 on are whole."""
    unit = 10.0 ** (np.floor(np.log10(number)) - 1)
    rounded = np.ceil(number / unit - 1e-9) * unit
    return round(rounded) if rounded >= 100 else float(f"{rounded:.2g}")
