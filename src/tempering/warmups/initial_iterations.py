"""The paper's initial iterations (Section 2.4): short runs, each correcting the guess of log Z."""

import dataclasses
from typing import ClassVar

import jax
import numpy as np

from tempering._errors import InputError
from tempering.estimators import rts, ts
from tempering.estimators.tempered import log_occupancy
from tempering.kernels import Position, SimulatedTempering
from tempering.sampling import AbstractTemperedKind, AbstractWarmup, Setup, Stage
from tempering.stats import Recording
from tempering.warmups.starts import base_positions, uniform_rungs


class Iterating(AbstractTemperedKind):
    """One of the initial iterations, under a guess of log Z that may be wrong by hundreds of nats."""

    label: ClassVar[str] = "initial iterations"
    any_range: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class InitialIterations(AbstractWarmup):
    """The paper's warm-up: short runs from the last x's and fresh uniform rungs, each correcting log Ẑ.

    They end when max_k |r_k − ĉ_k| < 0.1/K, or after `max_iterations`. With a `growth` of 2 each is twice as long as
    the one before: short while Ẑ is far from Z, long once it is near.

    Caveats: iterations that are too short can end many nats from the truth, and stay there.

    Attributes:
        steps: Steps of the first iteration.
        max_iterations: After so many they end, whether the rule is met or not.
        min_iterations: So many there are at least.
        growth: The factor from the length of one iteration to that of the next.
        max_steps: Steps of the longest iteration.
        rao_blackwell: Whether ĉ_k is the mean of q(k | x), eq. 9; otherwise it is the share of visits, with 0.1 added
            to each count, as in Figure 1 of the paper. That is noisier by far, and there for comparison.
    """

    steps: int = 50
    max_iterations: int = 20
    min_iterations: int = 1
    growth: float = 1.0
    max_steps: int = 5000
    rao_blackwell: bool = True

    def steps_of(self, number: int) -> int:
        """Steps of an iteration, counted from 0."""
        factor = np.exp(min(number * np.log(self.growth), 100.0))  # far beyond `max_steps`, not beyond numbers
        return round(min(self.steps * factor, max(self.steps, self.max_steps)))

    def __post_init__(self) -> None:
        if not 1 <= self.growth < np.inf:
            raise InputError(f"InitialIterations(growth=...) must be 1 or more, got {self.growth}.")

    def first(self, setup: Setup) -> Stage:
        """Ẑ_k = Ẑ_0, and draws of the base."""
        rungs = uniform_rungs(setup.key, setup.ladder.path.num_rungs, setup.num_chains)
        starts = base_positions(setup.key, setup.ladder.path, rungs)
        return Stage.first(Iterating(), setup.ladder, SimulatedTempering(setup.move), starts, self.steps)

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Another iteration until the occupancy is flat, then sampling."""
        done = stage.number + 1
        is_equilibrated = is_flat(stage.recording) and done >= self.min_iterations
        estimator = rts if self.rao_blackwell else ts
        better = stage.ladder.with_log_z(estimator(stage.recording.stats).values)
        rungs = uniform_rungs(jax.random.fold_in(setup.key, done), setup.ladder.path.num_rungs, stage.num_chains)
        positions = Position(stage.states.x, rungs)
        if is_equilibrated or done >= self.max_iterations or setup.is_late:
            return setup.sampling_after(stage.with_found(is_equilibrated=is_equilibrated), better, positions)
        return stage.next(Iterating(), better, SimulatedTempering(setup.move), positions, self.steps_of(done))


def is_flat(recording: Recording) -> bool:
    """The paper's stopping rule, max_k |r_k − ĉ_k| < 0.1/K."""
    stats = recording.stats
    off = np.abs(np.exp(stats.log_prior) - np.exp(log_occupancy(stats)))
    return bool(off.max() < 0.1 / len(off))
