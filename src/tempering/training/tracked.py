"""log Z at one update of a training loop."""

import dataclasses

from scipy.special import stdtrit

from tempering.results import MeanLogLikelihood
from tempering.verdicts import Finding, Verdict, gravest


@dataclasses.dataclass(frozen=True, repr=False)
class Tracked:
    """log Z after an update, with its error and a verdict; printed, it is one line.

    Attributes:
        log_z: log Z of the RBM.
        std_error: Its standard error; infinite where the verdict is not good.
        dof: Degrees of freedom of the error.
        num_updates: Updates so far.
        findings: Why log Z cannot be believed; empty where it can.
        is_anchored: Whether log Z was estimated from scratch at this update.
    """

    log_z: float
    std_error: float
    dof: int
    num_updates: int
    findings: tuple[Finding, ...] = ()
    is_anchored: bool = False

    @property
    def verdict(self) -> Verdict:
        """The gravest finding, or `Verdict.GOOD`."""
        return gravest(self.findings)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of log Z, by Student's t."""
        reach = float(stdtrit(self.dof, 0.975)) * self.std_error
        return self.log_z - reach, self.log_z + reach

    def mean_log_likelihood(self, mean_log_density: float, num_rows: int) -> MeanLogLikelihood:
        """The mean of log p(v) = log f(v) − log Z over rows of data.

        Args:
            mean_log_density: The mean of log f(v) over the rows.
            num_rows: How many rows there are.

        Returns:
            The mean log-likelihood, with the error and the interval of log Z.
        """
        low, high = self.interval
        band = (mean_log_density - high, mean_log_density - low)
        return MeanLogLikelihood(mean_log_density - self.log_z, self.std_error, band, num_rows)

    def __repr__(self) -> str:
        seen = "".join(f", {finding.seen}" for finding in self.findings)
        found = f"log Z {self.log_z:.3f} ± {self.std_error:.3f}, {self.verdict.label}{seen}"
        return f"update {self.num_updates}: {found}{', estimated from scratch' if self.is_anchored else ''}"
