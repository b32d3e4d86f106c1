"""The contract of a move in x."""

import equinox as eqx

from tempering._types import Key, Rung, State
from tempering.ladder import AbstractPath, MoveInfo


class AbstractMove(eqx.Module):
    """A random map of x that leaves f_k invariant, for every rung k of a path. It never adapts itself."""

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        """The new x, and how it came about."""
        raise NotImplementedError

    @property
    def always_accepts(self) -> bool:
        """Whether every proposal is taken, so that no acceptance need be counted."""
        return False

    @property
    def redraws_base(self) -> bool:
        """Whether at rung 0 the new x is an exact draw of the base, whatever x was: a chain then begins anew."""
        return False
