"""States of densities as rows of numbers, and bases around some of them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering._types import Scalar, State
from tempering.bases import AbstractBase, Bernoulli, Normal, Product
from tempering.bases.checks import check_finite
from tempering.ladder import AbstractPath
from tempering.models.rows import SMOOTHING

WIDER = 1.5  # than the states that it is fitted to: tempering from a base that is too wide is easier than the reverse
_LEAST_SPREAD = 0.1  # of a coordinate of the base, as a share of that of other draws: few states may be all alike


class TargetOfPath(eqx.Module):
    """log f of the last rung of a path, as a function of one state.

    Attributes:
        path: the path.
    """

    path: AbstractPath

    def __call__(self, x: State) -> Scalar:
        return self.path.log_density(x, jnp.int32(self.path.num_rungs - 1))


def states_of_rows(path: AbstractPath, rows: Any, model: str) -> State:
    """States with a leading axis from rows of all their numbers, or from states with such an axis already.

    Args:
        path: a path of the model.
        rows: an array (row, number), or a pytree as states are.
        model: the model's name, for errors.
    """
    one = eqx.filter_eval_shape(path.sample_base, jax.random.key(0))
    leaves, form = jax.tree.flatten(one)
    sizes = [leaf.size for leaf in leaves]
    is_tree = form != jax.tree.structure(0) and jax.tree.structure(rows) == form
    parts = [np.asarray(part) for part in (jax.tree.leaves(rows) if is_tree else [rows])]
    if is_tree:
        num_rows = len(parts[0]) if parts[0].ndim else 0
        fits = all(p.shape == (num_rows, *leaf.shape) for p, leaf in zip(parts, leaves, strict=True))
        wanted = "arrays with a leading axis of rows, and beyond it the shapes of one state"
    else:
        num_rows, wanted = len(parts[0]) if parts[0].ndim else 0, f"shape (rows, {sum(sizes)})"
        fits = parts[0].shape in {(num_rows, sum(sizes)), (num_rows, *leaves[0].shape) if len(leaves) == 1 else ()}
    if num_rows == 0 or not fits:
        came = ", ".join(str(part.shape) for part in parts)
        raise InputError(f"Rows must have {wanted} for this {model}, got {came}.")
    if any(part.dtype.kind not in "biuf" for part in parts):
        raise InputError(f"Rows must hold real numbers for this {model}, got {parts[0].dtype}.")
    flat = np.concatenate([part.reshape(num_rows, -1) for part in parts], axis=1)
    check_finite("Every row", flat)
    pieces = np.split(flat, np.cumsum(sizes)[:-1], axis=1)
    shaped = [jnp.asarray(p.reshape(num_rows, *leaf.shape), leaf.dtype) for p, leaf in zip(pieces, leaves, strict=True)]
    return jax.tree.unflatten(form, shaped)


def rows_of_states(x: State) -> np.ndarray:
    """All numbers of each state in a row."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(x)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def base_around(path: AbstractPath, rows: Float[np.ndarray, "row number"], others: np.ndarray) -> AbstractBase:
    """A base of independent numbers with the mean and a wider spread of the rows; of independent bits for bits.

    Args:
        path: a path whose states the base draws.
        rows: where it is to be.
        others: draws elsewhere, which tell the scale of each number.
    """
    rows, others = np.asarray(rows, np.float64), np.asarray(others, np.float64)
    one = eqx.filter_eval_shape(path.sample_base, jax.random.key(0))
    leaves, form = jax.tree.flatten(one)
    if all(np.isin(part, (0, 1)).all() for part in (rows, others)) and len(leaves) == 1 and len(leaves[0].shape) == 1:
        on = (1 - SMOOTHING) * rows.mean(axis=0) + SMOOTHING / 2
        return Bernoulli(np.log(on) - np.log1p(-on))
    spread = np.maximum(rows.std(axis=0), _LEAST_SPREAD * others.std(axis=0))
    spread = WIDER * np.where(spread > 0, spread, 1.0)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = [
        Normal(mean.reshape(leaf.shape), std.reshape(leaf.shape))
        for mean, std, leaf in zip(np.split(rows.mean(axis=0), ends), np.split(spread, ends), leaves, strict=True)
    ]
    return parts[0] if form == jax.tree.structure(0) else Product(jax.tree.unflatten(form, parts))
