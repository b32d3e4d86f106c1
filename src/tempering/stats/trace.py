"""The rungs and features of one chain, step by step, and Rao-Blackwellized transitions between rungs."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._device_arrays import device_zeros
from tempering.ladder import Draw, Ladder
from tempering.stats.draws import KeptFeatures
from tempering.stats.steps import filled_steps, set_step, step_room
from tempering.stats.teams import Teams


class Trace(eqx.Module):
    """The rung of one chain at each step of one block; on request, also the features of x.

    Attributes:
        origin: the rung at which the block began.
        rungs: the rung after each step, with room for the longest block.
        num_steps: how many steps have been written.
        features: `AbstractPath.features` of x at each step; None unless asked for.
    """

    origin: Int[Array, "*chain"]
    rungs: Int[Array, "*chain step"]
    num_steps: Int[Array, "*chain"]
    features: Float[Array, "*chain step feature"] | None = None

    @classmethod
    def empty(cls, ladder: Ladder, *, with_features: bool = False) -> "Trace":
        zero = device_zeros((), jnp.int32)
        features = step_room((ladder.path.feature_matrix().shape[1],)) if with_features else None
        return cls(zero, step_room((), jnp.int32), zero, features)

    def update(self, ladder: Ladder, draw: Draw) -> "Trace":
        origin = jnp.where(self.num_steps == 0, draw.origin, self.origin)
        features = self.features
        if features is not None:
            features = set_step(features, self.num_steps, ladder.path.features(draw.x))
        return Trace(
            origin,
            set_step(self.rungs, self.num_steps, draw.rung, in_rows=ladder.writes_rows),
            self.num_steps + 1,
            features,
        )

    def gathered(self, teams: Teams, num_rungs: int) -> "Trace | TransitionCounts":
        """The moves between rungs counted on the device; the trace itself where features are kept with it."""
        if self.features is not None:
            return self
        came_from = jnp.concatenate([self.origin[:, None], self.rungs[:, :-1]], axis=1)
        is_made = teams.is_real[:, None] & (jnp.arange(self.rungs.shape[1]) < self.num_steps[:, None])
        none = jnp.zeros((teams.num_groups, num_rungs, num_rungs), jnp.int32)
        return TransitionCounts(none.at[teams.groups[:, None], came_from, self.rungs].add(is_made)[None])

    def transition_counts(
        self, groups: Int[np.ndarray, " chain"], num_rungs: int
    ) -> Int[np.ndarray, "group rung rung"]:
        """How often the chains of each group went from one rung to another."""
        to = filled_steps(self.rungs, self.num_steps).astype(np.int64)
        came_from = np.concatenate([np.asarray(self.origin)[:, None], to[:, :-1]], axis=1)
        flat = ((groups[:, None] * num_rungs + came_from) * num_rungs + to).ravel()
        shape = (groups.max() + 1, num_rungs, num_rungs)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)

    def kept_features(self) -> KeptFeatures | None:
        """The features and rungs of all chains on the host; None if features were not kept."""
        if self.features is None:
            return None
        features, rungs = filled_steps((self.features, self.rungs), self.num_steps)
        return KeptFeatures(features, rungs, rungs.shape[1])


class TransitionCounts(eqx.Module):
    """Moves between rungs, counted on the device.

    Attributes:
        counts: how often the chains of each group went from one rung to another, for each part of the chains.
    """

    counts: Int[Array, "part group rung rung"]

    def transition_counts(
        self, groups: Int[np.ndarray, " chain"], num_rungs: int
    ) -> Int[np.ndarray, "group rung rung"]:
        """The counts of all parts together."""
        return np.asarray(self.counts).sum(axis=0, dtype=np.int64)

    def kept_features(self) -> None:
        """Features are not kept with counts."""


class TransitionSums(eqx.Module):
    """Σ_n q(k | x_n) 1{k_n = j}: the Rao-Blackwellized transition sums of one chain (Appendix G).

    Attributes:
        sums: row j, column k; K × K numbers.
    """

    sums: Float[Array, "rung rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "TransitionSums":
        """Sums over no draws, for the rungs of this ladder."""
        return cls(device_zeros((ladder.path.num_rungs, ladder.path.num_rungs)))

    def update(self, ladder: Ladder, draw: Draw) -> "TransitionSums":
        """Add q(· | x) to the row of the rung at which x was drawn; a draw that is not finite adds nothing.

        Args:
            ladder: the law that is sampled.
            draw: the draw.
        """
        posterior = ladder.posterior_of(draw)
        return TransitionSums(self.sums.at[draw.origin].add(jnp.nan_to_num(posterior)))
