"""A first call compiles few programs: users wait for each of them."""

import logging
import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp


def density() -> tp.LogDensity:
    spread = np.linspace(0.5, 1.5, 7, dtype=np.float32)
    return tp.LogDensity(lambda x: -0.5 * jnp.sum((x / spread) ** 2), tp.Normal(np.zeros(7), 2.0))


def rbm() -> tp.RBM:
    rng = np.random.default_rng(5)
    return tp.RBM(rng.normal(size=(23, 7)) * 0.3, rng.normal(size=23), rng.normal(size=7))


@pytest.mark.parametrize(
    ("make", "others"),
    [
        # Draws of the base, its values and gradients there, the first states, their slopes, what they carry (twice),
        # and a key: what is compiled beside the two loops, that of the climb and that of tempering.
        pytest.param(density, 10, id="density"),
        pytest.param(rbm, 6, id="rbm", marks=pytest.mark.slow),
    ],
)
def test_a_first_call_compiles_two_loops_and_little_else(make, others, caplog):
    """Mutants: `jnp.zeros` in an empty record, `jnp.asarray` of a schedule, states cut on the device, each a program.

    The shapes here are like those of no other test, so that nothing is there already.
    """
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        tp.estimate(make(), num_chains=61, num_rungs=37, num_sweeps=40)
    names = Counter(re.findall(r"Finished XLA compilation of jit\((.*?)\) in", caplog.text))
    assert names.pop("_walk") == 2
    assert names.total() <= others, names
