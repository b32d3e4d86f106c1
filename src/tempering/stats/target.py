"""Sums for expectations under the target, from the draws of all rungs."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering.ladder import Draw, Ladder


class TargetSums(eqx.Module):
    """Σ_i q(K−1 | x_i) g(x_i) and Σ_i q(K−1 | x_i) of one chain: every draw counts as far as it suits the target.

    ```python
    sums = TargetSums.empty(ladder, lambda x: x.v)      # g maps a state to an array
    sums = sums.update(ladder, draw)                    # inside jit, scan, vmap, or as the record of `run`
    expectation(sums)                                   # the first axis is the chain
    ```
    """

    function: Callable[[Any], Any] = eqx.field(static=True)
    weight: Float[Array, "*axes"]
    total: Float[Array, "..."]

    @classmethod
    def empty(cls, ladder: Ladder, function: Callable[[Any], Any]) -> "TargetSums":
        """Nothing seen yet. `function` must be the same object from block to block, or it is compiled again."""
        shape = eqx.filter_eval_shape(lambda x: jnp.asarray(function(x)), _any_state(ladder)).shape
        return cls(function, jnp.zeros(()), jnp.zeros(shape))

    def update(self, ladder: Ladder, draw: Draw) -> "TargetSums":
        """Add one draw; one that is not finite adds nothing."""
        weight = jnp.nan_to_num(ladder.rung_posterior(draw.log_f)[-1])
        value = jnp.asarray(self.function(draw.x), jnp.float32)
        part = jnp.where(weight > 0, weight * value, 0.0)
        return TargetSums(self.function, self.weight + weight, self.total + part)

    def on_host(self) -> "HostTargetSums":
        """What all chains have, in float64; a missing chain axis is added."""
        weight, total = np.asarray(self.weight, np.float64), np.asarray(self.total, np.float64)
        return HostTargetSums(weight, total) if weight.ndim else HostTargetSums(weight[None], total[None])


class HostTargetSums(eqx.Module):
    """The same for all chains of a run so far."""

    weight: Float[np.ndarray, " chain"]
    total: Float[np.ndarray, "chain *value"]

    def on_host(self) -> "HostTargetSums":
        """Itself."""
        return self

    def then(self, later: "HostTargetSums") -> "HostTargetSums":
        """These draws and a later block of the same chains."""
        return HostTargetSums(self.weight + later.weight, self.total + later.total)


def _any_state(ladder: Ladder) -> Any:
    """The shape of a state, for asking a function what it returns."""
    return eqx.filter_eval_shape(ladder.path.sample_base, jax.random.key(0))
