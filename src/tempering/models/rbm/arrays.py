"""Arrays of RBMs: random bits, bounds of hidden fields, checks of parameters, and what is computed on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._device_arrays import device_array
from tempering._errors import InputError
from tempering._softplus import SoftplusSums, fit_softplus_sums
from tempering._types import HostPerRung, Key
from tempering.bases.checks import check_finite

_NEGLIGIBLE = 17.0  # log1p(exp(−17)) is 4e-8
_WIDEST = 3000.0  # beyond that no basis of `_softplus` is large enough, and the search for one takes a second


def random_bits(key: Key, logits: Float[Array, "*unit"]) -> Float[Array, "*unit"]:
    """1.0 with these log-odds, else 0.0."""
    return (jax.random.uniform(key, logits.shape) < jax.nn.sigmoid(logits)).astype(jnp.float32)


def float32_arrays(**arrays: Any) -> dict[str, Any]:
    """Arrays on the device, as a path keeps them."""
    return {name: device_array(array) for name, array in arrays.items()}


def sums_for_any_field(betas: HostPerRung) -> SoftplusSums | None:
    """Sums that hold for fields without a bound, or None where no basis is large enough, as on very long ladders.

    With the smallest β above 0, log1p(exp(−β|a|)) is negligible for |a| > 17/β at every rung but the base, where it is
    log 2 for any a. So a basis that holds up to there holds everywhere.
    """
    largest = _NEGLIGIBLE / betas[1]
    return fit_softplus_sums(betas, largest) if largest <= _WIDEST else None


def largest_field_of(weights: np.ndarray, hbias: np.ndarray) -> float:
    """The largest |a_j| of any row of bits, or of any row of categories where the weights have three axes."""
    is_binary = weights.ndim == 2
    high = np.maximum(weights, 0) if is_binary else weights.max(axis=1)
    low = np.minimum(weights, 0) if is_binary else weights.min(axis=1)
    return float(max((high.sum(axis=0) + hbias).max(), -(low.sum(axis=0) + hbias).min()))


def softplus(field: np.ndarray) -> np.ndarray:
    """log(1 + e^field) on the host."""
    return np.maximum(field, 0) + np.log1p(np.exp(-np.abs(field)))


def in_blocks(log_density: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, size: int) -> np.ndarray:
    """A function of rows, applied to `size` rows at a time so that its tables stay small."""
    return np.concatenate([log_density(rows[start : start + size]) for start in range(0, len(rows), size)])


def checked_parameters(model: str, axes: dict[str, str], *arrays: Any, on_device: bool = False) -> list[Any]:
    """Arrays in float64, refused where a shape or a value cannot be right.

    Args:
        model: the model's name, for errors.
        axes: the name of each array and its axes, such as {"weights": "visible hidden", "vbias": "visible"}. The
            first array has all axes.
        arrays: one per name.
        on_device: whether JAX arrays stay as they are; their values are then not looked at.
    """
    keeps = [on_device and isinstance(array, jax.Array) for array in arrays]
    checked = [a if keep else np.asarray(a, np.float64) for a, keep in zip(arrays, keeps, strict=True)]
    all_axes = next(iter(axes.values())).split()
    sizes = dict(zip(all_axes, checked[0].shape, strict=False))
    if 0 in sizes.values():
        raise InputError(f"{model}(weights=...) must have units on every axis; got shape {checked[0].shape}.")
    for (name, own_axes), array, keep in zip(axes.items(), checked, keeps, strict=True):
        shape = tuple(sizes.get(axis) for axis in own_axes.split())
        if array.shape != shape:
            expected = f"{shape}, to fit the weights" if name != "weights" else f"({', '.join(all_axes)})"
            raise InputError(f"{model}({name}=...) must have shape {expected}; got {array.shape}.")
        if not keep:
            check_finite(f"{model}({name}=...)", array)
    return checked
