"""The runs behind a comparison: each kind is made once, at one cost, however many methods read it."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._types import Key, State
from tempering.estimators.methods import METHODS, RunKind, TemperedRun
from tempering.kernels import AnnealDown, ContinuousPosition, ContinuousTempering, positions_at_target
from tempering.ladder import Ladder
from tempering.progress import Progress
from tempering.sampling import AbstractWarmup, Setup, Stage, walk_stages
from tempering.sampling.processes import anywhere
from tempering.stats import BlockedStats, Keep, systematic_picks
from tempering.verdicts import Finding
from tempering.warmups import AnnealedStart, Annealing, SelfAdjusting, adjust, annealing_ladder


class Stopped(Exception):
    """Whoever watches the runs, in any of the processes, wants them to stop."""


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """What a run left behind, and what it cost."""

    kept: Any  # what the methods of its kind take
    num_sweeps: int  # per chain, warm-up included
    seconds: float
    findings: tuple[Finding, ...] = ()  # about the run itself


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be run, and for how long."""

    setup: Setup  # of the tempered run; without a budget the others may take as many sweeps as that run takes
    warmup: AbstractWarmup
    keep: Keep
    rows: State | None = None  # states made of data, one per chain, for passes down from them


class _Tempered(NamedTuple):
    """The tempered run, which others go on from."""

    begun: Stage  # sampling about to begin: its ladder, its move, and where the chains start
    ended: Stage
    earlier: tuple[BlockedStats, ...]  # of the warm-up's tempered stages, each under its own Ẑ
    seconds: float

    @property
    def num_sweeps(self) -> int:
        return self.ended.warmup.num_steps + self.ended.num_steps


