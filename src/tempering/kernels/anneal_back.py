"""One step of annealing down that keeps a state on the way."""

import jax
import jax.numpy as jnp

from tempering._types import Key, Scalar
from tempering.kernels.annealing import AnnealDown, AnnealState
from tempering.kernels.tempering import AbstractKernel, Position
from tempering.ladder import Ladder


class AnnealBack(AbstractKernel):
    """One step of `AnnealDown`, with a copy of the state at the rung that is to be kept, as in `AnnealUp`.

    Attributes:
        move: how x moves at a rung; it must be reversible.
    """

    def __call__(self, key: Key, ladder: Ladder, state: AnnealState) -> tuple[AnnealState, Scalar]:
        keep = state.rung == state.kept_at
        position, log_increment = AnnealDown(self.move)(key, ladder, Position(state.x, state.rung))
        kept = jax.tree.map(lambda new, old: jnp.where(keep, new, old), position.x, state.kept)
        return AnnealState(position.x, position.rung, state.kept_at, kept), log_increment
