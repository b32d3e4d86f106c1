"""What a move evaluated last, passed on so that the next move at any rung need not evaluate it again."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._types import Scalar, State
from tempering.ladder import AbstractTwoEndedPath


class Carried(eqx.Module):
    """The two numbers of a state on a path with two ends, and their gradients.

    Attributes:
        log_ends: a(x) and b(x), from which log f follows at every rung.
        slopes: their gradients with respect to the coordinates of x.
    """

    log_ends: Float[Array, "*chain 2"]
    slopes: Float[Array, "*chain 2 dim"]

    def force(self, path: AbstractTwoEndedPath, beta: Scalar) -> tuple[Scalar, Float[Array, " dim"]]:
        """log f at β and its gradient, which is 0 where log f is not finite.

        Args:
            path: the densities.
            beta: an inverse temperature.
        """
        value = path.log_density_from(beta, self.log_ends)
        shares = jnp.stack(path.shares(beta))[:, None]
        slope = jnp.sum(jnp.where(shares == 0, 0.0, shares * self.slopes), axis=0)
        return value, jnp.where(jnp.isfinite(value), slope, 0.0)


def carried_at(path: AbstractTwoEndedPath, unflatten: Callable[[Array], State], flat: Float[Array, " dim"]) -> Carried:
    """Both ends and their gradients at one state.

    Args:
        path: the densities.
        unflatten: makes a state of its coordinates.
        flat: the coordinates.

    Returns:
        What a move passes on. It costs one gradient of the base and one of the target.
    """
    parts = [jax.value_and_grad(lambda point, i=i: path.log_ends(unflatten(point))[i])(flat) for i in (0, 1)]
    return Carried(*(jnp.stack(part) for part in zip(*parts, strict=True)))


def pick_carried(taken: Array, new: Carried, old: Carried) -> Carried:
    """The new one where a proposal was taken, else the old one.

    Args:
        taken: whether it was.
        new: at the proposal.
        old: at the present state.
    """
    return jax.tree.map(lambda one, other: jnp.where(taken, one, other), new, old)
