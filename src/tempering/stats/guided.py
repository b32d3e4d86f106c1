"""How often chains were at each rung: the sums from which self-adjusting weights are made."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._device_arrays import device_zeros
from tempering.ladder import GuidedDraw, Ladder
from tempering.stats.statistic import AbstractRecord, AbstractSums


class GuidedRecord(AbstractRecord):
    """How often one chain was at each rung, by posterior and by visit.

    Attributes:
        posterior: Σ q(k | x) under the chain's own guess of log Z; a draw that has none adds nothing.
        visits: the number of draws of each rung.
        num_nan: the number of draws whose density was NaN at some rung, where it counts as 0.
    """

    posterior: Float[Array, "*chain rung"]
    visits: Float[Array, "*chain rung"]
    num_nan: Float[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "GuidedRecord":
        """A record without draws, for the rungs of this ladder."""
        none = device_zeros((ladder.path.num_rungs,))
        return cls(none, none, device_zeros())

    def update(self, ladder: Ladder, draw: GuidedDraw, /) -> "GuidedRecord":
        posterior = self.posterior + jnp.nan_to_num(draw.posterior)
        return GuidedRecord(posterior, self.visits.at[draw.rung].add(1.0), self.num_nan + draw.has_nan)

    def on_host(self) -> "Occupancy":
        return Occupancy(*(np.asarray(part, np.float64) for part in (self.posterior, self.visits, self.num_nan)))


class Occupancy(AbstractSums):
    """How often chains, or groups of chains, were at each rung.

    Attributes:
        posterior: Σ q(k | x) under each chain's own guess of log Z.
        visits: the number of draws of each rung.
        num_nan: the number of draws whose density was NaN at some rung, where it counts as 0.
    """

    posterior: Float[np.ndarray, "chain rung"]
    visits: Float[np.ndarray, "chain rung"]
    num_nan: Float[np.ndarray, " chain"]
