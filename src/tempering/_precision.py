"""Matrix products in full float32 precision. A GPU would otherwise round their factors to ten bits."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

T = TypeVar("T")

_CHOSEN = "jax_default_matmul_precision"  # of JAX's settings, which have no types
HIGHEST = jax.lax.Precision.HIGHEST


def product(a: Array, b: Array) -> Array:
    """`jnp.dot(a, b)` without rounding the factors."""
    return jnp.dot(a, b, precision=HIGHEST)


def full_precision() -> AbstractContextManager[Any]:
    """Products that are traced inside do not round their factors, unless the user has chosen a precision for all."""
    is_chosen = getattr(jax.config, _CHOSEN) is not None
    return nullcontext() if is_chosen else jax.default_matmul_precision("highest")


def in_full_precision(method: Callable[..., T]) -> Callable[..., T]:
    """The same method of a base, traced in full precision: its draws are then those of its density.

    Args:
        method: Of one argument beside the base.
    """

    @functools.wraps(method)
    def traced(self: Any, of: Any) -> T:
        with full_precision():
            return method(self, of)

    return traced


class InFullPrecision(eqx.Module):
    """A user's function, traced in full precision: rounded factors would be those of another density.

    Attributes:
        function: The function itself.
    """

    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        with full_precision():
            return self.function(*args)
