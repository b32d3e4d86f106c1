"""The one-call door: a model in, log Z with its error and a verdict out."""

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._errors import InputError
from tempering.api.settings import Settings
from tempering.diagnosis import Decision, Diagnosis, Goal, Look, decide, diagnose, unequilibrated
from tempering.diagnosis.stopping import END, too_short
from tempering.estimators import LogZ, expectation, rts
from tempering.estimators.methods import METHODS, TemperedRun
from tempering.kernels import AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath, Ladder
from tempering.models import AbstractModel
from tempering.results import MeanLogLikelihood, Result
from tempering.sampling import Setup, Stage, block_steps
from tempering.sampling.checkpoint import StageDirectory, StageTemplate
from tempering.stats import MAX_BLOCK_STEPS
from tempering.warmups import tuned_if_needed

_MAX_KEPT_SIZE = 1000  # numbers in a state that is kept unasked
_NUM_PROBES = 4  # base draws whose log densities tell one model from another, whatever it is made of


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever watches it."""

    stage: str
    done: int
    num_steps: int
    estimate: LogZ | None  # once draws that count have come in
    target_error: float | None = None  # the error at which it may end; `num_steps` is then where it looks next


def estimate(
    model: AbstractModel,
    base: Any = None,
    *,
    data: np.ndarray | None = None,
    expect: Callable[[Any], Any] | None = None,
    move: AbstractMove | None = None,
    draws: bool | None = None,
    out: str | os.PathLike | None = None,
    resume: bool = False,
    watch: Callable[[Progress], bool | None] | None = None,
    max_seconds: float | None = None,
    **settings: Any,
) -> Result:
    """log Z of a model by Rao-Blackwellized tempered sampling.

    ```python
    result = estimate(rbm, base=training_data, num_chains=100, num_sweeps=1000, seed=0)
    ```

    `base` is what tempering starts from, by default what the model chooses. For an RBM that is 0/1 data or frequencies
    (best), "bias" or "uniform"; without it `data` if given, else "bias". `move` is how x moves, where the model's own
    way is not wanted. `draws` says whether states are kept, as draws of the target; by default they are for densities
    and posteriors. With `data` the mean log-likelihood of its rows comes along, with `expect` the mean of that
    function of a state under the model, such as `lambda x: x.v` for the pixels of an RBM. With `out` the run is written
    to that directory as it goes, and `resume` goes on from there to the same bits, or, with a larger `num_sweeps`,
    beyond where it ended. `watch` is called after every chunk; if it returns True the run stops there.
    With `target_error` it goes on until the standard error is that small and the verdict is good, for at most
    `max_sweeps`, or `max_seconds` of this call; where it is not to be had, the verdict says why.
    The remaining arguments are the fields of `Settings`.
    """
    asked = Settings(**settings).with_spacing(model.spacing())
    _check_seconds(max_seconds, asked)
    mean_log_density = None if data is None else float(model.log_density(data).mean())  # first: it may refuse
    job = Job(model, data if base is None else base, move, asked, expect, draws)
    with ExitStack() as stack:
        directory = None
        if out is not None:
            directory = stack.enter_context(StageDirectory(out, job.identity(), resume=resume))
        result = job.result(job.go(directory, watch, max_seconds))
        if data is not None and mean_log_density is not None:
            likelihood = MeanLogLikelihood.from_log_z(mean_log_density, len(data), result.log_z_by_rung)
            result = dataclasses.replace(result, mean_log_likelihood=likelihood)
        if directory is not None and result.is_complete:
            result.save(directory.path)
    return result


class Interrupted(RuntimeError):
    """A run was stopped before the first draw that counts, so there is nothing to estimate from."""


class Ending(NamedTuple):
    """Where a call of `estimate` left a run."""

    stage: Stage
    seconds: float
    is_late: bool = False  # whether its time was up


class Job:
    """One call of `estimate`."""

    def __init__(
        self, model: AbstractModel, base: Any, move: AbstractMove | None, settings: Settings, expect: Any, draws: Any
    ):
        """All that a run is made of, before anything runs."""
        self.model, self.settings = model, settings
        self.goal = Goal.from_settings(settings.target_error, settings.num_sweeps, settings.max_sweeps)
        betas = settings.make_betas()
        self.ladder = Ladder.create(model.path(base, betas), settings.make_log_prior(betas))
        self.move = model.move() if move is None else move
        self.warmup = tuned_if_needed(settings.make_warmup(), self.move)
        self.key = jax.random.key(settings.seed)
        self.method = METHODS[settings.method]
        may_refuse = not isinstance(self.move, BlockGibbs)
        keeps = self._keeps_draws() if draws is None else draws
        self.keep = dataclasses.replace(self.method.keep, expect=expect, moves=may_refuse, states=keeps)

    def _keeps_draws(self) -> bool:
        """Unasked only where people want draws of the target, and a state is not too large to be kept often."""
        return self.model.keeps_draws() and self.ladder.path.num_dims <= _MAX_KEPT_SIZE

    def go(self, directory: StageDirectory | None, watch, max_seconds: float | None = None) -> Ending:
        """From wherever the directory says to the end, or to where `watch` or the clock says stop."""
        settings, started = self.settings, time.perf_counter()
        setup = Setup(self.key, self.ladder, self.move, settings.num_chains, settings.num_sweeps)
        beginnings = self.warmup.beginnings(setup)
        stage, before = beginnings[0], 0.0
        if directory is not None:
            template = StageTemplate(beginnings, self.ladder, self.keep)
            stage, before = directory.restore(template) or (stage, 0.0)
            stage = _up_to(stage, settings.num_sweeps, self.goal)
        while True:
            is_late = False
            for reached in stage.walk(self.key, self.keep, settings.chunk_sweeps):
                stage, seconds = reached, time.perf_counter() - started
                if directory is not None:
                    directory.save(stage, before + seconds)
                if watch is not None and watch(self._progress(stage)):
                    return Ending(stage, before + seconds)
                is_late = max_seconds is not None and stage.is_last and seconds >= max_seconds
                if is_late:
                    break
            if not stage.is_last:
                stage = self.warmup.after(setup, stage)
                continue
            decision = END if is_late or self.goal is None else self._decide(stage, self._seen(stage)[2])
            if decision.ends:
                return Ending(stage, before + time.perf_counter() - started, is_late)
            stage = _further(stage, decision)

    def _decide(self, stage: Stage, look: Look) -> Decision:
        """What to do at the end of a stretch of draws that count; it depends on the stage alone, as resuming needs."""
        if self.goal is None:
            return END
        return decide(look, self.goal, min(stage.recording.stats.block_size, MAX_BLOCK_STEPS))

    def _progress(self, stage: Stage) -> Progress:
        answer = self._answer(stage) if stage.is_last else None
        return Progress(stage.name, stage.done, stage.num_steps, answer, self.settings.target_error)

    def _answer(self, stage: Stage) -> LogZ:
        run = TemperedRun(stage.ladder.path, stage.recording)
        return self.method.answer(run, log_z_base=self.ladder.path.log_z_base())

    def _seen(self, stage: Stage) -> tuple[LogZ, Diagnosis, Look]:
        """The answer so far; what its statistics, the estimator and the warm-up say of it; what a rule may go by."""
        answer = self._answer(stage)
        diagnosis = diagnose(stage.recording, stage.annealed, log_z_base=self.ladder.path.log_z_base())
        diagnosis = diagnosis.with_findings(
            answer.findings if stage.is_equilibrated else (*answer.findings, unequilibrated())
        )
        num_sweeps = int(stage.recording.stats.num_draws[0].sum())
        return answer, diagnosis, Look(num_sweeps, stage.done - num_sweeps, answer.std_error, diagnosis.findings)

    def result(self, ending: Ending) -> Result:
        """The answer from the draws that count."""
        stage = ending.stage
        if not stage.is_last or stage.recording is None:
            raise Interrupted("The run was stopped during its warm-up; there is no estimate yet.")
        answer, diagnosis, look = self._seen(stage)
        is_complete = ending.is_late or (stage.done == stage.num_steps and self._decide(stage, look).ends)
        if self.goal is not None and is_complete:
            short = too_short(look, self.goal, is_late=ending.is_late)
            diagnosis = diagnosis.with_findings(() if short is None else (short,))
        return Result(
            log_z_by_rung=answer,
            betas=np.asarray(stage.ladder.path.betas, np.float64),
            diagnosis=diagnosis,
            recording=stage.recording,
            annealed=stage.annealed,
            num_chains=self.settings.num_chains,
            num_sweeps=look.num_sweeps,
            num_warmup_sweeps=stage.warmup_steps + look.num_discarded,
            seed=self.settings.seed,
            seconds=ending.seconds,
            is_complete=is_complete,
            exact_log_z=self.model.quick_log_z(),
            model=self.model,
            expectation=None if stage.recording.target is None else expectation(stage.recording.target),
            target_error=self.settings.target_error,
            length=stage.length,
        )

    def identity(self) -> dict[str, Any]:
        """What a run and its continuation must share."""
        settings = dataclasses.asdict(self.settings)
        for name in ("betas", "rung_weights", "warmup", "chunk_sweeps", "num_sweeps", "target_error", "max_sweeps"):
            settings.pop(name)
        return settings | {
            "warmup": repr(self.warmup),
            "model": _digest(*_arrays(self.model), _probed(self.ladder.path)),  # and its base
            "move": f"{type(self.move).__name__} {_digest(*_arrays(self.move))}",
            "ladder": _digest(self.ladder.path.betas, self.ladder.log_prior),
            "platform": jax.default_backend(),
        }


def _up_to(stage: Stage, num_sweeps: int, goal: Goal | None) -> Stage:
    """A restored stage of sampling may go on further than was asked for at first, but not back.

    With a goal, where it looks next was decided before it was stopped, and stands.
    """
    if not stage.is_last:
        return stage
    most = num_sweeps if goal is None else goal.max_sweeps
    if most < stage.done:
        raise InputError(f"The run to resume has {stage.done} sweeps already, more than the {most} asked for.")
    return dataclasses.replace(stage, num_steps=most if goal is None else min(max(stage.num_steps, num_sweeps), most))


def _further(stage: Stage, decision: Decision) -> Stage:
    """The same stage with a later end; anew, also with Ẑ from its draws, which then no longer count.

    Steps go on being counted from where the stage began, so that keys are new and a budget holds for all of them.
    Blocks grow with those that statistics were joined to, so that all are about as long.
    """
    size = min(stage.recording.stats.block_size, MAX_BLOCK_STEPS)
    guess = rts(stage.recording.stats).values
    if decision.is_anew and np.all(np.isfinite(guess)):
        stage = dataclasses.replace(stage, ladder=stage.ladder.with_log_z(guess), recording=None, is_equilibrated=True)
        size = block_steps(stage.name, decision.num_more)
    return dataclasses.replace(stage, num_steps=stage.done + decision.num_more, block_steps=size)


def _check_seconds(max_seconds: float | None, asked: Settings) -> None:
    if max_seconds is None:
        return
    if not isinstance(max_seconds, int | float) or not 0 < max_seconds < np.inf:
        raise InputError(f"`max_seconds` must be a positive number, got {max_seconds!r}.")
    if asked.target_error is None:
        raise InputError("`max_seconds` bounds a run towards a `target_error`; give one, or use `num_sweeps` alone.")


@eqx.filter_jit
def _probed(path: AbstractPath) -> jax.Array:
    """log f at both ends at a few draws of the base: functions have no digest, but what they say has."""
    keys, ends = jax.random.split(jax.random.key(0), _NUM_PROBES), jnp.array([0, path.num_rungs - 1])
    return jax.lax.map(lambda key: jax.vmap(path.log_density, (None, 0))(path.sample_base(key), ends), keys)


def _arrays(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, np.ndarray | jax.Array)]


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]
