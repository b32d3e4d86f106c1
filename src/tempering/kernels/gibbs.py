"""Gibbs moves, for models whose conditional laws can be drawn exactly."""

import jax.numpy as jnp

from tempering._errors import InputError
from tempering._types import Key, Rung, Scalar, State
from tempering.kernels.move import AbstractMove
from tempering.ladder import AbstractPath


class AbstractGibbsPath(AbstractPath):
    """A path whose model knows how to sweep through its own coordinates."""

    def gibbs_sweep(self, key: Key, rung: Rung, x: State) -> State:
        """Redraw every coordinate of x once, leaving f_k invariant."""
        raise NotImplementedError


class BlockGibbs(AbstractMove):
    """One full sweep of the path's own Gibbs sampler; for an RBM, h given v and then v given h."""

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, Scalar]:
        """A sweep is always accepted."""
        if not isinstance(path, AbstractGibbsPath):
            raise InputError(
                f"BlockGibbs needs a path that can sweep itself, as an RBM's can; got a {type(path).__name__}."
            )
        return path.gibbs_sweep(key, rung, x), jnp.ones(())
