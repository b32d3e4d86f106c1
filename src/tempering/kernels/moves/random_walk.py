"""Metropolis moves that need no gradient: a random walk for numbers, flips for bits."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from tempering._threefry import straight_key
from tempering._types import Key, Rung, Scalar, State
from tempering.kernels.moves.metropolis import flatten_floats, metropolis_accepts
from tempering.kernels.moves.move import Evaluations
from tempering.kernels.moves.schedule import AbstractSizedMove, StepSize, checked_count, schedule_from
from tempering.ladder import AbstractPath, MoveInfo


class _AbstractMetropolis(AbstractSizedMove):
    """Several proposals per move, each of which costs one evaluation."""

    num_steps: int = eqx.field(static=True)
    target_accept: ClassVar[float] = 0.234  # Roberts, Gelman and Gilks 1997

    @property
    def evaluations(self) -> Evaluations:
        return Evaluations(self.num_steps + 1, 0)


class RandomWalk(_AbstractMetropolis):
    """Random-walk Metropolis: normal proposals around x, for densities without a gradient.

    ```python
    RandomWalk()                          # the warm-up chooses a step size per rung
    RandomWalk(0.5, num_steps=20)
    ```
    """

    def __init__(self, step_size: float | None = None, *, num_steps: int = 10):
        """Check the arguments.

        Args:
            step_size: standard deviation of a proposal at every rung. By default the warm-up finds one per rung.
            num_steps: proposals per move.
        """
        self.schedule, self.is_tuned = schedule_from(step_size, "RandomWalk", "step_size")
        self.num_steps = checked_count(num_steps, "RandomWalk", "num_steps")

    def first_step_size(self, num_dims: int) -> float:
        return 2.38 / num_dims**0.5  # Roberts, Gelman and Gilks 1997

    def step(self, key: Key, path: AbstractPath, rung: Rung, x: State, size: StepSize) -> tuple[State, MoveInfo]:
        start, unflatten = flatten_floats(x, "RandomWalk")
        size = size.with_dtype(start.dtype)

        def propose(key, here):
            return here + size.spread(jax.random.normal(key, here.shape, here.dtype))

        return _metropolis_steps(key, path, rung, (start, unflatten), propose, self.num_steps, size.step_size)


class BitFlips(_AbstractMetropolis):
    """Metropolis proposals that flip several bits of x (0.0 and 1.0) at once, picked at random.

    The number of bits is the step size: a size of 2.3 flips two bits, or three with probability 0.3. Appendix E
    suggests to tune it per rung.

    ```python
    BitFlips()                            # the warm-up chooses the number of flips per rung
    BitFlips(1, num_steps=50)
    ```
    """

    has_scale: ClassVar[bool] = False

    def __init__(self, num_flips: float | None = None, *, num_steps: int = 10):
        """Check the arguments.

        Args:
            num_flips: bits per proposal at every rung, or a fraction. By default the warm-up finds one per rung.
            num_steps: proposals per move.
        """
        self.schedule, self.is_tuned = schedule_from(num_flips, "BitFlips", "num_flips")
        self.num_steps = checked_count(num_steps, "BitFlips", "num_steps")

    def step(self, key: Key, path: AbstractPath, rung: Rung, x: State, size: StepSize) -> tuple[State, MoveInfo]:
        def propose(key, here):
            key_number, key_order = jax.random.split(key)
            level = jax.random.uniform(key_number, dtype=size.step_size.dtype)
            number = jnp.clip(jnp.floor(size.step_size + level), 1, here.size)
            place = jax.random.permutation(key_order, here.size)
            return jnp.where(place < number, 1 - here, here)

        return _metropolis_steps(key, path, rung, ravel_pytree(x), propose, self.num_steps, size.step_size)


def _metropolis_steps(
    key: Key,
    path: AbstractPath,
    rung: Rung,
    start: tuple[Array, Callable[[Array], State]],
    propose: Callable[[Key, Array], Array],
    num_steps: int,
    step_size: Scalar,
) -> tuple[State, MoveInfo]:
    """Symmetric proposals in sequence; the reported acceptance is their mean.

    log f at the present state is carried along, so there are `num_steps` + 1 evaluations in all.
    """
    coordinates, unflatten = start

    def log_f(flat):
        value = path.log_density(unflatten(flat), rung)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)  # a state without a density is never moved to

    def once(i, carry):
        here, log_f_here, total = carry
        key_propose, key_accept = jax.random.split(jax.random.fold_in(straight_key(key), i))
        there = propose(key_propose, here)
        log_f_there = log_f(there)
        taken, accept_prob = metropolis_accepts(key_accept, log_f_there - log_f_here)
        here, log_f_here = jnp.where(taken, there, here), jnp.where(taken, log_f_there, log_f_here)
        return here, log_f_here, total + accept_prob.astype(total.dtype)

    carry = (coordinates, log_f(coordinates), jnp.zeros((), jnp.float32))
    end, _, total = jax.lax.fori_loop(0, num_steps, once, carry)
    return unflatten(end), MoveInfo(total / num_steps, step_size, jnp.zeros((), bool))
