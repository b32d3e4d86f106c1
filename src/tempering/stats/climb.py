"""What a population of particles gives on its way up the ladder."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._device_arrays import device_zeros
from tempering.ladder import ClimbDraw, Ladder
from tempering.stats.statistic import AbstractHostStatistic, AbstractRecord
from tempering.stats.steps import filled_steps, set_step, step_room


class ClimbRecord(AbstractRecord):
    """The log weight that each step of one block added to one particle, and how its moves went.

    Attributes:
        log_increments: one number per step, with room for the longest block.
        accepted: the sum of acceptance probabilities.
        num_divergent: divergent trajectories.
        num_steps: how many steps have been written.
    """

    log_increments: Float[Array, "*chain step"]
    accepted: Float[Array, "*chain"]
    num_divergent: Int[Array, "*chain"]
    num_steps: Int[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "ClimbRecord":
        """A record without steps, for any ladder."""
        none = device_zeros((), jnp.int32)
        return cls(step_room(), device_zeros(), none, none)

    def update(self, ladder: Ladder, draw: ClimbDraw, /) -> "ClimbRecord":
        return ClimbRecord(
            set_step(self.log_increments, self.num_steps, draw.log_increment),
            self.accepted + draw.info.accept_prob.astype(jnp.float32),
            self.num_divergent + draw.info.is_divergent,
            self.num_steps + 1,
        )

    def on_host(self) -> "ClimbSteps":
        increments = filled_steps(self.log_increments, self.num_steps).astype(np.float64)
        return ClimbSteps(increments, np.asarray(self.accepted, np.float64), np.asarray(self.num_divergent, np.int64))


class ClimbSteps(AbstractHostStatistic):
    """What the particles gave so far.

    Attributes:
        log_increments: what each step added to the log weight of each particle.
        accepted: the sum of acceptance probabilities of each particle.
        num_divergent: divergent trajectories of each particle.
    """

    log_increments: Float[np.ndarray, "chain step"]
    accepted: Float[np.ndarray, " chain"]
    num_divergent: Int[np.ndarray, " chain"]

    def then(self, later: "ClimbSteps", /) -> "ClimbSteps":
        increments = np.concatenate([self.log_increments, later.log_increments], axis=1)
        return ClimbSteps(increments, self.accepted + later.accepted, self.num_divergent + later.num_divergent)

    @property
    def acceptance(self) -> float:
        """The mean acceptance probability of all moves."""
        return float(self.accepted.mean() / max(self.log_increments.shape[1], 1))
