"""Whole tours: chains that begin at the base are walked on until they are there again, and short runs have no bias."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from checks import assert_within
from exact import log_z
from tempering.api.job import Job
from tempering.api.settings import Settings
from tempering.diagnosis import open_tours
from tempering.estimators import equilibrated_rts, find_equilibration, rts
from tempering.sampling import Sampling, Setup, Stage, finishing, run_chains
from tempering.stats import Keep, TemperingRecord
from tempering.verdicts import Verdict

RBM = tp.RBM(
    np.array([[5.5, -2.0], [3.5, 4.3], [-5.7, 3.9]]), np.array([0.4, -3.4, 1.2]), np.array([-2.1, -2.8])
)  # fmt: skip
LADDER = tp.Ladder.create(RBM.path("uniform", np.linspace(0, 1, 8)))
NUM_CHAINS, NUM_STEPS = 2000, 3  # too short for a chain to have been at the target as often as it should
KEEP = Keep(steps=True, bridges=True, expect=lambda x: x.v)


def sampling(num_chains: int = NUM_CHAINS, num_steps: int = NUM_STEPS) -> Stage:
    """A stage of whole tours, about to begin; the states are of no base, and need not be."""
    x = jax.vmap(LADDER.path.sample_base)(jax.random.split(jax.random.key(1), 1))
    states = tp.Position(
        jax.tree.map(lambda leaf: jnp.repeat(leaf, num_chains, axis=0), x), jnp.zeros(num_chains, jnp.int32)
    )
    return Stage.first(Sampling(True), LADDER, tp.SimulatedTempering(tp.BlockGibbs()), states, num_steps)


@pytest.fixture(scope="module")
def finished() -> Stage:
    *_, stage = sampling().walk(jax.random.key(7), KEEP)
    return stage.with_tours_finished(jax.random.key(7), KEEP)


def test_a_short_run_of_whole_tours_has_no_bias(finished):
    # Kills: no rest, a rest that ends one draw early or late, rests added to other chains, a cut transient.
    truth = log_z(LADDER.path)
    answer = equilibrated_rts(finished.complete_recording, log_z_base=truth[0])
    assert_within(answer.values[1:], truth[1:], answer.std_errors[1:])
    cut_short = rts(finished.recording.stats, log_z_base=truth[0])
    with pytest.raises(AssertionError):
        assert_within(cut_short.values[-1], truth[-1], cut_short.std_error)


def test_the_rest_are_the_steps_that_the_run_would_take_next(finished):
    # Kills: other keys, steps counted from 0, a batch that mixes up chains, chains at home that move on.
    longer = sampling()
    record = TemperingRecord.empty(LADDER, any_range=False)
    key = jax.random.fold_in(jax.random.key(7), longer.number)
    walked = run_chains(
        key, LADDER, longer.kernel, record, longer.states, num_steps=250, block_steps=250
    )  # fmt: skip
    rungs = np.asarray(next(iter(walked)).record.trace.rungs)
    num_rest = np.argmax(rungs[:, NUM_STEPS - 1 :] == 0, axis=1)  # 0 for chains that are at the base already
    assert num_rest.max() > 20
    by_team = np.add.reduceat(num_rest, np.arange(0, NUM_CHAINS, -(-NUM_CHAINS // finished.recording.stats.num_chains)))
    assert finished.rest is not None
    np.testing.assert_array_equal(finished.rest.recording.stats.num_draws[:, 0], by_team)
    assert finished.rest.num_open == 0
    assert finished.spent().evaluations.densities >= NUM_CHAINS * NUM_STEPS + num_rest.sum()


def test_nothing_is_cut_from_whole_tours_and_all_of_them_count(finished):
    whole = finished.complete_recording
    assert find_equilibration(whole.stats).first_block == 0
    assert np.all(find_equilibration(whole.stats).drift == 0)
    assert whole.tours.count.sum() == finished.recording.tours.count.sum() + NUM_CHAINS
    np.testing.assert_allclose(
        whole.tours.total.sum(axis=0), np.exp(whole.stats.log_sums[:, :, [0, -1]]).sum(axis=(0, 1)), rtol=1e-4
    )
    weight = whole.target.weight.sum()
    np.testing.assert_allclose(weight, np.exp(whole.stats.log_sums[:, :, -1]).sum(), rtol=1e-4)
    assert finished.diagnosis(0.0).round_trips_per_chain < 1  # fewer are enough: no chain remembers its start
    assert not finished.diagnosis(0.0).found(Verdict.STUCK)


def test_tours_that_are_cut_short_are_reported(monkeypatch, finished):
    monkeypatch.setattr(finishing, "_MOST_AT_LEAST", 1)
    monkeypatch.setattr(finishing, "_MOST_TIMES", 1)
    *_, stage = sampling().walk(jax.random.key(7), KEEP)
    assert stage.diagnosis(0.0).found(Verdict.RELAXING)  # where nothing was walked on
    few = stage.with_tours_finished(jax.random.key(7), KEEP)
    assert few.rest is not None
    assert 0 < few.rest.num_open < NUM_CHAINS
    assert few.diagnosis(0.0).found(Verdict.STUCK)
    assert open_tours(0, 10) is None
    further = dataclasses.replace(finished, num_steps=NUM_STEPS + 1)
    *_, further = further.walk(jax.random.key(7), KEEP)
    assert further.rest is None  # it belonged to the steps before


@pytest.mark.parametrize(("num_chains", "num_steps", "may", "begins"), [
    (129, 100, True, True), (128, 100, True, False), (129, 100, False, False), (129, 1, True, False),
])  # fmt: skip
def test_many_chains_begin_at_the_base(num_chains, num_steps, may, begins):
    # Kills: fewer chains, runs that keep single draws, or runs that are too short to cross the ladder, begun so.
    setup = Setup(
        jax.random.key(0), LADDER, tp.BlockGibbs(), num_chains, num_steps, may_begin_at_base=may
    )  # fmt: skip
    stage = sampling(num_chains).with_found(length=tp.ladder.PathLength(1.0, 5.0, 1.0))
    states = dataclasses.replace(stage.states, rung=jnp.full(num_chains, 3, jnp.int32))
    begun = setup.sampling_after(stage, LADDER, states)
    assert begun.kind.has_whole_tours is begins
    assert np.all(np.asarray(begun.states.rung) == (0 if begins else 3))


def test_a_resumed_run_walks_the_same_tours(tmp_path):
    # Kills: a run that is resumed at its end without the rest of its tours, or with a rest that is counted twice.
    settings = {"num_chains": 200, "num_rungs": 4, "num_sweeps": 20, "progress": False, "out": tmp_path / "run"}
    whole = tp.estimate(RBM, "uniform", **settings)
    assert whole.recording.stats.has_whole_tours
    assert whole.num_sweeps == 20 < whole.recording.stats.num_sweeps
    again = tp.estimate(RBM, "uniform", resume=True, **settings)
    assert (again.log_z, again.std_error) == (whole.log_z, whole.std_error)


@pytest.mark.parametrize(
    ("method", "keep_draws", "may"), [("auto", False, True), ("auto", True, False), ("mbar", False, False)]
)
def test_runs_that_keep_single_draws_do_not_begin_at_the_base(method, keep_draws, may):
    job = Job(RBM, "uniform", Settings(method=method), keep_draws=keep_draws)
    assert job.setup().may_begin_at_base is may
