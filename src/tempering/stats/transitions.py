"""Rao-Blackwellized transitions between rungs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering.ladder import Draw, Ladder


class TransitionSums(eqx.Module):
    """Σ_n q(k | x_n) 1{k_n = j}: the Rao-Blackwellized transition sums of one chain (Appendix G).

    Attributes:
        sums: row j, column k; K × K numbers.
    """

    sums: Float[Array, "rung rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "TransitionSums":
        """Sums over no draws.

        Args:
            ladder: the law that is sampled.
        """
        return cls(jnp.zeros((ladder.path.num_rungs, ladder.path.num_rungs)))

    def update(self, ladder: Ladder, draw: Draw) -> "TransitionSums":
        """Add q(· | x) to the row of the rung at which x was drawn; a draw that is not finite adds nothing.

        Args:
            ladder: the law that is sampled.
            draw: the draw.
        """
        posterior = ladder.rung_posterior(draw.log_f)
        return TransitionSums(self.sums.at[draw.origin].add(jnp.nan_to_num(posterior)))
