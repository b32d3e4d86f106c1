"""Chains that are started at the target and walk until they are at the base."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool

from tempering._types import Key, State
from tempering.kernels import AbstractMove, UntilBase, positions_at_target
from tempering.ladder import Ladder
from tempering.sampling.chains import run_chains
from tempering.stats import MAX_BLOCK_STEPS, AwayRecord

_ROUNDS = 32  # looks at which chains are still away
_SHORTEST = 16  # steps between two looks


class Homecoming(NamedTuple):
    """Where chains that started at the target were in the end.

    Attributes:
        x: Their states; leading axis: chain.
        is_away: Whether a chain never was at the base.
        num_steps: Steps after which all of them were there, or that they were given.
    """

    x: State
    is_away: Bool[np.ndarray, " chain"]
    num_steps: int

    @property
    def num_away(self) -> int:
        """Chains that never were at the base."""
        return int(self.is_away.sum())


def walk_home(key: Key, ladder: Ladder, move: AbstractMove, x: State, num_steps: int) -> Homecoming:
    """Walk chains from the target by simulated tempering, each until it is at rung 0.

    Args:
        key: A random key.
        ladder: The law that is sampled.
        move: How x moves.
        x: Where the chains start; leading axis: chain.
        num_steps: The most steps.

    Returns:
        Which chains were at the base, and where the others are.
    """
    kernel = UntilBase(move)
    states = kernel.prepared(ladder.path, positions_at_target(ladder.path, x))
    round_steps = min(max(num_steps // _ROUNDS, _SHORTEST), MAX_BLOCK_STEPS)
    blocks = run_chains(
        key, ladder, kernel, AwayRecord.empty(ladder), states, num_steps=num_steps, block_steps=round_steps
    )
    block = next(blocks)
    while np.asarray(block.states.rung).any() and block.num_steps < num_steps:
        block = next(blocks)
    rungs, x = jax.device_get((block.states.rung, block.states.x))
    return Homecoming(x, np.asarray(rungs) != 0, block.num_steps)
