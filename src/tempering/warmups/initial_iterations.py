"""The paper's initial iterations (Section 2.4): short runs, each correcting the guess of log Z."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tempering._errors import InputError
from tempering._types import Key
from tempering.estimators.tempered import log_occupancy
from tempering.kernels import Position, SimulatedTempering
from tempering.ladder import Ladder
from tempering.sampling import AbstractWarmup, Setup, Stage, block_steps
from tempering.stats import Recording
from tempering.warmups.starts import _position_at_base, _starts, _with_estimate


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
        is_equilibrated = is_flat(stage.recording) and done >= self.min_iterations
        better = _with_estimate(stage)
        rungs = _uniform_rungs(jax.random.fold_in(setup.key, done), setup.ladder, stage.num_chains)
        positions, kernel = Position(stage.states.x, rungs), SimulatedTempering(setup.move)
        if is_equilibrated or done >= self.max_iterations:
            sample = stage.next("sample", better, kernel, positions, setup.num_steps)
            return dataclasses.replace(sample, is_equilibrated=is_equilibrated)
        return stage.next("iterate", better, kernel, positions, self.steps_of(done))


def is_flat(recording: Recording) -> bool:
    """The paper's stopping rule, max_k |r_k − ĉ_k| < 0.1/K."""
    stats = recording.stats
    off = np.abs(np.exp(stats.log_prior) - np.exp(log_occupancy(stats)))
    return bool(off.max() < 0.1 / len(off))


def _uniform_rungs(key: Key, ladder: Ladder, num_chains: int) -> Int[Array, " chain"]:
    keys = jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(num_chains))
    draw = jax.vmap(lambda k: jax.random.randint(k, (), 0, ladder.path.num_rungs, jnp.int32))
    return draw(keys)
