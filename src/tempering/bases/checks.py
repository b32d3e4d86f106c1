"""Arguments of bases, checked on the host."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tempering._device_arrays import device_array
from tempering._errors import InputError
from tempering._types import Numbers


def cholesky(owner: str, name: str, covariance: np.ndarray) -> np.ndarray:
    """The lower Cholesky factors of covariances (..., dim, dim), in float64; `owner(name=...)` is named in errors."""
    size = np.abs(covariance).max(initial=0.0)
    # NumPy reads the lower half alone, so it would accept a matrix that is not symmetric.
    is_symmetric = bool(np.all(np.abs(covariance - np.swapaxes(covariance, -1, -2)) <= 1e-6 * size))
    check_argument(owner, name, is_symmetric, "must be symmetric")
    try:
        return np.linalg.cholesky((covariance + np.swapaxes(covariance, -1, -2)) / 2)
    except np.linalg.LinAlgError:
        raise InputError(f"{owner}({name}=...) must be positive definite.") from None


def as_float_array(array: np.ndarray) -> Array:
    """A device array of JAX's default kind: float32, or float64 where the user enabled that."""
    return device_array(array, jnp.result_type(float))


def finite_arrays(owner: str, **values: Numbers) -> list[np.ndarray]:
    """Arguments of `owner(...)` as finite float64 arrays."""
    try:
        arrays = [np.asarray(value, np.float64) for value in values.values()]
    except (TypeError, ValueError):
        rule = "must be arrays of numbers, known before anything is compiled"
        raise InputError(f"{owner}({', '.join(values)}) {rule}.") from None
    for name, array in zip(values, arrays, strict=True):
        check_argument(owner, name, bool(np.isfinite(array).all()), "must be finite: infinite densities are improper")
    return arrays


def fitting_arrays(owner: str, **values: Numbers) -> list[np.ndarray]:
    """Arguments of `owner(...)` as finite float64 arrays, broadcast to one shape."""
    arrays = finite_arrays(owner, **values)
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(f"{owner}({', '.join(values)}) must have shapes that fit together, got {shapes}.") from None


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuse an array with numbers that are NaN, infinite, or too large for the float32 of the device."""
    num_bad = np.sum(~np.isfinite(array))
    if num_bad:
        raise InputError(f"{name} must be finite, got {num_bad} NaN or infinite values.")
    largest = np.abs(array).max(initial=0.0)
    if largest > np.finfo(np.float32).max:
        raise InputError(f"{name} must fit in single precision, got {largest:.1e}. If training diverged, go back.")


def is_positive(array: np.ndarray) -> bool:
    """Whether all numbers are positive in float32, in which small ones become 0."""
    return bool(np.all(np.asarray(array, np.float32) > 0))


def check_argument(base: str, name: str, is_right: bool, rule: str) -> None:
    """Raise an `InputError` that names the argument and the rule which it breaks."""
    if not is_right:
        raise InputError(f"{base}({name}=...) {rule}.")
