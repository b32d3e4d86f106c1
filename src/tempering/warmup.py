"""Everything that happens before the draws that count: a first Ẑ at every rung, and states to start from.

A run is a sequence of stages. Within a stage nothing adapts; a stage's recording makes the next stage's ladder.
Each stage is a plain value that can be written down and taken up again, so a run may be cut anywhere.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tempering._errors import InputError
from tempering._types import Key, Rung
from tempering.annealing import AnnealRecord, AnnealState, AnnealUp
from tempering.estimators import Annealed, ais, rts
from tempering.estimators.rts import log_occupancy
from tempering.guided import GuidedRecord
from tempering.kernels import AbstractKernel, AbstractMove, AbstractSizedMove, Position, SimulatedTempering
from tempering.ladder import AbstractPath, Ladder
from tempering.run import run
from tempering.spacing import LadderRule, PathLength, Spacing, checked
from tempering.stats import JUST_RTS, MAX_BLOCK_STEPS, Keep, MoveSums, Recording, TemperingRecord, TuningSums

_BASE_DRAWS = 2**31 - 1  # folded into the key for draws of the base, out of the way of stage numbers


@dataclasses.dataclass(frozen=True)
class Stage:
    """A frozen ladder and kernel, how far the chains have come under them, and what they gave."""

    name: str  # "tune", "anneal", "settle", "iterate", "adjust" or "sample"
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
    is_settled: bool = True  # whether the warm-up met its own stopping rule
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
        steps, jitter = (np.asarray(a, np.float64) for a in (self.move.schedule.scales, self.move.schedule.jitter))
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
        blocks = run(
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


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a warm-up is given: the law that is wanted, how x moves, and how much is to come of it."""

    key: Key
    ladder: Ladder
    move: AbstractMove
    num_chains: int
    num_steps: int = 0  # of the run that counts


