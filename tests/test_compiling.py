"""Programs that are compiled quickly."""

import importlib.metadata

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering._compiling import compiled_quickly

BETAS = np.array([0.0, 1.0])
DENSITY = tp.LogDensity(lambda x: -x @ x, tp.Normal(np.zeros(2))).path(None, BETAS)
SWEPT = tp.RBM(np.ones((3, 2)), np.zeros(3), np.zeros(2)).path(None, BETAS)


@pytest.mark.parametrize(("version", "options"), [
    ("0.10.1", {"xla_cpu_use_fusion_emitters": False}), ("0.11.2", None), ("1.10.0", None),
])  # fmt: skip
def test_only_versions_that_know_an_option_are_given_it(version, options, monkeypatch):
    """Kills: an option for every version, which JAX 0.11 refuses; one for users' densities."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(eqx, "filter_jit", lambda function, **how: lambda *args: how.get("compiler_options"))
    compiled = compiled_quickly(lambda *args: None)
    assert compiled(0, (SWEPT, 1)) == options
    assert compiled(0, (DENSITY, 1)) is None
    assert compiled(jnp.zeros(3)) is None


def test_a_quickly_compiled_function_takes_what_is_no_array_too():
    assert compiled_quickly(lambda x, word: (x + 1, word))(jnp.float32(1), "as it is") == (2.0, "as it is")
