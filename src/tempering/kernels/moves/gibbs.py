"""Gibbs moves, for models whose conditional laws can be drawn exactly."""

import abc

import equinox as eqx
import jax

from tempering._errors import InputError
from tempering._types import Key, Rung, State
from tempering.kernels.moves.move import AbstractMove
from tempering.ladder import AbstractPath, MoveInfo


class AbstractGibbsPath(AbstractPath):
    """A path whose model can draw its own conditional laws."""

    @abc.abstractmethod
    def gibbs_sweep(self, key: Key, rung: Rung, x: State) -> State:
        """Redraw every coordinate of x once, leaving f_k invariant.

        Args:
            key: a JAX random key.
            rung: the k of f_k.
            x: the present state.

        Returns:
            The new state.
        """


class BlockGibbs(AbstractMove):
    """Full sweeps of the path's own Gibbs sampler; for an RBM, h given v and then v given h.

    Attributes:
        num_sweeps: sweeps per move.
    """

    num_sweeps: int = eqx.field(static=True, default=1)

    @property
    def redraws_base(self) -> bool:
        return True  # the coordinates of a base are independent, and a sweep draws each of them

    @property
    def always_accepts(self) -> bool:
        return True

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        if not isinstance(path, AbstractGibbsPath):
            raise InputError(
                f"BlockGibbs needs a path that can sweep itself, as an RBM's can; got a {type(path).__name__}."
            )
        if self.num_sweeps == 1:
            return path.gibbs_sweep(key, rung, x), MoveInfo.accepted()
        x = jax.lax.fori_loop(0, self.num_sweeps, lambda i, x: path.gibbs_sweep(jax.random.fold_in(key, i), rung, x), x)
        return x, MoveInfo.accepted()
