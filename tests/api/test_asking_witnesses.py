"""Witnesses of a run: a mode that it missed is named with its mass, and what matters to nobody raises no alarm."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from tempering import Verdict
from tempering.kernels import HMC
from tempering.ladder import Ladder
from tempering.sampling import walk_home

OTHER = np.array([[12.0, 0.0]])
SHARE = 0.4  # of the mass, in the mode that the base does not see
SETTINGS = {"num_chains": 100, "num_rungs": 20, "num_sweeps": 150}


def log_f(x):
    first, other = -0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - OTHER[0]) ** 2)
    return jnp.logaddexp(first + jnp.log(1 - SHARE), other + jnp.log(SHARE)) - jnp.log(2 * jnp.pi)


MODEL = tp.LogDensity(log_f, tp.Normal(jnp.zeros(2), 1.2))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def missed(directory) -> tp.Result:
    """A run that saw one of two modes, and was told of the other."""
    return tp.estimate(MODEL, **SETTINGS, witnesses=OTHER, out=directory)


def test_a_missed_mode_is_named_with_its_mass(missed):
    """0.1 is 3 errors of the second run. Kills: no finding; the mass of the first mode."""
    check = missed.witnesses
    assert missed.verdict is Verdict.MISSED
    assert check.away.num_away == check.away.num_chains == 50
    assert check.own_away.share < 0.05
    assert abs(check.missing.share - SHARE) < 0.1
    assert check.missing.low < SHARE < check.missing.high
    assert abs(missed.log_z - np.log(1 - SHARE)) < 0.1  # what it knows
    assert f"about {check.missing.share:.2g} of the mass is missing" in missed.diagnosis.findings[0].seen


def test_what_witnesses_show_takes_the_place_of_what_rays_found(missed):
    """A run without witnesses may be `MISSED` too, and its finding says less. Kills: the one that came first."""
    peak = tp.diagnosis.Finding(Verdict.MISSED, "rays find a peak", "pass its place as a witness")
    short = tp.diagnosis.Finding(Verdict.SHORT, "too short", "run longer")
    before = dataclasses.replace(missed, diagnosis=dataclasses.replace(missed.diagnosis, findings=(peak, short)))
    found = {finding.verdict: finding for finding in before.with_witnesses(missed.witnesses).diagnosis.findings}
    assert set(found) == {Verdict.MISSED, Verdict.SHORT}
    assert "of the mass is missing" in found[Verdict.MISSED].seen


def test_a_saved_check_is_the_same_again(missed, directory):
    """Kills: a check that is left out of a file, or that JSON cannot hold."""
    assert tp.load_result(directory).witnesses == missed.witnesses
    told = json.loads((directory / "result.json").read_text())["witnesses"]
    assert told["missing"]["share"] == missed.witnesses.missing.share
    assert told["away"] == {"num_away": 50, "num_chains": 50}


def test_a_finished_run_can_be_asked_again(missed, directory):
    """States far out, one of the known mode, an impossible one. Kills: alarms of those, a run that is sampled again."""
    again = tp.estimate(MODEL, **SETTINGS, out=directory, resume=True, witnesses=OTHER)
    assert again.witnesses == missed.witnesses
    far = tp.estimate(MODEL, **SETTINGS, out=directory, resume=True, witnesses=[[-40.0, 25.0], [0.0, 0.0]])
    assert far.log_z == missed.log_z
    assert far.verdict is Verdict.GOOD
    assert far.witnesses.away.num_away == 0
    assert far.witnesses.missing is None
    never = tp.estimate(MODEL, **SETTINGS, out=directory, resume=True, witnesses=[[1e30, 0.0]])
    assert never.verdict is Verdict.GOOD
    assert (never.witnesses.num_impossible, never.witnesses.away) == (1, None)


def test_a_run_that_is_stopped_is_not_asked():
    stopped = tp.estimate(MODEL, **SETTINGS, chunk_sweeps=10, witnesses=OTHER, watch=lambda p: p.stage == "sampling")
    assert not stopped.is_complete
    assert stopped.witnesses is None


@pytest.mark.slow  # the density above misses a mode too, and rows of an RBM are its states below
def test_rows_of_an_rbm():
    """All on or all off, from a base of the second. Kills: a second run from the wrong base, or with the wrong rows."""
    rbm = tp.RBM(np.full((16, 4), 1.6), np.full(16, 0.05 - 2 * 1.6), np.full(4, -8 * 1.6))
    found = tp.estimate(rbm, np.full(16, 0.02), num_sweeps=300, num_rungs=20, witnesses=np.ones((1, 16)))
    assert found.verdict is Verdict.MISSED
    mass = found.witnesses.missing
    checks.assert_within(mass.log_z, np.log(np.exp(rbm.exact_log_z()) - np.exp(found.log_z)), mass.std_error)
    assert mass.low < mass.share < mass.high
    assert mass.high - mass.low < 0.2


ISING, POTTS = tp.Ising.square(2, 2, 0.3), tp.Potts.square(3, 2, 2, 0.3)
RBM = tp.RBM(np.zeros((3, 2)), np.zeros(3), np.zeros(2))


@pytest.mark.parametrize(("model", "rows"), [
    (MODEL, np.zeros((4, 3))), (MODEL, np.zeros(2)), (MODEL, np.zeros((0, 2))), (MODEL, [[np.nan, 0.0]]),
    (MODEL, [[np.inf, 0.0]]), (MODEL, [["a", "b"]]), (MODEL, [[1.0], [1.0, 2.0]]), (MODEL, 3.0), (MODEL, "rows.npz"),
    (MODEL, {"x": np.zeros((1, 2))}), (MODEL, [[1j, 0.0]]),
    (RBM, np.zeros((1, 4))), (RBM, np.full((1, 3), 0.5)), (RBM, [[np.nan, 0.0, 1.0]]),
    (ISING, np.zeros((1, 4))), (ISING, np.ones(4)), (POTTS, np.full((1, 4), 3)),
    (tp.models.JointRBM(RBM), np.zeros((1, 3))),
])  # fmt: skip
def test_what_cannot_be_a_state_is_refused_at_the_door(model, rows):
    """Kills: a check that waits for the end of the run, an error of another library."""
    with pytest.raises(tp.InputError, match=r"`witnesses` must be states of the model, one in each row\. \w.*\.$"):
        tp.estimate(model, witnesses=rows)


def test_others_do_not_ignore_them():
    with pytest.raises(tp.InputError, match=r"no argument `witnesses`\. That is for `estimate`"):
        tp.compare(MODEL, witnesses=OTHER)
    with pytest.raises(tp.InputError, match=r"no argument `witnesses`.*use `estimate`"):
        tp.estimate_many(MODEL, seeds=[1], witnesses=OTHER)


@pytest.mark.parametrize("model", [ISING, POTTS, RBM, MODEL, tp.Gaussian([1.0, 2.0])])
def test_rows_and_states_are_the_same(model):
    """Kills: rows in another order, or of another part of a state."""
    path = model.path(None, np.array([0.0, 0.5, 1.0]))
    x = jax.jit(jax.vmap(path.sample_base))(jax.random.split(jax.random.key(1), 5))
    rows = model.rows_of(x)
    back = model.states_of(path, rows)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(x), strict=True))
    same, base = model.based_at(path, rows, rows)
    again = same.path(base, np.array([0.0, 0.5, 1.0]))
    one, last = jax.tree.map(lambda leaf: leaf[0], x), jnp.int32(2)
    np.testing.assert_allclose(again.log_density(one, last), path.log_density(one, last), rtol=1e-5)


def test_chains_stop_at_the_base_and_do_not_depend_on_their_company():
    """Kills: chains that go on from the base; keys that depend on how many there are."""
    ladder = Ladder.create(tp.Gaussian([1.0, 2.0]).path(None, np.linspace(0, 1, 5)))
    x = np.full((7, 2), 1.5, np.float32)
    many = walk_home(jax.random.key(2), ladder, HMC(0.5), x, 200)
    few = walk_home(jax.random.key(2), ladder, HMC(0.5), x[:3], 200)
    assert many.num_away == 0
    assert np.array_equal(many.x[:3], few.x)
    short = walk_home(jax.random.key(2), ladder, HMC(0.5), x, 4)
    assert short.num_steps == 4
    assert 0 < short.num_away < 7
    # Who is there after four steps stays there.
    assert np.array_equal(many.x[~short.is_away], short.x[~short.is_away])
