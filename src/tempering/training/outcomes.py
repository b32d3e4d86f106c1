"""What is known after an update of a training loop, and what a run came to. Nothing here needs Optax."""

import dataclasses
from typing import Any

import numpy as np
from scipy.special import stdtrit

from tempering.diagnosis.known_states import below_known_mass
from tempering.estimators import Annealed
from tempering.models import RBM
from tempering.models.rbm.batch import Parameters
from tempering.results import MeanLogLikelihood, jsonable
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

    def held_to(self, log_mass: float) -> "Tracked":
        """The same, with no error and the finding if log Z is below what known states add up to.

        Args:
            log_mass: log Σ f(v) over distinct rows.
        """
        found = below_known_mass(log_mass, self.interval[1])
        if found is None:
            return self
        return dataclasses.replace(self, std_error=np.inf, findings=(*self.findings, found))

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
            The mean log-likelihood, with the error and the interval of log Z. Where training has diverged, and where it
            would be positive, which no likelihood of bits is, it is NaN.
        """
        low, high = self.interval
        band, value = (mean_log_density - high, mean_log_density - low), mean_log_density - self.log_z
        least = band[0] if np.isfinite(self.std_error) else value
        if self.verdict is Verdict.NONFINITE or least > 0:
            return MeanLogLikelihood(np.nan, np.inf, (np.nan, np.nan), num_rows)
        return MeanLogLikelihood(value, self.std_error, band, num_rows)

    def __repr__(self) -> str:
        seen = "".join(f", {finding.seen}" for finding in self.findings)
        found = f"log Z {self.log_z:.3f} ± {self.std_error:.3f}, {self.verdict.label}{seen}"
        return f"update {self.num_updates}: {found}{', estimated from scratch' if self.is_anchored else ''}"


@dataclasses.dataclass(frozen=True, repr=False)
class Row:
    """What is known after one update of a `TrainingRun`; printed, it is one line.

    The likelihoods and log Z are those of the parameters before the update, under which the chains were drawn.

    Attributes:
        num_updates: Updates so far; a pretraining counts its own.
        train: Mean log-likelihood of the training rows; None where it was not evaluated.
        valid: The same of the validation rows.
        tracked: log Z, its error and its verdict.
        ais_check: log Z by annealed importance sampling, at updates where a check was due.
        is_pretraining: Whether the update belongs to the pretraining.
    """

    num_updates: int
    train: MeanLogLikelihood | None = None
    valid: MeanLogLikelihood | None = None
    tracked: Tracked | None = None
    ais_check: Annealed | None = None
    is_pretraining: bool = False

    @property
    def stage(self) -> str:
        """What the update belongs to, in a word."""
        return "pretraining" if self.is_pretraining else "update"

    @property
    def phrases(self) -> list[str]:
        """Likelihoods with their standard errors, the check, and why the numbers cannot be believed."""
        known = [f"{name} {_pm(found.value, found.std_error)}" for name, found in self.likelihoods.items()]
        return known + [phrase for phrase in (self.check_phrase, self.trouble) if phrase]

    @property
    def likelihoods(self) -> dict[str, MeanLogLikelihood]:
        """Those that are known, by name."""
        return {name: found for name in ("train", "valid") if (found := getattr(self, name)) is not None}

    @property
    def check_phrase(self) -> str:
        """log Z by AIS beside the tracked one; empty where no check was made."""
        if self.ais_check is None:
            return ""
        tracked = "" if self.tracked is None else f", tracked {_pm(self.tracked.log_z, self.tracked.std_error)}"
        return f"log Z by AIS {_pm(self.ais_check.log_z, self.ais_check.std_error)}{tracked}"

    @property
    def trouble(self) -> str:
        """The verdict and what was seen; empty where the verdict is good."""
        if self.tracked is None or self.tracked.verdict.is_good:
            return ""
        return f"{self.tracked.verdict.label}: {'; '.join(finding.seen for finding in self.tracked.findings)}"

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values for a line of JSON; numbers that are not finite become None."""
        found: dict[str, Any] = {"update": self.num_updates}
        for name, likelihood in self.likelihoods.items():
            low, high = likelihood.interval
            found |= {name: likelihood.value, f"{name}_low": low, f"{name}_high": high}
        if self.tracked is not None:
            found |= {"log_z": self.tracked.log_z, "std_error": self.tracked.std_error}
            found |= {"verdict": self.tracked.verdict.label, "anchored": self.tracked.is_anchored}
        if self.ais_check is not None:
            found |= {"ais_log_z": self.ais_check.log_z, "ais_std_error": self.ais_check.std_error}
        return jsonable(found)

    def __repr__(self) -> str:
        return f"{self.stage} {self.num_updates}: {', '.join(self.phrases) or 'likelihood not evaluated'}"


