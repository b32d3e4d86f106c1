"""How often chains were at each rung: the sums from which self-adjusting weights are made."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering.ladder import GuidedDraw, Ladder
from tempering.stats.statistic import AbstractRecord, AbstractSums


class GuidedRecord(AbstractRecord):
    """How often one chain was at each rung, by posterior and by visit.

    Attributes:
        posterior: Σ q(k | x) under the chain's own guess of log Z; a draw that is not finite adds nothing.
        visits: the number of draws of each rung.
    """

    posterior: Float[Array, "*chain rung"]
    visits: Float[Array, "*chain rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "GuidedRecord":
        """A record without draws.

        Args:
            ladder: the law that is sampled.
        """
        none = jnp.zeros(ladder.path.num_rungs)
        return cls(none, none)

    def update(self, ladder: Ladder, draw: GuidedDraw, /) -> "GuidedRecord":
        return GuidedRecord(self.posterior + jnp.nan_to_num(draw.posterior), self.visits.at[draw.rung].add(1.0))

    def on_host(self) -> "Occupancy":
        return Occupancy(np.asarray(self.posterior, np.float64), np.asarray(self.visits, np.float64))


class Occupancy(AbstractSums):
    """How often chains, or groups of chains, were at each rung.

    Attributes:
        posterior: Σ q(k | x) under each chain's own guess of log Z.
        visits: the number of draws of each rung.
    """

    posterior: Float[np.ndarray, "chain rung"]
    visits: Float[np.ndarray, "chain rung"]
