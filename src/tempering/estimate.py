"""The one-call door: a model in, log Z with its error and a verdict out."""

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import jax
import numpy as np

from tempering._errors import InputError
from tempering.checkpoint import RunDirectory, StageTemplate
from tempering.diagnostics import diagnose, unsettled
from tempering.estimators import LogZ, expectation
from tempering.kernels import AbstractMove, BlockGibbs, SimulatedTempering
from tempering.ladder import (
    Ladder,
)
from tempering.methods import METHODS, TemperedRun
from tempering.models import RBM
from tempering.results import MeanLogLikelihood, Result
from tempering.settings import Settings
from tempering.stats import Recording
from tempering.warmup import Stage

_EXACT_COST = 2 * 10**9  # terms; enumerated unasked below this, which is about two seconds


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever watches it."""

    stage: str
    done: int
    num_steps: int
    estimate: LogZ | None  # once draws that count have come in


def estimate(
    model: RBM,
    base: Any = None,
    *,
    data: np.ndarray | None = None,
    expect: Callable[[Any], Any] | None = None,
    out: str | os.PathLike | None = None,
    resume: bool = False,
    watch: Callable[[Progress], bool | None] | None = None,
    **settings: Any,
) -> Result:
    """log Z of a model by Rao-Blackwellized tempered sampling.

    ```python
    result = estimate(rbm, base=training_data, num_chains=100, num_sweeps=1000, seed=0)
    ```

    `base` is what tempering starts from: 0/1 data or frequencies (best), "bias" or "uniform"; by default `data` if
    given, else "bias". With `data` the mean log-likelihood of its rows comes along, with `expect` the mean of that
    function of a state under the model, such as `lambda x: x.v` for the pixels of an RBM. With `out` the run is written
    to that directory as it goes, and `resume` goes on from there to the same bits, or, with a larger `num_sweeps`,
    beyond where it ended. `watch` is called after every chunk; if it returns True the run stops there.
    The remaining arguments are the fields of `Settings`.
    """
    asked = Settings(**settings)
    if base is None:
        base = "bias" if data is None else data
    job = _Job(model, base, asked, expect)
    mean_log_density = None if data is None else float(model.log_density(data).mean())  # first: it may refuse
    with ExitStack() as stack:
        directory = None
        if out is not None:
            directory = stack.enter_context(RunDirectory(out, job.identity(), resume=resume))
        stage, seconds = job.go(directory, watch)
        result = job.result(stage, seconds)
        if data is not None and mean_log_density is not None:
            likelihood = MeanLogLikelihood.of(mean_log_density, len(data), result.rungs)
            result = dataclasses.replace(result, mean_log_likelihood=likelihood)
        if directory is not None and result.is_complete:
            result.save(directory.path)
    return result


def exact_log_z(model: RBM) -> float | None:
    """log Z by enumeration, where that is quick."""
    return model.exact_log_z() if model.enumeration_cost() <= _EXACT_COST else None


class Interrupted(RuntimeError):
    """A run was stopped before the first draw that counts, so there is nothing to estimate from."""


class _Job:
    """One call of `estimate`."""

    def __init__(self, model: RBM, base: Any, settings: Settings, expect: Callable[[Any], Any] | None = None):
        self.model, self.settings = model, settings
        betas = settings.make_betas()
        path = model.path(base, betas)
        self.betas = betas
        self.base_logits = path.base_logits
        self.ladder = Ladder.create(path, settings.make_log_prior(betas))
        self.move: AbstractMove = BlockGibbs()
        self.warmup = settings.make_warmup()
        self.key = jax.random.key(settings.seed)
        self.method = METHODS[settings.method]
        self.keep = dataclasses.replace(self.method.keep, expect=expect)

    def go(self, directory: RunDirectory | None, watch) -> tuple[Stage, float]:
        """From wherever the directory says to the end, or to where `watch` says stop."""
        settings = self.settings
        stage = self.warmup.first(self.key, self.ladder, self.move, settings.num_chains)
        before, started = 0.0, time.perf_counter()
        if directory is not None:
            template = StageTemplate(stage, self.ladder, SimulatedTempering(self.move), self.keep)
            stage, before = directory.restore(template) or (stage, 0.0)
            stage = _up_to(stage, settings.num_sweeps)
        while True:
            for reached in stage.walk(self.key, self.keep, settings.chunk_sweeps):
                stage = reached
                seconds = before + time.perf_counter() - started
                if directory is not None:
                    directory.save(stage, seconds)
                if watch is not None and watch(self._progress(stage)):
                    return stage, seconds
            if stage.is_last:
                return stage, before + time.perf_counter() - started
            stage = self.warmup.after(self.key, stage, self.ladder, self.move, settings.num_sweeps)

    def _progress(self, stage: Stage) -> Progress:
        answer = self._answer(stage.recording) if stage.is_last else None
        return Progress(stage.name, stage.done, stage.num_steps, answer)

    def _answer(self, recording: Recording) -> LogZ:
        run = TemperedRun(self.ladder.path, recording)
        return self.method.answer(run, log_z_base=self.ladder.path.log_z_base())

    def result(self, stage: Stage, seconds: float) -> Result:
        """The answer from the draws that count."""
        if not stage.is_last or stage.recording is None:
            raise Interrupted("The run was stopped during its warm-up; there is no estimate yet.")
        answer = self._answer(stage.recording)
        diagnosis = diagnose(stage.recording, stage.annealed, log_z_base=self.ladder.path.log_z_base())
        diagnosis = diagnosis.with_findings(answer.findings if stage.is_settled else (*answer.findings, unsettled()))
        return Result(
            rungs=answer,
            betas=self.betas,
            diagnosis=diagnosis,
            recording=stage.recording,
            annealed=stage.annealed,
            num_chains=self.settings.num_chains,
            num_sweeps=stage.done,
            num_warmup_sweeps=stage.warmup_steps,
            seed=self.settings.seed,
            seconds=seconds,
            is_complete=stage.done == stage.num_steps,
            exact_log_z=exact_log_z(self.model),
            expectation=None if stage.recording.target is None else expectation(stage.recording.target),
        )

    def identity(self) -> dict[str, Any]:
        """What a run and its continuation must share."""
        settings = dataclasses.asdict(self.settings)
        for name in ("betas", "prior", "warmup", "chunk_sweeps", "num_sweeps"):
            settings.pop(name)
        return settings | {
            "warmup": repr(self.warmup),
            "model": _digest(*self.model.on_host()),
            "base": _digest(self.base_logits),
            "ladder": _digest(self.betas, self.ladder.log_prior),
            "platform": jax.default_backend(),
        }


def _up_to(stage: Stage, num_sweeps: int) -> Stage:
    """A restored stage of sampling may go on further than was asked for at first, but not back."""
    if not stage.is_last:
        return stage
    if num_sweeps < stage.done:
        raise InputError(f"The run to resume has {stage.done} sweeps already, more than the {num_sweeps} asked for.")
    return dataclasses.replace(stage, num_steps=num_sweeps)


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]
