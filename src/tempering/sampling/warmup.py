"""The contract of a warm-up: its first stage, and the stage that follows a finished one."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp

from tempering._device_arrays import device_zeros
from tempering._errors import InputError
from tempering._types import Key
from tempering.diagnosis.stopping import first_look
from tempering.kernels import AbstractMove, SimulatedTempering
from tempering.ladder import Ladder, LadderRule
from tempering.sampling.stage import AbstractStageKind, Sampling, Stage, blank_positions

MOST_SPREAD = 128  # chains; more of them begin at the base where they may
_CROSSED = 0.25  # of the steps that a chain needs for a round trip; shorter runs would mostly be rests of tours


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a run is made of, as a warm-up sees it.

    Attributes:
        key: The random key of the run.
        ladder: The law that is wanted.
        move: How x moves.
        num_chains: Independent chains.
        num_steps: Steps per chain of sampling, after the warm-up; None where the length of the ladder decides.
        budget: Steps per chain in all, the warm-up included; `num_steps` does not count where it is given.
        is_late: Whether the time is up: a warm-up then goes to sampling as soon as it can.
        may_begin_at_base: Whether many chains may begin sampling at the base, see `sampling_after`. Not where
            single draws are kept, since the first ones are then not yet spread over the rungs.
    """

    key: Key
    ladder: Ladder
    move: AbstractMove
    num_chains: int
    num_steps: int | None = None
    budget: int | None = None
    is_late: bool = False
    may_begin_at_base: bool = False

    def sampling_after(self, stage: Stage, ladder: Ladder, states: Any) -> Stage:
        """The stage of sampling that follows a warm-up's last stage.

        The bias that a start leaves does not fall with the number of chains, but the error does. Chains whose starts
        descend from the same particles also share an error that their scatter does not show. So many chains begin with
        exact draws of the base instead, and end so, see `tempering.sampling.finishing`. That is somewhat noisier than a
        start spread over the rungs, which fewer chains keep; so do chains on ladders that are too long to be crossed in
        the time.
        """
        num_steps = first_look(stage.warmup.length) if self.num_steps is None else self.num_steps
        if self.budget is not None:
            num_steps = max(1, self.budget - stage.spent().num_steps)
        move = stage.move if isinstance(stage.kernel, SimulatedTempering) else self.move
        is_many = self.may_begin_at_base and self.num_chains > MOST_SPREAD and move.redraws_base and not self.is_late
        at_base = is_many and num_steps >= _CROSSED * first_look(stage.warmup.length)
        if at_base:
            states = dataclasses.replace(states, rung=device_zeros((self.num_chains,), jnp.int32))  # x is drawn there
        return stage.next(Sampling(at_base), ladder, SimulatedTempering(move), states, num_steps)

    def tempered_template(self, kind: AbstractStageKind) -> Stage:
        """A stage of simulated tempering of the right form, its values not yet known, for `templates`."""
        return Stage.first(kind, self.ladder, SimulatedTempering(self.move), blank_positions(self.ladder.path), 1)


class AbstractWarmup(abc.ABC):
    """What happens before the draws that count: a first guess of log Z at every rung, and states to start from.

    A warm-up makes stages. The stage that comes after its last one is that of sampling. A new warm-up is one class
    with `first` and `after`, and a kind of stage of its own where it records something of its own.
    """

    tunes_moves: ClassVar[bool] = False  # whether it finds step sizes for a move that has none yet

    @property
    def shapes_the_run(self) -> bool:
        """Whether it changes more than log Z and the states: where the rungs are, or how x moves."""
        return self.tunes_moves

    @property
    def can_respace(self) -> bool:
        """Whether it can say where the rungs of an adaptive ladder go, and how many there are."""
        return False

    @abc.abstractmethod
    def first(self, setup: Setup) -> Stage:
        """The first stage, from nothing but the setup."""

    @abc.abstractmethod
    def after(self, setup: Setup, stage: Stage) -> Stage:
        """The stage that follows a finished one: another of the warm-up, or `setup.sampling_after(...)`."""

    def scaled(self, factor: float) -> "AbstractWarmup":
        """Shorter or longer in all its parts, where it can be; the same warm-up where it cannot."""
        return self

    def templates(self, setup: Setup) -> list[Stage]:
        """A stage of every kind that this warm-up makes, of the right form: what a checkpoint is read into."""
        return [self.first(setup)]

    def respacing(
        self, measure: str | None, chooses_number: bool, rule: LadderRule | None, least_rungs: int = 2
    ) -> "AbstractWarmup":
        """The same warm-up, which also chooses the rungs.

        Args:
            measure: Of the steps to be made equal, "kl" or "rejection"; None where rungs stay where they are.
            chooses_number: Whether it also chooses how many rungs there are.
            rule: From which the weights of new rungs follow; None where they keep theirs.
            least_rungs: The least number of rungs that it may choose.

        Returns:
            The warm-up. One that cannot look at the path before the run is refused.
        """
        what = "An adaptive ladder" if measure is not None else "A number of rungs that is chosen"
        raise InputError(f"{what} needs a warm-up that measures the path first: leave `warmup` out.")
