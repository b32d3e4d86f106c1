"""The form of an RBM's path that a GPU computes: exact products of bits, and one kernel for all rungs."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering._threefry import key_words, threefry, uniform_at
from tempering.models.rbm.gpu_programs import HIDDEN_STREAM, RUNG_STREAM, VISIBLE_STREAM
from tempering.models.rbm.limbs import MAX_UNITS, Limbs
from tempering.sampling.chains import walk_chain

RNG = np.random.default_rng(20160619)


@pytest.mark.parametrize("scale", [1e-6, 0.3, 40.0])
@pytest.mark.parametrize("shape", [(784, 500), (7, 3), (64, 130)])
def test_products_are_within_two_to_the_minus_20_of_float64(shape, scale):
    matrix = (scale * RNG.normal(size=shape)).astype(np.float32)
    bits = jnp.asarray(RNG.random((20, shape[0])) < 0.3, jnp.float32)
    exact = np.asarray(bits, np.float64) @ matrix.astype(np.float64)
    found = np.asarray(jax.vmap(Limbs.of(jnp.asarray(matrix)).times)(bits), np.float64)
    assert found.shape == exact.shape
    assert np.abs(found - exact).max() <= 2.0**-20 * np.abs(exact).max()


def test_sums_of_digits_are_exact_integers_up_to_the_largest_number_of_units():
    """At worst all digits are at their largest: their sum must still be below 2²⁴."""
    limbs = Limbs.of(jnp.full((MAX_UNITS, 1), 1.0 - 2.0**-24))
    digits = np.asarray(limbs.digits, np.float64)
    assert np.array_equal(digits, np.round(digits))
    assert np.abs(digits).max() <= 2048
    assert np.abs(digits).sum(axis=0).max() <= 2**24


def test_products_do_not_depend_on_the_order_of_summation():
    matrix = jnp.asarray(RNG.normal(size=(784, 50)), jnp.float32)
    bits, order = jnp.asarray(RNG.random(784) < 0.4, jnp.float32), RNG.permutation(784)
    once, again = Limbs.of(matrix).times(bits), Limbs.of(matrix[order]).times(bits[order])
    np.testing.assert_array_equal(once, again)


def test_zero_weights_give_zero():
    np.testing.assert_array_equal(Limbs.of(jnp.zeros((5, 4))).times(jnp.ones(5)), np.zeros(4))


# Nine rungs fill a part of the room for sixteen, as 100 do of 128.
@pytest.mark.parametrize("num_rungs", [2, pytest.param(9, marks=pytest.mark.slow), 100])
def test_the_path_on_a_gpu_has_the_same_densities(num_rungs):
    rbm = tp.RBM(RNG.normal(0, 0.6, (20, 13)), RNG.normal(size=20), RNG.normal(size=13))
    path = rbm.path(np.linspace(0.1, 0.8, 20), np.linspace(0, 1, num_rungs) ** 2)
    on_gpu = path.on_gpu()
    states = jax.jit(jax.vmap(path.sample_base))(jax.random.split(jax.random.key(0), 6))
    again = jax.jit(jax.vmap(on_gpu.state_of))(states.v)
    alone, at_once = eqx.filter_jit(on_gpu.log_densities), jax.jit(jax.vmap(on_gpu.log_densities))
    np.testing.assert_allclose(again.field, states.field, rtol=1e-5, atol=1e-5)
    betas = np.asarray(path.betas, np.float64)
    base, vbias = np.asarray(path.base_logits, np.float64), rbm.vbias
    for one in range(6):
        v, field = np.asarray(states.v[one], np.float64), states.v[one] @ rbm.weights + rbm.hbias
        exact = (1 - betas) * (v @ base) + betas * (v @ vbias) + np.logaddexp(0, betas[:, None] * field).sum(axis=1)
        state = jax.tree.map(lambda leaf, one=one: leaf[one], again)
        np.testing.assert_allclose(alone(state), exact, rtol=2e-5, atol=2e-5)
    together, fewer = at_once(again), at_once(jax.tree.map(lambda leaf: leaf[:4], again))
    np.testing.assert_array_equal(together[:4], fewer)


def test_sweeps_on_a_gpu_draw_the_bits_that_their_fields_ask_for():
    """The same random numbers and fields that agree to six digits: a difference at one bit in a million is allowed.

    Mutants killed: β of another rung, the stream of the hidden units for the visible ones, the two ends exchanged.
    """
    rbm = tp.RBM(RNG.normal(0, 0.6, (20, 13)), RNG.normal(size=20), RNG.normal(size=13))
    path = rbm.path("uniform", np.linspace(0, 1, 12))
    states = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(0), 200))
    keys, rungs = jax.random.split(jax.random.key(1), 200), jnp.arange(200) % 12

    def plain(key, rung, x):
        words, beta = key_words(key), path.betas[rung]
        levels = [
            uniform_at(words, s, jnp.arange(n, dtype=jnp.uint32))
            for s, n in ((HIDDEN_STREAM, 13), (VISIBLE_STREAM, 20))
        ]
        h = (levels[0] < jax.nn.sigmoid(beta * x.field)).astype(jnp.float32)
        logits = (1 - beta) * path.base_logits + beta * (path.weights @ h + path.vbias)
        return (levels[1] < jax.nn.sigmoid(logits)).astype(jnp.float32)

    expected, found = jax.jit(jax.vmap(plain)), jax.jit(jax.vmap(path.on_gpu().gibbs_sweep))
    assert np.sum(np.asarray(expected(keys, rungs, states)) != found(keys, rungs, states).v) <= 2


def test_the_rung_on_a_gpu_is_drawn_from_its_posterior():
    """Chains may have guesses of log Z of their own. Mutants killed: the guess with the wrong sign, or of one chain."""
    rbm = tp.RBM(RNG.normal(0, 0.6, (20, 13)), RNG.normal(size=20), RNG.normal(size=13))
    path = rbm.path("uniform", np.linspace(0, 1, 12)).on_gpu()
    states = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(0), 50))
    keys, prior = jax.random.split(jax.random.key(2), 50), jax.nn.log_softmax(jnp.arange(12) / 5.0)
    guesses = jnp.asarray(RNG.normal(size=(50, 12)), jnp.float32)
    log_f, posterior, rung = jax.vmap(path.draw_rung, in_axes=(0, 0, None, 0))(keys, states, prior, guesses)
    np.testing.assert_array_equal(log_f, jax.vmap(path.log_densities)(states))
    expected = jax.nn.softmax(log_f + prior - guesses, axis=1)
    np.testing.assert_allclose(posterior, expected, rtol=1e-5, atol=1e-7)
    levels = jax.vmap(lambda key: uniform_at(key_words(key), RUNG_STREAM, jnp.uint32(0)))(keys)
    np.testing.assert_array_equal(rung, jnp.sum(jnp.cumsum(expected, axis=1) <= levels[:, None], axis=1))


def test_random_words_are_those_of_jax():
    words = threefry(*key_words(jax.random.key(5)), jnp.zeros(7, jnp.uint32), jnp.arange(7, dtype=jnp.uint32))
    np.testing.assert_array_equal(words[0] ^ words[1], jax.random.bits(jax.random.key(5), (7,)))


def test_fields_too_large_for_a_basis_stay_in_float32():
    rbm = tp.RBM(RNG.normal(0, 1e4, (20, 13)), RNG.normal(size=20), RNG.normal(size=13))
    path = rbm.path("uniform", np.linspace(0, 1, 12))
    assert path.sums is None
    assert not path.is_same_in_any_batch
    assert path.on_gpu() is path


def test_rows_written_whole_and_several_steps_a_turn_change_nothing():
    """Mutants killed: a term added at every rung, steps up and down exchanged, the rest of the turns left out."""
    rng = np.random.default_rng(20)  # its own: rounding depends on the weights
    rbm = tp.RBM(rng.normal(0, 0.6, (6, 5)), rng.normal(size=6), rng.normal(size=5))
    ladder = tp.Ladder.create(rbm.path("uniform", np.linspace(0, 1, 4)))
    keep = tp.stats.Keep(steps=True, bridges=True, tours=True)
    record = tp.stats.TemperingRecord.empty(ladder, any_range=False, keep=keep)
    start = tp.Position(ladder.path.sample_base(jax.random.key(0)), jnp.int32(0))

    def walked(ladder):
        kernel, bounds = tp.SimulatedTempering(tp.BlockGibbs()), jnp.asarray([3, 17], jnp.int32)
        return jax.jit(walk_chain, static_argnums=2)(jax.random.key(1), ladder, kernel, record, start, bounds)

    plain, in_rows = walked(ladder), walked(dataclasses.replace(ladder, writes_rows=True))
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(in_rows), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=20 * 2**-23)  # a rounding of 20 steps, in nats
