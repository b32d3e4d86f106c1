"""A run whose time is up: when that is so, and what is left out then."""

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.api import clock as clock_module
from tempering.api import estimation
from tempering.api.clock import Clock
from tempering.sampling import AbstractStageKind, Sampling
from tempering.warmups.population import Population
from tempering.warmups.sequential import AtBase, Climbing, Correcting, SequentialStart

RBM = tp.RBM(np.random.default_rng(1).normal(0, 0.8, (6, 4)), np.zeros(6), np.zeros(4))
DENSITY = tp.LogDensity(lambda x: -jnp.sum((x - 0.5) ** 2), tp.Normal(jnp.zeros(2), 1.0))
HOW = {"num_chains": 20, "num_rungs": 6, "seed": 3, "num_sweeps": 48}


AT_BASE, CORRECTING, SAMPLING = AtBase(), Correcting(), Sampling()
CLIMBING = Climbing(Population.at_base(np.zeros((1, 2))), None)


@pytest.mark.parametrize(
    ("looks", "is_up"),
    [
        pytest.param([(4.9, SAMPLING, 100)], False, id="not yet"),
        pytest.param([(5.0, SAMPLING, 100)], True, id="up"),
        pytest.param([(5.0, SAMPLING, 0)], False, id="sampling that has not begun: there would be no answer"),
        pytest.param([(2.9, AT_BASE, 0)], False, id="2.9 + 2 × 2.9 < 9"),
        pytest.param([(3.1, AT_BASE, 0)], True, id="3.1 + 2 × 3.1 > 9"),
        pytest.param([(0.5, AT_BASE, 0), (1, CLIMBING, 0), (3.5, CLIMBING, 6)], False, id="climbing in time"),
        pytest.param([(0.5, AT_BASE, 0), (1, CLIMBING, 0), (3.5, CLIMBING, 6), (4.2, CLIMBING, 0)], False, id="known"),
        pytest.param([(0.5, AT_BASE, 0), (1, CLIMBING, 0), (3.5, CLIMBING, 6), (3.9, CORRECTING, 0)], False, id="8.9"),
        pytest.param([(0.5, AT_BASE, 0), (1, CLIMBING, 0), (3.5, CLIMBING, 6), (4.1, CORRECTING, 0)], True, id="9.1"),
    ],
)
def test_a_program_that_would_end_too_late_is_not_begun(monkeypatch, looks, is_up):
    """A limit of 5 s, and twice that at most with what is under way. The longest stretch is the guess for a new one.

    Kills: a clock that does not look ahead, one that does so where the program is compiled already, one that leaves out
    what must not be, the last stretch for the longest one.
    """
    now = [0.0]
    monkeypatch.setattr(clock_module.time, "perf_counter", lambda: now[0])
    clock = Clock(5.0)
    for seconds, kind, done in looks:
        now[0] = seconds
        found = clock.is_up(kind, done)
    assert found == is_up
    assert clock.seconds == looks[-1][0]


def test_a_run_without_a_limit_is_never_late():
    """Kills: a limit of 0 for none."""
    clock = Clock(None)
    assert not clock.is_up(SAMPLING, 10**9)


class UpBefore(Clock):
    """Says that the time is up before the first stage of one kind."""

    kind: type[AbstractStageKind] = AtBase

    def is_up(self, kind: AbstractStageKind, done: int) -> bool:
        return done == 0 and isinstance(kind, self.kind)


@pytest.mark.parametrize("model", [RBM, DENSITY], ids=["RBM", "density"])
@pytest.mark.parametrize("kind", [AtBase, Climbing, Correcting])
def test_what_there_is_no_time_for_is_left_out(monkeypatch, tmp_path, model, kind):
    """Kills: a stage without steps that is walked, one whose record is looked for, a cut that is not told.

    A run that is resumed is the whole one, to the bit.
    """
    monkeypatch.setattr(estimation, "Clock", type("UpBefore", (UpBefore,), {"kind": kind}))
    late = tp.estimate(model, out=tmp_path, max_seconds=60, **HOW)
    assert late.is_complete
    assert late.num_sweeps == 1
    assert (late.num_warmup_sweeps == 0) == (kind is not Correcting)
    assert np.isfinite(late.log_z)
    assert "no chain was tempered" in " ".join(finding.seen for finding in late.diagnosis.findings)
    assert late.verdict is not tp.Verdict.GOOD
    monkeypatch.undo()
    again, whole = tp.estimate(model, out=tmp_path, resume=True, **HOW), tp.estimate(model, **HOW)
    assert (again.log_z, again.std_error) == (whole.log_z, whole.std_error)


