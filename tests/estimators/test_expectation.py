"""Expectations under the target from all rungs' draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from tempering.estimators import expectation
from tempering.stats import HostTargetSums, TargetSums


def _visible(x):
    return x.v


def _exact_mean() -> np.ndarray:
    log_f = exact.log_densities(exact.small_path())[:, -1]
    return np.exp(log_f - logsumexp(log_f)) @ exact.patterns(5)


def test_the_expectation_is_exact_from_exact_sums():
    """Every x with its mass under q. Kills: the base's posterior, a mean over draws instead of a weighted one."""
    log_f = exact.log_densities(exact.small_path())
    mass = exact.joint_law(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS).sum(axis=1)
    weight = mass * exact.rung_posterior(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)[:, -1]
    sums = HostTargetSums(weight, weight[:, None] * exact.patterns(5))  # as if each x were a chain
    np.testing.assert_allclose(expectation(sums).value, _exact_mean(), atol=1e-10)


def test_the_error_is_that_of_a_ratio_over_chains():
    """Against the textbook formula written out. Kills: the weight's own scatter left out, n for n − 1."""
    rng = np.random.default_rng(2)
    weight, total = rng.gamma(3.0, size=30), rng.normal(2, 1, size=(30, 2))
    answer = expectation(HostTargetSums(weight, total))
    ratio = total.sum(axis=0) / weight.sum()
    residual = total - weight[:, None] * ratio
    expected = np.sqrt(30 / 29 * (residual**2).sum(axis=0)) / weight.sum()
    np.testing.assert_allclose(answer.std_error, expected, rtol=1e-12)
    assert np.all(answer.interval[0] < answer.value)
    assert np.all(answer.value < answer.interval[1])
    assert answer.effective_chains == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_the_device_sums_are_those_of_the_draws():
    """Kills: the posterior at the rung that was drawn instead of at the target."""
    ladder = exact.small_ladder()
    states = exact.states_of(ladder.path, exact.patterns(5))
    draws = jax.vmap(lambda x: tp.ladder.Draw(x, jnp.int32(0), jnp.int32(1), ladder.path.log_densities(x)))(states)
    empty = TargetSums.empty(ladder, _visible)
    sums = eqx.filter_jit(jax.vmap(lambda d: empty.update(ladder, d)))(draws).on_host()
    posterior = exact.rung_posterior(exact.log_densities(ladder.path), exact.LOG_PRIOR, exact.LOG_Z_GUESS)[:, -1]
    np.testing.assert_allclose(sums.weight, posterior, atol=1e-6)
    np.testing.assert_allclose(sums.total, posterior[:, None] * exact.patterns(5), atol=1e-6)
    bad = jax.tree.map(lambda leaf: leaf[0], draws)
    bad = eqx.tree_at(lambda d: d.log_f, bad, jnp.full(3, jnp.nan))
    np.testing.assert_array_equal(empty.update(ladder, bad).on_host().total, 0)


def test_streaming_over_a_run_agrees_with_enumeration():
    """64 chains from equilibrium, 3 blocks joined; each mean within 5 of its own errors (2e-6 for five of them)."""
    path = exact.small_path()
    truth = exact.log_z(path) - exact.log_z(path)[0]
    ladder = tp.Ladder.create(path, exact.LOG_PRIOR, truth)
    law = exact.joint_law(exact.log_densities(path), exact.LOG_PRIOR, truth)
    cells = np.random.default_rng(8).choice(law.size, size=64, p=law.ravel())
    states = tp.Position(exact.states_of(path, exact.patterns(5)[cells // 3]), jnp.asarray(cells % 3, jnp.int32))
    record = TargetSums.empty(ladder, _visible)
    sums = None
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    for block in tp.run_chains(jax.random.key(1), ladder, kernel, record, states, num_steps=300, block_steps=100):
        new = block.record.on_host()
        sums = new if sums is None else sums.then(new)
    answer = expectation(sums)
    checks.assert_within(answer.value, _exact_mean(), answer.std_error, most=5)
    assert np.all(answer.std_error < 0.02)


def test_one_chain_has_no_error():
    answer = expectation(HostTargetSums(np.ones(1), np.full((1, 2), 3.0)))
    np.testing.assert_array_equal(answer.value, 3.0)
    assert np.all(np.isinf(answer.std_error))


def test_the_one_call_door_gives_expectations():
    """The mean of each bit under the small RBM, within 5.5 of its own errors; resumed runs carry them on."""
    result = tp.estimate(
        exact.small_rbm(), exact.BASE_FREQUENCIES, num_chains=60, num_sweeps=300, num_rungs=5, expect=_visible
    )
    answer = result.expectation
    checks.assert_within(answer.value, _exact_mean(), answer.std_error)
    assert np.all(answer.std_error < 0.03)
    assert tp.estimate(exact.small_rbm(), num_chains=4, num_sweeps=8, num_rungs=3).expectation is None


def test_expectations_survive_a_checkpoint(tmp_path):
    settings = {"num_chains": 20, "num_rungs": 5, "expect": _visible}
    short = tp.estimate(exact.small_rbm(), "bias", num_sweeps=64, out=tmp_path, **settings)
    longer = tp.estimate(exact.small_rbm(), "bias", num_sweeps=128, out=tmp_path, resume=True, **settings)
    at_once = tp.estimate(exact.small_rbm(), "bias", num_sweeps=128, **settings)
    assert longer.recording.target.weight.sum() > short.recording.target.weight.sum()
    np.testing.assert_allclose(longer.expectation.value, at_once.expectation.value, rtol=1e-6)
