"""The error that chains share because their starts descend from the same particles."""

import dataclasses
import itertools

import numpy as np
import pytest

import tempering as tp
from tempering.api.job import Job
from tempering.api.settings import Settings
from tempering.estimators import LogZ, with_shared_starts
from tempering.estimators.shared_starts import variance_by_families
from tempering.estimators.uncertainty import uncertainty_of_mean
from tempering.sampling import Sampling, walk_stages

SIX = np.array([[0.3], [-1.2], [0.9], [2.0], [-0.4], [1.1]])


def answer_of(parts) -> LogZ:
    return LogZ.from_uncertainty("rts", np.zeros(parts.shape[1]), uncertainty_of_mean(parts), keep_influences=True)


def test_chains_that_are_families_of_their_own_have_the_variance_of_a_mean():
    np.testing.assert_allclose(variance_by_families(SIX, np.arange(6)), uncertainty_of_mean(SIX).std_error ** 2)


@pytest.mark.parametrize("families", [[0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 0, 1], [3, 1, 3, 1, 3, 1]])
def test_families_of_independent_chains_have_the_same_variance_on_average(families):
    """Over all ways to put six numbers into families, the mean is exactly their variance over n.

    Kills: G/(G − 1) left out, the number of families for the effective one.
    """
    orders = [SIX[list(order)] for order in itertools.permutations(range(6))]
    found = np.mean([variance_by_families(order, np.array(families)) for order in orders])
    assert found == pytest.approx(float(uncertainty_of_mean(SIX).std_error[0] ** 2), rel=1e-12)


def test_chains_that_are_copies_count_once():
    """Each number twice: the error is that of three numbers, up to the factor by which n chains differ from n − 1."""
    copies, families = np.repeat(SIX[:3], 2, axis=0), [0, 0, 1, 1, 2, 2]
    alone = uncertainty_of_mean(SIX[:3]).std_error[0]
    found = with_shared_starts(answer_of(copies), families)
    assert found.std_error == pytest.approx(alone, rel=1e-12)
    assert found.std_error > 1.4 * answer_of(copies).std_error


@pytest.mark.parametrize(
    ("families", "why"),
    [
        (None, "starts are independent"),
        ([0, 1, 2], "units are not chains"),
        ([7] * 6, "one family has no scatter"),
        ([0, 1, 2, 3, 4, 5], "every chain is its own family"),
        ([0, 1, 2, 1, 0, 2], "families scatter less than chains"),
    ],
)
def test_nothing_is_added_where_nothing_is_shared(families, why):
    """To the bit. Kills: a smaller error than that of chains."""
    before = answer_of(SIX)
    after = with_shared_starts(before, families)
    np.testing.assert_array_equal(after.std_errors, before.std_errors, err_msg=why)


def test_the_excess_is_widened_by_skewness_as_the_error_is():
    """Kills: a skewness that is forgotten, the excess of the target at all rungs, a part that is not told."""
    parts = np.hstack([np.zeros((6, 1)), np.repeat(SIX[:3], 2, axis=0)])
    before = answer_of(parts)
    errors = tp.estimators.uncertainty.Errors(before.std_error, np.nan, np.nan, 0.0, 0.0, skewing=1.5)
    before = dataclasses.replace(before, std_errors=1.5 * before.std_errors, errors=errors)
    after = with_shared_starts(before, [0, 0, 1, 1, 2, 2])
    alone = uncertainty_of_mean(SIX[:3]).std_error[0]
    np.testing.assert_allclose(after.std_errors, [0.0, 1.5 * alone], rtol=1e-12)
    assert after.errors is not None
    assert after.errors.families == pytest.approx(alone, rel=1e-12)


def test_a_run_knows_the_families_of_its_chains(tmp_path):
    """From the particles that climbed, through the tempered stages, to what `estimate` reports.

    Kills: families that are lost on the way or in a checkpoint, chains at the base that are said to share a start.
    """
    rng = np.random.default_rng(1)
    rbm = tp.RBM(rng.normal(0, 0.8, (6, 4)), rng.normal(size=6), rng.normal(0.5, 1.0, 4))
    how = {"num_chains": 30, "num_rungs": 6, "num_sweeps": 40, "seed": 3}
    job = Job(rbm, None, Settings(**how))
    *_, stage = walk_stages(job.warmup, job.setup(), job.keep)
    assert stage.families is not None
    assert len(stage.families) == 30
    assert len(set(stage.families)) > 1
    plain = tp.estimators.auto(stage.complete_recording, log_z_base=job.ladder.path.log_z_base())
    expected = with_shared_starts(plain, stage.families)
    found = tp.estimate(rbm, out=tmp_path, watch=lambda seen: seen.stage == "sampling", chunk_sweeps=10, **how)
    assert not found.is_complete
    found = tp.estimate(rbm, out=tmp_path, resume=True, **how)
    assert found.std_error == expected.std_error
    errors = found.log_z_by_rung.errors
    assert errors is not None
    assert errors.families == expected.errors.families
    at_base = dataclasses.replace(stage, kind=Sampling(has_whole_tours=True))
    assert at_base.families is None


def test_particles_of_one_family_are_told_apart_from_others():
    """Guards the bookkeeping: a state that is kept has the family of the particle that it was."""
    from tempering.stats import ClimbSteps
    from tempering.warmups.population import Population

    x = np.arange(4.0)[:, None]
    steps = ClimbSteps(np.log([[1.0], [1.0], [1.0], [61.0]]), np.zeros(4), np.zeros(4, np.int64))
    past, there = Population.at_base(x).climbed(np.ones(1), steps).resampled(x, 0.5, 0.5)
    past = past.keeping(there, 0.5)
    states, families = past.states_near(np.array([0.0, 0.0, 1.0, 1.0]))
    np.testing.assert_array_equal(states[:, 0], families)
    assert set(families[2:]) == {3}
