"""Simulated tempering in which every chain has its own guess of log Z."""

import dataclasses

import equinox as eqx
from jaxtyping import Array, Float

from tempering._types import Key
from tempering.kernels.moves.move import AbstractMove
from tempering.kernels.tempering import AbstractKernel, Position, SimulatedTempering
from tempering.ladder import GuidedDraw, Ladder


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


class GuidedTempering(AbstractKernel):
    """A step of simulated tempering under the chain's own guess, which does not change within a run."""

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: Guided) -> tuple[Guided, GuidedDraw]:
        """Move x at the current rung, then draw the rung."""
        own = dataclasses.replace(ladder, log_z_guess=state.log_z_guess)
        position, draw = SimulatedTempering(self.move)(key, own, state.position)
        return dataclasses.replace(state, position=position), GuidedDraw(draw.rung, own.rung_posterior(draw.log_f))
