"""Draws of all rungs kept with their weight under the target."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact
import tempering as tp
from tempering.stats import WeightedDraws, mean_of_chains, states, systematic_picks
from tempering.stats.states import StateTrace


def test_picks_are_in_proportion_and_in_order():
    """Kills: weights not normalised, the side of a tie, an index past the end."""
    weights = np.array([0.0, 2.0, 0.0, 1.0, 5.0, 0.0])
    np.testing.assert_array_equal(systematic_picks(weights, 8, 0.5), [1, 1, 3, 4, 4, 4, 4, 4])
    np.testing.assert_array_equal(systematic_picks(weights, 8, 0.0), [1, 1, 3, 4, 4, 4, 4, 4])
    for offset in np.linspace(0, 0.999999, 7):
        picks = systematic_picks(weights, 4, offset)
        assert np.all(np.diff(picks) >= 0)
        assert set(picks) <= {1, 3, 4}


def test_a_trace_keeps_states_and_their_weights():
    """log q(K−1 | x) of every state of a small model, against enumeration; NaN has no weight."""
    path, ladder = exact.small_path(), exact.small_ladder()
    log_f = exact.log_densities(path)
    posterior = exact.rung_posterior(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    rows = exact.states_of(path, exact.patterns(5))
    trace = StateTrace.empty(ladder)
    for i in range(6):
        x = jax.tree.map(lambda leaf, i=i: leaf[i], rows)
        bad = jnp.full(3, jnp.nan) if i == 4 else jnp.asarray(log_f[i], jnp.float32)
        trace = trace.update(ladder, tp.ladder.Draw(x, jnp.int32(0), jnp.int32(i % 3), bad))
    kept = jax.tree.map(lambda leaf: np.asarray(leaf)[None], trace).on_host()
    np.testing.assert_array_equal(kept.x.v[0], exact.patterns(5)[:6])
    np.testing.assert_array_equal(kept.rungs[0], [0, 1, 2, 0, 1, 2])
    np.testing.assert_allclose(kept.log_weights[0, [0, 1, 2, 3, 5]], np.log(posterior[[0, 1, 2, 3, 5], -1]), atol=1e-5)
    assert kept.log_weights[0, 4] == -np.inf
    np.testing.assert_allclose(
        kept.log_rises[0, [0, 1, 2, 3, 5]], (log_f[:, -1] - log_f[:, 0])[[0, 1, 2, 3, 5]], atol=1e-5
    )
    assert np.isnan(kept.log_rises[0, 4])


def test_the_skewness_of_rises_is_that_under_the_target():
    """Against draws that are repeated as often as they weigh. Kills: weights left out, a NaN that is counted."""
    repeats, rises = np.array([[1, 4, 2], [3, 1, 5]]), np.array([[0.0, 1.0, 7.0], [2.0, np.nan, 3.0]])
    known = np.repeat(rises.ravel(), repeats.ravel())
    off = known[np.isfinite(known)] - np.nanmean(known)
    draws = WeightedDraws(rises, np.log(repeats), np.zeros((2, 3), np.int32), 3, log_rises=rises)
    assert draws.skewness_of_rises == pytest.approx((off**3).mean() / (off**2).mean() ** 1.5, abs=1e-12)
    same = WeightedDraws(rises, np.log(repeats), np.zeros((2, 3), np.int32), 3, log_rises=np.ones((2, 3)))
    none = WeightedDraws(rises, np.full((2, 3), -np.inf), np.zeros((2, 3), np.int32), 3, log_rises=rises)
    assert all(np.isnan(each.skewness_of_rises) for each in (same, none, _draws(0, 7)))


def test_the_time_beyond_a_level_is_that_under_the_target():
    """Against draws that are repeated as often as they weigh, and the error of a ratio by the delta method.

    Kills: weights left out, a level on the wrong side of its share, chains that all count alike.
    """
    repeats, rises = (
        np.array([[1, 4, 2], [3, 1, 5], [2, 2, 0]]),
        np.array([[0.0, 1.0, 7.0], [2.0, 9.0, 3.0], [8, 1, 99]]),
    )
    draws = WeightedDraws(rises, np.log(np.maximum(repeats, 1e-300)), np.zeros((3, 3), np.int32), 3, log_rises=rises)
    known = np.sort(np.repeat(rises.ravel(), repeats.ravel()))
    for share in (0.05, 0.16, 0.5, 0.99):
        level = draws.exceeded_by(share)
        assert level in known
        assert np.mean(known > level) <= share < np.mean(known >= level)
    beyond, of_all = np.array([2.0, 6.0, 2.0]), np.array([7.0, 9.0, 4.0])
    found = draws.time_beyond(2.5)
    assert found.value == pytest.approx(beyond.sum() / of_all.sum())
    off = (beyond - found.value * of_all) / of_all.mean()
    assert found.std_error == pytest.approx((np.sum(off**2) / 2 / 3) ** 0.5)


def test_a_mean_of_chains_has_the_error_of_their_means():
    assert mean_of_chains(np.array([[1.0, 3.0], [5.0, 7.0]])) == (4.0, pytest.approx(2.0))
    assert np.isnan(mean_of_chains(np.ones((1, 3))).std_error)


def _draws(first: int, num: int) -> WeightedDraws:
    steps = np.arange(first, first + num, dtype=np.float64)
    x = np.stack([steps, -steps])[:, :, None].astype(np.float32)
    return WeightedDraws(x, np.stack([steps, steps]), np.zeros((2, num), np.int32), num)


def test_blocks_are_thinned_evenly_whatever_their_lengths(monkeypatch):
    """Every so many-th step of the whole run, never of a block. Mutants: a stride that forgets where the run stood."""
    monkeypatch.setattr(states, "MAX_KEPT_NUMBERS", 20)
    kept = _draws(0, 7)
    for first, num in ((7, 5), (12, 6), (18, 9), (27, 3)):
        kept = kept.then(_draws(first, num))
    assert kept.stride == 4
    np.testing.assert_array_equal(kept.log_weights[0], np.arange(0, 30, 4))
    np.testing.assert_array_equal(kept.x[1, :, 0], -np.arange(0, 30, 4))
    assert kept.num_steps == 30


def test_effective_size_and_resampling():
    log_weights = np.log([[1.0, 3.0], [1e-300, 4.0]]) + 500
    draws = WeightedDraws({"a": np.arange(4.0).reshape(2, 2)}, log_weights, np.zeros((2, 2), np.int32), 2)
    assert draws.effective_size == pytest.approx(64 / 26)
    assert repr(draws) == "WeightedDraws(2 chains × 2 draws, worth 2.5)"
    assert len(draws.resampled()["a"]) == 2
    np.testing.assert_array_equal(np.bincount(draws.resampled(800, seed=3)["a"].astype(int)), [100, 300, 0, 400])


def test_a_run_without_draws_says_so():
    rbm, frequencies = tp.load_example()
    # The shapes of test_replicates.py, so that they share compiled programs.
    how = {"num_chains": 10, "num_sweeps": 8, "num_rungs": 8, "warmup": tp.AnnealedStart(4, (2,))}
    result = tp.estimate(rbm, frequencies, **how)
    with pytest.raises(tp.InputError, match="keep_draws=True"):
        _ = result.draws
    asked = tp.estimate(rbm, frequencies, keep_draws=True, **how)
    assert asked.draws.x.v.shape == (10, 8, 64)
    assert asked.log_z == result.log_z
