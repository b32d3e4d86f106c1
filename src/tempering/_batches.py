"""A function of one state for many states, such that what it gives for a state does not depend on their number.

A product over all states would round differently for another number of them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

_ON_ACCELERATORS = 1024  # states; never changes, for the bits' sake


def batch_size() -> int:
    """How many states go through a function at once: one on a CPU, where that is as quick."""
    return 1 if jax.default_backend() == "cpu" else _ON_ACCELERATORS


def in_batches(function: Callable[[Any], Any], states: Any, size: int) -> Any:
    """The function of each state, one batch after the other. The last batch is filled up.

    Args:
        function: Of one state.
        states: Arrays with a leading axis for the states.
        size: Of a batch, as `batch_size` gives it; not taken from there, since it is part of a compiled program.
    """
    if size == 1:
        return jax.lax.map(function, states)
    number = jax.tree.leaves(states)[0].shape[0]
    places = jnp.minimum(jnp.arange(number + -number % size), number - 1).reshape(-1, size)
    found = jax.lax.map(jax.vmap(function), jax.tree.map(lambda leaf: leaf[places], states))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:number], found)
