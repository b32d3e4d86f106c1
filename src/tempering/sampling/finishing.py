"""Tours that are walked to their end: after a run every chain goes on until it is about to draw the base again.

A run that begins with exact draws of the base and ends so consists of whole tours. Their number is a stopping time, so
that by Wald's identity the ratio of two sums over them is free of the start, however short the run, as the number of
chains grows (Mykland, Tierney and Yu 1995).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tempering._types import Key
from tempering.kernels import AbstractKernel
from tempering.ladder import Ladder
from tempering.sampling.chains import records_on_host, some_chains_walked
from tempering.stats import Recording

_ROUND = 128  # steps between two looks at which chains are still on their way
_SHRINKS_BY = 8  # chains on their way are gathered in batches of a few sizes, each of which is compiled once
_MOST_TIMES, _MOST_AT_LEAST = 10, 10_000  # the longest rest of a tour: times the run's own steps, or so many


class Rest(NamedTuple):
    """What the chains did between the end of a run and their next exact draw of the base.

    Attributes:
        recording: What was kept of it.
        num_open: Chains that had not come back when the bound was reached.
    """

    recording: Recording
    num_open: int


def rest_of_tours(key: Key, ladder: Ladder, kernel: AbstractKernel, record: Any, states: Any, num_steps: int) -> Rest:
    """Walk every chain on until it is at rung 0, where its next move draws the base.

    The steps are those that the run itself would take next. Chains that are there make room for the others.

    Args:
        key: The random key of the stage.
        ladder: The law that is sampled.
        kernel: One step of a chain.
        record: An empty record for one chain, for any number of steps.
        states: Where the chains stand; leading axis: chain.
        num_steps: Steps that they have done.

    Returns:
        What was kept, and how many chains did not come back.
    """
    num_chains = jax.tree.leaves(states)[0].shape[0]
    records = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_chains, *jnp.shape(leaf))), record)
    pairs, away = (states, records), np.flatnonzero(np.asarray(states.rung))
    last = num_steps + max(_MOST_TIMES * num_steps, _MOST_AT_LEAST)
    for step in range(num_steps, last, _ROUND):
        if len(away) == 0:
            break
        picked = np.append(away, np.full(_batch_size(len(away), num_chains) - len(away), away[-1]))
        bounds = (step, min(step + _ROUND, last))
        pairs = some_chains_walked(key, ladder, kernel, picked, pairs, bounds, walk_to_base)
        away = away[np.asarray(pairs[0].rung)[away] != 0]
    return Rest(records_on_host(pairs[1], num_chains, ladder).on_host(), len(away))


def walk_to_base(
    key: Key, ladder: Ladder, kernel: AbstractKernel, _: Any, pair: tuple[Any, Any], bounds: Int[Array, "2"]
) -> tuple[tuple[Any, Any], None]:
    """One chain from step bounds[0] to bounds[1] with its record; nothing happens to it once it is at rung 0."""

    def step(i, pair):
        state, record = pair
        new, draw = kernel(jax.random.fold_in(key, i), ladder, state)
        is_away = state.rung != 0
        return jax.tree.map(lambda later, now: jnp.where(is_away, later, now), (new, record.update(ladder, draw)), pair)

    return jax.lax.fori_loop(bounds[0], bounds[1], step, pair), None


def _batch_size(num_away: int, num_chains: int) -> int:
    """The smallest of n, n/8, n/64 … that holds so many chains."""
    size = num_chains
    while -(-size // _SHRINKS_BY) >= num_away and size > _SHRINKS_BY:
        size = -(-size // _SHRINKS_BY)
    return size
