"""How moves went: acceptance by rung and by step size, and the scale of the states at each rung."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from tempering._device_arrays import device_array, device_zeros
from tempering._types import HostPerRung
from tempering.ladder import Draw, HeldDraw, Ladder
from tempering.stats.statistic import AbstractRecord, AbstractSums
from tempering.stats.teams import Teams

_NUM_BINS = 12  # of step sizes, evenly spaced in their logarithm


class MoveSums(AbstractRecord):
    """How the moves of one chain went, by the rung at which they were made.

    Attributes:
        num_moves: the number of moves.
        accepted: the sum of their acceptance probabilities.
        num_divergent: the number of divergent trajectories.
    """

    num_moves: Int[Array, "*axes rung"]
    accepted: Float[Array, "*axes rung"]
    num_divergent: Int[Array, "*axes rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "MoveSums":
        """Sums over no moves, for the rungs of this ladder."""
        shape = (ladder.path.num_rungs,)
        none = device_zeros(shape, jnp.int32)
        return cls(none, device_zeros(shape), none)

    def update(self, ladder: Ladder, draw: Draw | HeldDraw, /) -> "MoveSums":
        info = draw.info
        assert info is not None
        return MoveSums(
            self.num_moves.at[draw.origin].add(1),
            self.accepted.at[draw.origin].add(info.accept_prob.astype(jnp.float32)),
            self.num_divergent.at[draw.origin].add(info.is_divergent.astype(jnp.int32)),
        )

    def gathered(self, teams: Teams) -> "MoveSums":
        return teams.sums(self)

    def on_host(self) -> "MoveCounts":
        parts = (np.asarray(part) for part in (self.num_moves, self.accepted, self.num_divergent))
        return MoveCounts(*(part.reshape(-1, part.shape[-1]).sum(axis=0, dtype=np.float64) for part in parts))


class MoveCounts(AbstractSums):
    """How the moves of a run went so far, summed over chains.

    Attributes:
        num_moves: the number of moves at each rung.
        accepted: the sum of their acceptance probabilities.
        num_divergent: the number of divergent trajectories.
    """

    num_moves: HostPerRung
    accepted: HostPerRung
    num_divergent: HostPerRung

    @property
    def acceptance(self) -> HostPerRung:
        """The mean acceptance probability at each rung; NaN where there was no move."""
        nan = np.full_like(self.accepted, np.nan)
        return np.divide(self.accepted, self.num_moves, out=nan, where=self.num_moves > 0)


class TuningSums(AbstractRecord):
    """Sums from which a move is tuned: acceptance by rung and step size, and the scale of x at each rung.

    The scale is Rao-Blackwellized: every draw counts at every rung, with weight q(k | x).

    Attributes:
        low: the smallest step size; the range up to `high` is cut into bins.
        high: the largest step size.
        reference: a point about which moments are taken, so that float32 loses no digits.
        num_moves: the number of moves.
        accepted: the sum of their acceptance probabilities.
        weight: Σ q(k | x).
        first: Σ q(k | x) (x − reference).
        second: Σ q(k | x) (x − reference)².
    """

    low: Float[Array, "*axes"]
    high: Float[Array, "*axes"]
    reference: Float[Array, "*axes dim"]
    num_moves: Float[Array, "*axes rung bin"]
    accepted: Float[Array, "*axes rung bin"]
    weight: Float[Array, "*axes rung"]
    first: Float[Array, "*axes rung dim"]
    second: Float[Array, "*axes rung dim"]

    @classmethod
    def empty(cls, ladder: Ladder, low: float, high: float, reference: Float[np.ndarray, " dim"]) -> "TuningSums":
        """Sums over no draws.

        Args:
            ladder: the law that is sampled.
            low: the smallest step size.
            high: the largest step size.
            reference: a point near all chains.
        """
        num_rungs = ladder.path.num_rungs
        by_bin, by_dim = device_zeros((num_rungs, _NUM_BINS)), device_zeros((num_rungs, len(reference)))
        ends = (device_array(low), device_array(high))
        return cls(*ends, device_array(reference), by_bin, by_bin, device_zeros((num_rungs,)), by_dim, by_dim)

    def update(self, ladder: Ladder, draw: Draw, /) -> "TuningSums":
        assert draw.info is not None
        x = ravel_pytree(draw.x)[0]
        place = (jnp.log(draw.info.step_size) - jnp.log(self.low)) / (jnp.log(self.high) - jnp.log(self.low))
        where = (draw.origin, jnp.clip((place * _NUM_BINS).astype(jnp.int32), 0, _NUM_BINS - 1))
        posterior = jnp.nan_to_num(ladder.posterior_of(draw))[:, None]
        off = jnp.where(jnp.isfinite(x), x - self.reference, 0.0).astype(jnp.float32)
        return dataclasses.replace(
            self,
            num_moves=self.num_moves.at[where].add(1.0),
            accepted=self.accepted.at[where].add(draw.info.accept_prob.astype(jnp.float32)),
            weight=self.weight + posterior[:, 0],
            first=self.first + posterior * off,
            second=self.second + posterior * off**2,
        )

    def gathered(self, teams: Teams) -> "TuningSums":
        shared = teams.firsts((self.low, self.high, self.reference))
        sums = (self.num_moves, self.accepted, self.weight, self.first, self.second)
        return TuningSums(*shared, *teams.sums(sums))

    def on_host(self) -> "TuningCounts":
        sums = (self.num_moves, self.accepted, self.weight, self.first, self.second)
        low, high = (float(np.ravel(end)[0]) for end in (self.low, self.high))
        edges = np.geomspace(low, high, _NUM_BINS + 1)
        middles = np.sqrt(edges[1:] * edges[:-1])
        return TuningCounts(middles, *(np.asarray(part, np.float64).sum(axis=0) for part in sums))


class TuningCounts(AbstractSums):
    """The sums of `TuningSums` for a stage so far, summed over chains.

    Attributes:
        steps: the middle of each bin of step sizes.
        num_moves, accepted, weight, first, second: as in `TuningSums`.
    """

    steps: Float[np.ndarray, " bin"]
    num_moves: Float[np.ndarray, "rung bin"]
    accepted: Float[np.ndarray, "rung bin"]
    weight: HostPerRung
    first: Float[np.ndarray, "rung dim"]
    second: Float[np.ndarray, "rung dim"]

    def then(self, later: "TuningCounts", /) -> "TuningCounts":
        return dataclasses.replace(super().then(later), steps=self.steps)

    def scales(self) -> Float[np.ndarray, "rung dim"]:
        """The standard deviation of each coordinate at each rung; NaN for a rung that no draw has weight at."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.first / self.weight[:, None]
            return np.sqrt(self.second / self.weight[:, None] - mean**2)
