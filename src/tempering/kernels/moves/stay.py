"""No move at all, for states that are to be weighed at every rung where there is no time to move them."""

from typing import Any, ClassVar

import equinox as eqx

from tempering._types import Key, Rung, State
from tempering.kernels.moves.move import AbstractMove
from tempering.ladder import AbstractPath, MoveInfo


class Stay(AbstractMove):
    """Leaves x where it is, and what another move has evaluated there. Its program is compiled in no time.

    Attributes:
        has_carried: whether states come with what another move has evaluated there.
    """

    has_carried: bool = eqx.field(static=True)
    always_accepts: ClassVar[bool] = True

    def carries(self, path: AbstractPath) -> bool:
        return self.has_carried

    def carried_call(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, carried: Any, *, may_be_base: bool = True
    ) -> tuple[State, Any, MoveInfo]:
        return x, carried, MoveInfo.accepted()

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        return x, MoveInfo.accepted()
