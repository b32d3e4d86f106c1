"""Arrays with one entry per step of a block.

On the device they have room for the longest block, whatever the length of a run, so that all runs share one compiled
program. On the host the unused room is cut off, and every `stride`-th step of a run is kept, so that memory stays
bounded.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tempering._device_arrays import device_zeros

MAX_BLOCK_STEPS = 250  # short enough for float32 sums, and little work is lost if a run is killed within a block


def step_room(shape: tuple[int, ...] = (), dtype: Any = None) -> Array:
    """Zeros of shape (MAX_BLOCK_STEPS, *shape)."""
    return device_zeros((MAX_BLOCK_STEPS, *shape), dtype)


def set_step(room: Any, step: Int[Array, ""], values: Any, *, in_rows: bool = False) -> Any:
    """Write the values of one step; `room` and `values` are pytrees of the same structure.

    With `in_rows` all steps are written, see `Ladder.writes_rows`; every value is then one number.
    """
    if in_rows:
        return jax.tree.map(lambda kept, new: jnp.where(jnp.arange(len(kept)) == step, new, kept), room, values)
    return jax.tree.map(lambda kept, new: kept.at[step].set(new), room, values)


def filled_steps(room: Any, num_steps: Any) -> Any:
    """The steps of all chains that were written, as NumPy arrays (chain, step, …)."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, : int(np.max(num_steps))], room)


def append_thinned(kept: Any, later: Any, *, max_draws: int) -> Any:
    """Draws kept so far, followed by those of a later block; every second one is dropped while there are too many.

    Args:
        kept: a statistic with the fields `num_steps` (of a chain so far, kept or not) and `stride`; all others are
            pytrees of arrays with axes (chain, draw, …), for every `stride`-th step.
        later: the same for every step of the next block.
        max_draws: the largest number of draws to keep of each chain; at least one is kept.
    """
    stride = kept.stride
    new = slice(-kept.num_steps % stride, None, stride)  # continues the run's stride, wherever its blocks were cut
    draws, block = ({n: v for n, v in vars(s).items() if n not in ("num_steps", "stride")} for s in (kept, later))
    joined = jax.tree.map(lambda old, every: np.concatenate([old, every[:, new]], axis=1), draws, block)
    while jax.tree.leaves(joined)[0].shape[1] > max(1, max_draws):
        joined, stride = jax.tree.map(lambda leaf: leaf[:, ::2], joined), 2 * stride
    return dataclasses.replace(kept, num_steps=kept.num_steps + later.num_steps, stride=stride, **joined)
