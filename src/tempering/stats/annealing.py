"""Log weights of annealing passes."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._types import Scalar
from tempering.ladder import Ladder
from tempering.stats.keep import MAX_BLOCK_STEPS


class AnnealRecord(eqx.Module):
    """What each step of one block added to the log weight of one chain; its size does not depend on the ladder's."""

    log_increments: Float[Array, "*chain step"]
    num_steps: Int[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "AnnealRecord":
        """Room for the longest block: one length for all, so that passes of any length share what was compiled."""
        return cls(jnp.zeros(MAX_BLOCK_STEPS), jnp.zeros((), jnp.int32))

    def update(self, ladder: Ladder, log_increment: Scalar) -> "AnnealRecord":
        """Note one increment."""
        return AnnealRecord(self.log_increments.at[self.num_steps].set(log_increment), self.num_steps + 1)

    def on_host(self) -> "AnnealWeights":
        """The increments of all chains, in float64."""
        num_steps = int(np.max(self.num_steps))
        return AnnealWeights(np.asarray(self.log_increments, np.float64)[:, :num_steps])


class AnnealWeights(eqx.Module):
    """What annealing passes have gathered so far, in the order of their steps."""

    log_increments: Float[np.ndarray, "chain step"]

    def then(self, later: "AnnealWeights") -> "AnnealWeights":
        """These steps followed by later ones of the same passes."""
        return AnnealWeights(np.concatenate([self.log_increments, later.log_increments], axis=1))

    def log_weights(self) -> Float[np.ndarray, "chain rung"]:
        """After a pass up: log w of each chain at each rung, 0 at rung 0; E[w_k] = Z_k / Z_0."""
        return np.cumsum(np.pad(self.log_increments, ((0, 0), (1, 0))), axis=1)

    def log_weights_down(self) -> Float[np.ndarray, "chain rung"]:
        """After a pass down, by rung as ever: 0 at the last; E[w_k] = Z_k / Z_{K−1} from draws of the target."""
        return self.log_weights()[:, ::-1]
