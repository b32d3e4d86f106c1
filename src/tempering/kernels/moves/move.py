"""The contract of a move in x."""

import abc
from typing import ClassVar

import equinox as eqx

from tempering._types import Key, Rung, State
from tempering.ladder import AbstractPath, MoveInfo


class AbstractMove(eqx.Module):
    """A random map of x that leaves f_k invariant, for every rung k of a path. It never adapts itself.

    Attributes:
        redraws_base: whether the new x at rung 0 is an exact draw of the base, independent of the old x (a
            regeneration).
        always_accepts: whether no proposal is ever rejected, so that acceptance needs no diagnosis, as for Gibbs.
        needs_gradient: whether the move differentiates log f, which must then have a gradient, as for HMC.
    """

    redraws_base: ClassVar[bool] = False
    always_accepts: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False

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
