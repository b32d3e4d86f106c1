"""The contract of a move in x."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx

from tempering._types import Key, Rung, Scalar, State
from tempering.ladder import AbstractPath, MoveInfo


class Evaluations(NamedTuple):
    """How often something evaluates the density of a rung, and its gradient.

    Attributes:
        densities: evaluations of log f alone.
        gradients: evaluations of log f with its gradient.
    """

    densities: int
    gradients: int

    def plus(self, other: "Evaluations") -> "Evaluations":
        """Both together.

        Args:
            other: further evaluations.
        """
        return Evaluations(self.densities + other.densities, self.gradients + other.gradients)

    def times(self, number: int) -> "Evaluations":
        """The same so many times.

        Args:
            number: how many times.
        """
        return Evaluations(number * self.densities, number * self.gradients)


NO_EVALUATIONS = Evaluations(0, 0)


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

    @property
    def evaluations(self) -> Evaluations:
        """Evaluations of log f and of its gradient in one move; none for a Gibbs sweep."""
        return NO_EVALUATIONS

    def with_steps_varied(self, jitter: float) -> "AbstractMove":
        """The same move with steps of more lengths, where it has a step size: another such move otherwise.

        Args:
            jitter: by how much log ε varies at random, up and down.
        """
        return self

    def carries(self, path: AbstractPath) -> bool:
        """Whether `carried_call` can be used: the move passes on what it has evaluated at both ends, and costs less.

        Args:
            path: the densities.
        """
        return False

    def carried_call(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, carried: Any, *, may_be_base: bool = True
    ) -> tuple[State, Any, MoveInfo]:
        """Move once, starting from what the move before has evaluated.

        Args:
            key: a JAX random key.
            path: the densities.
            rung: the k whose f_k must stay invariant.
            x: the present state.
            carried: what is known about it.
            may_be_base: whether the rung may be 0. If not, the program need not hold the drawing of the base.

        Returns:
            The new state, what is known about it, and how the move went.
        """
        raise NotImplementedError

    def gives_control(self, path: AbstractPath) -> bool:
        """Whether `control` can be used.

        Args:
            path: the densities.
        """
        return False

    def control(self, path: AbstractPath, rung: Rung, x: State, carried: Any) -> Scalar:
        """A number with mean 0 under f_k that moves with d log f/dβ: a control variate, from what is known already.

        Args:
            path: the densities.
            rung: the k of f_k.
            x: a state.
            carried: what is known about it.
        """
        raise NotImplementedError

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
