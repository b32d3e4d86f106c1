"""A run that starts again: under the law that it is told, from states that have it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import exact
import tempering as tp
from tempering.sampling import Sampling, Stage
from tempering.warmups import started_anew

RUNGS = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])


def stage_at(rungs, *, has_whole_tours=False, families=None) -> Stage:
    """Chains whose state tells their number."""
    ladder = exact.small_ladder()
    keys = jax.random.split(jax.random.key(0), len(rungs))
    states = tp.Position(jax.vmap(ladder.path.sample_base)(keys), jnp.asarray(rungs, jnp.int32))
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    stage = Stage.first(Sampling(has_whole_tours), ladder, kernel, states, 100)
    return stage.with_found(is_equilibrated=False, families=families)


def other_law(stage: Stage) -> tp.Ladder:
    guess = np.asarray(stage.ladder.log_z_guess, np.float64) + np.array([0.0, 0.4, -0.3])
    return stage.ladder.with_log_z(guess).with_weights(np.log([0.2, 0.2, 0.6]))


def weights_of(ladder: tp.Ladder) -> np.ndarray:
    return np.exp(np.asarray(ladder.log_prior, np.float64) - np.asarray(ladder.log_z_guess, np.float64))


def test_chains_are_picked_by_the_ratio_of_the_laws():
    """Over all offsets each chain is picked in proportion to r_k / Ẑ_k, new over old: exactly, up to the grid of them.

    Kills: the old weights, the new without the old, Ẑ forgotten, the states of one chain with the rung of another.
    """
    stage = stage_at(RUNGS)
    ladder = other_law(stage)
    ratio = (weights_of(ladder) / weights_of(stage.ladder))[RUNGS]
    counts = np.zeros(len(RUNGS))
    for offset in (np.arange(400) + 0.5) / 400:
        new = started_anew(stage, ladder, offset)
        picks = np.asarray(new.warmup.families)
        counts += np.bincount(picks, minlength=len(RUNGS))
        np.testing.assert_array_equal(new.states.rung, RUNGS[picks])
        np.testing.assert_array_equal(new.states.x.v, np.asarray(stage.states.x.v)[picks])
    np.testing.assert_allclose(counts / counts.sum(), ratio / ratio.sum(), atol=1e-3)


def test_copies_belong_to_the_family_of_the_original():
    stage = stage_at(RUNGS, families=(7, 7, 5, 5, 1, 1, 2, 2, 3, 4))
    picks = np.asarray(started_anew(stage_at(RUNGS), other_law(stage), 0.3).warmup.families)
    families = started_anew(stage, other_law(stage), 0.3).warmup.families
    np.testing.assert_array_equal(families, np.asarray(stage.warmup.families)[picks])


def test_with_the_same_weights_chains_stay_where_they_are():
    """Kills: picks where only log Z was corrected; draws, walks and doubts of before that are kept."""
    stage = stage_at(RUNGS)
    ladder = stage.ladder.with_log_z(np.array([0.0, 1.0, 2.0]))
    new = started_anew(stage, ladder, 0.3)
    assert new.ladder is ladder
    assert new.states is stage.states
    assert new.warmup == dataclasses.replace(stage.warmup, is_equilibrated=True)
    assert new.recording is None
    assert new.rest is None
    assert new.tails is None


def test_chains_that_began_at_the_base_begin_there_again():
    """Kills: whole tours that begin in the middle of the ladder."""
    stage = stage_at(RUNGS, has_whole_tours=True)
    for ladder in (stage.ladder, other_law(stage)):
        new = started_anew(stage, ladder, 0.3)
        assert new.has_whole_tours
        assert not np.asarray(new.states.rung).any()
        assert new.ladder is ladder
