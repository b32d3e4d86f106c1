"""Keys whose draws are compiled without loops give the random numbers of `jax.random`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering._threefry import plain_key, straight_key

DRAWS = {
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 12345)),
    "split": lambda key: jax.random.key_data(jax.random.split(key, 3)),
    "split in two axes": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "bits of 8": lambda key: jax.random.bits(key, (5,), "uint8"),
    "bits of 16": lambda key: jax.random.bits(key, (5,), "uint16"),
    "one number": lambda key: jax.random.uniform(key),
    "a matrix": lambda key: jax.random.normal(key, (3, 4)),
    "whole numbers": lambda key: jax.random.randint(key, (7,), -3, 77),
    "an order": lambda key: jax.random.permutation(key, 9),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_straight_keys_give_the_numbers_of_plain_keys(draw):
    """Mutants: words exchanged, counters from 1, a stream that depends on the shape in another way."""
    keys = jax.random.split(jax.random.key(7), 2)
    straight = jax.jit(jax.vmap(lambda key: draw(straight_key(key))))(keys)
    np.testing.assert_array_equal(straight, jax.jit(jax.vmap(draw))(keys))


def test_keys_of_any_kind_come_back_as_they_were():
    key, other = jax.random.key(3), jax.random.key(3, impl="rbg")
    assert plain_key(straight_key(key)).dtype == key.dtype
    np.testing.assert_array_equal(jax.random.key_data(plain_key(straight_key(key))), jax.random.key_data(key))
    assert straight_key(other) is other
    assert plain_key(other) is other


def test_straight_keys_compile_without_a_loop():
    def program(draw):
        return jax.jit(draw).lower(jax.random.key(0)).as_text()

    assert "while" in program(lambda key: jax.random.uniform(key, (9,)))  # or they are not needed any more
    assert "while" not in program(lambda key: jax.random.uniform(straight_key(key), (9,)))


class CountsStay(tp.moves.AbstractMove):
    """A move of a user's own that draws from a sampler of JAX's that takes its own keys only."""

    def __call__(self, key, path, rung, x):
        count = jax.random.poisson(key, 3.0)
        return x + 0.0 * count, tp.ladder.MoveInfo.accepted()


@pytest.mark.parametrize(
    "warmup", ["sequential", tp.AnnealedStart(4, (2,)), pytest.param("iterations", marks=pytest.mark.slow)]
)
def test_a_move_of_ones_own_gets_the_keys_of_jax(warmup):
    """Kills: a kernel that passes on the key that it walks with."""
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum(x**2), tp.Normal(jnp.zeros(1)))
    result = tp.estimate(model, move=CountsStay(), warmup=warmup, num_chains=4, num_rungs=3, num_sweeps=4)
    assert result.num_sweeps == 4
