"""What a comparison of methods found, for people and scripts."""

import dataclasses
import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tempering._logspace import rounding_of
from tempering.diagnosis.checks import MAX_DISAGREEMENT
from tempering.estimators import LogZ
from tempering.estimators.methods import Method
from tempering.results.comparison_table import comparison_table
from tempering.results.result import jsonable
from tempering.verdicts import Finding, Verdict, gravest

STOPPED = "The comparison was stopped before its end."
_JUDGES = ("auto", "rts")  # whose verdict is that of a comparison


@dataclasses.dataclass(frozen=True)
class Entry:
    """One method's answer, whether to believe it, and what it cost.

    Attributes:
        method: The method.
        answer: Its estimate.
        run_findings: What was found about the run that it was made from.
        num_sweeps: Sweeps per chain, the warm-up included.
        seconds: Of its run and of the estimate itself; compiling is in those of the first repeat.
        num_bytes: What had to be kept until the end of the run.
    """

    method: Method
    answer: LogZ
    run_findings: tuple[Finding, ...]
    num_sweeps: int
    seconds: float
    num_bytes: int

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was noticed about the run and about the estimate, each verdict once."""
        by_verdict = {finding.verdict: finding for finding in (*self.run_findings, *self.answer.findings)}
        return tuple(by_verdict.values())

    @property
    def verdict(self) -> Verdict:
        """The gravest of them, or good."""
        return gravest(self.findings)

    def errors_from(self, other: "Entry") -> float:
        """How many standard errors lie between two answers, once the biases that they own up to are allowed for."""
        one, two = self.answer, other.answer
        gap = abs(one.log_z - two.log_z) - abs(one.biases[-1]) - abs(two.biases[-1])
        if not gap > rounding_of(one.log_z):
            return 0.0
        std_error = np.hypot(one.std_error, two.std_error)
        return float(gap / std_error) if std_error > 0 else np.inf

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON values."""
        return {
            "method": self.method.name,
            "log_z": self.answer.log_z,
            "std_error": self.answer.std_error,
            "interval": list(self.answer.interval),
            "bias": float(self.answer.biases[-1]),
            "errs": self.method.errs or None,
            "verdict": self.verdict.label,
            "message": self.verdict.value,
            "findings": [{"verdict": f.verdict.label, "seen": f.seen, "cure": f.cure} for f in self.findings],
            "sweeps": self.num_sweeps,
            "seconds": self.seconds,
            "bytes": self.num_bytes,
        }


