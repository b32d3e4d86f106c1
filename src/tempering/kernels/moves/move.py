"""The contract of a move in x."""

import abc

import equinox as eqx

from tempering._types import Key, Rung, State
from tempering.ladder import AbstractPath, MoveInfo


class AbstractMove(eqx.Module):
    """A random map of x that leaves f_k invariant, for every rung k of a path. It never adapts itself."""

    @abc.abstractmethod
    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        """Move once.

        Args:
            key: a JAX random key.
            path: the densities f_0 … f_{K−1}.
            rung: the k whose f_k must stay invariant.
            x: the present state.

        Returns:
            The new state, and the acceptance and step size of the move.
        """

    @property
    def redraws_base(self) -> bool:
        """Whether the new x at rung 0 is an exact draw of the base, independent of the old x (a regeneration)."""
        return False

    @property
    def always_accepts(self) -> bool:
        """Whether no proposal is ever rejected, so that acceptance needs no diagnosis; True for Gibbs sweeps."""
        return False

    @property
    def needs_gradient(self) -> bool:
        """Whether the move differentiates log f, so that the gradient must exist and be finite; True for HMC."""
        return False
