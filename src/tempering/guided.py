"""Simulated tempering in which every chain has a guess of log Z of its own, and what is kept of its draws."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._types import Key, PerRung, Rung
from tempering.kernels import AbstractKernel, AbstractMove, Position, SimulatedTempering
from tempering.ladder import Ladder


class Guided(eqx.Module):
    """Where a chain stands, and the guess that guides it. The rest is its group's business, and passes unchanged."""

    position: Position
    log_z_guess: Float[Array, "*chain rung"]  # log Ẑ_k − log Ẑ_0, in the place of the ladder's
    halfway: Float[Array, "*chain rung"]  # the guess when half of the adjustment was done
    late_posterior: Float[Array, "*chain rung"]  # Σ q(k | x) of the group's draws since then
    late_visits: Float[Array, "*chain rung"]  # and its visits
    histogram: Float[Array, "*chain rung"]  # its visits since the start, or since δ was last halved
    flooded_at: Float[Array, "*chain"]  # the group's draws until it had visited every rung; 0: not yet
    delta: Float[Array, "*chain"]  # Wang-Landau's δ; 0 once the gain falls as 1/t


class GuidedDraw(eqx.Module):
    """The rung that was drawn, and the law it was drawn from."""

    rung: Rung
    posterior: PerRung  # q(k | x) under the chain's own guess


class GuidedTempering(AbstractKernel):
    """A step of simulated tempering under the chain's own guess, which does not change within a run."""

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: Guided) -> tuple[Guided, GuidedDraw]:
        """Move x at the current rung, then draw the rung."""
        own = dataclasses.replace(ladder, log_z_guess=state.log_z_guess)
        position, draw = SimulatedTempering(self.move)(key, own, state.position)
        return dataclasses.replace(state, position=position), GuidedDraw(draw.rung, own.rung_posterior(draw.log_f))


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
