"""Statistics: fed known draws, they hold what they say; joined in any grouping, they hold the same."""

import dataclasses
import inspect
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import exact
import tempering as tp
from tempering._logspace import LogSum, log_mean_exp
from tempering.stats import MAX_BLOCK_STEPS, Travel, chain_groups, group_sums


def _draws(num: int, seed: int = 0, num_rungs: int = 3) -> tp.ladder.Draw:
    """Random log densities and a random walk over rungs, as one chain's draws."""
    rng = np.random.default_rng(seed)
    rungs = rng.integers(0, num_rungs, num + 1)
    log_f = jnp.asarray(rng.normal(0, 40, (num, num_rungs)), jnp.float32)
    return tp.ladder.Draw(jnp.zeros(num), jnp.asarray(rungs[:-1], jnp.int32), jnp.asarray(rungs[1:], jnp.int32), log_f)


@eqx.filter_jit
def _folded(record, ladder, draws):
    def step(record, draw):
        return record.update(ladder, draw), None

    return jax.lax.scan(step, record, draws)[0]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=60))
def test_log_sum_of_anything(terms):
    """Against SciPy in float64, from terms that over- and underflow. Kills: a peak that is not updated."""
    total = LogSum.empty(())
    for term in terms:
        total = total.add(jnp.float32(term))
    expected = logsumexp(np.asarray(terms, np.float32).astype(np.float64))
    assert float(total.log()) == pytest.approx(expected, abs=1e-5 + 1e-7 * abs(expected))


def test_log_sum_of_nothing_and_of_minus_infinity():
    assert LogSum.empty(()).log() == -np.inf
    assert LogSum.empty(()).add(jnp.float32(-jnp.inf)).add(jnp.float32(2.0)).log() == pytest.approx(2.0)


def test_log_mean_exp():
    log_x = np.log(np.array([[1.0, 3.0], [5.0, 7.0]]))
    np.testing.assert_allclose(log_mean_exp(log_x, axis=0), np.log([3.0, 5.0]))
    np.testing.assert_allclose(log_mean_exp(log_x, axis=1), np.log([2.0, 6.0]))


