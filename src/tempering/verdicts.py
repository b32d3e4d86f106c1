"""What may be said of an answer, and why: the words that estimators and diagnostics share."""

import dataclasses
import enum
from collections.abc import Iterable


class Verdict(enum.Enum):
    """What may be said of an answer; the values are the messages, the order is by gravity."""

    GOOD = "Good: the chains crossed the ladder often, and nothing disagrees."
    SHORT = "Too short: the error is larger than the one asked for, and the budget is spent."
    UNSURE = "Unsure of its error: a few chains or tours decide it, and it may be larger than it seems."
    UNEQUILIBRATED = "Unsettled: the warm-up ended before the rungs were evenly visited."
    COARSE = "Coarse: rungs lie too far apart; what is missed between them exceeds the noise."
    RELAXING = "Still relaxing: the two halves of the run disagree, so the chains remember their start."
    UNEVEN = "Uneven: some rungs are visited far less than they should be, so the guess of log Z was poor."
    HEAVY_TAILS = "Heavy tails: a few weights decide the estimate, so neither it nor its error is to be believed."
    DISAGREES = "Disagrees: independent estimates of the same log Z differ by more than their errors allow."
    NO_OVERLAP = "No overlap: neighbouring rungs share hardly any draws, so their ratio is unknown."
    UNCONVERGED = "Not converged: the equations for log Z were not solved to their tolerance."
    LOST = "Lost: the parameters moved faster than the chains could follow, so log Z is no longer known."
    FROZEN = "Frozen: at some rungs hardly any move is accepted, so the chains do not move there."
    STUCK = "Stuck: the chains hardly travelled between the base and the target; the error bar is not to be believed."
    KNOT = "Knot: the chains hardly pass one narrow stretch of the ladder, so its two sides are not tied together."
    UNREACHED = "Unreached: no chain ever visited some rungs."
    NO_ERROR = "No error bar: too few independent parts to say anything about the error."
    NONFINITE = "Not finite: the density was NaN or infinite at some draws."

    @property
    def is_good(self) -> bool:
        """Whether the answer may be believed."""
        return self is Verdict.GOOD

    @property
    def label(self) -> str:
        """The name as files and scripts see it: "good", "relaxing" …"""
        return self.name.lower()


@dataclasses.dataclass(frozen=True)
class Finding:
    """One reason for concern: what it is, what was seen, and what to do."""

    verdict: Verdict
    seen: str
    cure: str


def gravest(findings: Iterable[Finding]) -> Verdict:
    """The verdict that decides, or good."""
    order = list(Verdict)
    return max((finding.verdict for finding in findings), key=order.index, default=Verdict.GOOD)


def left_out(num_bad: int, num_draws: int) -> Finding | None:
    """What is said of draws whose density was not finite."""
    if num_bad == 0:
        return None
    return Finding(
        Verdict.NONFINITE,
        f"{num_bad} of {num_draws} draws had a NaN or infinite log density and were left out",
        "check the log density for overflow, log of zero, or weights that are too large",
    )
