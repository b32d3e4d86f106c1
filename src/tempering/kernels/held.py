"""Moves at a rung that stays the same, to measure how well they are accepted there."""

from tempering._types import Key
from tempering.kernels.moves import AbstractMove
from tempering.kernels.tempering import AbstractKernel, Position
from tempering.ladder import HeldDraw, Ladder


class Held(AbstractKernel):
    """x ~ T(· | x, k) at a rung k that stays the same.

    Attributes:
        move: how x moves.
    """

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, HeldDraw]:
        x, info = self.move(key, ladder.path, state.rung, state.x)
        return Position(x, state.rung), HeldDraw(state.rung, info)
