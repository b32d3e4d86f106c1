"""What is known after an update, and what a training run came to. Nothing here needs Optax."""

import dataclasses
from typing import Any

import numpy as np

from tempering.estimators import Annealed
from tempering.models import RBM
from tempering.models.rbm.batch import Parameters
from tempering.results import MeanLogLikelihood
from tempering.training.tracked import Tracked
from tempering.verdicts import Finding, gravest


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
        return {name: _plain(value) for name, value in found.items()}

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


@dataclasses.dataclass(frozen=True)
class Best:
    """The update with the highest mean log-likelihood of the validation rows so far."""

    num_updates: int
    value: float
    interval: tuple[float, float]  # of 95 %
    parameters: Parameters


@dataclasses.dataclass(frozen=True, repr=False)
class Outcome:
    """What a training run came to; printed, it is one line.

    Attributes:
        rbm: The RBM after the last update, or the last finite one if training diverged.
        best: The RBM with the highest validation likelihood; without validation rows, `rbm`.
        best_update: The update at which `best` was reached.
        stopped_early: Whether early stopping ended the run.
        rows: `Row.to_dict` of every update at which the likelihood was evaluated, as in metrics.jsonl.
        findings: Why the last log Z cannot be believed; empty where it can.
    """

    rbm: RBM
    best: RBM
    best_update: int
    stopped_early: bool
    rows: list[dict[str, Any]]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        known = next((row for row in reversed(self.rows) if row["update"] <= self.best_update), {})
        values = [f"{name} {known[name]:.3f}" for name in ("train", "valid") if known.get(name) is not None]
        verdict = gravest(self.findings).label if self.rows else "likelihood not tracked"
        early = ["stopped early"] if self.stopped_early else []
        return f"best update {self.best_update}: {', '.join([*values, *early, verdict])}"


def _pm(value: float, std_error: float) -> str:
    return f"{value:.3f} ± {std_error:.3f}"


def _plain(value: Any) -> Any:
    """Infinite and undefined numbers are not JSON."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