@dataclasses.dataclass(frozen=True, repr=False)
class TrainingUpdate:
    """What a `Trainer` knows after one update; printed, it is one line.

    Attributes:
        num_updates: Updates so far.
        parameters: W, c and b before the update, of which the other fields speak.
        tracked: log Z, its error and its verdict; None at updates where the likelihood is not evaluated.
        train: Mean log-likelihood of the training rows.
        valid: Mean log-likelihood of the validation rows; None where there are none.
    """

    num_updates: int
    parameters: Parameters
    tracked: Tracked | None = None
    train: MeanLogLikelihood | None = None
    valid: MeanLogLikelihood | None = None

    def __repr__(self) -> str:
        return repr(Row(self.num_updates, self.train, self.valid, self.tracked))


@dataclasses.dataclass(frozen=True, repr=False)
class Kept:
    """What a run of its own says of the RBM that is kept; printed, it is one line.

    Attributes:
        found: log Z, its error and its verdict.
        likelihoods: Mean log-likelihoods by name, "train" and "valid".
    """

    found: Tracked
    likelihoods: dict[str, MeanLogLikelihood]

    def __repr__(self) -> str:
        known = [
            f"{name} {_pm(likelihood.value, likelihood.std_error)}" for name, likelihood in self.likelihoods.items()
        ]
        return f"{', '.join(known)}, {self.found.verdict.label}"


@dataclasses.dataclass(frozen=True, repr=False)
class Outcome:
    """What a training run came to; printed, it is one line.

    Attributes:
        rbm: The RBM after the last update, or the last finite one if training diverged.
        best: The RBM with the highest smoothed validation likelihood; without validation rows, or where no likelihood
            could be believed, `rbm`.
        best_update: The update at which `best` was reached.
        stopped_early: Whether early stopping ended the run.
        rows: `Row.to_dict` of every update at which the likelihood was evaluated, as in metrics.jsonl.
        findings: Why the last log Z cannot be believed; empty where it can.
        is_chosen: Whether `best` was chosen by its validation likelihood.
    """

    rbm: RBM
    best: RBM
    best_update: int
    stopped_early: bool
    rows: list[dict[str, Any]]
    findings: tuple[Finding, ...]
    is_chosen: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on log Z at the end; None where it was not tracked."""
        return gravest(self.findings) if self.rows else None

    @property
    def best_row(self) -> dict[str, Any]:
        """The row of `best`, or the last one before it; empty where there is none."""
        return next((row for row in reversed(self.rows) if row["update"] <= self.best_update), {})

    def __repr__(self) -> str:
        known = self.best_row
        values = [f"{name} {known[name]:.3f}" for name in ("train", "valid") if known.get(name) is not None]
        verdict = "likelihood not tracked" if self.verdict is None else self.verdict.label
        early = ["stopped early"] if self.stopped_early else []
        return f"best update {self.best_update}: {', '.join([*values, *early, verdict])}"


def _pm(value: float, std_error: float) -> str:
    return f"{value:.3f} ± {std_error:.3f}" if np.isfinite(value) else "unknown"
