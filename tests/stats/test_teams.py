"""Teams of chains: joined on the device, the sums of a run are those of its chains added up on the host."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.sampling import chains, run_chains
from tempering.stats import Keep, TemperingRecord

NUM_CHAINS, TEAM = 127, 10  # neither the third batch of 50 nor the last team is full


def recordings(monkeypatch, most_alone: int) -> tuple[tp.stats.Recording, object]:
    """The same run of 127 chains, with chains alone or in teams of 10."""
    monkeypatch.setattr(chains, "MOST_ALONE", most_alone)
    monkeypatch.setattr(chains, "MAX_TEAMS", -(-NUM_CHAINS // TEAM))
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum((x / 0.3) ** 2), tp.Normal(jnp.zeros(2)))
    ladder = tp.Ladder.create(model.path(None, np.linspace(0, 1, 6)))
    keep = Keep(
        slopes=True, steps=True, bridges=True, transitions=True, moves=True, states=True, tours=True, expect=first_of
    )
    record = TemperingRecord.empty(ladder, any_range=True, keep=keep)
    x = jax.vmap(ladder.path.sample_base)(jax.random.split(jax.random.key(1), NUM_CHAINS))
    states = tp.Position(x, jnp.arange(NUM_CHAINS, dtype=jnp.int32) % 6)
    kernel = tp.SimulatedTempering(tp.RandomWalk(step_size=0.3))
    blocks = list(
        run_chains(jax.random.key(0), ladder, kernel, record, states, num_steps=40, block_steps=20, joins_chains=True)
    )
    first, second = (block.record.on_host() for block in blocks)
    return first.then(second), blocks[-1].states


def first_of(x):
    return x[0]


def by_team(per_chain: np.ndarray, add: np.ufunc = np.add) -> np.ndarray:
    return add.reduceat(per_chain, np.arange(0, NUM_CHAINS, TEAM), axis=0)


@pytest.fixture(scope="module")
def both():
    with pytest.MonkeyPatch.context() as monkeypatch:
        return recordings(monkeypatch, NUM_CHAINS), recordings(monkeypatch, 10)


@pytest.mark.parametrize(("num_sweeps", "block_sweeps"), [(799, 20), (800, 40), (1600, 80)])
def test_blocks_are_as_long_as_they_will_be_for_chains_and_teams(both, num_sweeps, block_sweeps):
    """Never 40 of them. Kills: draws of a team taken for sweeps."""
    for recording, _ in both:
        longer = recording.stats.coarsened_for(num_sweeps)
        assert longer.block_sweeps == block_sweeps
        assert longer.num_sweeps == 40


def test_sums_of_teams_are_those_of_their_chains(both):
    (alone, states), (joined, same_states) = both
    assert alone.stats.num_chains == NUM_CHAINS
    assert joined.stats.num_chains == -(-NUM_CHAINS // TEAM)
    for name in ("visits", "origins", "num_draws", "num_nonfinite", "num_left_out", "num_vanished"):
        np.testing.assert_array_equal(getattr(joined.stats, name), by_team(getattr(alone.stats, name)), err_msg=name)
    for name in ("log_sums", "log_steps"):
        wanted = by_team(getattr(alone.stats, name), np.logaddexp)
        np.testing.assert_allclose(getattr(joined.stats, name), wanted, rtol=1e-5, atol=1e-5, err_msg=name)
    for name in ("counted_slopes", "weighted_slopes"):
        wanted = by_team(getattr(alone.stats, name))
        np.testing.assert_allclose(getattr(joined.stats, name), wanted, rtol=1e-4, atol=1e-2, err_msg=name)
    for one, other in zip(jax.tree.leaves(states), jax.tree.leaves(same_states), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_belongs_to_single_chains_stays_theirs(both):
    (alone, _), (joined, _) = both
    for one, other in zip(jax.tree.leaves((alone.stats.travel, alone.tours)),
                          jax.tree.leaves((joined.stats.travel, joined.tours)), strict=True):  # fmt: skip
        np.testing.assert_array_equal(one, other)
    assert alone.stats.num_sweeps == joined.stats.num_sweeps == 40
    np.testing.assert_array_equal(joined.stats.sweeps_by_block, [20, 20])
    np.testing.assert_array_equal(joined.transition_counts, alone.transition_counts)
    np.testing.assert_allclose(joined.transition_sums.sum(axis=0), alone.transition_sums.sum(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(joined.moves.num_moves, alone.moves.num_moves)
    np.testing.assert_array_equal(joined.states.x, alone.states.x[::TEAM])
    np.testing.assert_allclose(joined.target.total, by_team(alone.target.total), rtol=1e-4, atol=1e-4)


def test_some_teams_of_a_run_keep_the_chains_that_are_theirs(both):
    (alone, _), (joined, _) = both
    some = joined.stats.of_chains(np.array([2, 12]))
    chosen = np.r_[20:30, 120:127]
    np.testing.assert_array_equal(some.travel.num_crossings, alone.stats.travel.num_crossings[chosen])
    assert some.num_sweeps == 40


def test_the_answer_is_the_same_and_its_error_alike(both):
    (alone, _), (joined, _) = both
    one, other = (tp.estimators.rts(recording.stats) for recording in (alone, joined))
    assert one.log_z == pytest.approx(other.log_z, abs=1e-4)
    assert 0.4 < other.std_error / one.std_error < 2.5  # 13 teams: their scatter varies by a factor of 1.5 (3 σ)


def test_a_record_of_ones_own_stays_one_per_chain(monkeypatch):
    """As documented, and with a team of two chains for every batch of 50."""
    monkeypatch.setattr(chains, "MOST_ALONE", 1)
    monkeypatch.setattr(chains, "MAX_TEAMS", 30)

    class Total(tp.stats.AbstractRecord):
        total: jax.Array

        def update(self, ladder, draw):
            return dataclasses.replace(self, total=self.total + 1)

        def on_host(self):
            return np.asarray(self.total)

    model = tp.LogDensity(lambda x: -0.5 * jnp.sum(x**2), tp.Normal(jnp.zeros(1)))
    ladder = tp.Ladder.create(model.path(None, np.array([0.0, 1.0])))
    states = tp.Position(jnp.zeros((60, 1)), jnp.zeros(60, jnp.int32))
    kernel = tp.SimulatedTempering(tp.RandomWalk(step_size=0.3))
    blocks = list(
        run_chains(jax.random.key(0), ladder, kernel, Total(jnp.zeros(())), states, num_steps=3, joins_chains=True)
    )
    np.testing.assert_array_equal(blocks[-1].record.on_host(), np.full(60, 3.0))
