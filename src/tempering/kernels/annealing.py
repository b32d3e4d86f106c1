"""One step of annealing along a ladder, up or down.

Up, from exact draws of the base, is annealed importance sampling. Down, from the target, is its reversal, which gives
reverse AIS and RAISE. A pass takes K − 1 steps, and the draw of each step is what it adds to the log weight.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering._device_arrays import device_full
from tempering._threefry import plain_key
from tempering._types import Key, Rung, Rungs, Scalar, State
from tempering.kernels.tempering import AbstractCarryingKernel, AbstractKernel, Position
from tempering.ladder import AbstractPath, AbstractTwoEndedPath, ClimbDraw, Ladder


class AnnealState(eqx.Module):
    """A chain on its way from the base to the target, with a copy of its state at one rung.

    Those copies, one rung per chain, are where tempering starts from after a warm-up by annealing.

    Attributes:
        x: the present state.
        rung: the present rung.
        kept_at: the rung whose state is kept.
        kept: the state at that rung; before the chain arrives there, its start.
    """

    x: State
    rung: Rungs
    kept_at: Rungs
    kept: State

    @classmethod
    def start(cls, key: Key, path: AbstractPath, kept_at: Rung) -> "AnnealState":
        """A chain at rung 0, with an exact draw of the base.

        Args:
            key: a JAX random key.
            path: the densities to anneal along.
            kept_at: the rung whose state is to be kept.
        """
        x = path.sample_base(key)
        return cls(x, jnp.zeros((), jnp.int32), kept_at, x)


class AnnealUp(AbstractKernel):
    """One step of annealed importance sampling (Neal 2001): reweight x from rung k to k + 1, then move it there.

    log w += log f_{k+1}(x) − log f_k(x);  x ~ T_{k+1}(· | x).  Steps past the target add nothing.

    ```python
    starts = jax.vmap(lambda key: AnnealState.start(key, ladder.path, jnp.int32(0)))(keys)
    run_chains(key, ladder, AnnealUp(BlockGibbs()), AnnealRecord.empty(ladder), starts, num_steps=K - 1)
    ```

    Attributes:
        move: how x moves at a rung.
    """

    def __call__(self, key: Key, ladder: Ladder, state: AnnealState) -> tuple[AnnealState, Scalar]:
        path = ladder.path
        rung = jnp.minimum(state.rung + 1, path.num_rungs - 1)
        log_f = path.log_density(state.x, rung)
        log_increment = log_f - path.log_density(state.x, state.rung)
        log_increment = jnp.where(log_f == -jnp.inf, -jnp.inf, log_increment)  # from 0 to 0: the weight is 0 already
        x, _ = self.move(plain_key(key), path, rung, state.x)
        keep = rung == state.kept_at
        kept = jax.tree.map(lambda new, old: jnp.where(keep, new, old), x, state.kept)
        return AnnealState(x, rung, state.kept_at, kept), log_increment


class ClimbUp(AbstractCarryingKernel):
    """One step of a particle of sequential Monte Carlo: reweight x from rung k to k + 1, then move it there.

    The arithmetic is that of `AnnealUp`. It also says how the move went, from which the next moves are tuned.

    Attributes:
        move: how x moves at a rung.
    """

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, ClimbDraw]:
        path = ladder.path
        rung = jnp.minimum(state.rung + 1, path.num_rungs - 1)
        if state.carried is None or not isinstance(path, AbstractTwoEndedPath):
            before, after = path.log_density(state.x, state.rung), path.log_density(state.x, rung)
        else:
            before, after = (path.log_density_from(path.betas[k], state.carried.log_ends) for k in (state.rung, rung))
        new, info = self.moved(key, path, rung, state, may_be_base=False)
        return new, ClimbDraw(after - before, info)


class AnnealDown(AbstractKernel):
    """The same pass in reverse: move x at rung k, then reweight it to k − 1.

    x ~ T_k(· | x);  log w += log f_{k−1}(x) − log f_k(x).  Steps past the base add nothing.

    ```python
    starts = positions_at_target(ladder.path, states)
    run_chains(key, ladder, AnnealDown(BlockGibbs()), AnnealRecord.empty(ladder), starts, num_steps=K - 1)
    ```

    Caveats: `move` must be reversible at every rung, f_k(x) T_k(y | x) = f_k(y) T_k(x | y), as block Gibbs of an RBM
    and every Metropolis step are. A sweep through coordinates in a fixed order is not, and its weights are then wrong.

    Attributes:
        move: how x moves at a rung.
    """

    def __call__(self, key: Key, ladder: Ladder, state: Position) -> tuple[Position, Scalar]:
        path = ladder.path
        rung = jnp.maximum(state.rung - 1, 0)
        x, _ = self.move(plain_key(key), path, state.rung, state.x)
        log_increment = path.log_density(x, rung) - path.log_density(x, state.rung)
        return Position(x, rung), log_increment


def positions_at_target(path: AbstractPath, states: State) -> Position:
    """Chains at the target's rung, to be annealed down.

    Args:
        path: the densities to anneal along.
        states: draws of the target; every leaf has a leading chain axis.

    Returns:
        One position per chain.
    """
    num_chains = jax.tree.leaves(states)[0].shape[0]
    return Position(states, device_full((num_chains,), path.num_rungs - 1, jnp.int32))
