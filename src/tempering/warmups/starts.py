"""Where chains start: exact draws of the base, each from a key of its own."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tempering._batches import batch_size, in_batches
from tempering._compiling import compiled_quickly
from tempering._device_arrays import device_array
from tempering._threefry import plain_key, straight_key
from tempering._types import Key, Rung
from tempering.kernels import Position
from tempering.ladder import AbstractPath

_BASE_DRAWS = 2**31 - 1  # folded into the key for draws of the base, out of the way of stage numbers


def start_chains(key: Key, path: AbstractPath, start: Callable[[Key, AbstractPath, Rung], Any], rungs: Any) -> Any:
    """A start for every chain: `start(key, path, rung)` of its own key and rung."""
    own_key = jax.random.fold_in(key, _BASE_DRAWS)
    return _start_each(own_key, path, start, device_array(rungs, np.int32), batch_size())


def base_positions(key: Key, path: AbstractPath, rungs: Any) -> Position:
    """Exact draws of the base, said to stand at these rungs."""
    return start_chains(key, path, _position_at_base, rungs)


def uniform_rungs(key: Key, num_rungs: int, num_chains: int) -> Int[Array, " chain"]:
    """A rung for every chain, any of them as likely as any other."""
    keys = jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(num_chains))
    return jax.vmap(lambda k: jax.random.randint(k, (), 0, num_rungs, jnp.int32))(keys)


@compiled_quickly
def _start_each(key, path, start, rungs, size):
    chains = jnp.arange(len(rungs))
    keys = jax.vmap(lambda chain: plain_key(jax.random.fold_in(straight_key(key), chain)))(chains)
    return in_batches(lambda c: start(c[0], path, c[1]), (keys, rungs), size)


def _position_at_base(key: Key, path: AbstractPath, rung: Rung) -> Position:
    return Position(path.sample_base(key), rung)