@pytest.mark.parametrize("any_range", [True, False])
def test_sums_of_posteriors_and_visits_are_those_of_the_draws(any_range):
    """Recomputed in float64 from the draws. Kills: joint for posterior, origin for rung, rung for origin."""
    ladder = exact.small_ladder()
    draws = _draws(200)
    stats = _folded(tp.TemperingStats.empty(ladder, any_range=any_range), ladder, draws).on_host()
    posterior = exact.rung_posterior(np.asarray(draws.log_f, np.float64), exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    np.testing.assert_allclose(np.exp(stats.log_sums[0, 0]), posterior.sum(axis=0), rtol=2e-5)
    np.testing.assert_array_equal(stats.visits[0, 0], np.bincount(draws.rung, minlength=3))
    np.testing.assert_array_equal(stats.origins[0, 0], np.bincount(draws.origin, minlength=3))
    assert not np.array_equal(stats.origins, stats.visits)
    assert stats.num_draws[0, 0] == 200


@pytest.mark.parametrize("any_range", [True, False])
def test_a_draw_that_is_not_finite_is_counted(any_range):
    """+inf, and −inf at every rung, are left out; −inf or NaN at one rung is a zero there, and NaN is counted."""
    ladder = exact.small_ladder()
    nan, inf = jnp.nan, jnp.inf
    log_f = jnp.asarray([[inf, 0.0, 0.0], [-inf, nan, -inf], [0.0, nan, 0.0], [-inf, 0.0, 1.0], [0.0] * 3])
    draws = dataclasses.replace(_draws(5), log_f=log_f)
    stats = _folded(tp.TemperingStats.empty(ladder, any_range=any_range), ladder, draws).on_host()
    assert stats.num_nonfinite[0, 0] == 3
    assert stats.num_unused[0, 0] == 2
    np.testing.assert_array_equal(stats.origins[0, 0], np.bincount(draws.origin[2:], minlength=3))  # of those in sums
    used = np.nan_to_num(np.asarray(log_f, np.float64)[2:], nan=-np.inf, neginf=-np.inf)
    posterior = exact.rung_posterior(used, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    np.testing.assert_allclose(np.exp(stats.log_sums[0, 0]), posterior.sum(axis=0), rtol=1e-5)


def test_a_rung_far_out_of_reach_needs_the_wide_range():
    """A posterior of exp(−300): kept in log space, lost in a plain sum."""
    ladder = exact.small_ladder()
    log_f = jnp.tile(jnp.asarray([0.0, 0.0, -300.0]), (5, 1))
    draws = dataclasses.replace(_draws(5), log_f=log_f)
    wide, narrow = (
        _folded(tp.TemperingStats.empty(ladder, any_range=wide), ladder, draws).on_host().log_sums[0, 0, 2]
        for wide in (True, False)
    )
    posterior = exact.rung_posterior(np.asarray(log_f, np.float64), exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    assert wide == pytest.approx(np.log(posterior.sum(axis=0)[2]), abs=1e-3)
    assert narrow == -np.inf


def _crossings(rungs) -> int:
    """Counted naively: how often the last end seen changes."""
    ends = [r for r in rungs if r in (0, 2)]
    return sum(a != b for a, b in itertools.pairwise(ends))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=50), st.data())
def test_crossings_do_not_depend_on_where_a_run_is_cut(rungs, data):
    """Joined from two stretches, against a naive count. Kills: crossings lost or doubled at the cut."""
    cut = data.draw(st.integers(1, len(rungs) - 1))

    def travel(part):
        ends = [{0: 1, 2: 2}.get(r, 0) for r in part]
        seen = [e for e in ends if e]
        as_array = lambda value: np.array([value])  # noqa: E731
        return Travel(as_array(seen[0] if seen else 0), as_array(seen[-1] if seen else 0), as_array(_crossings(part)))

    joined = travel(rungs[:cut]).then(travel(rungs[cut:]))
    whole = travel(rungs)
    assert joined.num_crossings[0] == whole.num_crossings[0]
    assert joined.first_end[0] == whole.first_end[0]
    assert joined.last_end[0] == whole.last_end[0]


def test_crossings_on_the_device_are_the_naive_count():
    ladder = exact.small_ladder()
    draws = _draws(300, seed=5)
    stats = _folded(tp.TemperingStats.empty(ladder), ladder, draws).on_host()
    assert stats.travel.num_crossings[0] == _crossings(np.asarray(draws.rung))


def _recording(num_blocks: int, draws: tp.ladder.Draw, steps: int):
    ladder = exact.small_ladder()
    total = None
    for block in range(num_blocks):
        part = jax.tree.map(lambda leaf, b=block: leaf[b * steps : (b + 1) * steps], draws)
        record = _folded(tp.stats.TemperingRecord.empty(ladder, keep=tp.stats.Keep(transitions=True)), ladder, part)
        now = jax.tree.map(lambda leaf: leaf[None], record).on_host()
        total = now if total is None else total.then(now)
    return total


def test_transitions_do_not_depend_on_where_a_run_is_cut():
    """Counts from traces, against a direct count of origin → rung. Kills: the step across a cut forgotten."""
    draws = _draws(120, seed=8)
    counts = np.zeros((3, 3), int)
    np.add.at(counts, (np.asarray(draws.origin), np.asarray(draws.rung)), 1)
    for num_blocks in (1, 3, 8):
        recording = _recording(num_blocks, draws, 120 // num_blocks)
        np.testing.assert_array_equal(recording.transition_counts[0], counts)
        np.testing.assert_allclose(recording.transition_sums.sum(axis=2)[0], counts.sum(axis=1), rtol=1e-5)


def test_blocks_are_joined_before_they_grow_many():
    """200 blocks of 2 draws: never 40 of them, the sums unchanged, full blocks of equal length."""
    draws = _draws(400, seed=9)
    whole, cut = _recording(1, jax.tree.map(lambda a: a[:250], draws), 250), _recording(200, draws, 2)
    stats = cut.stats
    assert stats.num_blocks < 40
    assert stats.num_draws.sum() == 400
    assert np.all(stats.num_draws[:, :-1] == stats.block_size)
    posterior = exact.rung_posterior(np.asarray(draws.log_f, np.float64), exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    np.testing.assert_allclose(np.exp(logsumexp(stats.log_sums, axis=(0, 1))), posterior.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(np.exp(whole.stats.log_sums[0, 0]), posterior[:250].sum(axis=0), rtol=1e-5)


def test_draws_made_at_each_rung_are_counted_in_any_grouping():
    """Joined, made coarser, cut and taken apart. Kills: counts that stay with the first block, or with all chains."""
    draws = _draws(120, seed=8)
    counts = np.bincount(draws.origin, minlength=3)
    stats = _recording(8, draws, 15).stats
    np.testing.assert_array_equal(stats.origins.sum(axis=(0, 1)), counts)
    each = np.array([np.bincount(part, minlength=3) for part in np.asarray(draws.origin).reshape(8, 15)])
    np.testing.assert_array_equal(stats.origins[0], each)
    np.testing.assert_array_equal(stats.coarsened().origins[0], each[::2] + each[1::2])
    np.testing.assert_array_equal(stats.in_one_block().origins[0, 0], counts)
    np.testing.assert_array_equal(stats.without_first(3).origins[0], each[3:])
    ladder, rungs = exact.small_ladder(), jnp.stack([draws.origin, draws.rung])
    chains = dataclasses.replace(jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), draws), origin=rungs)
    both = jax.vmap(lambda part: _folded(tp.TemperingStats.empty(ladder), ladder, part))(chains).on_host()
    np.testing.assert_array_equal(both.of_chains(np.array([1])).origins[0, 0], np.bincount(draws.rung, minlength=3))


def test_statistics_of_two_ladders_cannot_be_merged():
    path = exact.small_path()
    a, b = (
        _folded(tp.TemperingStats.empty(ladder), ladder, _draws(10)).on_host()
        for ladder in (exact.small_ladder(), tp.Ladder.create(path, exact.LOG_PRIOR))
    )
    with pytest.raises(ValueError, match="two ladders"):
        a.then(b)


def test_groups_of_chains_are_contiguous_and_even():
    assert chain_groups(3).tolist() == [0, 1, 2]
    assert sorted(np.bincount(chain_groups(107))) == [10] * 3 + [11] * 7
    assert np.all(np.diff(chain_groups(107)) >= 0)


def test_sums_over_groups():
    """Kills: a group that takes the first chain of the next, logarithms added."""
    groups = np.array([0, 0, 1, 2, 2, 2])
    per_chain = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(group_sums(per_chain, groups), [[2, 4], [4, 5], [24, 27]])
    np.testing.assert_allclose(
        group_sums(np.log(per_chain + 1), groups, np.logaddexp), np.log([[4, 6], [5, 6], [27, 30]])
    )


def test_statistics_print_as_one_line():
    """Shapes and counts, never arrays."""
    ladder = exact.small_ladder()
    stats = tp.TemperingStats.empty(ladder)
    recording = _recording(2, _draws(120), 60)
    assert repr(stats) == "TemperingStats(3 rungs, leading axes ())"
    assert repr(recording.stats) == "BlockedStats(1 chains × 120 draws, 3 rungs)"
    assert repr(recording) == "Recording(BlockedStats(1 chains × 120 draws, 3 rungs), transition_sums)"


def test_a_record_written_from_the_help_is_filled():
    """The example of help(AbstractRecord), against the log densities of the draws."""
    example = inspect.getdoc(tp.stats.AbstractRecord).split("```python\n")[1].split("\nfor block")[0]
    names = {"AbstractRecord": tp.stats.AbstractRecord, "jax": jax, "jnp": jnp, "np": np}
    exec(example, names)
    draws = _draws(30)
    total = _folded(names["SumOfLogF"](jnp.zeros(())), exact.small_ladder(), draws).on_host()
    np.testing.assert_allclose(total, np.asarray(draws.log_f)[:, -1].sum(), rtol=1e-5)


def test_run_refuses_a_block_longer_than_its_trace():
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    blocks = tp.run_chains(jax.random.key(0), exact.small_ladder(), kernel, None, None, num_steps=1, block_steps=10**6)
    with pytest.raises(tp.InputError, match=str(MAX_BLOCK_STEPS)):
        next(blocks)
