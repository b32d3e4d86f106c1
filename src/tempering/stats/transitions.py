"""Transitions between rungs: counted, or Rao-Blackwellized."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering.ladder import Draw, Ladder
from tempering.stats.trace import Trace


class TransitionSums(eqx.Module):
    """Σ_n q(k | x_n) 1{k_n = j}: the Rao-Blackwellized transition sums of Appendix G, K × K numbers a chain."""

    sums: Float[Array, "rung rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "TransitionSums":
        """Nothing seen yet."""
        return cls(jnp.zeros((ladder.path.num_rungs, ladder.path.num_rungs)))

    def update(self, ladder: Ladder, draw: Draw) -> "TransitionSums":
        """Add q(· | x) to the row of the rung at which x was drawn; a draw that is not finite adds nothing."""
        posterior = ladder.rung_posterior(draw.log_f)
        return TransitionSums(self.sums.at[draw.origin].add(jnp.nan_to_num(posterior)))


def _transition_counts(trace: Trace, groups: np.ndarray, num_rungs: int) -> Int[np.ndarray, "group rung rung"]:
    num_steps = int(np.max(trace.num_steps))
    to = np.asarray(trace.rungs)[:, :num_steps].astype(np.int64)
    came_from = np.concatenate([np.asarray(trace.origin)[:, None], to[:, :-1]], axis=1)
    flat = ((groups[:, None] * num_rungs + came_from) * num_rungs + to).ravel()
    shape = (groups.max() + 1, num_rungs, num_rungs)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def _group_sums(per_chain: np.ndarray, groups: np.ndarray) -> Float[np.ndarray, "group rung rung"]:
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.add.reduceat(per_chain.astype(np.float64), starts, axis=0)
