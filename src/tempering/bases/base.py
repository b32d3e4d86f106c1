"""The contract of a base."""

import abc

import equinox as eqx

from tempering._types import Key, Scalar, State


class AbstractBase(eqx.Module):
    """A distribution p_1 that can be drawn from exactly.

    A subclass defines `log_density` and `sample`, and `log_z` where its density is not normalised.
    """

    @abc.abstractmethod
    def log_density(self, x: State) -> Scalar:
        """The log density at x, normalised or not.

        Args:
            x: one state, a pytree of arrays.

        Returns:
            log p_1(x), up to the constant that `log_z` reports.
        """

    @abc.abstractmethod
    def sample(self, key: Key) -> State:
        """One exact draw.

        Args:
            key: a JAX random key.

        Returns:
            A state.
        """

    def log_z(self) -> float:
        """The log of the density's integral.

        Returns:
            log Z of the base: 0 for a normalised density. A base of unknown log Z also returns 0; every log Z that is
            estimated from it is then log(Z / Z_base).
        """
        return 0.0
