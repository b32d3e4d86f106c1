"""Arrays for the device that are made on the host.

`jnp.zeros`, and `jnp.asarray` with another type, are programs that XLA compiles for every new shape. Between stages,
where arrays are few and small, compiling them takes longer than all that is done with them.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def device_array(values: Any, dtype: Any = np.float32) -> Array:
    """Numbers of the host as an array of the device. What is there already, or is being traced, is converted there.

    Args:
        values: Numbers.
        dtype: The type that they get.
    """
    if isinstance(values, jax.Array):
        return jnp.asarray(values, dtype)
    return jax.device_put(np.asarray(values, dtype))


def device_full(shape: tuple[int, ...], value: float | int, dtype: Any = None) -> Array:
    """`jnp.full(shape, value, dtype)`, of JAX's default kind of float where no type is given.

    Args:
        shape: The shape.
        value: What it is filled with.
        dtype: The type.
    """
    return jax.device_put(np.full(shape, value, jnp.result_type(float) if dtype is None else dtype))


def device_zeros(shape: tuple[int, ...] = (), dtype: Any = None) -> Array:
    """`jnp.zeros(shape, dtype)`, of JAX's default kind of float where no type is given.

    Args:
        shape: The shape.
        dtype: The type.
    """
    return device_full(shape, 0, dtype)
