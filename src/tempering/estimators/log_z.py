"""The answer that every estimator gives."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from tempering._types import HostPerRung
from tempering.estimators.uncertainty import Errors, Uncertainty, interval_around
from tempering.verdicts import Finding, Verdict, gravest


@dataclasses.dataclass(frozen=True)
class LogZ:
    """log Z_k at every rung with its error; it cannot be made without one.

    `log_z`, `std_error` and `interval` without an index are those of the target, the last rung.
    """

    method: str
    values: HostPerRung
    std_errors: HostPerRung
    biases: HostPerRung  # E[value] − log Z_k to second order, not subtracted
    skewness: HostPerRung  # of the independent parts it was made from; it makes intervals lopsided
    dof: int
    findings: tuple[Finding, ...] = ()  # what the estimator itself noticed
    errors: Errors | None = None  # what the error of the target is made of, where that was looked into
    num_cut: int = 0  # sweeps per chain left out, as still remembering the start

    @classmethod
    def from_uncertainty(
        cls, method: str, values: HostPerRung, uncertainty: Uncertainty, findings: Iterable[Finding | None] = ()
    ) -> "LogZ":
        """A value per rung, the uncertainty of its log ratio to rung 0, and what the estimator noticed, if anything."""
        known = tuple(finding for finding in (_no_error(uncertainty), *findings) if finding is not None)
        return cls(
            method, values, uncertainty.std_error, uncertainty.bias, uncertainty.skewness, uncertainty.dof, known
        )

    @property
    def log_z(self) -> float:
        """log Z of the target."""
        return float(self.values[-1])

    @property
    def verdict(self) -> Verdict:
        """The gravest of what the estimator noticed, or good. What the run did is for `diagnose` to say."""
        return gravest(self.findings)

    @property
    def std_error(self) -> float:
        """Its standard error."""
        return float(self.std_errors[-1])

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return self.interval_at(0.95)

    def interval_at(self, level: float) -> tuple[float, float]:
        """A two-sided interval for log Z of the target."""
        low, high = self.intervals(level)[-1]
        return float(low), float(high)

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """(rung, 2): lower and upper ends at every rung."""
        ends = interval_around(self.values, self.std_errors, self.skewness, self.dof, level)
        return np.stack(ends, axis=1)


def _no_error(uncertainty: Uncertainty) -> Finding | None:
    if np.isfinite(uncertainty.std_error[-1]):
        return None
    return Finding(Verdict.NO_ERROR, "the standard error could not be estimated", "run several chains")
