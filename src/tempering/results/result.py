"""The answer of a run, for people, scripts and disk."""

import dataclasses
import io
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tempering._errors import InputError
from tempering._version import __version__
from tempering.diagnosis import Diagnosis, WitnessCheck, missed, occupancy, transition_matrix
from tempering.diagnosis.divergence import divergences_in_words
from tempering.estimators import Annealed, Expectation, LogZ
from tempering.estimators.tempered import log_occupancy
from tempering.kernels import NO_EVALUATIONS, Evaluations
from tempering.ladder import PathLength
from tempering.models import AbstractModel, named_leaves
from tempering.results.arviz_tree import to_arviz
from tempering.results.details import numbers_of, save_details
from tempering.results.saved_form import flattened
from tempering.sampling.directory import write_atomically
from tempering.stats import Recording, WeightedDraws
from tempering.verdicts import Finding, Verdict, without_none

RESULT_FILES = ("result.json", "result.npz")
ABOUT = "result"  # the array of `result.npz` that says how the others make a result
_ATTRIBUTES = ("log_z", "std_error", "interval", "verdict", "message", "method", "seed", "num_chains", "num_sweeps")


@dataclasses.dataclass(frozen=True)
class MeanLogLikelihood:
    """Mean log p(v) over rows of data. Its error is that of log Z, since the data are given.

    Attributes:
        value: mean log f(v) − log Z.
        std_error: Its standard error.
        interval: Its 95 % interval.
        num_rows: Rows of data.
    """

    value: float
    std_error: float
    interval: tuple[float, float]
    num_rows: int

    @classmethod
    def from_log_z(cls, mean_log_density: float, num_rows: int, log_z: LogZ) -> "MeanLogLikelihood":
        """From the mean of log f(v) over the rows, their number, and log Z."""
        low, high = log_z.interval
        value = mean_log_density - log_z.log_z
        return cls(value, log_z.std_error, (mean_log_density - high, mean_log_density - low), num_rows)

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.std_error:.3f} over {self.num_rows} rows"


