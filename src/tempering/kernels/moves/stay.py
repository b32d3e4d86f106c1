"""No move at all, for states that are to be weighed at every rung where there is no time to move them."""

from typing import Any, ClassVar

from tempering._types import Key, Rung, State
from tempering.kernels.moves.move import AbstractMove
from tempering.ladder import AbstractPath, MoveInfo


class Stay(AbstractMove):
    """Leaves x where it is, and what another move has evaluated there. Its program is compiled in no time.

    Attributes:
        instead_of: the move whose place it takes.
    """

    instead_of: AbstractMove
    always_accepts: ClassVar[bool] = True

    def carries(self, path: AbstractPath) -> bool:
        return self.instead_of.carries(path)

    def carried_call(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, carried: Any, *, may_be_base: bool = True
    ) -> tuple[State, Any, MoveInfo]:
        return x, carried, MoveInfo.accepted()

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        return x, MoveInfo.accepted()
