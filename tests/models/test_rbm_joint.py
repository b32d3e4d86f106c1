"""The RBM path that keeps h: the same Z and the same marginal as the RBM's own, and sweeps that leave it invariant."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import exact
import tempering as tp
from tempering.models import JointRBM

NUM_DRAWS = 20_000
VISIBLE, HIDDEN = exact.patterns(5), exact.patterns(3)


def _path():
    return JointRBM(exact.small_rbm()).path(exact.BASE_FREQUENCIES, exact.BETAS)


def _log_joint() -> np.ndarray:
    """(v and h, rung), term by term in float64."""
    rbm, logits = exact.small_rbm(), np.asarray(_path().base_logits, np.float64)
    rows = []
    for v in VISIBLE:
        for h in HIDDEN:
            energy = sum(rbm.vbias[i] * v[i] for i in range(5)) + sum(rbm.hbias[j] * h[j] for j in range(3))
            energy += sum(rbm.weights[i, j] * v[i] * h[j] for i in range(5) for j in range(3))
            rows.append((1 - exact.BETAS) * (v @ logits) + exact.BETAS * energy)
    return np.array(rows)


def _states(path, cells: np.ndarray):
    v, h = VISIBLE[cells // 8], HIDDEN[cells % 8]
    return jax.vmap(path.state_of)(jnp.asarray(v, jnp.float32), jnp.asarray(h, jnp.float32))


def _cells(states) -> np.ndarray:
    """Which (v, h) each state is; the lowest bit is the last."""
    bits = np.concatenate([np.asarray(states.v), np.asarray(states.h)], axis=1).astype(np.int64)
    return bits @ (1 << np.arange(8)[::-1])


def test_all_ways_to_ask_for_the_density_agree():
    path, expected = _path(), _log_joint()
    states = _states(path, np.arange(256))
    np.testing.assert_array_equal(_cells(states), np.arange(256))
    np.testing.assert_allclose(jax.vmap(path.log_densities)(states), expected, atol=5e-6)
    one_by_one = jax.vmap(lambda x: jax.vmap(path.log_density, (None, 0))(x, jnp.arange(3)))(states)
    np.testing.assert_allclose(one_by_one, expected, atol=5e-6)
    slopes = np.repeat(expected[:, 2:] - expected[:, :1], 3, axis=1)
    np.testing.assert_allclose(jax.vmap(path.slopes)(states), slopes, atol=1e-5)
    np.testing.assert_array_equal(jax.vmap(path.curvatures)(states), np.zeros((256, 3)))
    from_features = np.asarray(jax.vmap(path.features)(states), np.float64) @ path.feature_matrix().T
    np.testing.assert_allclose(from_features, expected - expected[:, :1], atol=1e-5)
    moved = path.with_betas(np.array([0.0, 0.7, 1.0])).log_densities(jax.tree.map(lambda a: a[77], states))
    np.testing.assert_allclose(moved[1], 0.3 * expected[77, 0] + 0.7 * expected[77, 2], atol=5e-6)


def test_summing_h_out_gives_the_path_of_the_rbm():
    """log Σ_h f(v, h) at every rung, and the same Z at both ends."""
    path, summed = _path(), exact.small_path()
    marginal = np.logaddexp.reduce(_log_joint().reshape(32, 8, 3), axis=1)
    np.testing.assert_allclose(marginal, exact.log_densities(summed), atol=1e-6)  # the logits are float32
    ours = np.logaddexp.reduce(
        np.asarray(jax.vmap(path.log_densities)(_states(path, np.arange(256)))).reshape(32, 8, 3), 1
    )
    theirs = jax.vmap(summed.log_densities)(exact.states_of(summed, VISIBLE))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert path.log_z_base() == summed.log_z_base()
    rbm = exact.small_rbm()
    assert JointRBM(rbm).exact_log_z() == JointRBM(rbm).quick_log_z() == rbm.exact_log_z()
    np.testing.assert_array_equal(JointRBM(rbm).log_density(VISIBLE), rbm.log_density(VISIBLE))


_sweep = eqx.filter_jit(jax.vmap(lambda path, rung, key, x: path.gibbs_sweep(key, rung, x), (None, None, 0, 0)))


def _swept(path, rung: int, law: np.ndarray) -> np.ndarray:
    cells = np.random.default_rng(rung).choice(256, size=NUM_DRAWS, p=law)
    keys = jax.random.split(jax.random.key(rung), NUM_DRAWS)
    moved = _sweep(path, jnp.int32(rung), keys, _states(path, cells))
    again = jax.vmap(path.state_of)(moved.v, moved.h)
    np.testing.assert_allclose(moved.log_target, again.log_target, atol=1e-5)
    return np.bincount(_cells(moved), minlength=256)


def _law(rung: int) -> np.ndarray:
    joint = _log_joint()[:, rung]
    law = np.exp(joint - np.logaddexp.reduce(joint))
    return law / law.sum()


@pytest.mark.parametrize("rung", [0, 1, 2])
def test_sweeps_leave_every_rung_invariant(rung):
    checks.assert_law(_swept(_path(), rung, _law(rung)), _law(rung))


@pytest.mark.parametrize("broken", ["no base", "next rung", "no hidden bias"])
def test_broken_sweeps_are_rejected(broken):
    path = _path()
    if broken == "no base":
        path = eqx.tree_at(lambda p: p.base_logits, path, jnp.zeros(5))
    if broken == "next rung":
        path = eqx.tree_at(lambda p: p.betas, path, jnp.roll(path.betas, 1))
    if broken == "no hidden bias":
        path = eqx.tree_at(lambda p: p.hbias, path, jnp.zeros(3))
    checks.assert_not_law(_swept(path, 1, _law(1)), _law(1))


def test_the_base_is_drawn_exactly():
    path = _path()
    draws = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(3), NUM_DRAWS))
    checks.assert_law(np.bincount(_cells(draws), minlength=256), _law(0))


def test_an_estimate_on_a_small_rbm():
    """A tiny one does not get stuck."""
    result = tp.estimate(
        JointRBM(exact.small_rbm()), exact.BASE_FREQUENCIES, num_chains=50, num_sweeps=300, num_rungs=20
    )
    assert result.exact_log_z == exact.small_rbm().exact_log_z()
    checks.assert_within(result.log_z, result.exact_log_z, result.std_error)
    assert result.std_error < 0.1


def test_rows_of_data_are_no_states():
    with pytest.raises(tp.InputError, match="Use the RBM itself"):
        JointRBM(exact.small_rbm()).states_of(_path(), VISIBLE)