class Runs:
    """The runs of one plan, each made when it is first asked for.

    Those that go on from the tempered run (its warm-up, or its draws) make that first. The shared warm-up counts as if
    it had been each one's own; the draws that passes down start from do not.
    """

    def __init__(self, plan: Plan, watch: Callable[[Progress], Any]):
        """`watch` hears how far each run has come. Where it says True the run ends with `Stopped`."""
        self.plan, self.watch = plan, watch
        self._finished: dict[RunKind, FinishedRun] = {}
        self._makers: dict[RunKind, Callable[[RunKind], FinishedRun]] = {
            RunKind.TEMPERED: self._tempered,
            RunKind.CONTINUOUS: self._continuous,
            RunKind.ANNEALED: self._annealed,
            RunKind.DOWN_FROM_DATA: self._down,
            RunKind.DOWN_FROM_TARGET: self._down,
            RunKind.WANG_LANDAU: self._adjusted,
            RunKind.SAMS: self._adjusted,
        }

    def finished(self, kind: RunKind) -> FinishedRun:
        """The run of that kind."""
        if kind not in self._finished:
            self._finished[kind] = self._makers[kind](kind)
        return self._finished[kind]

    @property
    def budget(self) -> int:
        """Sweeps per chain that every run may take."""
        return self.tempered.num_sweeps if self.plan.setup.budget is None else self.plan.setup.budget

    @functools.cached_property
    def tempered(self) -> _Tempered:
        """The run of simulated tempering, with its warm-up."""
        plan, started = self.plan, time.perf_counter()
        begun, earlier, stage = None, [], None
        for stage in walk_stages(plan.warmup, plan.setup, plan.keep, chunk_steps=1):
            if stage.done:
                self._watch(RunKind.TEMPERED, stage)
            elif stage.is_sampling:
                begun = stage
            if stage.is_finished and stage.kind.is_tempered and not stage.is_sampling:
                earlier.append(stage.recording.stats)
        assert begun is not None and stage is not None  # noqa: PT018  every run ends with sampling
        return _Tempered(begun, stage, tuple(earlier), time.perf_counter() - started)

    def _tempered(self, kind: RunKind) -> FinishedRun:
        ended = self.tempered.ended
        run = TemperedRun(ended.ladder.path, ended.complete_recording, self.tempered.earlier, ended.families)
        error = 0.0 if ended.tails is None and ended.rays is None else self._error_of(run)
        return self._diagnosed(run, ended, self.tempered.seconds, error)

    def _error_of(self, run: TemperedRun) -> float:
        """The standard error of the answer that `estimate` would give from as much as was kept."""
        method = METHODS["auto" if self.plan.keep.bridges else "rts"]
        return method.answer(run, log_z_base=self.plan.setup.ladder.path.log_z_base()).std_error

    def _continuous(self, kind: RunKind) -> FinishedRun:
        """From the same warm-up as the tempered run, whose Ẑ and positions it takes."""
        before, started = self.tempered.begun, time.perf_counter()
        betas = np.asarray(before.ladder.path.betas)[np.asarray(before.states.rung)]
        stage = dataclasses.replace(
            before,
            ladder=before.ladder.continuous(),
            kernel=ContinuousTempering(before.move),
            states=ContinuousPosition(before.states.x, jnp.asarray(betas)),
        )
        keep = dataclasses.replace(self.plan.keep, bridges=False, states=False)  # nor controls, which go with bridges
        stage = self._walked(kind, stage, keep)
        shared = self.tempered.seconds * before.warmup.num_steps / self.tempered.num_sweeps
        return self._diagnosed(stage.recording.stats, stage, time.perf_counter() - started + shared)

    def _annealed(self, kind: RunKind) -> FinishedRun:
        setup, started = self._setup(kind), time.perf_counter()
        stage = self._walked(kind, AnnealedStart(anneal_steps=self.budget).first(setup))
        return FinishedRun(stage.recording, stage.num_steps, time.perf_counter() - started)

    def _down(self, kind: RunKind) -> FinishedRun:
        """Passes from the target to the base, from rows of data or from the tempered run's draws of the target.

        The second are no better than that run, so that what was found about it holds for them too.
        """
        setup, from_data = self._setup(kind), kind is RunKind.DOWN_FROM_DATA
        starts = self.plan.rows if from_data else self._target_draws()
        findings = () if from_data else self.finished(RunKind.TEMPERED).findings
        ladder = annealing_ladder(setup.ladder, self.budget)
        started, positions = time.perf_counter(), positions_at_target(ladder.path, starts)
        stage = self._walked(kind, Stage.first(Annealing(), ladder, AnnealDown(setup.move), positions, self.budget))
        return FinishedRun(stage.recording, stage.num_steps, time.perf_counter() - started, findings)

    def _target_draws(self) -> State:
        """States of the tempered run's chains, picked in proportion to q(K−1 | x), by systematic resampling."""
        ended = self.tempered.ended
        log_weights = np.asarray(log_target_weights(ended.ladder, ended.states.x), np.float64)
        log_weights = np.nan_to_num(log_weights, nan=-1e300, neginf=-1e300)  # never picked, unless all are like that
        weights = np.exp(log_weights - log_weights.max())
        offset = float(jax.random.uniform(self._key(RunKind.DOWN_FROM_TARGET)))
        picked = systematic_picks(weights, len(weights), offset)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[picked], ended.states.x)

    def _adjusted(self, kind: RunKind) -> FinishedRun:
        setup, started = self._setup(kind), time.perf_counter()
        rule = "sams" if kind is RunKind.SAMS else "wang_landau"
        steps = min(SelfAdjusting.update_steps, self.budget)
        how = SelfAdjusting(rule, num_steps=self.budget, update_steps=steps)
        watch = functools.partial(self._watch, kind)
        adjusted = adjust(setup.key, setup.ladder, setup.move, setup.num_chains, how, watch)
        return FinishedRun(adjusted, how.num_updates * steps, time.perf_counter() - started)

    def _setup(self, kind: RunKind) -> Setup:
        """For a run beside the tempered one; where that one's warm-up tunes or respaces, they share what it found."""
        ladder, move = self.plan.setup.ladder, self.plan.setup.move
        if self.plan.warmup.shapes_the_run:
            begun = self.tempered.begun
            ladder, move = begun.ladder.with_log_z(np.zeros(begun.ladder.path.num_rungs)), begun.move
        return Setup(self._key(kind), ladder, move, self.plan.setup.num_chains)

    def _key(self, kind: RunKind) -> Key:
        """The tempered run's is the seed's own, so that it is the run that `estimate` would make."""
        key = self.plan.setup.key
        return key if kind is RunKind.TEMPERED else jax.random.fold_in(key, _NUMBERS[kind])

    def _walked(self, kind: RunKind, stage: Stage, keep: Keep | None = None) -> Stage:
        """The stage at its end."""
        for reached in stage.walk(self._key(kind), keep or self.plan.keep, chunk_steps=1):
            stage = reached
            self._watch(kind, stage)
        return stage

    def _watch(self, kind: RunKind, stage: Stage) -> None:
        if anywhere(bool(self.watch(Progress.from_stage(stage, run=kind.value))))[0]:
            raise Stopped

    def _diagnosed(self, kept: Any, stage: Stage, seconds: float, std_error: float = 0.0) -> FinishedRun:
        """A run of simulated tempering, with what was found about it."""
        findings = stage.diagnosis(self.plan.setup.ladder.path.log_z_base(), std_error).findings
        return FinishedRun(kept, stage.warmup.num_steps + stage.num_steps, seconds, findings)


# Part of the random key, far from the numbers of stages.
_NUMBERS = {kind: 2**20 + i for i, kind in enumerate(RunKind)}


@eqx.filter_jit
def log_target_weights(ladder: Ladder, x: State) -> jax.Array:
    """log q(K−1 | x) of each chain."""
    return jax.vmap(lambda state: ladder.log_rung_posterior(ladder.path.log_densities(state))[-1])(x)
