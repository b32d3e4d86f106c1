"""The contract of statistics: `update` and `on_host` on the device, `then` on the host."""

import abc
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from tempering.ladder import Ladder
from tempering.stats.teams import Teams

T = TypeVar("T")


class AbstractRecord(eqx.Module):
    """What one chain gathers from its draws within one block, on the device in float32.

    A record of your own is a pytree of arrays with fixed shapes. `run_chains` takes an empty one for one chain, updates
    it inside `jit` and `vmap`, and returns it with a leading chain axis:

    ```python
    class SumOfLogF(AbstractRecord):
        total: jax.Array

        def update(self, ladder, draw):
            return SumOfLogF(self.total + draw.log_f[-1])

        def on_host(self):
            return np.asarray(self.total, np.float64)

    for block in run_chains(key, ladder, kernel, SumOfLogF(jnp.zeros(())), states, num_steps=1000):
        block.record.on_host()
    ```
    """

    @abc.abstractmethod
    def update(self, ladder: Ladder, draw: Any, /) -> Any:
        """This record with one draw added. A draw whose density is not finite adds nothing, or is counted as such.

        Args:
            ladder: the law that is sampled.
            draw: what the kernel returned: a `Draw` from simulated tempering, a log increment from annealing.
        """

    def gathered(self: T, teams: Teams) -> T:
        """The records of very many chains, joined on the device, for use inside jit; by default one per chain.

        Args:
            teams: which chains are joined.
        """
        return self

    @abc.abstractmethod
    def on_host(self) -> Any:
        """The same numbers for all chains in NumPy float64: one row per chain or team, or summed over chains."""


class AbstractHostStatistic(eqx.Module):
    """What a run has gathered so far, for all chains, on the host in NumPy float64.

    ```python
    statistics = [block.record.on_host() for block in run_chains(...)]
    whole = functools.reduce(lambda earlier, later: earlier.then(later), statistics)
    ```
    """

    def on_host(self: T) -> T:
        """This statistic: estimators take it as well as a record."""
        return self

    @abc.abstractmethod
    def then(self, later: Any, /) -> Any:
        """This statistic followed by that of a later block of the same chains.

        Args:
            later: a statistic of the same class.
        """


class AbstractSums(AbstractHostStatistic):
    """A statistic whose fields are added, block by block."""

    def then(self: T, later: Any, /) -> T:
        return jax.tree.map(np.add, self, later)
