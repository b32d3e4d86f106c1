"""The one-call door: a model in, log Z with its error and a verdict out."""

import dataclasses
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tempering._errors import InputError
from tempering._signatures import suggests
from tempering.api.clock import Clock
from tempering.api.job import Job
from tempering.api.known_states import held_to_known_states
from tempering.api.settings import Betas, RungWeights, Settings, check_model, read_seconds
from tempering.api.witnesses import Witnesses, asked
from tempering.diagnosis import Decision, Goal
from tempering.diagnosis.stopping import END
from tempering.estimators import rts
from tempering.kernels import AbstractMove
from tempering.models import AbstractModel
from tempering.progress import Watch, check_progress, shown
from tempering.results import MeanLogLikelihood, Result
from tempering.sampling import AbstractWarmup, Stage, walk_stages
from tempering.sampling.checkpoint import StageDirectory, checkpoint_templates
from tempering.sampling.processes import anywhere, by_first_process
from tempering.stats import MAX_BLOCK_STEPS
from tempering.warmups import started_anew


class Interrupted(RuntimeError):
    """A run was stopped before the first draw that counts, so there is nothing to estimate from."""


@suggests()
def estimate(
    model: AbstractModel,
    base: Any = None,
    *,
    data: np.ndarray | None = None,
    num_chains: int = Settings.num_chains,
    num_sweeps: int | None = Settings.num_sweeps,
    num_rungs: int | str | None = Settings.num_rungs,
    betas: Betas = Settings.betas,
    rung_weights: RungWeights = Settings.rung_weights,
    move: AbstractMove | None = None,
    warmup: str | AbstractWarmup = Settings.warmup,
    method: str = Settings.method,
    seed: int = Settings.seed,
    target_error: float | None = Settings.target_error,
    max_sweeps: int | None = Settings.max_sweeps,
    max_seconds: float | int | str | None = None,
    expect: Callable[[Any], Any] | None = None,
    keep_draws: bool | None = None,
    witnesses: Any = None,
    out: str | os.PathLike | None = None,
    resume: bool = False,
    chunk_sweeps: int = Settings.chunk_sweeps,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> Result:
    """Estimate log Z of a model by Rao-Blackwellized tempered sampling, with its error and a verdict.

    ```python
    result = tp.estimate(rbm, base=training_data, seed=0)
    print(result)  # the answer, its interval and its verdict
    ```

    Args:
        model: What log Z is wanted of: `tp.RBM(...)`, `tp.LogDensity(...)`, `tp.Posterior(...)`, `tp.Ising(...)` …
        base: What tempering starts from; by default what the model chooses. For an RBM: 0/1 data or frequencies (best),
            "bias" or "uniform"; without it `data` if given, else "bias".
        data: Rows whose mean log-likelihood under the model is wanted too.
        num_chains: Independent chains.
        num_sweeps: Sweeps per chain, after the warm-up. By default the run goes on until the standard error is at most
            `target_error` and the verdict is good, and no further.
        num_rungs: Inverse temperatures, or "auto": as many as the warm-up says. By default 100, and more where an
            adaptive ladder is so long that the steps between them would be too wide.
        betas: Where the rungs are: "auto" (the model's own choice), "adaptive", "adaptive:rejection", "uniform",
            "power:P", "geometric:SMALLEST", or numbers that rise from 0 to 1.
        rung_weights: How much of the run each rung gets: "auto", "ends", "ends:SHARE", "uniform", "exp:RATE", or log
            r_k. "auto" begins with "ends". A run that is still far from its `target_error` learns better ones.
        move: How x moves, where the model's own way is not wanted: `tp.HMC()`, `tp.RandomWalk()` …
        warmup: "sequential", "annealed", "hysteresis" (for paths with a knot), "iterations" or
            "iterations:NUMBER:SWEEPS" (the paper's), "sams", "wang_landau", or an object of `tp.warmups`.
        method: The estimator: "auto", or another that a tempered run allows, such as "rts", "ts", "mbar" or "ti_rb".
        seed: Seed of all randomness; the same seed gives the same bits on one machine.
        target_error: Go on until the standard error is at most this and the verdict is good; 0.1 where neither this nor
            `num_sweeps` is given.
        max_sweeps: With a `target_error`, the most sweeps per chain; by default 40 times as many as before the first
            look at the error, and at least 5000.
        max_seconds: The most time for the run, its warm-up included: seconds, or "90s", "10m", "1.5h". What is under
            way is finished, so it takes somewhat longer.
        expect: A function of a state whose mean under the model is wanted, such as `lambda x: x.v` for an RBM's pixels.
        keep_draws: Whether states are kept, as draws of the target; by default for densities and posteriors.
        witnesses: States that are known to matter, one in each row: training data, draws of another sampler, a second
            minimum. Where chains from them show that the run has missed a part of the mass, the verdict is `MISSED`. So
            it is where these rows, or those of `data`, alone add up to more than Z.
            Rows are data for a model of data; for a density all numbers of a state, in the coordinates of its chains,
            or a pytree of such rows.
        out: A directory for checkpoints and the result.
        resume: Go on with the run in `out`, to the same bits, or beyond where it ended with a larger `num_sweeps`. If
            the last checkpoint is damaged, the one before it is used, with a `RecoveryWarning`.
        chunk_sweeps: Sweeps between checkpoints and calls of `watch`, rounded up to whole blocks.
        watch: Called with a `Progress` after every chunk. The run stops there if it returns True.
        progress: Whether a bar on standard error shows the stage, the estimate and the time left. By default where
            that is a terminal, and in a notebook, unless `watch` is given.

    Returns:
        log Z, its standard error, its 95 % interval, and a verdict on whether to believe them.

    Raises:
        InputError: An argument cannot be used as asked.
        Interrupted: `watch` stopped the run during its warm-up.
    """
    settings = Settings(
        num_chains, num_sweeps, num_rungs, betas, rung_weights, warmup, method, seed,
        target_error, max_sweeps, chunk_sweeps,
    )  # fmt: skip
    check_model(model)
    seconds = read_seconds(max_seconds)
    check_progress(progress)
    if resume and out is None:
        raise InputError("`resume` needs `out`, the directory of the run to go on with.")
    mean_log_density = None if data is None else float(model.log_density(data).mean())  # first: it may refuse
    job = Job(
        model, data if base is None else base, settings, move=move, expect=expect, keep_draws=keep_draws
    )  # fmt: skip
    known = None if witnesses is None else Witnesses.checked(job, witnesses)
    with ExitStack() as stack:
        directory = None
        if out is not None:
            directory = stack.enter_context(StageDirectory(out, job.identity(), resume=resume))
        with shown(progress, watch) as told:
            ending = _run(job, directory, told, seconds)
            result = held_to_known_states(_finished(job, ending, known), model, data, witnesses, base)
        if data is not None and mean_log_density is not None:
            likelihood = MeanLogLikelihood.from_log_z(mean_log_density, len(data), result.log_z_by_rung)
            result = dataclasses.replace(result, mean_log_likelihood=likelihood)
        if directory is not None and result.is_complete:
            by_first_process(partial(result.save, directory.path))
    return result


class _Ending(NamedTuple):
    """Where a call left a run."""

    stage: Stage
    seconds: float
    is_late: bool = False  # whether its time was up


def _run(job: Job, directory: StageDirectory | None, watch: Watch | None, max_seconds: float | None) -> _Ending:
    """From wherever the directory says to the end, or to where `watch` or the clock says stop."""
    clock, setup, stage, before = Clock(max_seconds), job.setup(), None, 0.0
    found = None if directory is None else directory.restore(checkpoint_templates(job.warmup, setup), job.keep)
    if found is not None:
        stage, before = _up_to(found[0], job.settings.num_sweeps, job.goal(found[0])), found[1]
    while True:
        is_late = False
        stages = walk_stages(job.warmup, setup, job.keep, chunk_steps=job.settings.chunk_sweeps, start=stage)
        for stage in stages:
            is_late, is_stopped = clock.is_up(stage.kind, stage.done), False
            if stage.done > 0:
                is_late |= setup.is_late
                if directory is not None and not setup.is_late:  # what resuming goes on from owes nothing to the clock
                    directory.save(stage, before + clock.seconds)
                is_stopped = watch is not None and bool(watch(job.progress(stage)))
            is_stopped, is_late = anywhere(is_stopped, is_late)
            if is_stopped:
                return _Ending(stage, before + clock.seconds)
            if is_late:
                break
        assert stage is not None
        if is_late and not stage.is_sampling:
            setup = dataclasses.replace(setup, is_late=True)
            stage = stage if stage.kind.is_whole else dataclasses.replace(stage, num_steps=stage.done)
            continue
        decision = END if is_late else job.decision(stage)
        if decision.ends:
            return _Ending(stage, before + clock.seconds, is_late)
        stage = _further(stage, decision, job.settings.seed)


def _finished(job: Job, ending: _Ending, witnesses: Witnesses | None) -> Result:
    started, stage = time.perf_counter(), ending.stage
    if not stage.is_sampling or stage.recording is None:
        raise Interrupted("The run was stopped during its warm-up; there is no estimate yet.")
    result = job.result(stage, ending.seconds, is_late=ending.is_late)
    if witnesses is None or not result.is_complete:
        return result
    result = result.with_witnesses(asked(job, stage, result, witnesses))
    return dataclasses.replace(result, seconds=ending.seconds + time.perf_counter() - started)


def _up_to(stage: Stage, num_sweeps: int | None, goal: Goal | None) -> Stage:
    """A restored stage of sampling may go on further than was asked for at first, but not back.

    With a goal, where it looks next was decided before it was stopped, and stands.
    """
    if not stage.is_sampling:
        return stage
    asked = stage.num_steps if num_sweeps is None else num_sweeps
    most = asked if goal is None else goal.max_sweeps
    if most < stage.done:
        name = "num_sweeps" if goal is None else "max_sweeps"
        raise InputError(f"The run to resume has {stage.done} sweeps already: give `{name}={stage.done}` or more.")
    return dataclasses.replace(stage, num_steps=most if goal is None else min(max(stage.num_steps, asked), most))


def _further(stage: Stage, decision: Decision, seed: int) -> Stage:
    """The same stage with a later end; anew, also with Ẑ from its draws, which then no longer count.

    Steps go on being counted from where the stage began, so that keys are new and a budget holds for all of them.
    Blocks are as long as those that statistics will have been joined to in the end: each costs the host some time.
    """
    num_steps, guess = stage.done + decision.num_more, rts(stage.recording.stats).values
    if decision.is_anew and np.all(np.isfinite(guess)):
        ladder = stage.ladder.with_log_z(guess)
        ladder = ladder if decision.log_prior is None else ladder.with_weights(decision.log_prior)
        stage = started_anew(stage, ladder, np.random.default_rng([seed, stage.done]).random())
        size = stage.kind.block_steps(decision.num_more)
        return dataclasses.replace(stage, num_steps=num_steps, block_steps=size)
    stats = stage.recording.stats
    stats = stats.coarsened_for(stats.num_sweeps + decision.num_more)
    recording = dataclasses.replace(stage.recording, stats=stats)
    size = stats.block_sweeps // -(-stats.block_sweeps // MAX_BLOCK_STEPS)
    return dataclasses.replace(stage, recording=recording, num_steps=num_steps, block_steps=size)
