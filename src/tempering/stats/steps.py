"""Arrays with one entry per step of a block.

On the device they have room for the longest block, whatever the length of a run, so that all runs share one compiled
program. On the host the unused room is cut off.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

MAX_BLOCK_STEPS = 250  # short enough for float32 sums, and little work is lost if a run is killed within a block


def step_room(shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """Zeros of shape (MAX_BLOCK_STEPS, *shape)."""
    return jnp.zeros((MAX_BLOCK_STEPS, *shape), dtype)


def set_step(room: Any, step: Int[Array, ""], values: Any) -> Any:
    """Write the values of one step; `room` and `values` are pytrees of the same structure."""
    return jax.tree.map(lambda kept, new: kept.at[step].set(new), room, values)


def filled_steps(room: Any, num_steps: Any) -> Any:
    """The steps of all chains that were written, as NumPy arrays (chain, step, …)."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, : int(np.max(num_steps))], room)
