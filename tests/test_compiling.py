"""Programs that are compiled quickly."""

import importlib.metadata

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering._compiling import compiled_hastily, compiled_quickly, compiled_widely

BETAS = np.array([0.0, 1.0])
DENSITY = tp.LogDensity(lambda x: -x @ x, tp.Normal(np.zeros(2))).path(None, BETAS)
SWEPT = tp.RBM(np.ones((3, 2)), np.zeros(3), np.zeros(2)).path(None, BETAS)


WIDE = {"xla_cpu_prefer_vector_width": 512}
QUICK = {"xla_cpu_use_fusion_emitters": False}


@pytest.mark.parametrize(("version", "wide", "quick"), [
    ("0.10.1", WIDE, WIDE | QUICK), ("0.11.2", None, None), ("1.10.0", None, None),
])  # fmt: skip
def test_only_versions_that_know_an_option_are_given_it(version, wide, quick, monkeypatch):
    """Kills: an option for every version, which JAX 0.11 refuses; the older code for users' densities."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(eqx, "filter_jit", lambda function, **how: lambda *args: how.get("compiler_options"))
    compiled = compiled_quickly(lambda *args: None)
    assert compiled(0, (SWEPT, 1)) == quick
    assert compiled(0, (DENSITY, 1)) == wide
    assert compiled(jnp.zeros(3)) == wide
    assert compiled_widely(lambda *args: None)(0) == wide


def test_wide_vectors_draw_the_same_numbers():
    """Kills: an option that changes more than how arithmetic is laid out."""
    drawn = lambda key: jax.random.uniform(key, (7, 131)) < 0.3  # noqa: E731
    np.testing.assert_array_equal(compiled_widely(drawn)(jax.random.key(3)), drawn(jax.random.key(3)))


def test_a_quickly_compiled_function_takes_what_is_no_array_too():
    assert compiled_quickly(lambda x, word: (x + 1, word))(jnp.float32(1), "as it is") == (2.0, "as it is")


@pytest.mark.parametrize(("platform", "options"), [("cpu", {"xla_backend_optimization_level": 0}), ("gpu", None)])
def test_programs_are_compiled_hastily_on_a_cpu_alone(platform, options, monkeypatch):
    """Kills: an option that was never tried on a GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    monkeypatch.setattr(eqx, "filter_jit", lambda function, **how: lambda *args: how.get("compiler_options"))
    assert compiled_hastily(lambda *args: None)(jnp.zeros(3)) == options


def test_a_hastily_compiled_function_gives_the_same_up_to_rounding():
    x = jnp.linspace(-3.0, 3.0, 50)
    np.testing.assert_allclose(compiled_hastily(lambda x: jnp.tanh(x) * x + 1)(x), jnp.tanh(x) * x + 1, rtol=1e-6)
