"""Simulated tempering: a move of x at the current rung, then a Gibbs draw of the rung.

`Held` leaves the rung as it is, to measure how well moves are accepted there.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax

from tempering._types import Key, Rungs, State
from tempering.kernels.moves import AbstractMove, Evaluations
from tempering.ladder import Draw, HeldDraw, Ladder


class AbstractKernel(eqx.Module):
    """One step of a chain.

    A kernel of your own is a function of one key, a ladder and the state of ONE chain; `run_chains` adds the chain
    axis. It keeps nothing between steps: all that the next step needs is in the state that it returns.

    Attributes:
        move: How x moves.
        regenerates: Whether a chain begins anew at rung 0, where its move redraws the base.
    """

    move: AbstractMove
    regenerates: ClassVar[bool] = False

    @property
    def evaluations(self) -> Evaluations:
        """Evaluations of log f and of its gradient in one step: those of the move, and log f of the new state."""
        return self.move.evaluations.plus(Evaluations(1, 0))

    @abc.abstractmethod
    def __call__(self, key: Key, ladder: Ladder, state: Any) -> tuple[Any, Any]:
        """One step.

        Args:
            key: the random key of this chain and step.
            ladder: the law that is sampled.
            state: the state of the chain.

        Returns:
            The next state, and the draw that statistics see.
        """


class Position(eqx.Module):
    """The state of a chain of simulated tempering.

    Attributes:
        x: a state of the model, a pytree of arrays.
        rung: the rung at which x moves next.
    """

    x: State
    rung: Rungs


class SimulatedTempering(AbstractKernel):
    """The loop body of Algorithm 1: x ~ T(· | x, k), then k ~ q(k | x) of eq. 7.

    ```python
    kernel = SimulatedTempering(BlockGibbs())
    position = Position(ladder.path.sample_base(key), jnp.int32(0))
    position, draw = kernel(key, ladder, position)
    ```

    Attributes:
        move: how x moves at a rung.
    """

    regenerates: ClassVar[bool] = True

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, Draw]:
        key_move, key_rung = jax.random.split(key)
        x, info = self.move(key_move, ladder.path, state.rung, state.x)
        log_f = ladder.path.log_densities(x)
        rung = ladder.sample_rung(key_rung, log_f)
        return Position(x, rung), Draw(x=x, origin=state.rung, rung=rung, log_f=log_f, info=info)


class Held(AbstractKernel):
    """x ~ T(· | x, k) at a rung k that stays the same.

    Attributes:
        move: how x moves.
    """

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, HeldDraw]:
        x, info = self.move(key, ladder.path, state.rung, state.x)
        return Position(x, state.rung), HeldDraw(state.rung, info)
