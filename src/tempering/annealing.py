"""One annealing pass along a ladder: log weights for annealed importance sampling, and states on the way."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._types import Key, Rung, Rungs, Scalar, State
from tempering.kernels import AbstractKernel, AbstractMove
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


class AnnealDraw(eqx.Module):
    """One rung climbed, and what it added to the log weight."""

    rung: Rung
    log_increment: Scalar


class AnnealUp(AbstractKernel):
    """One step of annealed importance sampling (Neal 2001): reweight x from rung k to k + 1, then move it there."""

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: AnnealState) -> tuple[AnnealState, AnnealDraw]:
        """log w += log f_{k+1}(x) − log f_k(x); x ~ T_{k+1}(· | x)."""
        path = ladder.path
        rung = state.rung + 1
        log_increment = path.log_density(state.x, rung) - path.log_density(state.x, state.rung)
        x, _ = self.move(key, path, rung, state.x)
        keep = rung == state.kept_at
        kept = jax.tree.map(lambda new, old: jnp.where(keep, new, old), x, state.kept)
        return AnnealState(x, rung, state.kept_at, kept), AnnealDraw(rung, log_increment)


class AnnealRecord(eqx.Module):
    """The increments of the log weight at each rung; blocks of one pass touch different rungs and add up."""

    log_increments: Float[Array, "*axes rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "AnnealRecord":
        """Before the first rung."""
        return cls(jnp.zeros(ladder.path.num_rungs))

    def update(self, ladder: Ladder, draw: AnnealDraw) -> "AnnealRecord":
        """Note one increment."""
        return AnnealRecord(self.log_increments.at[draw.rung].set(draw.log_increment))

    def on_host(self) -> "AnnealWeights":
        """The increments of all chains, in float64."""
        return AnnealWeights(np.asarray(self.log_increments, np.float64))


class AnnealWeights(eqx.Module):
    """What annealing passes have gathered so far."""

    log_increments: Float[np.ndarray, "chain rung"]

    def then(self, later: "AnnealWeights") -> "AnnealWeights":
        """The next stretch of the same passes."""
        return AnnealWeights(self.log_increments + later.log_increments)

    def log_weights(self) -> Float[np.ndarray, "chain rung"]:
        """log w of each chain at each rung; E[w_k] = Z_k / Z_0."""
        return np.cumsum(self.log_increments, axis=1)
