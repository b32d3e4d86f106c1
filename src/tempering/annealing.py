"""One annealing pass along a ladder, up or down: log weights on the way, and where the chains arrive.

Up, from exact draws of the base, is annealed importance sampling. Down, from the target, is its reversal, which gives
reverse AIS and RAISE. A pass takes K − 1 steps of `run`, and a step notes what it added to the log weight.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._types import Key, Rung, Rungs, Scalar, State
from tempering.kernels import AbstractKernel, AbstractMove, Position
from tempering.ladder import AbstractPath, Ladder
from tempering.stats import MAX_BLOCK_STEPS


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
    blocks = run(key, ladder, AnnealDown(BlockGibbs()), AnnealRecord.empty(ladder), at_target(ladder.path, states), …)
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


def at_target(path: AbstractPath, states: State) -> Position:
    """Chains that stand at the target, to be annealed down; `states` has a leading chain axis."""
    num_chains = jax.tree.leaves(states)[0].shape[0]
    return Position(states, jnp.full(num_chains, path.num_rungs - 1, jnp.int32))


class AnnealRecord(eqx.Module):
    """What each step of one block added to the log weight of one chain; its size does not depend on the ladder's."""

    log_increments: Float[Array, "*chain step"]
    num_steps: Int[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "AnnealRecord":
        """Room for the longest block: one length for all, so that passes of any length share what was compiled."""
        return cls(jnp.zeros(MAX_BLOCK_STEPS), jnp.zeros((), jnp.int32))

    def update(self, ladder: Ladder, log_increment: Scalar) -> "AnnealRecord":
        """Note one increment."""
        return AnnealRecord(self.log_increments.at[self.num_steps].set(log_increment), self.num_steps + 1)

    def on_host(self) -> "AnnealWeights":
        """The increments of all chains, in float64."""
        num_steps = int(np.max(self.num_steps))
        return AnnealWeights(np.asarray(self.log_increments, np.float64)[:, :num_steps])


class AnnealWeights(eqx.Module):
    """What annealing passes have gathered so far, in the order of their steps."""

    log_increments: Float[np.ndarray, "chain step"]

    def then(self, later: "AnnealWeights") -> "AnnealWeights":
        """These steps followed by later ones of the same passes."""
        return AnnealWeights(np.concatenate([self.log_increments, later.log_increments], axis=1))

    def log_weights(self) -> Float[np.ndarray, "chain rung"]:
        """After a pass up: log w of each chain at each rung, 0 at rung 0; E[w_k] = Z_k / Z_0."""
        return np.cumsum(np.pad(self.log_increments, ((0, 0), (1, 0))), axis=1)

    def log_weights_down(self) -> Float[np.ndarray, "chain rung"]:
        """After a pass down, by rung as ever: 0 at the last; E[w_k] = Z_k / Z_{K−1} from draws of the target."""
        return self.log_weights()[:, ::-1]
