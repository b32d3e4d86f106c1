"""Tours: a chain begins anew whenever it draws x exactly from the base, so what lies between is independent.

Nothing before an exact draw at rung 0 matters for what comes after (a regeneration). Sums over complete tours are
therefore independent and alike, wherever the chains once started.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tempering.ladder import Draw, Ladder

_PAIRS = ((0, 0), (0, 1), (1, 1))  # of the two ends, whose products are summed


class TourSums(eqx.Module):
    """What one chain's tours of one block add up to: q(0 | x) and q(K−1 | x), per tour, and their products.

    A block's first piece belongs to a tour that began earlier, its last to one that is still under way.
    """

    head: Float[Array, "*axes end"]  # until the first regeneration
    tail: Float[Array, "*axes end"]  # since the last one, once there was one
    has_begun: Bool[Array, "*axes"]  # whether there was one
    count: Float[Array, "*axes"]  # complete tours
    total: Float[Array, "*axes end"]
    products: Float[Array, "*axes pair"]

    @classmethod
    def empty(cls) -> "TourSums":
        """Nothing seen yet."""
        none = jnp.zeros(2)
        return cls(none, none, jnp.zeros((), bool), jnp.zeros(()), none, jnp.zeros(len(_PAIRS)))

    def update(self, ladder: Ladder, draw: Draw) -> "TourSums":
        """Add one draw, which begins a tour if it was made at rung 0; one that is not finite adds nothing."""
        part = jnp.nan_to_num(ladder.rung_posterior(draw.log_f)[jnp.array([0, -1])])
        begins = draw.origin == 0
        ends = begins & self.has_begun
        done = jnp.where(ends, self.tail, 0.0)
        return TourSums(
            head=self.head + jnp.where(begins | self.has_begun, 0.0, part),
            tail=jnp.where(begins, part, jnp.where(self.has_begun, self.tail + part, 0.0)),
            has_begun=begins | self.has_begun,
            count=self.count + ends,
            total=self.total + done,
            products=self.products + jnp.stack([done[i] * done[j] for i, j in _PAIRS]),
        )

    def on_host(self) -> "Tours":
        """The same for all chains, in float64."""
        names = ("head", "tail", "count", "total", "products")
        return Tours(
            has_begun=np.asarray(self.has_begun), **{n: np.asarray(getattr(self, n), np.float64) for n in names}
        )


class Tours(eqx.Module):
    """The tours of all chains so far, joined in the order of time."""

    head: Float[np.ndarray, "chain end"]
    tail: Float[np.ndarray, "chain end"]
    has_begun: Bool[np.ndarray, " chain"]
    count: Float[np.ndarray, " chain"]
    total: Float[np.ndarray, "chain end"]
    products: Float[np.ndarray, "chain pair"]

    def then(self, later: "Tours") -> "Tours":
        """These and a later block of the same chains: a tour may end there."""
        joined = self.tail + later.head
        ends = self.has_begun & later.has_begun
        done = np.where(ends[:, None], joined, 0.0)
        begun = self.has_begun[:, None]
        return Tours(
            head=self.head + np.where(begun, 0.0, later.head),
            tail=np.where(later.has_begun[:, None], later.tail, np.where(begun, joined, 0.0)),
            has_begun=self.has_begun | later.has_begun,
            count=self.count + later.count + ends,
            total=self.total + later.total + done,
            products=self.products + later.products + np.stack([done[:, i] * done[:, j] for i, j in _PAIRS], axis=1),
        )
