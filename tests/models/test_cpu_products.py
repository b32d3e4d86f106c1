"""The form of an RBM's path that a CPU computes: products of bits in float32, or exactly in integers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.models.rbm import cpu_products
from tempering.models.rbm.binary import RBMProducts
from tempering.models.rbm.cpu_products import InBytes, InFloats, fastest

RNG = np.random.default_rng(20260511)
FORMS = [InFloats, InBytes.of]


@pytest.mark.parametrize("form", FORMS, ids=["floats", "bytes"])
@pytest.mark.parametrize("scale", [1e-6, 0.3, 40.0])
@pytest.mark.parametrize("shape", [(784, 500), (7, 3), (64, 130)])
def test_products_are_within_two_to_the_minus_20_of_float64(shape, scale, form):
    """Kills: digits in another order, a digit left out, a base of 128."""
    matrix = (scale * RNG.normal(size=shape)).astype(np.float32)
    bits = jnp.asarray(RNG.random((20, shape[0])) < 0.3, jnp.float32)
    expected = np.asarray(bits, np.float64) @ matrix.astype(np.float64)
    found = np.asarray(jax.jit(jax.vmap(form(jnp.asarray(matrix)).times))(bits), np.float64)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 2.0**-20 * np.abs(expected).max()


@pytest.mark.parametrize("entries", [[1.0 - 2.0**-24, -(1.0 - 2.0**-24)], [1.0, -1.0], [127.5, -128.5], [3e38, -3e38]])
def test_every_entry_keeps_its_sign_and_size_at_the_ends_of_a_byte(entries):
    """Kills: a digit of 128, which a byte would read as −128; a scale that overflows."""
    ladder_of_entries = np.outer([1.0, 0.5, 2.0**-8, 2.0**-16, 0.49999997, 0.99609375], entries).astype(np.float32)
    column = jnp.asarray(ladder_of_entries.reshape(-1, 1))
    found = np.asarray(jax.vmap(InBytes.of(column).times)(jnp.eye(len(column))), np.float64)[:, 0]
    np.testing.assert_allclose(found, np.asarray(column, np.float64)[:, 0], rtol=0, atol=2.0**-22 * abs(column).max())


def test_sums_stay_below_two_to_the_31_up_to_the_most_rows():
    """At worst all digits are at their largest, and the value is theirs. Kills: more rows than int32 has room for."""
    number = cpu_products._MOST_ROWS
    for digits in ((64, 127, 127), (-64, -128, -128)):
        entry = 65536 * digits[0] + 256 * digits[1] + digits[2]
        rows = jnp.asarray(np.broadcast_to(np.asarray(digits, np.int8), (number, 3)))
        found = float(InBytes(rows, jnp.float32(1)).times(jnp.ones(number))[0])
        assert found == pytest.approx(number * entry, rel=2.0**-23)


def test_products_depend_on_no_order_and_on_no_company():
    """Kills: sums in floating point."""
    matrix = jnp.asarray(RNG.normal(size=(784, 50)), jnp.float32)
    bits, order = jnp.asarray(RNG.random((130, 784)) < 0.4, jnp.float32), RNG.permutation(784)
    together = jax.jit(jax.vmap(InBytes.of(matrix).times))
    once = np.asarray(together(bits))
    np.testing.assert_array_equal(once, jax.vmap(InBytes.of(matrix[order]).times)(bits[:, order]))
    for number in (1, 50, 64):
        np.testing.assert_array_equal(once[:number], together(bits[:number]))


def test_zero_weights_give_zero_and_those_that_are_not_finite_nan():
    """Kills: NaN as a digit of 0, with which a model of NaN would be called good."""
    np.testing.assert_array_equal(InBytes.of(jnp.zeros((5, 4))).times(jnp.ones(5)), np.zeros(4))
    for bad in (np.nan, np.inf, -np.inf):
        assert np.isnan(InBytes.of(jnp.zeros((5, 4)).at[2, 1].set(bad)).times(jnp.ones(5))).all()


def test_integers_are_for_large_matrices_and_cpus_that_have_units_for_them(monkeypatch):
    large, small = jnp.ones((500, 784)), jnp.ones((64, 16))
    for has_units in (True, False):
        monkeypatch.setattr(cpu_products, "has_byte_units", lambda has_units=has_units: has_units)
        assert isinstance(fastest(large), InBytes if has_units else InFloats)
        assert isinstance(fastest(small), InFloats)


def test_what_a_cpu_has_is_read_from_the_system(monkeypatch, tmp_path):
    told = tmp_path / "cpuinfo"
    monkeypatch.setattr(cpu_products, "Path", lambda name: told)
    for text, expected in ((None, False), ("flags : sse avx512f", False), ("flags : amx_tile amx_int8", True)):
        if text is not None:
            told.write_text(text)
        assert cpu_products.has_byte_units.__wrapped__() is expected


def on_cpu(path, form):
    """The path on a CPU with this form of its matrices, whatever the CPU has."""
    products = RBMProducts(form(path.weights), form(path.weights.T))
    return dataclasses.replace(path, products=products)


@pytest.mark.parametrize("form", FORMS, ids=["floats", "bytes"])
def test_the_path_on_a_cpu_draws_the_same_bits(form):
    """Kills: W for its transpose, which has another shape, or the columns of the transpose in another order."""
    rbm = tp.RBM(RNG.normal(0, 0.6, (20, 13)), RNG.normal(size=20), RNG.normal(size=13))
    path = rbm.path("bias", np.linspace(0, 1, 12))
    states = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(0), 200))
    keys, rungs = jax.random.split(jax.random.key(1), 200), jnp.arange(200) % 12
    plain, fast = (jax.jit(jax.vmap(each.gibbs_sweep))(keys, rungs, states) for each in (path, on_cpu(path, form)))
    assert np.sum(np.asarray(plain.v) != fast.v) <= 2  # where rounding decides
