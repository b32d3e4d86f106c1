"""Hamiltonian Monte Carlo with a step size and masses for every rung."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tempering._types import Key, Rung, Scalar, State
from tempering.kernels.moves.schedule import (
    AbstractSizedMove,
    Schedule,
    flat_reals,
    given_count,
    given_step_size,
    is_taken,
)
from tempering.ladder import AbstractPath, MoveInfo

_DIVERGENT = 1000.0  # nats of energy error; the integrator has then left the trajectory altogether


class HMC(AbstractSizedMove):
    """Leapfrog trajectories through x, accepted by the Metropolis rule (Neal 2011).

    ```python
    HMC()                                # the warm-up chooses a step size and a scale per coordinate for every rung
    HMC(0.3, num_leaps=20)
    ```

    Momenta are normal with variance 1 once x is measured in the scales of the rung. Step sizes are jittered, and so is
    the number of leaps, from half of `num_leaps` to all of it. A step costs `num_leaps` + 1 gradients.
    """

    schedule: Schedule
    is_tuned: bool = eqx.field(static=True)
    num_leaps: int = eqx.field(static=True)
    target_accept: ClassVar[float] = 0.651  # Beskos et al. 2013, as in the paper

    def __init__(self, step_size: float | None = None, *, num_leaps: int = 10):
        """`step_size` in units of x, the same at every rung; None for one per rung, found in the warm-up."""
        self.schedule, self.is_tuned = given_step_size(step_size, "HMC", "step_size")
        self.num_leaps = given_count(num_leaps, "HMC", "num_leaps")

    def step(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, step_size: Scalar, scale: Float[Array, " #dim"]
    ) -> tuple[State, MoveInfo]:
        """One trajectory; where the density or its gradient cannot be computed it is refused, and called divergent."""
        key_momentum, key_leaps, key_accept = jax.random.split(key, 3)
        start, unflatten = flat_reals(x, "HMC")
        num_leaps = jax.random.randint(key_leaps, (), (self.num_leaps + 1) // 2, self.num_leaps + 1)
        momentum = jax.random.normal(key_momentum, start.shape, start.dtype)
        end, log_ratio = leapfrog(
            lambda flat: path.log_density(unflatten(flat), rung),
            Phase(start, momentum),
            (step_size * scale).astype(start.dtype),
            num_leaps,
            max_leaps=self.num_leaps,
        )
        taken, accept_prob = is_taken(key_accept, log_ratio)
        moved = unflatten(jnp.where(taken, end.position, start))
        return moved, MoveInfo(accept_prob, step_size, ~(log_ratio > -_DIVERGENT))


class Phase(NamedTuple):
    """Where a particle is and how it moves, with the coordinates of x in a row."""

    position: Float[Array, " dim"]
    momentum: Float[Array, " dim"]


def leapfrog(
    log_f: Callable[[Array], Scalar],
    start: Phase,
    size: Float[Array, " #dim"],
    num_leaps: Int[Array, ""],
    *,
    max_leaps: int,
) -> tuple[Phase, Scalar]:
    """The end of a trajectory, and log of exp(log f − ½|p|²) there over the same at its start.

    Half a kick p += ½ε∇log f, a drift q += εp, half a kick again (Neal 2011, eqs. 2.28 to 2.30): each is a shear, so
    that volume is kept, and the same leaps with −p at the end lead back. ε is ε times the scale in both, which is
    what measuring x in its scales means. Where log f is −inf or NaN no force acts: this too can be reversed, and
    chains that begin in such a place fly out of it.
    """

    def force(position):
        value, slope = jax.value_and_grad(log_f)(position)
        return value, jnp.where(jnp.isfinite(value), slope, 0.0)

    def leap(i, carry):
        (position, momentum), _, slope = carry
        # Chains that have leapt enough stand still: lanes of one batch must all run to the end anyway.
        now = jnp.where(i < num_leaps, size, 0.0)
        halfway = momentum + 0.5 * now * slope
        position = position + now * halfway
        value, slope = force(position)
        return Phase(position, halfway + 0.5 * now * slope), value, slope

    first = force(start.position)
    end, last, _ = jax.lax.fori_loop(0, max_leaps, leap, (start, *first))
    before = jnp.where(jnp.isnan(first[0]), -jnp.inf, first[0])
    return end, last - before + 0.5 * (jnp.sum(start.momentum**2) - jnp.sum(end.momentum**2))
