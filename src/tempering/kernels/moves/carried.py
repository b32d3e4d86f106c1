"""What a move evaluated last, passed on so that the next move at any rung need not evaluate it again."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._logspace import power
from tempering._types import Scalar, State
from tempering.kernels.moves.metropolis import flatten_floats
from tempering.ladder import AbstractTwoEndedPath


class Ends(NamedTuple):
    """a(x) and b(x), and their gradients."""

    log_ends: Float[Array, "2"]
    slopes: tuple[Float[Array, " dim"], Float[Array, " dim"]]

    def carried(self) -> "Carried":
        """The same as a move passes it on."""
        return Carried(self.log_ends, jnp.stack(self.slopes))


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
        return force_from_ends(path, beta, self.log_ends, self.slopes)


def force_from_ends(path: AbstractTwoEndedPath, beta: Scalar, log_ends: Any, slopes: Any) -> tuple[Scalar, Array]:
    """log f at β and its gradient, which is 0 where log f is not finite.

    Args:
        path: the densities.
        beta: an inverse temperature.
        log_ends: a(x) and b(x).
        slopes: their gradients.
    """
    value = path.log_density_from(beta, log_ends)
    first, second = (power(share, slope) for share, slope in zip(path.shares(beta), slopes, strict=True))
    return value, jnp.where(jnp.isfinite(value), first + second, 0.0)


def carried_at(path: AbstractTwoEndedPath, x: State) -> Carried:
    """Both ends and their gradients at one state.

    Args:
        path: the densities.
        x: the state.

    Returns:
        What a move passes on. It costs one gradient of the base and one of the target.
    """
    flat, unflatten = flatten_floats(x, "HMC")
    return ends_at(path, unflatten, flat).carried()


def ends_at(path: AbstractTwoEndedPath, unflatten: Callable[[Array], State], flat: Float[Array, " dim"]) -> Ends:
    """The same with two slopes, which within a trajectory would else be copied into one array at every leap."""
    parts = [jax.value_and_grad(lambda point, i=i: path.log_ends(unflatten(point))[i])(flat) for i in (0, 1)]
    values, slopes = zip(*parts, strict=True)
    return Ends(jnp.stack(values), slopes)


def pick_carried(taken: Array, new: Carried, old: Carried) -> Carried:
    """The new one where a proposal was taken, else the old one.

    Args:
        taken: whether it was.
        new: at the proposal.
        old: at the present state.
    """
    return jax.tree.map(lambda one, other: jnp.where(taken, one, other), new, old)
