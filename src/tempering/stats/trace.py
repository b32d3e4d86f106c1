"""Where one chain stood, step by step."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tempering.ladder import Draw, Ladder
from tempering.stats.keep import MAX_BLOCK_STEPS


class Trace(eqx.Module):
    """Where one chain stood, step by step, within one block; with `features`, also what x was there."""

    origin: Int[Array, ""]  # where the block began
    rungs: Int[Array, " step"]
    num_steps: Int[Array, ""]
    features: Float[Array, "step feature"] | None = None

    @classmethod
    def empty(cls, ladder: Ladder, *, with_features: bool = False) -> "Trace":
        """Room for the longest block: one length for all, so that runs of any length share what was compiled."""
        zero = jnp.zeros((), jnp.int32)
        features = None
        if with_features:
            features = jnp.zeros((MAX_BLOCK_STEPS, ladder.path.feature_matrix().shape[1]))
        return cls(zero, jnp.zeros(MAX_BLOCK_STEPS, jnp.int32), zero, features)

    def update(self, ladder: Ladder, draw: Draw) -> "Trace":
        """Note where the chain went."""
        origin = jnp.where(self.num_steps == 0, draw.origin, self.origin)
        features = self.features
        if features is not None:
            features = features.at[self.num_steps].set(ladder.path.features(draw.x))
        return Trace(origin, self.rungs.at[self.num_steps].set(draw.rung), self.num_steps + 1, features)
