"""What a training run came to: one JSON object for scripts, a table for people."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from tempering.cli import common
from tempering.results.details import versions
from tempering.training import Outcome, RunSettings
from tempering.verdicts import Verdict

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
    command: str | None = None  # that made the run

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended, and was not interrupted."""
        is_over = self.outcome.stopped_early or self.outcome.verdict is Verdict.NONFINITE
        return is_over or self.num_updates >= self.settings.num_updates

    @property
    def message(self) -> str:
        """The verdict in words."""
        verdict = self.outcome.verdict
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
            **{name: _likelihood(outcome.best_row, name) for name in _NAMES},
            "best_update": outcome.best_update,
            "num_updates": self.num_updates,
            "is_complete": self.is_complete,
            "stopped_early": outcome.stopped_early,
            "verdict": None if outcome.verdict is None else outcome.verdict.label,
            "message": self.message,
            "findings": [{"verdict": f.verdict.label, "seen": f.seen, "cure": f.cure} for f in outcome.findings],
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
        kept = self.outcome.best_row
        for name in _NAMES:
            if name in kept:
                yield f"{name} log-likelihood", _in_words(kept, name)
        last = self.outcome.rows[-1] if kept else {}
        if "valid" in last and last["update"] != kept["update"]:
            yield "valid at the end", _in_words(last, "valid")

    def _run_rows(self) -> Iterator[tuple[str, str]]:
        stopped = ", stopped early" if self.outcome.stopped_early else "" if self.is_complete else ", interrupted"
        yield "updates", f"{self.num_updates} of {self.settings.num_updates}{stopped}"
        by = "the best by valid" if "valid" in self.outcome.best_row else "the last"
        yield "best update", f"{self.outcome.best_update}, {by}"
        if self.last_check is not None:
            yield "log Z by AIS", _check_in_words(self.last_check)
        yield "seconds", f"{self.seconds:.1f}"

    def _verdict_rows(self) -> Iterator[tuple[str, str]]:
        verdict = self.outcome.verdict
        yield "verdict", common.in_colour(self.message, None if verdict is None else verdict.is_good)
        for finding in self.outcome.findings:
            yield "", str(finding)
        if self.num_lost:
            yield "", f"log Z was unknown at {self.num_lost} of {len(self.outcome.rows)} evaluations."

    def _file_rows(self) -> Iterator[tuple[str, str]]:
        for name, path in self.files.items():
            yield name, escape(str(path))
        if not self.files:
            yield "files", "none: --out DIR saves the model, metrics and a plot, and allows --resume"


def _likelihood(row: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return {"value": row[name], "interval": [row[f"{name}_low"], row[f"{name}_high"]]} if name in row else None


def _in_words(row: Mapping[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    band = "unknown" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return f"[bold]{_number(row[name])}[/bold], 95 % band {band}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _check_in_words(row: Mapping[str, Any]) -> str:
    check = f"{_number(row['ais_log_z'])} ± {_number(row['ais_std_error'])} at update {row['update']}"
    return f"{check}; tracked {_number(row['log_z'])} ± {_number(row['std_error'])}"
