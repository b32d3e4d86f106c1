"""The answer that every estimator gives."""

import dataclasses
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from tempering._types import HostPerRung
from tempering.estimators.uncertainty import Errors, Uncertainty, interval_around
from tempering.verdicts import Finding, Verdict, gravest, without_none

_NO_ERROR = Finding(
    Verdict.NO_ERROR, "the standard error could not be estimated", "run several chains, such as `num_chains=100`"
)


@dataclasses.dataclass(frozen=True)
class LogZ:
    """log Z_k at every rung with its error.

    `log_z`, `std_error` and `interval` are those of the target, the last rung.

    ```python
    answer = tp.rts(stats, log_z_base=path.log_z_base())
    print(answer)  # log Z = 68.406 ± 0.022 (rts)
    ```

    Attributes:
        method: The name of the estimator.
        values: log Z_k at every rung.
        std_errors: Their standard errors; infinite where unknown.
        biases: E[value] − log Z_k to second order, not subtracted.
        skewness: The skewness of the independent parts, which makes intervals asymmetric.
        dof: The number of independent parts less 1.
        findings: What the estimator noticed.
        errors: The parts of the error of the target, where they were looked into.
        num_cut: Sweeps per chain that were left out as transient.
        influences: What each independent unit contributes to the error, to first order; None where it is not kept.
        readings: The estimates from the same draws that this one was made of, where it is a combination.
        weights: The weight of each reading.

    Caveats: The error is that of the draws there are. Only `tempering.diagnosis.diagnose` checks how the run behaved.
    """

    method: str
    values: HostPerRung
    std_errors: HostPerRung
    biases: HostPerRung
    skewness: HostPerRung
    dof: int
    findings: tuple[Finding, ...] = ()
    errors: Errors | None = None
    num_cut: int = 0
    influences: Float[np.ndarray, "unit rung"] | None = dataclasses.field(default=None, repr=False)
    readings: tuple["LogZ", ...] = ()
    weights: tuple[float, ...] = ()

    @classmethod
    def from_uncertainty(
        cls,
        method: str,
        values: HostPerRung,
        uncertainty: Uncertainty,
        findings: Iterable[Finding | None] = (),
        *,
        keep_influences: bool = False,
    ) -> "LogZ":
        """Join values and their uncertainty to an answer; NO_ERROR is added where the target has no error.

        Args:
            method: The name of the estimator.
            values: log Z_k at every rung.
            uncertainty: The uncertainty of log(Z_k / Z_0).
            findings: What the estimator noticed; None is no finding.
            keep_influences: Whether the answer keeps what each unit contributes, for combining it with others.
        """
        std_error, bias, skewness = uncertainty.std_error, uncertainty.bias, uncertainty.skewness
        found = without_none(None if np.isfinite(std_error[-1]) else _NO_ERROR, *findings)
        influences = uncertainty.influences if keep_influences else None
        return cls(method, values, std_error, bias, skewness, uncertainty.dof, found, influences=influences)

    @classmethod
    def unknown(cls, method: str, num_rungs: int, findings: Iterable[Finding | None]) -> "LogZ":
        """The answer of an estimator that found nothing to estimate from: NaN at every rung.

        Args:
            method: The name of the estimator.
            num_rungs: The number of rungs.
            findings: What the estimator noticed; None is no finding.
        """
        return cls.from_uncertainty(method, np.full(num_rungs, np.nan), Uncertainty.unknown(num_rungs), findings)

    def with_least_error(self, least: float) -> "LogZ":
        """The same values with standard errors of at least this size at every rung but the base.

        Args:
            least: The smallest standard error that can be claimed.
        """
        std_errors = np.append(self.std_errors[:1], np.maximum(self.std_errors[1:], least))
        return dataclasses.replace(self, std_errors=std_errors, errors=None)

    @property
    def log_z(self) -> float:
        """log Z of the target."""
        return float(self.values[-1])

    @property
    def verdict(self) -> Verdict:
        """The gravest finding of the estimator, or good; `diagnose` judges the run."""
        return gravest(self.findings)

    @property
    def std_error(self) -> float:
        """The standard error of log Z of the target."""
        return float(self.std_errors[-1])

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of log Z of the target."""
        return self.interval_at(0.95)

    def interval_at(self, level: float) -> tuple[float, float]:
        """The two-sided interval of log Z of the target.

        Args:
            level: Its coverage, such as 0.68.
        """
        low, high = self.intervals(level)[-1]
        return float(low), float(high)

    def intervals(self, level: float = 0.95) -> Float[np.ndarray, "rung 2"]:
        """The lower and upper ends of two-sided intervals at every rung.

        Args:
            level: Their coverage.
        """
        std_errors = self.std_errors if self.errors is None else self.std_errors / self.errors.skewing
        ends = interval_around(self.values, std_errors, self.skewness, self.dof, level)
        return np.stack(ends, axis=1)

    def __repr__(self) -> str:
        return f"log Z = {with_error(self.log_z, self.std_error)} ({self.method})"


def with_error(value: float, std_error: float) -> str:
    """A value and its error, as many digits as the error leaves: 68.406 ± 0.022."""
    if not 0 < std_error < np.inf:
        return f"{value:.6g} ± {std_error:g}"
    num_decimals = max(0, 1 - int(np.floor(np.log10(std_error))))
    return f"{value:.{num_decimals}f} ± {std_error:.{num_decimals}f}"
