"""Matrix products in full float32 precision."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

HIGHEST = jax.lax.Precision.HIGHEST  # a GPU would otherwise round the factors to ten bits


def product(a: Array, b: Array) -> Array:
    """`jnp.dot(a, b)` without rounding the factors."""
    return jnp.dot(a, b, precision=HIGHEST)
