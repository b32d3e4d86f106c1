"""Log weights of annealing passes."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._device_arrays import device_zeros
from tempering._types import Scalar
from tempering.ladder import Ladder
from tempering.stats.statistic import AbstractHostStatistic, AbstractRecord
from tempering.stats.steps import filled_steps, set_step, step_room


class AnnealRecord(AbstractRecord):
    """The log weight that each step of one block added to one chain. Its size does not depend on the ladder's.

    Attributes:
        log_increments: one number per step, with room for the longest block.
        num_steps: how many have been written.
    """

    log_increments: Float[Array, "*chain step"]
    num_steps: Int[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "AnnealRecord":
        """A record without steps, for any ladder."""
        return cls(step_room(), device_zeros((), jnp.int32))

    def update(self, ladder: Ladder, log_increment: Scalar, /) -> "AnnealRecord":
        return AnnealRecord(set_step(self.log_increments, self.num_steps, log_increment), self.num_steps + 1)

    def on_host(self) -> "AnnealWeights":
        return AnnealWeights(filled_steps(self.log_increments, self.num_steps).astype(np.float64))


class AnnealWeights(AbstractHostStatistic):
    """The log weights of annealing passes so far.

    Attributes:
        log_increments: what each step added to the log weight of each chain.
    """

    log_increments: Float[np.ndarray, "chain step"]

    def then(self, later: "AnnealWeights", /) -> "AnnealWeights":
        return AnnealWeights(np.concatenate([self.log_increments, later.log_increments], axis=1))

    def log_weights(self) -> Float[np.ndarray, "chain rung"]:
        """After a pass up: log w_k of each chain, 0 at rung 0; E[w_k] = Z_k / Z_0."""
        return np.cumsum(np.pad(self.log_increments, ((0, 0), (1, 0))), axis=1)

    def log_weights_down(self) -> Float[np.ndarray, "chain rung"]:
        """After a pass down from draws of the target: log w_k, 0 at the last rung; E[w_k] = Z_k / Z_{K−1}."""
        return self.log_weights()[:, ::-1]
