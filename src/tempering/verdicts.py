"""What can be said about an answer: verdicts, and the findings that lead to them."""

import dataclasses
import enum
from collections.abc import Iterable


class Verdict(enum.Enum):
    """What can be said about an answer. The values are messages for readers; the order is from good to worst.

    ```python
    if not result.verdict.is_good:
        print(result.verdict.value)
    ```
    """

    GOOD = "Good: the chains crossed the ladder often, and nothing disagrees."
    SHORT = "Too short: the error is larger than the one asked for, and the budget is spent."
    UNSURE = "Unsure of its error: a few chains or tours decide it, and it may be larger than it seems."
    UNEQUILIBRATED = "Not equilibrated: the warm-up ended before the rungs were evenly visited."
    COARSE = "Coarse: the rungs lie too far apart, and the error made between them exceeds the noise."
    RELAXING = "Still relaxing: the two halves of the run disagree, so the chains remember their start."
    UNEVEN = "Uneven: some rungs are visited far less than they should be, so the guess of log Z was poor."
    HEAVY_TAILS = "Heavy tails: a few weights or chains decide the estimate; neither it nor its error can be trusted."
    DISAGREES = "Disagrees: independent estimates of the same log Z differ by more than their errors allow."
    CAPTURED = "Captured: chains find places that they do not leave, so the mass there is not known yet."
    MISSED = "Missed: a part of the mass is where the run has not been."
    NO_OVERLAP = "No overlap: neighbouring rungs share hardly any draws, so their ratio is unknown."
    UNCONVERGED = "Not converged: the equations for log Z were not solved to their tolerance."
    LOST = "Lost: the parameters moved faster than the chains could follow, so log Z is no longer known."
    DIVERGENT = "Divergent: trajectories fail near the target, so that chains may miss a part of it."
    FROZEN = "Frozen: at some rungs hardly any move is accepted, so the chains do not move there."
    STUCK = "Stuck: the chains hardly travelled between the base and the target, so the error bar cannot be trusted."
    KNOT = "Knot: the chains hardly pass one narrow stretch of the ladder, so the ratio of its two sides is unknown."
    UNREACHED = "Unreached: no chain ever visited some rungs."
    NO_ERROR = "No error bar: there are too few independent parts to estimate an error from."
    NONFINITE = "Not finite: the density was NaN or infinite at some draws."

    @property
    def is_good(self) -> bool:
        """Whether the answer can be trusted."""
        return self is Verdict.GOOD

    @property
    def label(self) -> str:
        """The name in files and scripts: "good", "relaxing" …"""
        return self.name.lower()


@dataclasses.dataclass(frozen=True)
class Finding:
    """One reason for concern about an answer. It prints as "what was seen; what to do."

    Attributes:
        verdict: What kind of problem it is.
        seen: What was seen, with its numbers.
        cure: What to do about it. Arguments of `tempering.estimate` are written in backticks.
    """

    verdict: Verdict
    seen: str
    cure: str

    def with_cure(self, cure: str | None) -> "Finding":
        """The same finding with a model's own advice in the place of the general one.

        Args:
            cure: What to do; None keeps the present cure. A number of sweeps that would do stays before it.
        """
        if cure is None:
            return self
        keeps = "`num_sweeps=" in self.cure
        return dataclasses.replace(self, cure=f"{self.cure}, or {cure}" if keeps else cure)

    def __str__(self) -> str:
        return f"{self.seen}; {self.cure}."


def without_none(*findings: Finding | None) -> tuple[Finding, ...]:
    """The findings among the results of checks, which are None where nothing is wrong."""
    return tuple(finding for finding in findings if finding is not None)


def gravest(findings: Iterable[Finding]) -> Verdict:
    """The worst verdict among the findings; good if there are none."""
    order = list(Verdict)
    return max((finding.verdict for finding in findings), key=order.index, default=Verdict.GOOD)