class AbstractWarmup:
    """How a run begins: its first stage, and the stage that follows a finished one."""

    @property
    def shapes_the_run(self) -> bool:
        """Whether it changes more than Ẑ and the states: where the rungs are, or how x moves."""
        return False

    def first(self, setup: Setup) -> Stage:
        """Nothing known yet."""
        raise NotImplementedError

    def beginnings(self, setup: Setup) -> list[Stage]:
        """Stages whose states have a form of their own; all others walk through `Position`."""
        return [self.first(setup)]

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """The next stage, which is "sample", with `setup.num_steps` steps, once the warm-up is done."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class AnnealedStart(AbstractWarmup):
    """One annealing pass gives Ẑ at every rung and a state at every rung; short tempered runs then correct Ẑ.

    The default, because it has not been seen to get stuck. Its estimate stays in the result as a check.
    """

    anneal_steps: int = 150
    settle_steps: tuple[int, ...] = (100, 250)
    respaces: bool = False  # whether rungs are spaced anew, by what the annealing pass saw
    measure: str = "kl"  # equal steps of √KL, or of "rejection", see `Spacing`
    chooses_number: bool = False  # whether that also says how many rungs there are; needs a rule
    rule: LadderRule | None = None  # where rungs that are not spaced anew lie, and what new ones weigh

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        checked(self.measure)
        if self.chooses_number and self.rule is None:
            raise InputError(
                "AnnealedStart(chooses_number=True) needs a `rule` for the weights of any number of rungs."
            )

    @property
    def shapes_the_run(self) -> bool:
        """Where rungs are spaced anew, or counted."""
        return self.respaces or self.chooses_number

    @property
    def num_steps(self) -> int:
        """Steps per chain before the draws that count."""
        return self.anneal_steps + sum(self.settle_steps)

    def scaled(self, factor: float) -> "AnnealedStart":
        """Shorter or longer in all its parts, a step each at least."""
        anneal, *settle = (max(1, round(factor * steps)) for steps in (self.anneal_steps, *self.settle_steps))
        return dataclasses.replace(self, anneal_steps=anneal, settle_steps=tuple(settle))

    def first(self, setup: Setup) -> Stage:
        """Anneal along the same path, seen at as many inverse temperatures as there are steps."""
        ladder = setup.ladder
        fine = annealing_ladder(ladder, self.anneal_steps)
        betas = np.asarray(fine.path.betas)
        rungs = _spread_over_rungs(ladder, setup.num_chains)
        kept_at = np.abs(betas - np.asarray(ladder.path.betas)[rungs][:, None]).argmin(axis=1)
        starts = _starts(setup.key, fine.path, AnnealState.start, kept_at)
        return Stage(
            "anneal", 0, fine, AnnealUp(setup.move), starts, self.anneal_steps, block_steps("anneal", self.anneal_steps)
        )

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Anneal, settle once or more, sample; each with the Ẑ that the one before found."""
        if stage.name == "anneal":
            stage, better = self._from_weights(stage, setup.ladder)
        else:
            better = _with_estimate(stage)
        is_last = stage.number == len(self.settle_steps)
        name, steps = ("sample", setup.num_steps) if is_last else ("settle", self.settle_steps[stage.number])
        return stage.next(name, better, SimulatedTempering(setup.move), stage.states, steps)

    def _from_weights(self, stage: Stage, ladder: Ladder) -> tuple[Stage, Ladder]:
        """The finished annealing stage with its summary and its kept states; the ladder with Ẑ from its weights."""
        log_weights = stage.recording.log_weights()
        fine = np.asarray(stage.ladder.path.betas, np.float64)
        spacing = Spacing.of(fine, stage.recording.log_increments, self.measure)
        rungs = _spread_over_rungs(ladder, stage.num_chains)
        if self.shapes_the_run:
            kept_betas = np.asarray(ladder.path.betas)[rungs]
            ladder = self._reshaped(ladder, spacing)
            rungs = np.abs(np.asarray(ladder.path.betas) - kept_betas[:, None]).argmin(axis=1).astype(np.int32)
        betas = np.asarray(ladder.path.betas, np.float64)
        guess = np.asarray(np.interp(betas, fine, ais(log_weights).values))
        found = {
            "states": Position(stage.states.kept, jnp.asarray(rungs)),
            "annealed": Annealed.from_weights(log_weights, ladder.path.log_z_base()),
            "length": spacing.length(betas),
        }
        return dataclasses.replace(stage, **found), ladder.with_log_z(guess)

    def _reshaped(self, ladder: Ladder, spacing: Spacing) -> Ladder:
        """The rungs where they are wanted, as many as are wanted."""
        betas_of = spacing.betas if self.respaces or self.rule is None else self.rule.betas_of
        num_rungs = spacing.num_rungs(betas_of) if self.chooses_number else ladder.path.num_rungs
        betas = betas_of(num_rungs)
        return ladder.at(betas, None if self.rule is None else self.rule.log_prior_of(betas))


