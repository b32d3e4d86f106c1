"""The ratio of two partition functions, such as a Bayes factor."""

import dataclasses

import numpy as np

from tempering.verdicts import Finding, Verdict, gravest

_MAX_LOG = 20.0  # beyond it a factor is told as a power of ten


@dataclasses.dataclass(frozen=True)
class LogRatio:
    """log(Z_a / Z_b) of two independent runs; for two evidences of the same data, the log Bayes factor.

    Attributes:
        value: The log ratio.
        std_error: Its standard error.
        interval: Its 95 % interval.
        findings: What was found about either run.
    """

    value: float
    std_error: float
    interval: tuple[float, float]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The graver of the two."""
        return gravest(self.findings)

    def summary(self) -> str:
        """The answer in words."""
        low, high = self.interval
        answer = f"log ratio = {self.value:.3f} ± {self.std_error:.3f}, 95 % interval [{low:.3f}, {high:.3f}]"
        larger, ends = ("first", (low, high)) if self.value >= 0 else ("second", (-high, -low))
        factors = [_factor(log) for log in (abs(self.value), *ends)]
        told = f"Z of the {larger} is {factors[0]} times that of the other ({factors[1]} to {factors[2]})"
        return f"{answer}: {told}. {self.verdict.value}"

    def __str__(self) -> str:
        return self.summary()


def _factor(log: float) -> str:
    if not np.isfinite(log):
        return "any number of" if log > 0 else "0"
    if abs(log) <= _MAX_LOG:
        return f"{np.exp(log):.3g}"
    return f"10^{log / np.log(10):.1f}"
