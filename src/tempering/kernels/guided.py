"""Simulated tempering in which every chain has its own guess of log Z."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._types import Key
from tempering.kernels.tempering import AbstractKernel, Position, SimulatedTempering
from tempering.ladder import GuidedDraw, Ladder


class Guided(eqx.Module):
    """The state of a chain that samples under its own guess of log Z, as self-adjusting weights need it.

    Chains form groups, and all chains of a group have the same guess. The kernel changes `position` only. The other
    fields are the same for all chains of a group; the warm-up updates them between runs, from the draws of the group.

    Attributes:
        position: x and the rung.
        log_z_guess: log Ẑ_k − log Ẑ_0, used instead of the ladder's.
        halfway: the guess at half of the adjustment, to see whether it still drifts.
        late_posterior: Σ q(k | x) over the group's draws since then.
        late_visits: the group's visits of each rung since then.
        late_nans: how many of those draws had a density of NaN.
        histogram: the group's visits since the start, or, for Wang-Landau, since δ was last halved.
        flooded_at: how many draws the group needed to visit every rung; 0 until it has.
        delta: δ of Wang-Landau; 0 once the gain decreases as 1/t.
    """

    position: Position
    log_z_guess: Float[Array, "*chain rung"]
    halfway: Float[Array, "*chain rung"]
    late_posterior: Float[Array, "*chain rung"]
    late_visits: Float[Array, "*chain rung"]
    late_nans: Float[Array, "*chain"]
    histogram: Float[Array, "*chain rung"]
    flooded_at: Float[Array, "*chain"]
    delta: Float[Array, "*chain"]


class GuidedTempering(AbstractKernel):
    """A step of simulated tempering under the chain's own guess of log Z, which stays fixed within a run.

    Attributes:
        move: how x moves at a rung.
    """

    def __call__(self, key: Key, ladder: Ladder, state: Guided) -> tuple[Guided, GuidedDraw]:
        own = dataclasses.replace(ladder, log_z_guess=state.log_z_guess)
        position, draw = SimulatedTempering(self.move)(key, own, state.position)
        posterior, has_nan = own.posterior_of(draw), jnp.any(jnp.isnan(draw.log_f))
        return dataclasses.replace(state, position=position), GuidedDraw(draw.rung, posterior, has_nan)