@dataclasses.dataclass(frozen=True)
class InitialIterations(AbstractWarmup):
    """The paper's Section 2.4: short runs from the last x's and fresh uniform rungs, each correcting Ẑ.

    They end when max_k |r_k − ĉ_k| < 0.1/K, or after `max_iterations`; runs that are too short can end stuck,
    many nats wrong. With a `growth` of 2 each is twice as long as the one before: short while Ẑ is far off, long once
    it is near.
    """

    steps: int = 50  # of the first one
    max_iterations: int = 20
    min_iterations: int = 1
    growth: float = 1.0
    max_steps: int = 5000  # of any one

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not 1 <= self.growth < np.inf:
            raise InputError(f"InitialIterations(growth=...) must be 1 or more, got {self.growth}.")

    def steps_of(self, number: int) -> int:
        """How long an iteration is, counted from 0."""
        factor = np.exp(min(number * np.log(self.growth), 100.0))  # far beyond `max_steps`, not beyond numbers
        return round(min(self.steps * factor, max(self.steps, self.max_steps)))

    def first(self, setup: Setup) -> Stage:
        """Ẑ_k = Ẑ_0 and draws of the base."""
        ladder = setup.ladder
        rungs = _uniform_rungs(setup.key, ladder, setup.num_chains)
        starts = _starts(setup.key, ladder.path, _position_at_base, rungs)
        return Stage(
            "iterate", 0, ladder, SimulatedTempering(setup.move), starts, self.steps, block_steps("iterate", self.steps)
        )

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Another iteration until the occupancy is flat, then the long run."""
        done = stage.number + 1
        is_settled = is_flat(stage.recording) and done >= self.min_iterations
        better = _with_estimate(stage)
        rungs = _uniform_rungs(jax.random.fold_in(setup.key, done), setup.ladder, stage.num_chains)
        positions, kernel = Position(stage.states.x, rungs), SimulatedTempering(setup.move)
        if is_settled or done >= self.max_iterations:
            sample = stage.next("sample", better, kernel, positions, setup.num_steps)
            return dataclasses.replace(sample, is_settled=is_settled)
        return stage.next("iterate", better, kernel, positions, self.steps_of(done))


def is_flat(recording: Recording) -> bool:
    """The paper's stopping rule, max_k |r_k − ĉ_k| < 0.1/K."""
    stats = recording.stats
    off = np.abs(np.exp(stats.log_prior) - np.exp(log_occupancy(stats)))
    return bool(off.max() < 0.1 / len(off))


def _with_estimate(stage: Stage) -> Ladder:
    """The stage's ladder with Ẑ replaced by what the stage found."""
    return stage.ladder.with_log_z(rts(stage.recording.stats).values)


def annealing_ladder(ladder: Ladder, num_steps: int) -> Ladder:
    """The same path seen at as many inverse temperatures as a pass of `num_steps` needs, spaced as the ladder's are."""
    betas = np.asarray(ladder.path.betas, np.float64)
    fine = np.interp(np.linspace(0, len(betas) - 1, num_steps + 1), np.arange(len(betas)), betas)
    return Ladder.create(ladder.path.at(fine))


def _spread_over_rungs(ladder: Ladder, num_chains: int) -> Int[np.ndarray, " chain"]:
    """One rung a chain, in the proportions of the prior."""
    below = np.cumsum(np.exp(np.asarray(ladder.log_prior, np.float64)))
    middle = (np.arange(num_chains) + 0.5) / num_chains
    return np.minimum(np.searchsorted(below, middle), len(below) - 1).astype(np.int32)


def _uniform_rungs(key: Key, ladder: Ladder, num_chains: int) -> Int[Array, " chain"]:
    keys = jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(num_chains))
    draw = jax.vmap(lambda k: jax.random.randint(k, (), 0, ladder.path.num_rungs, jnp.int32))
    return draw(keys)


def _starts(key: Key, path: AbstractPath, start: Callable[[Key, AbstractPath, Rung], Any], rungs: Any) -> Any:
    """A start for every chain, each from its own key."""
    return _start_each(jax.random.fold_in(key, _BASE_DRAWS), path, start, jnp.asarray(rungs, jnp.int32))


@eqx.filter_jit
def _start_each(key, path, start, rungs):
    # One chain at a time: a product over all chains would round differently for another number of them.
    chains = jnp.arange(len(rungs))
    return jax.lax.map(lambda c: start(jax.random.fold_in(key, c[0]), path, c[1]), (chains, rungs))


def base_positions(key: Key, path: AbstractPath, rungs: Any) -> Position:
    """Exact draws of the base, called to stand at these rungs."""
    return _starts(key, path, _position_at_base, rungs)


def _position_at_base(key: Key, path: AbstractPath, rung: Rung) -> Position:
    return Position(path.sample_base(key), rung)
