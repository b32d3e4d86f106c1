"""Programs that are compiled quickly."""

import importlib.metadata

import equinox as eqx
import jax.numpy as jnp
import pytest

from tempering._compiling import compiled_quickly


@pytest.mark.parametrize(
    ("version", "options"),
    [("0.10.1", {"xla_cpu_use_fusion_emitters": False}), ("0.11.2", None), ("1.10.0", None)],
)
def test_only_versions_that_know_an_option_are_given_it(version, options, monkeypatch):
    """Kills: an option for every version. JAX 0.11 refuses the program then."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(eqx, "filter_jit", lambda function, **how: how)
    assert compiled_quickly(lambda x: x) == {"compiler_options": options}


def test_a_quickly_compiled_function_takes_what_is_no_array_too():
    assert compiled_quickly(lambda x, word: (x + 1, word))(jnp.float32(1), "as it is") == (2.0, "as it is")
