"""Sums for expectations under the target, from the draws of all rungs."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._device_arrays import device_zeros
from tempering.ladder import Draw, Ladder
from tempering.stats.statistic import AbstractRecord, AbstractSums
from tempering.stats.teams import Teams


class TargetSums(AbstractRecord):
    """Σ_i q(K−1 | x_i) g(x_i) and Σ_i q(K−1 | x_i) of one chain: their ratio estimates the mean of g under the target.

    ```python
    sums = TargetSums.empty(ladder, lambda x: x.v)      # g maps a state to an array
    sums = sums.update(ladder, draw)                    # inside jit, scan, vmap, or as the record of `run_chains`
    expectation(sums)                                   # the first axis is the chain
    ```

    Attributes:
        function: g.
        weight: Σ_i q(K−1 | x_i); a draw that is not finite adds nothing.
        total: Σ_i q(K−1 | x_i) g(x_i).
    """

    function: Callable[[Any], Any] = eqx.field(static=True)
    weight: Float[Array, "*axes"]
    total: Float[Array, "..."]

    @classmethod
    def empty(cls, ladder: Ladder, function: Callable[[Any], Any]) -> "TargetSums":
        """Sums over no draws.

        Args:
            ladder: the law that is sampled.
            function: g, which maps a state to an array. Pass the same object for every block: a new one recompiles.
        """
        one = eqx.filter_eval_shape(ladder.path.sample_base, jax.random.key(0))
        shape = eqx.filter_eval_shape(lambda x: jnp.asarray(function(x)), one).shape
        return cls(function, device_zeros(), device_zeros(shape))

    def update(self, ladder: Ladder, draw: Draw, /) -> "TargetSums":
        weight = jnp.nan_to_num(ladder.posterior_of(draw)[-1])
        value = jnp.asarray(self.function(draw.x), jnp.float32)
        part = jnp.where(weight > 0, weight * value, 0.0)
        return TargetSums(self.function, self.weight + weight, self.total + part)

    def gathered(self, teams: Teams) -> "TargetSums":
        return teams.sums(self)

    def on_host(self) -> "HostTargetSums":
        weight, total = np.asarray(self.weight, np.float64), np.asarray(self.total, np.float64)
        return HostTargetSums(weight, total) if weight.ndim else HostTargetSums(weight[None], total[None])


class HostTargetSums(AbstractSums):
    """The sums of `TargetSums` for all chains of a run so far.

    Attributes:
        weight: Σ q(K−1 | x) of each chain.
        total: Σ q(K−1 | x) g(x) of each chain.
    """

    weight: Float[np.ndarray, " chain"]
    total: Float[np.ndarray, "chain *value"]
