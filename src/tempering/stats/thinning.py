"""Draws that are kept one by one: every `stride`-th step of a run, so that memory stays bounded."""

from typing import Any

import jax
import numpy as np


def append_thinned(kept: Any, later: Any, *, num_steps: int, stride: int, max_draws: int) -> tuple[Any, int]:
    """Draws kept so far, followed by those of a later block; every second one is dropped while there are too many.

    Args:
        kept: a pytree of arrays with axes (chain, draw, …): every `stride`-th step so far.
        later: the same for every step of the next block.
        num_steps: steps of a chain so far, kept or not.
        stride: the present stride.
        max_draws: the largest number of draws to keep of each chain; at least one is kept.

    Returns:
        The draws of both, and the new stride.
    """
    new = slice(-num_steps % stride, None, stride)  # continues the run's stride, wherever its blocks were cut
    joined = jax.tree.map(lambda old, block: np.concatenate([old, block[:, new]], axis=1), kept, later)
    while jax.tree.leaves(joined)[0].shape[1] > max(1, max_draws):
        joined, stride = jax.tree.map(lambda leaf: leaf[:, ::2], joined), 2 * stride
    return joined, stride
