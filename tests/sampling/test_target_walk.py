"""Chains that walk at the target alone: when they do, that they stay there and keep its law, and what is made of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from tempering.api.job import Job
from tempering.api.settings import Settings
from tempering.sampling import drive, target_walk
from tempering.sampling.target_walk import walk_at_target

SETTINGS = Settings(num_chains=60, num_sweeps=100, num_rungs=12)


def ended(model, **keep):
    """A run at its end, and what it was made of."""
    job = Job(model, None, SETTINGS, **keep)
    stages = dict(drive(job.warmup, [job.setup()], job.keep))
    return job, stages[0]


def _log_student(x):
    return -1.25 * jnp.sum(jnp.log1p(x**2 / 1.5))


def student() -> tp.LogDensity:
    """Student's t with one and a half degrees of freedom under a normal base. One function, compiled once."""
    return tp.LogDensity(_log_student, tp.Normal(jnp.zeros(3), 2.0))


@pytest.fixture(scope="module")
def light():
    return ended(student())


@pytest.fixture(scope="module")
def wide():
    return ended(tp.LogDensity(lambda x: -2 * jnp.sum((x - 0.3) ** 2), tp.Normal(jnp.zeros(3), 2.0)))


def test_a_light_base_is_found_and_a_wide_one_costs_nothing(light, wide):
    """Kills: a walk for every run, one that is not counted, a finding that is not reported."""
    job, stage = light
    assert stage.tails is not None
    assert tp.Verdict.HEAVY_TAILS in {finding.verdict for finding in job.result(stage, 0.0).diagnosis.findings}
    without = dataclasses.replace(stage, tails=None)
    here = stage.kernel.evaluations(stage.ladder.path).times(60 * 750)
    assert sum(stage.spent().evaluations) - sum(without.spent().evaluations) == sum(here)
    job, stage = wide
    assert stage.tails is None
    assert tp.Verdict.HEAVY_TAILS not in {finding.verdict for finding in job.result(stage, 0.0).diagnosis.findings}


def test_further_sweeps_forget_the_walk(light):
    _, stage = light
    assert stage.after_block(stage.done + 1, stage.states, stage.recording).tails is None


def test_chains_stay_at_the_target_and_keep_its_law(wide, monkeypatch):
    """From draws of N(0.3, ¼) in three dimensions, made to walk: ‖2(x − 0.3)‖² has mean 3. Kills: another rung."""
    job, stage = wide
    rng = np.random.default_rng(2)
    draws = dataclasses.replace(
        stage.recording.states, x=(0.3 + rng.normal(0, 0.5, (60, 40, 3))).astype(np.float32),
        log_weights=np.zeros((60, 40)), rungs=np.zeros((60, 40), np.int32), log_rises=None,
    )  # fmt: skip
    monkeypatch.setattr(type(draws), "skewness_of_rises", property(lambda self: 1.0))
    seen = []
    record = stage.empty_record(job.keep)
    monkeypatch.setattr(type(record), "on_host", _spying(type(record).on_host, seen))
    walk = walk_at_target(jax.random.key(3), stage.ladder, stage.kernel, record, draws, 60)
    (last,) = seen
    assert np.all(last.states.rungs == stage.ladder.path.num_rungs - 1)
    np.testing.assert_array_equal(walk.log_rises, last.states.log_rises)
    np.testing.assert_array_equal(walk.rises_apart, last.states.log_rises[:, ::50])
    squares = np.sum(4 * (last.states.x - 0.3) ** 2, axis=-1)
    checks.assert_mean(squares.mean(axis=1), 3.0)  # one number a chain


def _log_funnel(x):
    """v = x₀ ~ N(0, 3²), and three x ~ N(0, e^v)."""
    return -0.5 * (x[0] / 3) ** 2 - 1.5 * x[0] - 0.5 * jnp.exp(-x[0]) * jnp.sum(x[1:] ** 2)


def test_steps_of_other_lengths_get_into_a_neck(monkeypatch):
    """From the wide half of a funnel, with steps that are far too long for the other. Kills: the run's steps alone."""
    job, stage = ended(
        tp.LogDensity(_log_funnel, tp.Student(2.0, jnp.zeros(4), 3.0), move=tp.HMC(2.0, num_leaps=5)), keep_draws=True
    )
    rng = np.random.default_rng(7)
    v = np.abs(rng.normal(0, 3, (60, 40, 1)))
    x = np.concatenate([v, np.exp(v / 2) * rng.normal(size=(60, 40, 3))], axis=2, dtype=np.float32)
    draws = dataclasses.replace(
        stage.recording.states, x=x,
        log_weights=np.zeros((60, 40)), rungs=np.zeros((60, 40), np.int32), log_rises=rng.exponential(size=(60, 40)),
    )  # fmt: skip
    seen = []
    record = stage.empty_record(job.keep)
    monkeypatch.setattr(type(record), "on_host", _spying(type(record).on_host, seen))
    for varied in (0.2, target_walk._VARIED):
        monkeypatch.setattr(target_walk, "_VARIED", varied)
        walk_at_target(jax.random.key(3), stage.ladder, stage.kernel, record, draws, 60)
    of_its_own, of_all_lengths = (np.mean(kept.states.x[..., 0] < 0) for kept in seen)
    assert of_its_own < 0.1
    assert 0.3 < of_all_lengths < 0.7  # a half where they have forgotten where they began


def _spying(original, seen):
    def on_host(self):
        found = original(self)
        seen.append(found)
        return found

    return on_host


def test_moves_that_are_never_rejected_and_runs_without_draws_have_no_walk():
    """Kills: a walk of lattices, whose states are bounded; a run that kept no states."""
    _, stage = ended(tp.Ising.square(3, 3, 0.3), keep_draws=True)
    assert stage.recording.states is not None
    assert stage.tails is None
    _, stage = ended(student(), keep_draws=False)
    assert stage.tails is None


def test_every_door_looks_at_the_tails():
    """`compare` and `estimate_many` call it as `estimate` does. Kills: states that are not kept there."""
    model = student()
    shape = {"num_chains": 60, "num_sweeps": 100, "num_rungs": 12}
    (many,) = tp.estimate_many(model, seeds=[0], **shape)
    compared = tp.compare(model, methods=("auto",), **shape)
    alone = tp.estimate(model, **shape)
    assert many.verdict is compared.entries[0].verdict is alone.verdict is tp.Verdict.HEAVY_TAILS