@dataclasses.dataclass(frozen=True)
class Result:
    """log Z with its standard error, its interval, and a verdict on whether to believe them.

    ```python
    result.log_z, result.std_error, result.interval, result.verdict
    result.log_z_by_rung.values  # log Z at every rung
    print(result)  # the answer in a sentence
    ```

    It can be pickled and copied where its model can: pickle finds functions by their name in a module, so that a model
    of lambdas or of functions within functions is refused by it. `save` and `tp.load_result` need no pickle.

    Attributes:
        log_z_by_rung: The answer at every rung.
        betas: The inverse temperatures of the rungs.
        diagnosis: All findings behind the verdict.
        recording: The statistics of the run.
        annealed: The estimate of the pass of the warm-up, as a check.
        num_chains: Independent chains.
        num_sweeps: Sweeps per chain that count; fewer than asked for if the run was interrupted.
        num_warmup_sweeps: Sweeps per chain before those.
        seed: Of all randomness.
        seconds: Wall time, compiling included.
        is_complete: Whether the run came to its end.
        exact_log_z: The exact answer, where it is quick to have.
        mean_log_likelihood: Of the rows of `data`, where they were given.
        model: The model, which knows its parameters by name.
        expectation: The mean under the model of the function that was asked for by `expect`.
        target_error: The standard error that was asked for.
        witnesses: What chains from the `witnesses` found, where they were given.
        length: The length of the path from base to target, where the warm-up measured it.
        evaluations: Evaluations of the density and of its gradient, of all chains together, the warm-up included.
        settings: How the run was made: the arguments of `estimate` and their values in words.
        command: The command line that made it; None where there was none.
    """

    log_z_by_rung: LogZ
    betas: np.ndarray
    diagnosis: Diagnosis
    recording: Recording
    annealed: Annealed | None
    num_chains: int
    num_sweeps: int
    num_warmup_sweeps: int
    seed: int
    seconds: float
    exact_log_z: float | None = None
    mean_log_likelihood: MeanLogLikelihood | None = None
    model: AbstractModel | None = None
    is_complete: bool = True
    expectation: Expectation | None = None
    target_error: float | None = None
    length: PathLength | None = None
    evaluations: Evaluations = NO_EVALUATIONS
    settings: tuple[tuple[str, str], ...] = ()
    command: str | None = None
    witnesses: WitnessCheck | None = None

    @property
    def log_z(self) -> float:
        """log Z of the target."""
        return self.log_z_by_rung.log_z

    @property
    def std_error(self) -> float:
        """The standard error of log Z."""
        return self.log_z_by_rung.std_error

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        return self.log_z_by_rung.interval

    @property
    def verdict(self) -> Verdict:
        """Whether to believe it."""
        return self.diagnosis.verdict

    @property
    def draws(self) -> WeightedDraws:
        """Draws with their weights under the target, where they were kept."""
        if self.recording.states is None:
            raise InputError(
                "This run kept no draws; ask for them with estimate(..., keep_draws=True). Files of results hold none; "
                "estimate(..., out=DIR, resume=True) has those of a finished run."
            )
        return self.recording.states

    @property
    def acceptance(self) -> np.ndarray | None:
        """The mean acceptance probability of moves at each rung; None for Gibbs moves."""
        return None if self.recording.moves is None else self.recording.moves.acceptance

    @property
    def num_divergent(self) -> int:
        """Trajectories whose integrator failed, all rungs together."""
        return 0 if self.recording.moves is None else int(self.recording.moves.num_divergent.sum())

    @property
    def end_shares(self) -> tuple[float, float]:
        """The share of all draws that the base got, and the target: what the prior spends where the answer is made."""
        shares = np.exp(log_occupancy(self.recording.stats))
        return float(shares[0]), float(shares[-1])

    @property
    def num_rungs(self) -> int:
        """The number of rungs, K."""
        return len(self.betas)

    def with_witnesses(self, check: WitnessCheck) -> "Result":
        """The same result with what chains from witnesses found, and with the finding if the run has missed mass.

        Args:
            check: What they found.
        """
        found = self.with_findings(without_none(missed(check, self.log_z, self.std_error)))
        return dataclasses.replace(found, witnesses=check)

    def with_findings(self, found: tuple[Finding, ...]) -> "Result":
        """The same result with further reasons for doubt, and the model's own advice about them.

        Args:
            found: What was seen after the run. It says more than findings of the run with the same verdict.
        """
        if self.model is not None:
            found = tuple(finding.with_cure(self.model.advice(finding.verdict)) for finding in found)
        later = {finding.verdict for finding in found}
        earlier = tuple(finding for finding in self.diagnosis.findings if finding.verdict not in later)
        diagnosis = dataclasses.replace(self.diagnosis, findings=earlier)
        return dataclasses.replace(self, diagnosis=diagnosis.with_findings(found))

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values; numbers that do not exist are None."""
        likelihood = self.mean_log_likelihood
        answer = {
            "log_z": self.log_z,
            "std_error": self.std_error,
            "interval": list(self.interval),
            "verdict": self.verdict.label,
            "message": self.verdict.value,
            "findings": [{"verdict": f.verdict.label, "seen": f.seen, "cure": f.cure} for f in self.diagnosis.findings],
            "method": self.log_z_by_rung.method,
            "num_chains": self.num_chains,
            "num_sweeps": self.num_sweeps,
            "num_rungs": self.num_rungs,
            "end_shares": list(self.end_shares),
            "path_length": None if self.length is None else dataclasses.asdict(self.length),
            "knots": [] if self.diagnosis.rung_chain is None else [k.beta for k in self.diagnosis.rung_chain.knots],
            "num_warmup_sweeps": self.num_warmup_sweeps,
            "num_density_evaluations": self.evaluations.densities,
            "num_gradient_evaluations": self.evaluations.gradients,
            "seconds": self.seconds,
            "errors": None if self.log_z_by_rung.errors is None else dataclasses.asdict(self.log_z_by_rung.errors),
            "readings": self._readings(),
            "num_cut_sweeps": self.log_z_by_rung.num_cut,
            "annealed_log_z": None if self.annealed is None else self.annealed.log_z,
            "annealed_std_error": None if self.annealed is None else self.annealed.std_error,
            "acceptance": None if self.acceptance is None else [float(a) for a in self.acceptance],
            "num_divergent": self.num_divergent,
            "round_trips_per_chain": self.diagnosis.round_trips_per_chain,
            "seed": self.seed,
            "is_complete": self.is_complete,
            "target_error": self.target_error,
            "witnesses": None if self.witnesses is None else dataclasses.asdict(self.witnesses),
            "exact_log_z": self.exact_log_z,
            "mean_log_likelihood": None if likelihood is None else likelihood.value,
            "mean_log_likelihood_interval": None if likelihood is None else list(likelihood.interval),
        }
        return jsonable(answer | numbers_of(self))

    def _readings(self) -> list[dict[str, Any]]:
        """The estimates that the answer was made of, where it is a combination."""
        answer = self.log_z_by_rung
        pairs = zip(answer.readings, answer.weights, strict=True)
        return [
            {
                "name": reading.method, "log_z": reading.log_z, "std_error": reading.std_error,
                "interval": list(reading.interval), "weight": weight,
            }
            for reading, weight in pairs
        ]  # fmt: skip

    def to_arviz(self, *, weights: bool = False, seed: int = 0) -> Any:
        """The draws as the installed ArviZ reads them, with log Z in their attributes.

        ```python
        arviz.summary(result.to_arviz())
        ```

        Args:
            weights: Whether all draws come with their weights, instead of draws resampled by these weights.
            seed: Of the resampling.

        Returns:
            An `xarray.DataTree`; an `arviz.InferenceData` where ArviZ 0.x is installed.
        """
        attributes = {name: value for name, value in self.to_dict().items() if name in _ATTRIBUTES}
        attributes["measure"] = getattr(self.model, "measure", None)
        named = named_leaves if self.model is None else self.model.named
        return to_arviz(self.draws, named, attributes, betas=self.betas, weights=weights, seed=seed)

    def to_json(self) -> str:
        """The answer as one JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def save(self, directory: str | os.PathLike) -> None:
        """Write `result.json` for scripts, and `result.npz`, from which `tp.load_result` makes this result again.

        Args:
            directory: Where to; it is made if it is missing.
        """
        directory = Path(directory)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{directory} cannot be made: {error.strerror}. Save elsewhere.") from error
        text, binary = (directory / name for name in RESULT_FILES)
        arrays: dict[str, np.ndarray] = {}
        words = (self.to_json() + "\n").encode()
        about = {"version": __version__, "text_crc32": zlib.crc32(words), "result": flattened(self, ABOUT, arrays)}
        held: dict[str, Any] = {
            "betas": self.betas,
            "log_z": self.log_z_by_rung.values,
            "std_error": self.log_z_by_rung.std_errors,
            "occupancy": occupancy(self.recording.stats),
            "transition_matrix": transition_matrix(self.recording),
            ABOUT: np.frombuffer(json.dumps(about).encode(), np.uint8),
            **arrays,
        }
        archive = io.BytesIO()
        np.savez(archive, **held)
        write_atomically(binary, archive.getvalue())
        write_atomically(text, words)
        save_details(self, directory)

    def summary(self) -> str:
        """The answer in a sentence."""
        low, high = self.interval
        answer = f"log Z = {self.log_z:.3f} ± {self.std_error:.3f}, 95 % interval [{low:.3f}, {high:.3f}]"
        meant = "" if self.diagnosis.found(Verdict.DIVERGENT) else divergences_in_words(self.recording.moves)
        return f"{answer}. {self.verdict.value}" + (f" {meant}." if meant else "")

    def __str__(self) -> str:
        """The same; all that a result holds would fill pages."""
        return self.summary()

    def __repr__(self) -> str:
        """In a line, for notebooks."""
        run = f"{self.num_chains} chains × {self.num_sweeps} sweeps"
        return f"Result(log_z={self.log_z:.6g}, std_error={self.std_error:.2g}, verdict={self.verdict.label!r}, {run})"


def jsonable(value: Any) -> Any:
    """A value with None for every NaN and infinity, which JSON does not have.

    Args:
        value: Numbers, words, lists and dicts.

    Returns:
        The same, ready for `json.dumps`.
    """
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    if isinstance(value, dict):
        return {name: jsonable(item) for name, item in value.items()}
    return value
