"""Draws that are kept one by one: their features give every rung, and there are never too many."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact
import tempering as tp
from tempering.stats import KeptFeatures


def _paths():
    rng = np.random.default_rng(0)
    wild = tp.RBM(rng.normal(0, 60.0, (40, 3)), rng.normal(size=40), rng.normal(size=3))  # too wide for a short basis
    bits = tp.paths.GeometricPath.create(
        lambda x: jnp.sum(jnp.sin(x)), tp.Bernoulli(jnp.asarray([0.3, -1.0])), np.array([0, 0.3, 1])
    )
    return {"rbm": exact.small_path(), "wild": wild.path("uniform", exact.BETAS), "geometric": bits}


@pytest.mark.parametrize("name", ["rbm", "wild", "geometric"])
def test_features_give_log_f_at_every_rung_up_to_a_function_of_x(name):
    """Kills: a matrix of other betas, a feature left out."""
    path = _paths()[name]
    x = path.sample_base(jax.random.key(2))
    by_features = path.feature_matrix() @ np.asarray(path.features(x), np.float64)
    log_f = np.asarray(path.log_densities(x), np.float64)
    np.testing.assert_allclose(by_features - by_features[0], log_f - log_f[0], atol=1e-5 * (1 + np.abs(log_f).max()))


@pytest.mark.parametrize("name", ["rbm", "wild", "geometric"])
def test_slopes_and_curvatures_are_derivatives_in_beta(name):
    """Central differences in float64 of the density written out for an RBM; of Δ for a geometric path."""
    path = _paths()[name]
    x = path.sample_base(jax.random.key(3))
    if name == "geometric":
        slopes, curvatures = np.full(3, float(path.log_f(x) - path.base.log_density(x))), np.zeros(3)
    else:
        field, betas = np.asarray(x.field, np.float64), np.asarray(path.betas, np.float64)[:, None]
        rising = 1 / (1 + np.exp(-betas * field))
        linear = np.asarray(x.v, np.float64) @ np.asarray(path.vbias - path.base_logits, np.float64)
        slopes, curvatures = linear + (field * rising).sum(axis=1), (field**2 * rising * (1 - rising)).sum(axis=1)
    np.testing.assert_allclose(path.slopes(x), slopes, atol=2e-5 * (1 + np.abs(slopes).max()))
    np.testing.assert_allclose(path.curvatures(x), curvatures, atol=2e-5 * (1 + np.abs(curvatures).max()))


def test_a_run_keeps_what_its_chains_saw():
    """Features and rungs of every step, chain by chain, against a second walk with the same keys."""
    ladder = exact.small_ladder()
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    x = exact.states_of(ladder.path, exact.patterns(5)[:4])
    states = tp.Position(x, jnp.zeros(4, jnp.int32))
    record = tp.stats.TemperingRecord.empty(ladder, keep=tp.stats.Keep(features=True))
    kept = None
    for block in tp.run_chains(jax.random.key(0), ladder, kernel, record, states, num_steps=5, block_steps=2):
        new = block.record.on_host().features
        kept = new if kept is None else kept.then(new)
    step = eqx.filter_jit(jax.vmap(lambda k, s: kernel(k, ladder, s)))
    for i in range(5):
        keys = jax.vmap(lambda c, i=i: jax.random.fold_in(jax.random.fold_in(jax.random.key(0), c), i))(jnp.arange(4))
        states, draw = step(keys, states)
        np.testing.assert_array_equal(kept.rungs[:, i], draw.rung)
        log_f = kept.reduced_draws(ladder.path).features[:, i] @ ladder.path.feature_matrix().T
        np.testing.assert_allclose(log_f, draw.log_f, atol=1e-4)


def test_too_many_draws_are_thinned_evenly(monkeypatch):
    """Every stride-th step of the run, wherever its blocks were cut. Kills: a phase that restarts with each block."""
    monkeypatch.setattr("tempering.stats.draws.MAX_KEPT_DRAWS", 40)
    kept, done = None, 0
    for length in (3, 7, 1, 9, 20, 5, 31):
        steps = np.arange(done, done + length)
        new = KeptFeatures(np.stack([steps, steps + 0.5])[:, :, None], np.stack([steps, steps]), length)
        kept, done = new if kept is None else kept.then(new), done + length
    assert kept.num_steps == 76
    assert kept.stride == 4
    np.testing.assert_array_equal(kept.rungs[0], np.arange(0, 76, 4))
    np.testing.assert_array_equal(kept.features[1, :, 0], np.arange(0, 76, 4) + 0.5)


def test_draws_from_arrays_are_checked():
    delta, rungs = np.array([0.5, -1.0, 2.0]), np.array([0, 1, 1])
    draws = tp.stats.ReducedDraws.on_geometric_path(delta, np.array([0.0, 1.0]), rungs)
    assert draws.features.shape == (3, 1, 1)  # each draw a chain of its own
    assert draws.num_rungs == 2
    assert repr(draws) == "ReducedDraws(3 chains × 1 draws, 2 rungs)"
    log_f = tp.stats.ReducedDraws.from_log_densities(np.outer(delta, [0.0, 1.0]), rungs)
    np.testing.assert_array_equal(log_f.features @ log_f.matrix.T, draws.features @ draws.matrix.T)
    for wrong in (np.array([0, 1]), np.array([0, 1, 2]), np.array([0, -1, 1]), np.array([0.0, 1.0, 1.0])):
        with pytest.raises(tp.InputError, match="rungs"):
            tp.stats.ReducedDraws.on_geometric_path(delta, np.array([0.0, 1.0]), wrong)


def test_joined_blocks_carry_slopes_and_steps():
    """Sums over blocks are those of the whole, whatever the cut. Kills: a field forgotten in `then` or `coarsened`."""
    ladder = exact.small_ladder()
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    states = tp.Position(exact.states_of(ladder.path, exact.patterns(5)[:4]), jnp.zeros(4, jnp.int32))
    record = tp.TemperingStats.empty(ladder, with_slopes=True, with_steps=True, with_bridges=True)

    def gather(block_steps):
        stats = None
        for block in tp.run_chains(
            jax.random.key(4), ladder, kernel, record, states, num_steps=20, block_steps=block_steps
        ):
            new = block.record.on_host()
            stats = new if stats is None else stats.then(new)
        return stats

    whole, parts = gather(20), gather(3)
    for stats in (parts, parts.coarsened(), parts.coarsened().coarsened()):
        np.testing.assert_allclose(stats.counted_slopes.sum(axis=1), whole.counted_slopes[:, 0], rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(stats.weighted_slopes.sum(axis=1), whole.weighted_slopes[:, 0], rtol=1e-4, atol=1e-3)
        for name in ("log_steps", "log_bridges"):
            together = np.logaddexp.reduce(getattr(stats, name), axis=1)
            np.testing.assert_allclose(together, getattr(whole, name)[:, 0], atol=1e-5)
    assert dataclasses.replace(whole, visits=whole.visits).then(whole).counted_slopes.shape[1] == 2
