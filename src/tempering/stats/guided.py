"""Sums that self-adjusting weights are made from."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering.ladder import GuidedDraw, Ladder


class GuidedRecord(eqx.Module):
    """How often one chain was at each rung, by posterior and by visit."""

    posterior: Float[Array, "*chain rung"]  # Σ q(k | x); a draw that is not finite adds nothing
    visits: Float[Array, "*chain rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "GuidedRecord":
        """Nothing seen yet."""
        none = jnp.zeros(ladder.path.num_rungs)
        return cls(none, none)

    def update(self, ladder: Ladder, draw: GuidedDraw) -> "GuidedRecord":
        """Add one draw."""
        return GuidedRecord(self.posterior + jnp.nan_to_num(draw.posterior), self.visits.at[draw.rung].add(1.0))

    def on_host(self) -> "Occupancy":
        """The sums of all chains, in float64."""
        return Occupancy(np.asarray(self.posterior, np.float64), np.asarray(self.visits, np.float64))


class Occupancy(eqx.Module):
    """Where chains have been."""

    posterior: Float[np.ndarray, "chain rung"]
    visits: Float[np.ndarray, "chain rung"]

    def then(self, later: "Occupancy") -> "Occupancy":
        """These sums and those of a later stretch."""
        return Occupancy(self.posterior + later.posterior, self.visits + later.visits)