def test_a_late_run_with_a_goal_ends_too(monkeypatch):
    """Kills: states that stand and are weighed again and again, until their error is small."""
    monkeypatch.setattr(estimation, "Clock", UpBefore)
    late = tp.estimate(DENSITY, num_chains=20, num_rungs=6, seed=3, target_error=1e-3, max_seconds=60)
    assert late.is_complete
    assert late.num_sweeps == 1


def test_an_answer_without_tempered_chains_claims_no_more_than_its_particles(monkeypatch):
    """A normal of scale 0.01 in ten dimensions, seen from scale 1: one draw of the base has all of the weight.

    Kills: the scatter of copies of that draw for the error, 1 where the answer is thousands of nats off; no bias.
    """
    monkeypatch.setattr(estimation, "Clock", UpBefore)
    narrow = tp.LogDensity(lambda x: -0.5 * jnp.sum((x / 0.01) ** 2), tp.Normal(jnp.zeros(10), 1.0))
    late = tp.estimate(narrow, max_seconds=60, **HOW)
    assert late.annealed.num_families < 2
    off = abs(late.log_z - 5 * np.log(2 * np.pi * 0.01**2))
    assert 100 < off < 2 * late.std_error
    assert late.log_z_by_rung.std_errors[0] == 0


def test_stages_without_steps_do_not_count():
    """Guards the bits: the number of a stage is part of its random key."""
    job = estimation.Job(DENSITY, None, estimation.Settings(**HOW))
    first = SequentialStart().first(job.setup())
    second = SequentialStart().after(job.setup(), first)
    assert (first.number, first.num_steps, first.is_finished) == (0, 0, True)
    assert isinstance(second.kind, Climbing)
    assert second.number == 0


@pytest.mark.parametrize("move", [None, tp.RandomWalk()], ids=["HMC", "random walk"])
def test_draws_of_the_base_are_weighed_where_there_is_no_time_for_a_step(monkeypatch, move):
    """f is 3 times the base here, and everything is exact: each weight is 3.

    Kills: weights of the base itself, weights that count twice, the log Z of the base left out.
    """
    base = tp.Normal(jnp.zeros(2), 2.0)
    model = tp.LogDensity(lambda x: base.log_density(x) + jnp.log(3.0), base)
    monkeypatch.setattr(estimation, "Clock", UpBefore)
    late = tp.estimate(model, move=move, max_seconds=60, **HOW)
    assert late.annealed is not None
    assert late.annealed.log_z == pytest.approx(np.log(3.0), abs=1e-5)
    assert late.annealed.std_error == pytest.approx(0.0, abs=1e-6)
    assert late.log_z == pytest.approx(np.log(3.0), abs=1e-5)


def test_weights_at_the_base_are_those_of_importance_sampling(monkeypatch):
    """log Z is the log of the mean weight of the draws; some of these are kept in proportion to their weights."""
    monkeypatch.setattr(estimation, "Clock", UpBefore)
    late = tp.estimate(DENSITY, max_seconds=60, **HOW)
    job = estimation.Job(DENSITY, None, estimation.Settings(**HOW))
    x = np.asarray(SequentialStart().first(job.setup()).states.x, np.float64)
    log_weights = -np.sum((x - 0.5) ** 2, axis=1) + np.sum(x**2, axis=1) / 2 + np.log(2 * np.pi)
    assert late.annealed.log_z == pytest.approx(np.log(np.mean(np.exp(log_weights))), abs=1e-5)
