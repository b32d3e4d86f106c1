"""The contract of a move in x."""

import equinox as eqx

from tempering._types import Key, Rung, Scalar, State
from tempering.ladder import AbstractPath


class AbstractMove(eqx.Module):
    """A random map of x that leaves f_k invariant, for every rung k of a path. It never adapts itself."""

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, Scalar]:
        """The new x, and the probability with which it was accepted (1 for Gibbs moves)."""
        raise NotImplementedError
