"""Stages: a run is a sequence of them, and within a stage nothing adapts.

A stage is a plain value: a frozen ladder and kernel, how far the chains have come under them, and what they gave. It
can be written to disk and taken up again, so a run may be cut anywhere. The kind of a stage says what is recorded, what
it is called, and how it is cut into blocks. A warm-up brings its own kinds.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._types import Key
from tempering.diagnosis import (
    Diagnosis,
    beyond_all_draws,
    beyond_the_run,
    diagnose,
    heavy_target,
    narrow_peak,
    open_tours,
    unequilibrated,
)
from tempering.estimators import Annealed
from tempering.kernels import NO_EVALUATIONS, AbstractKernel, AbstractMove, AbstractSizedMove, Evaluations, Position
from tempering.ladder import AbstractPath, Ladder, PathLength
from tempering.sampling.chains import run_chains
from tempering.sampling.finishing import Rest, rest_of_tours
from tempering.sampling.target_rays import RayMasses, unseen_masses
from tempering.sampling.target_walk import TargetWalk, walk_at_target
from tempering.stats import JUST_RTS, MAX_BLOCK_STEPS, MOST_ALONE, Keep, TemperingRecord, TuningSums
from tempering.verdicts import Finding, without_none


class AbstractStageKind(eqx.Module):
    """What sort of stage this is. Its name identifies it in a checkpoint, and its arrays are saved there."""

    label: ClassVar[str]  # what people read while it runs, such as "annealing"
    num_blocks: ClassVar[int] = 8  # into which a stage is cut, so that a drift can be seen
    is_sampling: ClassVar[bool] = False  # whether its draws count
    is_whole: ClassVar[bool] = False  # whether it must be walked to its end, even when the time is up
    may_be_left_out: ClassVar[bool] = False  # whether a warm-up whose time is up can do without a step of it
    is_tempered: ClassVar[bool] = False  # whether chains walk over the rungs under one guess of log Z
    tries_step_sizes: ClassVar[bool] = False  # whether moves may try other step sizes here, to be tuned by
    moves_chains: ClassVar[bool] = True  # whether chains go anywhere; without it they are only weighed
    record: ClassVar[Any]  # the class of what one chain keeps of one block

    def empty_record(self, stage: "Stage", keep: Keep) -> Any:
        """What one chain keeps of one block, before any draw; `keep` says what is kept of sampling."""
        return self.record.empty(stage.ladder)

    def tuned_about(self, center: np.ndarray) -> "AbstractStageKind":
        """The same kind, recording also what tuning needs, with moments taken about `center`."""
        return self

    def block_steps(self, num_steps: int) -> int:
        """Steps that are folded into one statistic on the device."""
        return min(-(-num_steps // self.num_blocks), MAX_BLOCK_STEPS)


class AbstractTemperedKind(AbstractStageKind):
    """A stage of simulated tempering before the draws that count.

    Attributes:
        center: A place near all chains, where a move is being tuned: moments are taken about it.
    """

    center: Any = None
    is_tempered: ClassVar[bool] = True
    tries_step_sizes: ClassVar[bool] = True
    any_range: ClassVar[bool] = False  # whether the guess of log Z may still be wrong by hundreds of nats

    def empty_record(self, stage: "Stage", keep: Keep) -> TemperingRecord:
        return TemperingRecord.empty(stage.ladder, any_range=self.any_range, tuning=self._tuning(stage))

    def tuned_about(self, center: np.ndarray) -> "AbstractTemperedKind":
        return type(self)(center)

    def _tuning(self, stage: "Stage") -> TuningSums | None:
        if self.center is None or not isinstance(stage.move, AbstractSizedMove):
            return None
        schedule = stage.move.schedule
        step_sizes, jitter = (np.asarray(a, np.float64) for a in (schedule.step_sizes, schedule.jitter))
        low, high = step_sizes.min() * np.exp(-jitter), step_sizes.max() * np.exp(jitter)
        return TuningSums.empty(stage.ladder, float(low), float(high), self.center)


class Sampling(AbstractStageKind):
    """The draws that count.

    Attributes:
        has_whole_tours: Whether chains begin with exact draws of the base, so that the run is to end so as well.
    """

    has_whole_tours: bool = False

    label: ClassVar[str] = "sampling"
    num_blocks: ClassVar[int] = 32
    is_sampling: ClassVar[bool] = True
    is_tempered: ClassVar[bool] = True

    def empty_record(self, stage: "Stage", keep: Keep) -> TemperingRecord:
        regenerates = stage.kernel.regenerates and stage.move.redraws_base
        has_controls = keep.bridges and stage.move.gives_control(stage.ladder.path)
        keep = dataclasses.replace(keep, tours=regenerates, controls=has_controls)
        return TemperingRecord.empty(stage.ladder, any_range=False, keep=keep)


class Standing(Sampling):
    """States of the warm-up, each weighed once at every rung: what there is where the time was up before sampling."""

    moves_chains: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True)
class WarmupSummary:
    """What the stages before this one have found, and what they cost.

    Attributes:
        annealed: The estimate of an annealing pass, kept as an independent check.
        length: The length of the path, and of the longest step on it, where a pass has measured it.
        is_equilibrated: Whether the warm-up met its own stopping rule.
        families: The particle of a pass that the start of each chain descends from, where some descend from one.
        num_steps: Steps per chain in earlier stages.
        evaluations: Evaluations of the density and of its gradient in earlier stages, of all chains together.
    """

    annealed: Annealed | None = None
    length: PathLength | None = None
    is_equilibrated: bool = True
    families: tuple[int, ...] | None = None
    num_steps: int = 0
    evaluations: Evaluations = NO_EVALUATIONS


@dataclasses.dataclass(frozen=True)
class Stage:
    """A frozen ladder and kernel, how far the chains have come under them, and what they gave.

    Attributes:
        kind: What is recorded, and what it is called.
        number: Stages before this one that took steps; part of the random key.
        ladder: The joint law that is sampled.
        kernel: One step of a chain.
        states: Where the chains stand; leading axis: chain.
        num_steps: Steps of the whole stage.
        block_steps: Steps that are folded into one statistic on the device.
        done: Steps done so far.
        recording: What the blocks so far gave, on the host; None before the first.
        warmup: What earlier stages have found.
        rest: What the chains did after the last step until their next exact draw of the base, where that was walked.
        tails: What chains saw that walked at the target alone, where some did.
        rays: The mass that rays through draws find where no draw is, see `unseen_masses`, where it was looked for.
    """

    kind: AbstractStageKind
    number: int
    ladder: Ladder
    kernel: AbstractKernel
    states: Any
    num_steps: int
    block_steps: int
    done: int = 0
    recording: Any = None
    warmup: WarmupSummary = WarmupSummary()
    rest: Rest | None = None
    tails: TargetWalk | None = None
    rays: RayMasses | None = None

    @classmethod
    def first(
        cls, kind: AbstractStageKind, ladder: Ladder, kernel: AbstractKernel, states: Any, num_steps: int
    ) -> "Stage":
        """The first stage of a run."""
        states = kernel.prepared(ladder.path, states)
        return cls(kind, 0, ladder, kernel, states, num_steps, kind.block_steps(num_steps))

    def next(
        self, kind: AbstractStageKind, ladder: Ladder, kernel: AbstractKernel, states: Any, num_steps: int
    ) -> "Stage":
        """The stage after this one."""
        block_steps, states = kind.block_steps(num_steps), kernel.prepared(ladder.path, states)
        number = self.number + (self.num_steps > 0)
        return Stage(kind, number, ladder, kernel, states, num_steps, block_steps, warmup=self.spent())

    def spent(self) -> WarmupSummary:
        """The summary of earlier stages with what this one has cost so far."""
        steps = self.warmup.num_steps + self.done
        num_moves = self.done * self.num_chains
        if self.rest is not None:
            num_moves += int(self.rest.recording.stats.num_draws.sum())
        num_moves += 0 if self.tails is None else self.tails.num_moves
        here = self.kernel.evaluations(self.ladder.path).times(num_moves)
        here = here.plus(NO_EVALUATIONS if self.rays is None else self.rays.evaluations)
        return dataclasses.replace(self.warmup, num_steps=steps, evaluations=self.warmup.evaluations.plus(here))

    @property
    def is_sampling(self) -> bool:
        """Whether these are the draws that count."""
        return self.kind.is_sampling

    @property
    def is_finished(self) -> bool:
        """Whether all its steps are done."""
        return self.done == self.num_steps

    @property
    def move(self) -> AbstractMove:
        """How x moves in this stage."""
        return self.kernel.move

    @property
    def num_chains(self) -> int:
        """The number of independent chains."""
        return jax.tree.leaves(self.states)[0].shape[0]

    def with_move(self, move: AbstractMove) -> "Stage":
        """The same stage with another move of the same kind."""
        return dataclasses.replace(self, kernel=dataclasses.replace(self.kernel, move=move))

    def with_found(self, **found: Any) -> "Stage":
        """The same stage with new entries in its `WarmupSummary`."""
        return dataclasses.replace(self, warmup=dataclasses.replace(self.warmup, **found))

    def empty_record(self, keep: Keep = JUST_RTS) -> Any:
        """What one chain keeps of one block in this stage, before any draw."""
        return self.kind.empty_record(self, keep)

    def after_block(self, num_steps: int, states: Any, recorded: Any) -> "Stage":
        """This stage, a block further on."""
        recording = recorded if self.recording is None else self.recording.then(recorded)
        unseen: dict[str, Any] = {"rest": None, "tails": None, "rays": None}
        return dataclasses.replace(self, done=num_steps, states=states, recording=recording, **unseen)

    def walk(self, key: Key, keep: Keep = JUST_RTS, chunk_steps: int | None = None) -> Iterator["Stage"]:
        """The rest of this stage: itself further on, after at least every `chunk_steps` steps, and at its end."""
        if self.is_finished:  # nothing is compiled for it
            return
        chunk = self.num_steps if chunk_steps is None else -(-chunk_steps // self.block_steps) * self.block_steps

        def ends_chunk(done: int) -> bool:
            return (done - self.done) % chunk == 0 or done == self.num_steps

        blocks = run_chains(
            jax.random.fold_in(key, self.number), self.ladder, self.kernel, self.empty_record(keep), self.states,
            num_steps=self.num_steps, first_step=self.done, block_steps=self.block_steps,
            joins_chains=True, is_late=not self.kind.moves_chains, wants_states=ends_chunk,
        )  # fmt: skip
        stage = self
        for block in blocks:
            stage = stage.after_block(block.num_steps, block.states, block.record.on_host())
            if ends_chunk(stage.done):
                yield stage

    def with_tours_finished(self, key: Key, keep: Keep = JUST_RTS) -> "Stage":
        """This stage with the rest of its tours, where it is to consist of whole ones and is at its end."""
        if not (self.has_whole_tours and self.is_finished):
            return self
        key, record = jax.random.fold_in(key, self.number), self.empty_record(keep).without_steps()
        rest = rest_of_tours(key, self.ladder, self.kernel, record, self.states, self.done)
        return dataclasses.replace(self, rest=rest)

    def with_tails_seen(self, key: Key, keep: Keep = JUST_RTS) -> "Stage":
        """This stage with rays and a walk at the target, where it has draws and is at its end.

        See `unseen_masses` and `walk_at_target`.
        """
        draws = self.recording.states if self.is_sampling and self.is_finished else None
        if draws is None or self.move.always_accepts:
            return self
        key, record = jax.random.fold_in(key, self.number), self.empty_record(keep)
        number = min(self.num_chains, MOST_ALONE)
        tails = walk_at_target(key, self.ladder, self.kernel, record, draws, number)
        if not self.kind.moves_chains:  # there is no time for new programs
            return dataclasses.replace(self, tails=tails)
        rays = unseen_masses(self.ladder, draws, climbs=self.move.needs_gradient)
        return dataclasses.replace(self, tails=tails, rays=rays)

    @property
    def has_whole_tours(self) -> bool:
        """Whether chains began with exact draws of the base, and are to end so."""
        return isinstance(self.kind, Sampling) and self.kind.has_whole_tours

    @property
    def complete_recording(self) -> Any:
        """What was kept, with the rest of the tours where that was walked: what estimators take."""
        return self.recording if self.rest is None else self.recording.with_tours_finished(self.rest.recording)

    @property
    def families(self) -> tuple[int, ...] | None:
        """The particle that the start of each chain descends from; None where chains begin at the base."""
        return None if self.has_whole_tours else self.warmup.families

    def diagnosis(self, log_z_base: float, std_error: float = 0.0) -> Diagnosis:
        """What this stage's draws, the annealing pass and the warm-up's own rule say of the answer and its error."""
        found = diagnose(self.complete_recording, self.warmup.annealed, log_z_base=log_z_base)
        if self.has_whole_tours:
            found = found.with_findings(without_none(open_tours(self.rest and self.rest.num_open, self.num_chains)))
        found = found.with_findings(without_none(self._heavy_tails(std_error), self._narrow_peak(std_error)))
        return found if self.warmup.is_equilibrated else found.with_findings((unequilibrated(),))

    def _heavy_tails(self, std_error: float) -> Finding | None:
        """What walks and rays say of the tails of the target."""
        draws, walk, heavy = self.recording.states, self.tails, None
        if walk is not None:
            heavy = heavy_target(walk.rises_apart) or beyond_the_run(walk.log_rises, draws, std_error)
        if heavy or self.rays is None:
            return heavy
        return beyond_all_draws(self.rays.beyond, self.rays.chance_beyond, std_error)

    def _narrow_peak(self, std_error: float) -> Finding | None:
        if self.rays is None:
            return None
        return narrow_peak(self.rays.inside, self.rays.centers, self.rays.chance_inside, std_error)


def blank_positions(path: AbstractPath) -> Position:
    """A position of the right form for one chain, whose values mean nothing: what a checkpoint is read into."""
    x = jax.eval_shape(path.sample_base, jax.random.key(0))
    return Position(jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape), leaf.dtype), x), jnp.zeros(1, jnp.int32))
