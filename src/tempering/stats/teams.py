"""Teams of chains: where there are thousands of chains, their sums are joined on the device before they are copied.

A few hundred independent sums show the scatter of an estimate as well as a hundred thousand. What crosses to the host
then does not grow with the number of chains.
"""

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from tempering._logspace import LogSum

T = TypeVar("T")

MOST_ALONE = 1024  # with as many chains or fewer, each chain is a team of its own
MAX_TEAMS = 256  # else


class Teams(NamedTuple):
    """How chains that stand side by side on the device are joined.

    Attributes:
        is_real: False for chains that only fill up a batch; they come last.
        groups: The group of each chain, see `chain_groups`.
        num_groups: How many groups there are.
        size: Chains in a team.
    """

    is_real: Bool[Array, " chain"]
    groups: Int[Array, " chain"]
    num_groups: int
    size: int

    def sums(self, tree: T) -> T:
        """Every array, and every `LogSum`, added up within each team."""
        return jax.tree.map(self._sum, tree, is_leaf=lambda leaf: isinstance(leaf, LogSum))

    def firsts(self, tree: T) -> T:
        """What is the same for all chains of a team."""
        return jax.tree.map(lambda leaf: leaf[:: self.size], tree)

    def _sum(self, part: Any) -> Any:
        if isinstance(part, LogSum):
            peak, scaled = self._by_team(part.peak, LogSum.empty(()).peak), self._by_team(part.scaled)
            highest = jnp.max(peak, axis=1)
            return LogSum(highest, jnp.sum(scaled * jnp.exp(peak - highest[:, None]), axis=1))
        return jnp.sum(self._by_team(part), axis=1, dtype=part.dtype)

    def _by_team(self, leaf: Array, empty: Any = 0) -> Array:
        is_real = self.is_real.reshape(-1, *[1] * (leaf.ndim - 1))
        return jnp.where(is_real, leaf, jnp.asarray(empty, leaf.dtype)).reshape(-1, self.size, *leaf.shape[1:])
