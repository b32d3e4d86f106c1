"""Metropolis steps that need no gradient: a random walk for numbers, flips for bits."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from tempering._types import Key, Rung, Scalar, State
from tempering.kernels.moves.schedule import (
    AbstractSizedMove,
    Schedule,
    flat_reals,
    given_count,
    given_step_size,
    is_taken,
    log_density_or_nothing,
)
from tempering.ladder import AbstractPath, MoveInfo


class RandomWalk(AbstractSizedMove):
    """`num_steps` normal proposals around x, each accepted by the Metropolis rule.

    For densities without a gradient. Without a `step_size` the warm-up chooses one per rung.
    """

    schedule: Schedule
    is_tuned: bool = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    target_accept: ClassVar[float] = 0.234  # Roberts, Gelman and Gilks 1997

    def __init__(self, step_size: float | None = None, *, num_steps: int = 10):
        """`step_size` is the standard deviation of a proposal, the same at every rung; None for one per rung."""
        self.schedule, self.is_tuned = given_step_size(step_size, "RandomWalk", "step_size")
        self.num_steps = given_count(num_steps, "RandomWalk", "num_steps")

    def step(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, step_size: Scalar, scale: Float[Array, " #dim"]
    ) -> tuple[State, MoveInfo]:
        """All proposals, one after the other."""
        start, unflatten = flat_reals(x, "RandomWalk")
        width = (step_size * scale).astype(start.dtype)

        def propose(key, here):
            return here + width * jax.random.normal(key, here.shape, here.dtype)

        return _several(key, path, rung, (start, unflatten), propose, self.num_steps, step_size)


class BitFlips(AbstractSizedMove):
    """`num_steps` proposals that flip several bits of x (0.0 and 1.0) at once, picked at random.

    The number of bits is the size of the step: a size of 2.3 flips 2, or with probability 0.3 three of them. Without
    `num_flips` the warm-up chooses it per rung, as Appendix E suggests for binary targets.
    """

    schedule: Schedule
    is_tuned: bool = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    target_accept: ClassVar[float] = 0.234
    has_scale: ClassVar[bool] = False

    def __init__(self, num_flips: float | None = None, *, num_steps: int = 10):
        """`num_flips` may be a fraction, and is the same at every rung; None for one per rung."""
        self.schedule, self.is_tuned = given_step_size(num_flips, "BitFlips", "num_flips")
        self.num_steps = given_count(num_steps, "BitFlips", "num_steps")

    def step(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, step_size: Scalar, scale: Float[Array, " #dim"]
    ) -> tuple[State, MoveInfo]:
        """All proposals, one after the other."""

        def propose(key, here):
            key_number, key_order = jax.random.split(key)
            level = jax.random.uniform(key_number, dtype=step_size.dtype)
            number = jnp.clip(jnp.floor(step_size + level), 1, here.size)
            place = jax.random.permutation(key_order, here.size)
            return jnp.where(place < number, 1 - here, here)

        return _several(key, path, rung, ravel_pytree(x), propose, self.num_steps, step_size)


def _several(
    key: Key,
    path: AbstractPath,
    rung: Rung,
    start: tuple[Array, Callable[[Array], State]],
    propose: Callable[[Key, Array], Array],
    num_steps: int,
    step_size: Scalar,
) -> tuple[State, MoveInfo]:
    """Symmetric proposals in a row; the acceptance that is told is their mean.

    log f of where the chain stands is carried along: `num_steps` + 1 evaluations in all.
    """
    coordinates, unflatten = start

    def log_f(flat):
        return log_density_or_nothing(path, rung, unflatten(flat))

    def once(i, carry):
        here, log_f_here, total = carry
        key_propose, key_accept = jax.random.split(jax.random.fold_in(key, i))
        there = propose(key_propose, here)
        log_f_there = log_f(there)
        taken, accept_prob = is_taken(key_accept, log_f_there - log_f_here)
        here, log_f_here = jnp.where(taken, there, here), jnp.where(taken, log_f_there, log_f_here)
        return here, log_f_here, total + accept_prob.astype(total.dtype)

    carry = (coordinates, log_f(coordinates), jnp.zeros((), jnp.float32))
    end, _, total = jax.lax.fori_loop(0, num_steps, once, carry)
    return unflatten(end), MoveInfo(total / num_steps, step_size, jnp.zeros((), bool))
