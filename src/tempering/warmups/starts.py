"""Where chains start: exact draws of the base."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering._types import Key, Rung
from tempering.estimators import rts
from tempering.kernels import Position
from tempering.ladder import AbstractPath, Ladder
from tempering.sampling import Stage

_BASE_DRAWS = 2**31 - 1  # folded into the key for draws of the base, out of the way of stage numbers


def _with_estimate(stage: Stage) -> Ladder:
    """The stage's ladder with Ẑ replaced by what the stage found."""
    return stage.ladder.with_log_z(rts(stage.recording.stats).values)


def _starts(key: Key, path: AbstractPath, start: Callable[[Key, AbstractPath, Rung], Any], rungs: Any) -> Any:
    """A start for every chain, each from its own key."""
    return _start_each(jax.random.fold_in(key, _BASE_DRAWS), path, start, jnp.asarray(rungs, jnp.int32))


@eqx.filter_jit
def _start_each(key, path, start, rungs):
    # One chain at a time: a product over all chains would round differently for another number of them.
    chains = jnp.arange(len(rungs))
    return jax.lax.map(lambda c: start(jax.random.fold_in(key, c[0]), path, c[1]), (chains, rungs))


def base_positions(key: Key, path: AbstractPath, rungs: Any) -> Position:
    """Exact draws of the base, called to stand at these rungs."""
    return _starts(key, path, _position_at_base, rungs)


def _position_at_base(key: Key, path: AbstractPath, rung: Rung) -> Position:
    return Position(path.sample_base(key), rung)
