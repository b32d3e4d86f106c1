"""Simulated tempering: a move in x at the current rung, then a Gibbs draw of the rung."""

from typing import Any, ClassVar

import equinox as eqx
import jax

from tempering._types import Key, Rungs, State
from tempering.kernels.moves import AbstractMove
from tempering.ladder import Draw, Ladder


class AbstractKernel(eqx.Module):
    """One step of a chain. Its state is what the next step needs; the draw is what statistics may see."""

    move: eqx.AbstractVar[AbstractMove]
    regenerates: ClassVar[bool] = False  # whether a chain begins anew at rung 0, where its move redraws the base

    def __call__(self, key: Key, ladder: Ladder, state: Any) -> tuple[Any, Any]:
        """The next state, and a draw."""
        raise NotImplementedError


class Position(eqx.Module):
    """Where a chain of simulated tempering stands."""

    x: State
    rung: Rungs


class SimulatedTempering(AbstractKernel):
    """The loop body of Algorithm 1: x ~ T(· | x, k), then k ~ q(k | x) of eq. 7.

    ```python
    kernel = SimulatedTempering(BlockGibbs())
    position, draw = kernel(key, ladder, position)
    ```
    """

    move: AbstractMove
    regenerates: ClassVar[bool] = True

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, Draw]:
        """Move x at the rung where the chain stands, then draw where it goes next."""
        key_move, key_rung = jax.random.split(key)
        x, info = self.move(key_move, ladder.path, state.rung, state.x)
        log_f = ladder.path.log_densities(x)
        rung = ladder.sample_rung(key_rung, log_f)
        return Position(x, rung), Draw(x=x, origin=state.rung, rung=rung, log_f=log_f, info=info)
