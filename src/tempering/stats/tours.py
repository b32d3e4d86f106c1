"""Tours: the parts of a chain between exact draws of the base.

An exact draw at rung 0 is a regeneration: what follows does not depend on what came before. Sums over complete tours
are therefore independent and identically distributed, wherever the chain started.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tempering._device_arrays import device_zeros
from tempering.ladder import Draw, Ladder
from tempering.stats.statistic import AbstractHostStatistic, AbstractRecord

_PAIRS = ((0, 0), (0, 1), (1, 1))  # of the two ends, whose products are summed


class TourSums(AbstractRecord):
    """Sums of (q(0 | x), q(K−1 | x)) over the tours of one chain in one block, and of their squares and products.

    The first draws of a block belong to a tour that began earlier, the last ones to a tour that is not complete. Each
    number is an array of its own, so that on a GPU one program updates all of them.

    Attributes:
        head: the sum before the first regeneration.
        tail: the sum since the last regeneration; 0 if there was none.
        has_begun: whether there was a regeneration.
        count: the number of complete tours.
        total: the sum over complete tours.
        products: Σ over complete tours of the products of their two sums: (0, 0), (0, 1), (1, 1).
        is_over: whether the last draw ended a tour: the next one will be an exact draw of the base.
    """

    head: tuple[Float[Array, "*axes"], ...]
    tail: tuple[Float[Array, "*axes"], ...]
    has_begun: Bool[Array, "*axes"]
    count: Float[Array, "*axes"]
    total: tuple[Float[Array, "*axes"], ...]
    products: tuple[Float[Array, "*axes"], ...]
    is_over: Bool[Array, "*axes"]

    @classmethod
    def empty(cls) -> "TourSums":
        """Sums over no draws."""
        zero, no = device_zeros(), device_zeros((), bool)
        return cls((zero,) * 2, (zero,) * 2, no, zero, (zero,) * 2, (zero,) * len(_PAIRS), no)

    def update(self, ladder: Ladder, draw: Draw, /) -> "TourSums":
        posterior = ladder.posterior_of(draw)
        part = [jnp.nan_to_num(posterior[end]) for end in (0, -1)]
        begins = draw.origin == 0  # x is an exact draw of the base
        ends = begins & self.has_begun
        done = [jnp.where(ends, tail, 0.0) for tail in self.tail]
        heads = [head + jnp.where(begins | self.has_begun, 0.0, new) for head, new in zip(self.head, part, strict=True)]
        tails = [
            jnp.where(begins, new, jnp.where(self.has_begun, tail + new, 0.0))
            for tail, new in zip(self.tail, part, strict=True)
        ]
        return TourSums(
            head=tuple(heads),
            tail=tuple(tails),
            has_begun=begins | self.has_begun,
            count=self.count + ends,
            total=tuple(total + new for total, new in zip(self.total, done, strict=True)),
            products=tuple(sums + done[i] * done[j] for sums, (i, j) in zip(self.products, _PAIRS, strict=True)),
            is_over=draw.rung == 0,
        )

    def on_host(self) -> "Tours":
        many = {name: np.stack(part, axis=-1) for name, part in vars(self).items() if isinstance(part, tuple)}
        many = {name: part.astype(np.float64) for name, part in many.items()}
        flags = {"has_begun": np.asarray(self.has_begun), "is_over": np.asarray(self.is_over)}
        return Tours(**many, **flags, count=np.asarray(self.count, np.float64))


class Tours(AbstractHostStatistic):
    """The tours of all chains of a run so far.

    Attributes:
        head: sums until the first regeneration.
        tail: sums since the last one, once there was one.
        has_begun: whether there was one.
        count: complete tours.
        total: Σ over complete tours of their sums at the base and at the target.
        products: Σ over complete tours of the products of these two sums.
        is_over: whether the last draw ended a tour.
    """

    head: Float[np.ndarray, "chain end"]
    tail: Float[np.ndarray, "chain end"]
    has_begun: Bool[np.ndarray, " chain"]
    count: Float[np.ndarray, " chain"]
    total: Float[np.ndarray, "chain end"]
    products: Float[np.ndarray, "chain pair"]
    is_over: Bool[np.ndarray, " chain"]

    def then(self, later: "Tours", /) -> "Tours":
        joined = self.tail + later.head  # a tour that crosses the border between the blocks
        ends = self.has_begun & later.has_begun
        done = np.where(ends[:, None], joined, 0.0)
        begun = self.has_begun[:, None]
        return Tours(
            head=self.head + np.where(begun, 0.0, later.head),
            tail=np.where(later.has_begun[:, None], later.tail, np.where(begun, joined, 0.0)),
            has_begun=self.has_begun | later.has_begun,
            count=self.count + later.count + ends,
            total=self.total + later.total + done,
            products=self.products + later.products + _products(done),
            is_over=later.is_over,
        )

    def at_target_when_cut(self) -> tuple[Float[np.ndarray, " chain"], Float[np.ndarray, " chain"]]:
        """Σ q(K−1 | x) over the tours that the start and the end of the run cut off, of chains that came to the base.

        Returns:
            The sum of each chain before its first exact draw of the base, and that since its last one. Backwards in
            time they would be exchanged.
        """
        came = self.has_begun | self.is_over
        return self.head[came, 1], np.where(self.is_over, 0.0, self.tail[:, 1])[came]

    def with_last_counted(self) -> "Tours":
        """The same where every chain is about to draw the base again: the tour since the last such draw is complete."""
        last, none = np.where(self.has_begun[:, None], self.tail, 0.0), np.zeros_like(self.tail)
        count, total = self.count + self.has_begun, self.total + last
        return Tours(self.head, none, self.has_begun, count, total, self.products + _products(last), self.is_over)


def _products(sums: Float[np.ndarray, "chain end"]) -> Float[np.ndarray, "chain pair"]:
    return np.stack([sums[:, i] * sums[:, j] for i, j in _PAIRS], axis=1)
