"""The contract of a warm-up: its first stage, and the stage that follows a finished one."""

import dataclasses

from tempering._types import Key
from tempering.kernels import AbstractMove
from tempering.ladder import Ladder
from tempering.sampling.stage import Stage


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
