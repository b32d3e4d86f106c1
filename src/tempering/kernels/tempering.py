"""Simulated tempering: a move of x at the current rung, then a Gibbs draw of the rung.

`Held` leaves the rung as it is, to measure how well moves are accepted there. `UntilBase` ends where a chain is at
rung 0.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tempering._batches import batch_size, in_batches
from tempering._compiling import compiled_quickly
from tempering._threefry import plain_key
from tempering._types import Key, Rung, Rungs, State
from tempering.kernels.moves import AbstractMove, Evaluations
from tempering.kernels.moves.carried import carried_at
from tempering.ladder import AbstractPath, AbstractTwoEndedPath, Draw, HeldDraw, Ladder, MoveInfo

_ENDS = np.array([0.0, 1.0])  # the rungs of a path whose two ends are all that is wanted


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

    def evaluations(self, path: AbstractPath) -> Evaluations:
        """Evaluations of log f and of its gradient in one step: those of the move, and log f of the new state.

        Args:
            path: the densities.
        """
        return self.move.evaluations.plus(Evaluations(1, 0))

    def prepared(self, path: AbstractPath, states: Any) -> Any:
        """The states of all chains as this kernel needs them at the start of a stage.

        Args:
            path: the densities.
            states: as another kernel left them; leading axis: chain.
        """
        return states

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
        carried: what the last move evaluated at x, where moves pass that on; None elsewhere.
    """

    x: State
    rung: Rungs
    carried: Any = None


class AbstractCarryingKernel(AbstractKernel):
    """A kernel over positions whose moves may pass on what they have evaluated."""

    def evaluations(self, path: AbstractPath) -> Evaluations:
        own = self.move.evaluations
        if not self.move.carries(path):
            return super().evaluations(path)
        return Evaluations(own.densities, max(own.gradients - 1, 0))

    def prepared(self, path: AbstractPath, states: Position) -> Position:
        if (states.carried is not None) == self.move.carries(path):
            return states
        if states.carried is not None:
            return Position(states.x, jnp.asarray(states.rung))
        assert isinstance(path, AbstractTwoEndedPath)
        ends = path.with_betas(_ENDS)  # so that one program does for all rungs
        return _with_carried(ends, states, batch_size())

    def moved(
        self, key: Key, path: AbstractPath, rung: Rung, state: Position, *, may_be_base: bool = True
    ) -> tuple[Position, MoveInfo]:
        """The position after a move at this rung, which starts from what the state carries, if anything.

        Args:
            key: a JAX random key.
            path: the densities.
            rung: the rung of the move, which the new position has too.
            state: the present position.
            may_be_base: whether the rung may be 0.
        """
        key = plain_key(key)
        if state.carried is None:
            x, info = self.move(key, path, rung, state.x)
            return Position(x, rung), info
        x, carried, info = self.move.carried_call(key, path, rung, state.x, state.carried, may_be_base=may_be_base)
        return Position(x, rung, carried), info


@compiled_quickly
def _with_carried(path: AbstractTwoEndedPath, states: Position, size: int) -> Position:
    return Position(states.x, states.rung, in_batches(lambda x: carried_at(path, x), states.x, size))


class SimulatedTempering(AbstractCarryingKernel):
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
        path = ladder.path
        new, info = self.moved(key_move, path, state.rung, state)
        at_once = path.draw_rung(key_rung, new.x, ladder.log_prior, ladder.log_z_guess)
        log_ends = posterior = None
        if at_once is not None:
            log_f, posterior, rung = at_once
        else:
            if new.carried is None or not isinstance(path, AbstractTwoEndedPath):
                log_f = path.log_densities(new.x)
            else:
                log_ends = new.carried.log_ends
                log_f = path.log_density_from(path.betas, log_ends)
            posterior, rung = ladder.draw_rung(key_rung, log_f)
        known = new.carried is not None and self.move.gives_control(path)
        control = self.move.control(path, state.rung, new.x, new.carried) if known else None
        draw = Draw(new.x, state.rung, rung, log_f, info, log_ends, control, posterior)
        return Position(new.x, rung, new.carried), draw


class Held(AbstractKernel):
    """x ~ T(· | x, k) at a rung k that stays the same.

    Attributes:
        move: how x moves.
    """

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, HeldDraw]:
        x, info = self.move(plain_key(key), ladder.path, state.rung, state.x)
        return Position(x, state.rung), HeldDraw(state.rung, info)


class UntilBase(AbstractCarryingKernel):
    """Simulated tempering until a chain is at rung 0, where it stays. The draw says whether it was still away.

    Attributes:
        move: how x moves at a rung.
    """

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, Array]:
        new, _ = SimulatedTempering(self.move)(key, ladder, state)
        is_away = state.rung != 0
        return jax.tree.map(lambda later, now: jnp.where(is_away, later, now), new, state), is_away
