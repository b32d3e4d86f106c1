"""All rungs at once: the error bound, in float64 and as the device computes it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering import _softplus
from tempering._softplus import TOLERANCE, fit_softplus_sums


@pytest.mark.parametrize("bound", [0.5, 5.0, 30.0, 125.0, 300.0, 5000.0])
@pytest.mark.parametrize("num_rungs", [2, 100, 1000])
def test_the_error_bound_holds_between_the_fitted_points(bound, num_rungs):
    """On a fine grid that was not fitted. Kills: a wrong stretch, too few modes, a basis chosen too small.

    The fit is within TOLERANCE; rounding its two matrices to float32 adds at most 2⁻²³ of their absolute product.
    """
    betas = np.linspace(0, 1, num_rungs)
    sums = fit_softplus_sums(betas, bound)
    assert sums is not None
    t = np.concatenate([np.linspace(0, bound, 1001), np.geomspace(1e-6, bound, 501)])
    x = _softplus._scaled_to_unit(t, float(sums.scale), float(sums.bound), np)
    low, high = _softplus._chebyshev_factors(x, sums.num_low, sums.num_high, np)
    basis = (low[:, None] * high[None]).reshape(-1, len(t))
    expand, compress = np.asarray(sums.expand, np.float64), np.asarray(sums.compress, np.float64)
    error = np.abs(expand @ (compress @ basis) - np.log1p(np.exp(-np.outer(betas, t))))
    rounding = 2.0**-23 * (np.abs(expand) @ (np.abs(compress) @ np.abs(basis)))
    assert np.all(error < TOLERANCE + rounding)
    assert error.max() < 2e-6  # for 500 units 0.001 nats at the very worst, far below any error bar here


def test_a_basis_that_is_too_small_is_not_taken():
    """The bound can fail: fields a million wide need more than the largest basis, and the plain way is taken."""
    assert fit_softplus_sums(np.linspace(0, 1, 1000), 1e9) is None
    weights = np.full((3, 2), 5e8)
    path = tp.RBM(weights, np.zeros(3), np.zeros(2)).path("uniform", np.linspace(0, 1, 1000))
    x = path.state_of(jnp.ones(3))
    np.testing.assert_allclose(path.log_densities(x)[-1], 2 * 1.5e9, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.05, 1.0, 8.0])
def test_all_rungs_agree_with_one_rung_at_a_time(scale):
    """For random RBMs of growing fields, against float64. Kills: base and target exchanged, β for 1 − β."""
    rng = np.random.default_rng(5)
    rbm = tp.RBM(rng.normal(0, scale, (30, 40)), rng.normal(size=30), rng.normal(0, scale, 40))
    betas = np.linspace(0, 1, 23) ** 2
    path = rbm.path(rng.uniform(0.05, 0.95, 30), betas)
    assert path.sums is not None
    v = rng.integers(0, 2, (64, 30)).astype(np.float64)
    weights, vbias, hbias = rbm.on_host()
    logits = np.asarray(path.base_logits, np.float64)
    field = v @ weights + hbias
    hidden = np.logaddexp(0, betas[:, None, None] * field).sum(axis=2).T
    expected = np.outer(v @ logits, 1 - betas) + np.outer(v @ vbias, betas) + hidden
    states = jax.vmap(path.state_of)(jnp.asarray(v, jnp.float32))
    found = jax.vmap(path.log_densities)(states)
    one_by_one = jax.vmap(lambda x: jax.vmap(lambda k: path.log_density(x, k))(jnp.arange(23)))(states)
    # 40 units at 1e-7 each, and float32 rounding of sums as large as |log f|.
    atol = 40 * TOLERANCE + 2e-6 * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=atol)
    np.testing.assert_allclose(one_by_one, expected, atol=atol)


def test_slopes_are_derivatives_of_the_log_density():
    """Against finite differences in float64. Kills: sigmoid without its argument, a missing visible part."""
    rng = np.random.default_rng(6)
    rbm = tp.RBM(rng.normal(0, 0.8, (7, 5)), rng.normal(size=7), rng.normal(size=5))
    betas = np.array([0.0, 0.3, 0.55, 1.0])
    path = rbm.path(rng.uniform(0.1, 0.9, 7), betas)
    v = rng.integers(0, 2, 7).astype(np.float64)
    field = v @ rbm.weights + rbm.hbias
    step = 1e-5

    def log_f(beta):
        logits = np.asarray(path.base_logits, np.float64)
        return v @ ((1 - beta) * logits + beta * rbm.vbias) + np.logaddexp(0, beta * field).sum()

    expected = [(log_f(beta + step) - log_f(beta - step)) / (2 * step) for beta in betas]
    np.testing.assert_allclose(path.slopes(path.state_of(jnp.asarray(v, jnp.float32))), expected, rtol=1e-4)


def test_new_weights_keep_the_shapes_of_a_path():
    """Two RBMs of one shape give paths of one structure, so that a compiled run serves both."""
    rng = np.random.default_rng(7)
    paths = [
        tp.RBM(rng.normal(0, 0.3, (9, 4)), rng.normal(size=9), rng.normal(size=4)).path("bias", np.linspace(0, 1, 12))
        for _ in range(2)
    ]
    shapes = [jax.tree.map(jnp.shape, eqx.filter(path, eqx.is_array)) for path in paths]
    assert jax.tree.structure(paths[0]) == jax.tree.structure(paths[1])
    assert shapes[0] == shapes[1]
