"""The Metropolis rule, and states as vectors of real numbers."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from tempering._errors import InputError
from tempering._types import Key, Scalar, State


def flatten_floats(x: State, move: str):
    """The coordinates of x as a vector, and the inverse map; refused where they are not real numbers."""
    for leaf in jax.tree.leaves(x):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise InputError(
                f"{move} moves real numbers, but the state holds {jnp.result_type(leaf)}. Make them floats, or move "
                "bits (as 0.0 and 1.0) by BitFlips."
            )
    return ravel_pytree(x)


def metropolis_accepts(key: Key, log_ratio: Scalar) -> tuple[Array, Scalar]:
    """Whether to accept, by the Metropolis rule, and the probability min(1, ratio); 0 where the ratio is NaN."""
    accept_prob = jnp.nan_to_num(jnp.exp(jnp.minimum(log_ratio, 0.0)), nan=0.0)
    return jax.random.uniform(key, dtype=accept_prob.dtype) < accept_prob, accept_prob
