"""A stage of a run: a frozen ladder and kernel, how far the chains have come, and what they gave."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from tempering._types import Key
from tempering.estimators import Annealed
from tempering.kernels import AbstractKernel, AbstractMove, AbstractSizedMove, SimulatedTempering
from tempering.ladder import Ladder, PathLength
from tempering.sampling.chains import run_chains
from tempering.stats import (
    JUST_RTS,
    MAX_BLOCK_STEPS,
    AnnealRecord,
    GuidedRecord,
    Keep,
    MoveSums,
    TemperingRecord,
    TuningSums,
)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A frozen ladder and kernel, how far the chains have come under them, and what they gave."""

    name: str  # "tune", "anneal", "equilibrate", "iterate", "adjust" or "sample"
    number: int  # stages before this one; part of the random key
    ladder: Ladder
    kernel: Any  # an AbstractKernel with a `move`
    states: Any
    num_steps: int
    block_steps: int
    done: int = 0
    recording: Any = None
    annealed: Annealed | None = None
    length: PathLength | None = None  # of the path, and of the longest step on it, where a pass has seen it
    is_equilibrated: bool = True  # whether the warm-up met its own stopping rule
    warmup_steps: int = 0  # steps per chain in earlier stages
    center: Any = None  # a place near all chains, where a move is being tuned: moments are taken about it

    @property
    def is_last(self) -> bool:
        """Whether these are the draws that count."""
        return self.name == "sample"

    def empty_record(self, keep: Keep = JUST_RTS) -> Any:
        """What a chain keeps of a block in this stage."""
        if self.name == "tune":
            return MoveSums.empty(self.ladder)
        if self.name == "anneal":
            return AnnealRecord.empty(self.ladder)
        if self.name == "adjust":
            return GuidedRecord.empty(self.ladder)
        is_blind = self.name == "iterate"  # Ẑ may be wrong by hundreds of nats
        if self.is_last:
            begins_anew = isinstance(self.kernel, SimulatedTempering) and self.move.redraws_base
            return TemperingRecord.empty(
                self.ladder, any_range=is_blind, keep=dataclasses.replace(keep, tours=begins_anew)
            )
        return TemperingRecord.empty(self.ladder, any_range=is_blind, tuning=self._tuning())

    def _tuning(self) -> TuningSums | None:
        """What a move that is being tuned needs to know of a tempered stage before the last."""
        if self.center is None or not isinstance(self.move, AbstractSizedMove):
            return None
        steps, jitter = (np.asarray(a, np.float64) for a in (self.move.schedule.step_sizes, self.move.schedule.jitter))
        low, high = steps.min() * np.exp(-jitter), steps.max() * np.exp(jitter)
        return TuningSums.empty(self.ladder, float(low), float(high), self.center)

    @property
    def move(self) -> AbstractMove:
        """How x moves in this stage."""
        return self.kernel.move

    def with_move(self, move: AbstractMove) -> "Stage":
        """The same stage with another move of the same kind."""
        return dataclasses.replace(self, kernel=dataclasses.replace(self.kernel, move=move))

    def after_block(self, num_steps: int, states: Any, recorded: Any) -> "Stage":
        """This stage, a block further on."""
        recording = recorded if self.recording is None else self.recording.then(recorded)
        return dataclasses.replace(self, done=num_steps, states=states, recording=recording)

    @property
    def num_chains(self) -> int:
        """Independent chains."""
        return jax.tree.leaves(self.states)[0].shape[0]

    def walk(self, key: Key, keep: Keep = JUST_RTS, chunk_steps: int = 1) -> Iterator["Stage"]:
        """The rest of this stage: itself further on, after at least every `chunk_steps` steps and at its end."""
        blocks = run_chains(
            jax.random.fold_in(key, self.number), self.ladder, self.kernel, self.empty_record(keep), self.states,
            num_steps=self.num_steps, first_step=self.done, block_steps=self.block_steps,
        )  # fmt: skip
        stage, since = self, 0
        for block in blocks:
            since += block.num_steps - stage.done
            stage = stage.after_block(block.num_steps, block.states, block.record.on_host())
            if since >= chunk_steps or block.num_steps == stage.num_steps:
                since = 0
                yield stage

    def next(self, name: str, ladder: Ladder, kernel: AbstractKernel, states: Any, num_steps: int) -> "Stage":
        """The stage after this one."""
        return Stage(
            name, self.number + 1, ladder, kernel, states, num_steps, block_steps(name, num_steps),
            annealed=self.annealed, length=self.length, warmup_steps=self.warmup_steps + self.num_steps,
        )  # fmt: skip


def block_steps(name: str, num_steps: int) -> int:
    """Steps folded into one statistic on the device: where it counts, enough blocks to see a drift."""
    num_blocks = 32 if name == "sample" else 8
    return min(-(-num_steps // num_blocks), MAX_BLOCK_STEPS)