@dataclasses.dataclass(frozen=True)
class SideBySide:
    """All methods with one seed.

    Attributes:
        seed: The seed.
        entries: The methods, in the order of the table.
    """

    seed: int
    entries: tuple[Entry, ...]

    def entry(self, name: str) -> Entry | None:
        """The entry of a method, if it was asked for."""
        return next((entry for entry in self.entries if entry.method.name == name), None)

    @property
    def disagreements(self) -> list[tuple[Entry, Entry, float]]:
        """Pairs of answers further apart than their errors allow, worst first, with the standard errors between."""
        known = [entry for entry in self.entries if np.isfinite(entry.answer.std_error)]
        pairs = [(one, two, one.errors_from(two)) for one, two in itertools.combinations(known, 2)]
        return sorted((pair for pair in pairs if pair[2] > MAX_DISAGREEMENT), key=lambda pair: -pair[2])

    @property
    def lower(self) -> LogZ | None:
        """What annealing from the base says: below log Z on average."""
        entry = self.entry("ais")
        return None if entry is None else entry.answer

    @property
    def upper(self) -> LogZ | None:
        """What annealing from the target says: above log Z on average, as far as its starts follow the target."""
        entry = self.entry("raise") or self.entry("reverse_ais")
        return None if entry is None else entry.answer


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Methods side by side on one model, for one seed or several.

    ```python
    comparison.entries  # of the first seed: method, answer, verdict, sweeps, seconds, bytes
    comparison.agree, comparison.verdict
    comparison.summary("rts")["rmse"]  # over repeats, where the truth is known
    ```

    Attributes:
        repeats: All methods with each seed.
        truth: The true log Z, where it is known.
        num_chains: Independent chains of each run.
        left_out: Methods that "all" could not include, or that were not done in time, by name, and why.
        is_complete: Whether all methods and seeds that were asked for are there.
    """

    repeats: tuple[SideBySide, ...]
    truth: float | None
    num_chains: int
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_complete: bool = True

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All methods with the first seed."""
        return self.repeats[0].entries

    @property
    def agree(self) -> bool:
        """Whether, with every seed, no two methods are further apart than their errors allow."""
        return not any(side.disagreements for side in self.repeats)

    @property
    def lower_bound(self) -> float | None:
        """The mean over seeds of what annealing from the base says."""
        return _mean([side.lower for side in self.repeats])

    @property
    def upper_bound(self) -> float | None:
        """The mean over seeds of what annealing from the target says."""
        return _mean([side.upper for side in self.repeats])

    @property
    def judge(self) -> str:
        """The method whose verdict is that of the comparison: auto, else rts, else the first of the table."""
        names = [entry.method.name for entry in self.entries]
        return next((name for name in _JUDGES if name in names), names[0])

    @property
    def verdict(self) -> Verdict:
        """`DISAGREES` if two methods do; else the verdict of `judge`, the gravest over all seeds."""
        if not self.agree:
            return Verdict.DISAGREES
        (own,) = [each for each in self.by_method() if each[0].method.name == self.judge]
        return gravest(itertools.chain.from_iterable(entry.findings for entry in own))

    def summary(self, method: str) -> dict[str, Any]:
        """A method over all seeds: mean, claimed error, share of good verdicts; with a truth, bias, RMSE, coverage."""
        entries = next(each for each in self.by_method() if each[0].method.name == method)
        values = np.array([entry.answer.log_z for entry in entries])
        found = {
            "mean": float(values.mean()),
            "mean_std_error": float(np.mean([entry.answer.std_error for entry in entries])),
            "good": sum(entry.verdict.is_good for entry in entries),
            "seconds": float(np.mean([entry.seconds for entry in entries])),
        }
        if self.truth is None:
            return found
        inside = [low <= self.truth <= high for low, high in (entry.answer.interval for entry in entries)]
        errors = values - self.truth
        return found | {
            "bias": float(errors.mean()),
            "bias_std_error": float(errors.std(ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else float("inf"),
            "rmse": float(np.sqrt(np.mean(errors**2))),
            "coverage": float(np.mean(inside)),
        }

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: the first seed's answers, with a `summary` each where there are repeats."""
        methods = [entry.to_dict() for entry in self.entries]
        num_repeats = len(self.repeats)
        if num_repeats > 1:
            for method in methods:
                method["summary"] = self.summary(method["method"])
        answer = {
            "methods": methods,
            "lower_bound": self.lower_bound,
            "upper_bound": self.upper_bound,
            "agree": self.agree,
            "verdict": self.verdict.label,
            "verdict_of": self.judge if self.agree else "all methods",
            "left_out": [{"method": name, "why": why} for name, why in self.left_out.items()],
            "is_complete": self.is_complete,
            "truth": self.truth,
            "num_chains": self.num_chains,
            "repeats": num_repeats,
            "seed": self.repeats[0].seed,
        }
        if num_repeats > 1:
            values = [[entry.answer.log_z for entry in each] for each in self.by_method()]
            answer["log_z"] = dict(zip((entry.method.name for entry in self.entries), values, strict=True))
        return jsonable(answer)

    def to_json(self) -> str:
        """The comparison as one JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        left_out = "".join(f"\n{name} was left out: {why}." for name, why in self.left_out.items())
        stopped = "" if self.is_complete else f"\n{STOPPED}"
        return f"{comparison_table(self)}{left_out}{stopped}\nverdict  {self.in_words()}"

    def __repr__(self) -> str:
        methods = ", ".join(entry.method.name for entry in self.entries)
        return f"Comparison({methods}; {len(self.repeats)} seeds, verdict={self.verdict.label!r})"

    def in_words(self) -> str:
        """The verdict in a sentence, which says whose it is."""
        if not self.agree:
            return self.verdict.value
        if not self.verdict.is_good:
            return f"{self.verdict.value} This is the verdict of {self.judge}; no two methods disagree."
        good = sum(all(entry.verdict.is_good for entry in each) for each in self.by_method())
        others = f"no two methods disagree, and {good} of {len(self.entries)} call themselves good"
        return f"Good, by {self.judge}: {others}."

    def by_method(self) -> list[tuple[Entry, ...]]:
        """Each method with all seeds."""
        return list(zip(*(side.entries for side in self.repeats), strict=True))


def _mean(answers: list[LogZ | None]) -> float | None:
    known = [answer.log_z for answer in answers if answer is not None]
    return float(np.mean(known)) if known else None
