"""What a call with nothing but a model does: how long it runs, on how many rungs, and how it ends when time is up."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from densities import NarrowNormal
from tempering.diagnosis import Goal
from tempering.diagnosis.stopping import first_look
from tempering.ladder import PathLength
from tempering.ladder.step_lengths import LONGEST_STEP
from tempering.verdicts import Verdict
from tempering.warmups import Tuned

SPREADS, CENTER = np.array([0.5, 1.5, 0.2]), np.array([1.0, -2.0, 0.5])


def small_rbm() -> tp.RBM:
    rng = np.random.default_rng(1)
    return tp.RBM(rng.normal(0, 0.8, (6, 4)), rng.normal(size=6), rng.normal(0.5, 1.0, 4))


def _log_f(x):
    """Three independent normals off the centre of the base; log Z is known."""
    return -0.5 * jnp.sum(((x - CENTER) / SPREADS) ** 2)


def small_density() -> tp.LogDensity:
    return tp.LogDensity(_log_f, tp.Normal(jnp.zeros(3), 2.0))


LOG_Z = float(np.sum(np.log(SPREADS)) + 1.5 * np.log(2 * np.pi))
CASES = {"rbm": (small_rbm, small_rbm().exact_log_z()), "density": (small_density, LOG_Z)}


# Nothing but a model.


@pytest.mark.parametrize(("root_kl", "look"), [(0.0, 64), (5.0, 64), (10.0, 210), (30.1, 1903), (np.inf, 1000)])
def test_the_first_look_grows_with_the_square_of_the_length(root_kl, look):
    """2.1 × 30.1² = 1902.6. Kills: another factor, no square, no least length, rounding down."""
    length = PathLength(root_kl=root_kl, barrier=1.0, longest_step=1.0)
    assert first_look(length) == look
    assert Goal.from_settings(None, None, None, length) == Goal(0.1, max(5000, 40 * look))
    assert first_look(None) == 1000


@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_when_its_error_is_small_and_nothing_is_wrong(case):
    """Guards the promise of the first page. Kills: another target, a note without a length, evaluations of one chain or
    of sampling alone, gradients where there are none."""
    (make, truth), notes = CASES[case], []
    result = tp.estimate(make(), watch=lambda progress: notes.append((progress.stage, progress.note)))
    assert result.std_error <= 0.1
    assert result.target_error == 0.1
    assert result.verdict.is_good, result.diagnosis.findings
    checks.assert_within(result.log_z, truth, result.std_error)
    look = max(64, int(np.ceil(2.1 * result.length.root_kl**2)))
    assert result.num_sweeps >= look
    length = f"the ladder is {result.length.root_kl:.0f} long: about {look} sweeps, at most {max(5000, 20 * look)}"
    assert {note for stage, note in notes if stage == "sampling"} == {length}
    assert {note for stage, note in notes if stage == "climbing"} == {""}  # not known yet
    num_steps = result.num_chains * (result.num_sweeps + result.num_warmup_sweeps)
    spent, about = result.evaluations, result.to_dict()
    if case == "rbm":
        assert spent.gradients == 0
        assert spent.densities >= num_steps
    else:
        assert spent.gradients > num_steps  # some leaps each
        assert spent.densities >= 0
    assert about["num_density_evaluations"] == spent.densities
    assert about["num_gradient_evaluations"] == spent.gradients


def test_evaluations_are_those_that_the_density_saw():
    """Random walks of 3 steps, whose parts are known: 4 densities a move, one for the rungs, and rays at the end."""
    move = tp.RandomWalk(0.5, num_steps=3)
    result = tp.estimate(small_density(), move=move, num_chains=20, num_sweeps=32, num_rungs=6, warmup="iterations")
    num_steps = 20 * (32 + result.num_warmup_sweeps)
    each = move.evaluations
    assert (each.densities, each.gradients) == (4, 0)
    assert (result.evaluations.densities, result.evaluations.gradients) == (5 * num_steps + 2 * 60 * 51, 0)


# The least number of rungs is also seen in test_spacing.py, and that it is 100 in test_tuning.py.
@pytest.mark.parametrize(("width", "is_long"), [pytest.param(1.0, False, marks=pytest.mark.slow), (1e-5, True)])
def test_a_long_ladder_gets_more_rungs_than_a_hundred(width, is_long):
    """50 normals that narrow by a factor s: the length in √KL is √(2 × 50) log s, 11 for s = 3 and 126 for s = 3e5.

    Kills: a number that is fixed at 100, one that falls below it, one that is chosen although it was given.
    """
    model = tp.LogDensity(NarrowNormal(jnp.float32(width)), tp.Normal(jnp.zeros(50), 3.0))
    quick = tp.SequentialStart(step_length=0.5, equilibration=0.01)
    how = {"num_sweeps": 8, "num_chains": 20, "seed": 2, "warmup": quick}
    result = tp.estimate(model, **how)
    assert (result.num_rungs > 100) == is_long
    assert result.num_rungs >= 100
    assert result.length.longest_step <= LONGEST_STEP
    if is_long:
        assert result.length.root_kl / 99 > LONGEST_STEP  # a hundred would not have done
        late = {"max_seconds": 1e-3}  # the ladder is as long for a pass that takes two stretches
        assert tp.estimate(model, num_rungs=100, **how | late).num_rungs == 100


# Time that is up before the first draw that counts.

HOW = {"num_chains": 20, "num_rungs": 6, "seed": 3, "num_sweeps": 48}
LATE = {
    "sequential": (small_rbm, tp.SequentialStart()),
    "sequential, tuned": (small_density, tp.SequentialStart()),
    "annealed": (small_rbm, tp.AnnealedStart(24, (40, 80))),
    "hysteresis": (small_rbm, tp.HysteresisStart(8, 2, (40,))),
    "iterations": (small_rbm, tp.InitialIterations(steps=40, max_iterations=5, min_iterations=5)),
    "sams": (small_rbm, tp.SelfAdjusting(num_steps=200)),
    "tuned": (small_density, Tuned(tp.AnnealedStart(24, (40, 80)))),
}


@functools.cache
def whole_run(name) -> tp.Result:
    """The run to whose end nobody looks at a clock."""
    make, warmup = LATE[name]
    return tp.estimate(make(), warmup=warmup, **HOW)


@pytest.mark.parametrize("asked", [{}, {"target_error": 1e-3}], ids=["fixed length", "target"])
@pytest.mark.parametrize(
    "name",  # the steps of a move are also tuned while climbing; what hysteresis walks is an annealing pass
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ("tuned", "hysteresis"))) for name in LATE],
)
def test_time_that_is_up_in_the_warm_up_cuts_it_short(name, asked):
    """Kills: a clock that waits for sampling, half an annealing pass taken for a whole one, a cut that is not told."""
    make, warmup = LATE[name]
    whole = whole_run(name)
    late = tp.estimate(make(), warmup=warmup, max_seconds=1e-3, **HOW | asked)
    assert late.num_warmup_sweeps < whole.num_warmup_sweeps
    assert 0 < late.num_sweeps < 48
    assert late.is_complete
    assert np.isfinite(late.log_z)
    assert Verdict.SHORT in {finding.verdict for finding in late.diagnosis.findings}
    assert list(Verdict).index(late.verdict) >= list(Verdict).index(Verdict.SHORT)
    if name.startswith("sequential"):  # nothing is compiled for a few sweeps: the particles are the answer
        assert late.num_sweeps == 1
        assert "no chain was tempered" in " ".join(finding.seen for finding in late.diagnosis.findings)


@pytest.mark.parametrize(
    "name", ["sequential, tuned", "annealed", pytest.param("hysteresis", marks=pytest.mark.slow), "iterations"]
)
def test_a_warm_up_that_was_cut_short_is_resumed_as_if_it_had_not_been(tmp_path, name):
    """Guards the bits against the clock: what a late warm-up hurried through is not what a resumed run goes on from."""
    make, warmup = LATE[name]
    whole = whole_run(name)
    late = tp.estimate(make(), warmup=warmup, max_seconds=1e-3, out=tmp_path, **HOW)
    assert late.num_sweeps < 48
    again = tp.estimate(make(), warmup=warmup, max_seconds=1e6, out=tmp_path, resume=True, **HOW)
    assert (again.log_z, again.std_error, again.num_warmup_sweeps) == (
        whole.log_z,
        whole.std_error,
        whole.num_warmup_sweeps,
    )
    np.testing.assert_array_equal(again.recording.transition_counts, whole.recording.transition_counts)
