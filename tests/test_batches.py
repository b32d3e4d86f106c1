"""A function over many states, in batches of one size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering._batches import in_batches


def product(state):
    return {"x": jnp.tanh(jnp.outer(jnp.arange(3.0), jnp.ones(5)) @ state[0]), "key": jax.random.normal(state[1])}


def states(number: int):
    return jnp.asarray(np.random.default_rng(3).normal(size=(number, 5)), jnp.float32), jax.random.split(
        jax.random.key(1), 40
    )[:number]


@pytest.mark.parametrize("number", [1, 7, 8, 20])
def test_batches_give_what_single_states_give(number):
    """Kills: an order that is lost, states that only fill up a batch among the answers."""
    batched, single = in_batches(product, states(number), 8), in_batches(product, states(number), 1)
    for name in ("x", "key"):
        np.testing.assert_allclose(batched[name], single[name], atol=1e-6)


def test_a_state_has_the_same_bits_among_few_and_among_many():
    """Kills: one batch of as many states as there are."""
    few, many = (in_batches(product, states(number), 8) for number in (7, 20))
    for name in ("x", "key"):
        np.testing.assert_array_equal(few[name], many[name][:7])
