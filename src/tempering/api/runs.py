"""The runs behind a comparison: each kind is made once, at one cost, however many methods read it."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._types import Key, State
from tempering.diagnosis import diagnose, unequilibrated
from tempering.estimators.methods import RunKind, TemperedRun
from tempering.kernels import (
    AbstractMove,
    AnnealDown,
    ContinuousPosition,
    ContinuousTempering,
    Position,
    positions_at_target,
)
from tempering.ladder import Ladder
from tempering.sampling import AbstractWarmup, Setup, Stage, block_steps
from tempering.stats import Keep, Recording, systematic_picks
from tempering.verdicts import Finding
from tempering.warmups import AnnealedStart, SelfAdjusting, annealing_ladder


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

    ladder: Ladder
    move: AbstractMove
    warmup: AbstractWarmup
    num_chains: int
    num_sweeps: int  # per chain after the warm-up, where no budget is given
    budget: int | None  # sweeps per chain, warm-up included; None: as many as the tempered run takes
    keep: Keep
    rows: State | None = None  # states made of data, one per chain, for passes down from them


class Runs:
    """The runs of one plan and one key, each made when it is first asked for.

    Those that go on from the tempered run (its warm-up, or its draws) make that first. The shared warm-up counts as if
    it had been each one's own; the draws that passes down start from do not.
    """

    def __init__(self, plan: Plan, key: Key, watch: Callable[[RunKind, str, float], None]):
        """`watch` hears which run is under way, at which stage, and how much of the stage is done."""
        self.plan, self.key, self.watch = plan, key, watch
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
        return self.finished(RunKind.TEMPERED).num_sweeps if self.plan.budget is None else self.plan.budget

    def _tempered(self, kind: RunKind) -> FinishedRun:
        plan, started, earlier = self.plan, time.perf_counter(), []
        setup = Setup(self.key, plan.ladder, plan.move, plan.num_chains, plan.num_sweeps)
        stage = plan.warmup.first(setup)
        while not stage.is_last:
            stage = self._walked(kind, stage)
            if isinstance(stage.recording, Recording):  # tempered under one Ẑ, as annealing and adjusting are not
                earlier.append(stage.recording.stats)
            done = stage.warmup_steps + stage.num_steps
            if plan.budget is not None:
                setup = dataclasses.replace(setup, num_steps=max(1, plan.budget - done))
            stage = plan.warmup.after(setup, stage)
        self._sampling = stage
        self._sampled = stage = self._walked(kind, stage)
        run = TemperedRun(stage.ladder.path, stage.recording, tuple(earlier))
        return self._finish(run, stage, started)

    def _continuous(self, kind: RunKind) -> FinishedRun:
        """From the same warm-up as the tempered run, whose Ẑ and positions it takes."""
        tempered, started = self.finished(RunKind.TEMPERED), time.perf_counter()
        before = self._sampling
        betas = np.asarray(before.ladder.path.betas)[np.asarray(before.states.rung)]
        stage = dataclasses.replace(
            before,
            ladder=before.ladder.continuous(),
            kernel=ContinuousTempering(before.move),
            states=ContinuousPosition(before.states.x, jnp.asarray(betas)),
        )
        stage = self._walked(kind, stage)
        finished = self._finish(stage.recording.stats, stage, started)
        shared = tempered.seconds * before.warmup_steps / tempered.num_sweeps
        return dataclasses.replace(finished, seconds=finished.seconds + shared)

    def _annealed(self, kind: RunKind) -> FinishedRun:
        setup, started = self._setup(kind), time.perf_counter()
        stage = AnnealedStart(anneal_steps=self.budget).first(setup)
        stage = self._walked(kind, stage)
        return FinishedRun(stage.recording, stage.num_steps, time.perf_counter() - started)

    def _down(self, kind: RunKind) -> FinishedRun:
        """Passes from the target to the base, from rows of data or from what the tempered run says the target is.

        The second are no better than that run, so that what was found about it holds for them too.
        """
        plan, setup, from_data = self.plan, self._setup(kind), kind is RunKind.DOWN_FROM_DATA
        starts = plan.rows if from_data else self._target_draws()
        findings = () if from_data else self.finished(RunKind.TEMPERED).findings
        ladder = annealing_ladder(setup.ladder, self.budget)
        started = time.perf_counter()
        stage = Stage(
            "anneal", 0, ladder, AnnealDown(setup.move), positions_at_target(ladder.path, starts),
            self.budget, block_steps("anneal", self.budget),
        )  # fmt: skip
        stage = self._walked(kind, stage)
        return FinishedRun(stage.recording, stage.num_steps, time.perf_counter() - started, findings)

    def _target_draws(self) -> State:
        """States of the tempered run's chains, picked in proportion to q(K−1 | x), by systematic resampling."""
        self.finished(RunKind.TEMPERED)
        positions: Position = self._sampled.states
        log_weights = np.asarray(_log_target_weights(self._sampled.ladder, positions.x), np.float64)
        log_weights = np.nan_to_num(log_weights, nan=-1e300, neginf=-1e300)  # never picked, unless all are like that
        weights = np.exp(log_weights - log_weights.max())
        offset = float(jax.random.uniform(self._key(RunKind.DOWN_FROM_TARGET)))
        picked = systematic_picks(weights, len(weights), offset)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[picked], positions.x)

    def _adjusted(self, kind: RunKind) -> FinishedRun:
        setup, started = self._setup(kind), time.perf_counter()
        rule = "sams" if kind is RunKind.SAMS else "wang_landau"
        steps = min(SelfAdjusting.update_steps, self.budget)
        how = SelfAdjusting(rule, num_steps=self.budget, update_steps=steps)
        stage = self._walked(kind, how.first(setup))
        while stage.number + 1 < how.num_updates:
            stage = self._walked(kind, how.after(setup, stage))
        return FinishedRun(how.outcome(stage), how.num_updates * steps, time.perf_counter() - started)

    def _setup(self, kind: RunKind) -> Setup:
        """For a run beside the tempered one; where that one's warm-up tunes or respaces, they share what it found."""
        plan = self.plan
        if not plan.warmup.shapes_the_run:
            return Setup(self._key(kind), plan.ladder, plan.move, plan.num_chains)
        self.finished(RunKind.TEMPERED)
        ladder = self._sampling.ladder.with_log_z(np.zeros(self._sampling.ladder.path.num_rungs))
        return Setup(self._key(kind), ladder, self._sampling.move, plan.num_chains)

    def _key(self, kind: RunKind) -> Key:
        """The tempered run's is the seed's own, so that it is the run that `estimate` would make."""
        return self.key if kind is RunKind.TEMPERED else jax.random.fold_in(self.key, _NUMBERS[kind])

    def _walked(self, kind: RunKind, stage: Stage) -> Stage:
        """The stage at its end."""
        for reached in stage.walk(self._key(kind), self.plan.keep):
            stage = reached
            self.watch(kind, stage.name, stage.done / stage.num_steps)
        return stage

    def _finish(self, kept: Any, stage: Stage, started: float) -> FinishedRun:
        """A run of simulated tempering, with its diagnosis."""
        diagnosis = diagnose(stage.recording, stage.annealed, log_z_base=self.plan.ladder.path.log_z_base())
        findings = diagnosis.findings if stage.is_equilibrated else (*diagnosis.findings, unequilibrated())
        num_sweeps = stage.warmup_steps + stage.num_steps
        return FinishedRun(kept, num_sweeps, time.perf_counter() - started, findings)


# Part of the random key, far from the numbers of stages.
_NUMBERS = {kind: 2**20 + i for i, kind in enumerate(RunKind)}


@eqx.filter_jit
def _log_target_weights(ladder: Ladder, x: State) -> jax.Array:
    """log q(K−1 | x) of each chain."""
    return jax.vmap(lambda state: ladder.log_rung_posterior(ladder.path.log_densities(state))[-1])(x)
