"""One step of annealing along a ladder, up or down.

Up, from exact draws of the base, is annealed importance sampling. Down, from the target, is its reversal, which gives
reverse AIS and RAISE. A pass takes K − 1 steps, and each step notes what it adds to the log weight.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering._types import Key, Rung, Rungs, Scalar, State
from tempering.kernels.moves.move import AbstractMove
from tempering.kernels.tempering import AbstractKernel, Position
from tempering.ladder import AbstractPath, Ladder


class AnnealState(eqx.Module):
    """A chain on its way from the base to the target, and the state it left at one rung on the way."""

    x: State
    rung: Rungs
    kept_at: Rungs  # the rung whose state is kept
    kept: State

    @classmethod
    def start(cls, key: Key, path: AbstractPath, kept_at: Rung) -> "AnnealState":
        """An exact draw of the base."""
        x = path.sample_base(key)
        return cls(x, jnp.zeros((), jnp.int32), kept_at, x)


class AnnealUp(AbstractKernel):
    """One step of annealed importance sampling (Neal 2001): reweight x from rung k to k + 1, then move it there."""

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: AnnealState) -> tuple[AnnealState, Scalar]:
        """log w += log f_{k+1}(x) − log f_k(x); x ~ T_{k+1}(· | x)."""
        path = ladder.path
        rung = jnp.minimum(state.rung + 1, path.num_rungs - 1)  # steps past the target add nothing
        log_increment = path.log_density(state.x, rung) - path.log_density(state.x, state.rung)
        x, _ = self.move(key, path, rung, state.x)
        keep = rung == state.kept_at
        kept = jax.tree.map(lambda new, old: jnp.where(keep, new, old), x, state.kept)
        return AnnealState(x, rung, state.kept_at, kept), log_increment


class AnnealDown(AbstractKernel):
    """The same pass backwards: move x at rung k, then reweight it to k − 1.

    `move` must be reversible at every rung, f_k(x) T_k(y | x) = f_k(y) T_k(x | y), as block Gibbs of an RBM and any
    Metropolis step are; a sweep through coordinates in a fixed order is not, and its weights are then wrong.

    ```python
    starts = positions_at_target(ladder.path, states)
    run_chains(key, ladder, AnnealDown(BlockGibbs()), AnnealRecord.empty(ladder), starts, num_steps=1000)
    ```
    """

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, Scalar]:
        """x ~ T_k(· | x); log w += log f_{k−1}(x) − log f_k(x)."""
        path = ladder.path
        rung = jnp.maximum(state.rung - 1, 0)  # steps past the base add nothing
        x, _ = self.move(key, path, state.rung, state.x)
        log_increment = path.log_density(x, rung) - path.log_density(x, state.rung)
        return Position(x, rung), log_increment


def positions_at_target(path: AbstractPath, states: State) -> Position:
    """Chains that stand at the target, to be annealed down; `states` has a leading chain axis."""
    num_chains = jax.tree.leaves(states)[0].shape[0]
    return Position(states, jnp.full(num_chains, path.num_rungs - 1, jnp.int32))
