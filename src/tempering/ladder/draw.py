"""What kernels hand to statistics: a draw, and how its move fared."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tempering._types import PerRung, Rung, Rungs, State


class MoveInfo(eqx.Module):
    """What a move has to say of itself. Nothing of it is ever read back by a later step."""

    accept_prob: Float[Array, "*chain"]
    step_size: Float[Array, "*chain"]  # of the proposal: a step size, a width, a number of flips; 1 where there is none
    is_divergent: Bool[Array, "*chain"]  # the proposal was so bad that its energy error says the integrator failed

    @classmethod
    def accepted(cls) -> "MoveInfo":
        """Of a move that is always accepted, such as a Gibbs sweep."""
        return cls(jnp.ones(()), jnp.ones(()), jnp.zeros((), bool))


class Draw(eqx.Module):
    """One step of a chain: x was drawn at rung `origin`, then `rung` was drawn given x.

    The only thing that kernels and statistics share.
    """

    x: State
    origin: Rungs
    rung: Rungs
    log_f: Float[Array, "*chain rung"]  # log f_k(x)
    info: MoveInfo | None = None  # how x was moved, where that is known


class HeldDraw(eqx.Module):
    """What a move at a held rung has to say."""

    origin: Rungs
    info: MoveInfo


class GuidedDraw(eqx.Module):
    """The rung that was drawn, and the law it was drawn from."""

    rung: Rung
    posterior: PerRung  # q(k | x) under the chain's own guess
