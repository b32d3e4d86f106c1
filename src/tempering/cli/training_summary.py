"""What a training run came to: one JSON object for scripts, a table for people."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from tempering.cli import common
from tempering.cli.flags import in_flags
from tempering.results import MeanLogLikelihood, jsonable
from tempering.results.details import versions
from tempering.training import Kept, Outcome, RunSettings
from tempering.verdicts import Finding, Verdict, gravest

_NAMES = ("train", "valid")


@dataclasses.dataclass(frozen=True)
class Summary:
    """The outcome of a run, its files, and what may be said of it."""

    outcome: Outcome
    settings: RunSettings
    num_updates: int  # so far, those before a resumption included
    seconds: float  # since the start, or since the resumption
    files: dict[str, Path]  # by name; empty where nothing is kept
    estimate_command: str | None = None  # for the saved model
    kept: Kept | None = None  # what new chains say of the model that is kept
    command: str | None = None  # that made the run

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended, and was not interrupted."""
        is_over = self.outcome.stopped_early or self.outcome.verdict is Verdict.NONFINITE
        return is_over or self.num_updates >= self.settings.num_updates

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why the likelihoods cannot be believed: those that were tracked, and that of the kept model."""
        afresh = () if self.kept is None else self.kept.found.findings
        return (*self.outcome.findings, *(found for found in afresh if found not in self.outcome.findings))

    @property
    def verdict(self) -> Verdict | None:
        """The gravest of them; None where the likelihood was not tracked."""
        return None if self.outcome.verdict is None else gravest(self.findings)

    @property
    def message(self) -> str:
        """The verdict in words."""
        verdict = self.verdict
        if verdict is None:
            return "Not tracked: the likelihood is unknown; tempering estimate finds it."
        if not verdict.is_good:
            return verdict.value
        return "Good: the chains follow log Z." if self.num_lost else "Good: the chains followed log Z throughout."

    @property
    def last_check(self) -> Mapping[str, Any] | None:
        """The last row with a check by AIS."""
        return next((row for row in reversed(self.outcome.rows) if "ais_log_z" in row), None)

    @property
    def num_lost(self) -> int:
        """Rows at which log Z was unknown."""
        return sum(row["verdict"] != "good" for row in self.outcome.rows)

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON values; numbers that are not finite are None."""
        outcome, check = self.outcome, self.last_check
        return {
            **{name: self._likelihood(name) for name in _NAMES},
            "tracked": {name: _tracked(outcome.best_row, name) for name in _NAMES},
            "best_update": outcome.best_update,
            "num_updates": self.num_updates,
            "is_complete": self.is_complete,
            "stopped_early": outcome.stopped_early,
            "verdict": None if self.verdict is None else self.verdict.label,
            "message": self.message,
            "findings": [{"verdict": f.verdict.label, "seen": f.seen, "cure": f.cure} for f in self.findings],
            "num_evaluations": len(outcome.rows),
            "num_lost": self.num_lost,
            "last_check": None if check is None else dict(check),
            "seconds": self.seconds,
            "settings": dataclasses.asdict(self.settings),
            "files": {name: str(path) for name, path in self.files.items()},
            "command": self.command,
            "versions": versions(),
        }

    def to_json(self) -> str:
        """The summary as one JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def print(self) -> None:
        """Print a table on standard output."""
        common.print_rows((*self._likelihood_rows(), *self._run_rows(), *self._verdict_rows(), *self._file_rows()))
        if self.estimate_command is not None:  # on one line, so that it can be copied
            common.table_console().print(f"Go on with: {self.estimate_command}", soft_wrap=True, markup=False)

    def _likelihood_rows(self) -> Iterator[tuple[str, str]]:
        best = self.outcome.best_row
        for name in _NAMES:
            if name in best and self.kept is not None:
                yield f"{name} log-likelihood", _afresh_in_words(self.kept.likelihoods[name])
                yield "", f"{_number(best[name])} as tracked"
            elif name in best:
                yield f"{name} log-likelihood", f"{_in_words(best, name)}, as tracked"
        last = self.outcome.rows[-1] if best else {}
        if "valid" in last and last["update"] != best["update"]:
            yield "valid at the end", f"{_in_words(last, 'valid')}, as tracked"

    def _likelihood(self, name: str) -> dict[str, Any] | None:
        """Of the kept model: from chains of its own, or as it was tracked where the run was interrupted."""
        if self.kept is None or name not in self.kept.likelihoods:
            return _tracked(self.outcome.best_row, name)
        found = self.kept.likelihoods[name]
        return jsonable({"value": found.value, "interval": list(found.interval)})

    def _run_rows(self) -> Iterator[tuple[str, str]]:
        stopped = ", stopped early" if self.outcome.stopped_early else "" if self.is_complete else ", interrupted"
        yield "updates", f"{self.num_updates} of {self.settings.num_updates}{stopped}"
        yield "best update", f"{self.outcome.best_update}, {self._chosen_by()}"
        if self.last_check is not None:
            yield "log Z by AIS", _check_in_words(self.last_check)
        yield "seconds", f"{self.seconds:.1f}"

    def _chosen_by(self) -> str:
        if self.outcome.is_chosen:
            return "where the smoothed line of valid was highest"
        return "the last: no likelihood of valid could be believed" if "valid" in self.outcome.best_row else "the last"

    def _verdict_rows(self) -> Iterator[tuple[str, str]]:
        verdict = self.verdict
        yield "verdict", common.in_colour(self.message, None if verdict is None else verdict.is_good)
        for finding in self.findings:
            yield "", in_flags(str(finding))
        if self.num_lost:
            yield "", f"log Z was unknown at {self.num_lost} of {len(self.outcome.rows)} evaluations."

    def _file_rows(self) -> Iterator[tuple[str, str]]:
        for name, path in self.files.items():
            yield name, escape(str(path))
        if not self.files:
            yield "files", "none: --out DIR saves the model, metrics and a plot, and allows --resume"


def _tracked(row: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return {"value": row[name], "interval": [row[f"{name}_low"], row[f"{name}_high"]]} if name in row else None


def _in_words(row: Mapping[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    band = "unknown" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return f"[bold]{_number(row[name])}[/bold], 95 % band {band}"


def _afresh_in_words(found: MeanLogLikelihood) -> str:
    low, high = found.interval
    band = f"{low:.3f} to {high:.3f}" if np.isfinite(found.std_error) else "unknown"
    return f"[bold]{_number(found.value)}[/bold], 95 % interval {band}, from chains of its own"


def _number(value: float | None) -> str:
    return "unknown" if value is None or not np.isfinite(value) else f"{value:.3f}"


def _check_in_words(row: Mapping[str, Any]) -> str:
    check = f"{_number(row['ais_log_z'])} ± {_number(row['ais_std_error'])} at update {row['update']}"
    return f"{check}; tracked {_number(row['log_z'])} ± {_number(row['std_error'])}"
