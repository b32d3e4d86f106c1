"""Moves at a rung that does not change, to see how they fare there."""

from tempering._types import Key
from tempering.kernels.moves import AbstractMove
from tempering.kernels.tempering import AbstractKernel, Position
from tempering.ladder import HeldDraw, Ladder


class Held(AbstractKernel):
    """x ~ T(· | x, k), and k stays."""

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, HeldDraw]:
        """Move x, and nothing else."""
        x, info = self.move(key, ladder.path, state.rung, state.x)
        return Position(x, state.rung), HeldDraw(state.rung, info)
