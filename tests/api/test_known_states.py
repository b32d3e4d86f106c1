"""Rows that were given bound log Z from below, whatever the chains have seen."""

import numpy as np
import pytest

import tempering as tp
from tempering.diagnosis.known_states import below_known_mass, first_occurrences, log_known_mass
from tempering.training import Trainer
from tempering.training.outcomes import Tracked
from tempering.verdicts import Verdict

ROWS = np.array([[0, 1, 1], [1, 0, 0], [0, 1, 1], [1, 1, 1]])


def spike_rbm(height: float, num_visible: int = 24) -> tuple[tp.RBM, np.ndarray]:
    """An RBM with a row whose f is about exp(height) times that of all others together; no chain finds it.

    One hidden unit is on at that row alone: each bit that differs costs it twice the height.
    """
    row = np.arange(num_visible) % 3 == 0
    signs = np.where(row, 1.0, -1.0)
    weights = 2 * height * signs[:, None]
    log_others = num_visible * np.log(2)
    hbias = height + log_others - float(row @ weights[:, 0])
    return tp.RBM(weights, np.zeros(num_visible), np.array([hbias])), row.astype(np.float32)[None]


def test_rows_count_once():
    """Kills: the last of several that are the same, rows that count as often as they occur."""
    assert first_occurrences(ROWS).tolist() == [True, True, False, True]
    log_f = np.array([0.5, -1.0, 0.5, 2.0])
    assert log_known_mass(ROWS, log_f) == pytest.approx(np.log(np.exp([0.5, -1.0, 2.0]).sum()))


def test_all_states_of_a_model_add_up_to_z():
    """An identity: the bound by all rows is log Z, for bits, categories and spins; by some, it is less."""
    rbm = tp.RBM(np.array([[0.8, -0.3], [1.2, 0.4], [-0.7, 0.9]]), np.array([0.2, -0.5, 0.1]), np.array([0.3, -0.2]))
    states = np.array(list(np.ndindex(2, 2, 2)), np.float32)
    assert log_known_mass(states, rbm.log_density(states)) == pytest.approx(rbm.exact_log_z(), abs=1e-5)
    assert log_known_mass(states[1:], rbm.log_density(states[1:])) < rbm.exact_log_z() - 0.01
    ising = tp.Ising.square(2, 3, 0.4)
    spins = 2.0 * np.array(list(np.ndindex(*[2] * 6))) - 1
    assert ising.counts_states
    assert log_known_mass(spins, ising.log_density(spins)) == pytest.approx(ising.quick_log_z(), abs=1e-5)
    assert not tp.GaussianRBM(np.ones((2, 1)), np.zeros(2), np.zeros(1)).counts_states


@pytest.mark.parametrize(("log_mass", "is_found"), [(4.9, False), (5.005, False), (5.02, True), (np.nan, False)])
def test_the_interval_must_reach_the_bound(log_mass, is_found):
    """Kills: a bound that is held against log Z itself, no room for rounding, a comparison that NaN passes."""
    found = below_known_mass(log_mass, 5.0)
    assert (found is not None) == is_found
    if found is not None:
        assert found.verdict is Verdict.MISSED
        assert "at least 5.02" in found.seen


@pytest.mark.parametrize("given", ["data", "witnesses", "base"])
def test_a_spike_that_no_chain_finds_is_told_by_its_row(given):
    """The answer is wrong by 6 nats with a good verdict, unless the row is given. Guards: never confidently wrong."""
    rbm, row = spike_rbm(6.0)
    how = {"num_chains": 20, "num_rungs": 6, "num_sweeps": 64, "seed": 3}
    rows = np.concatenate([row, np.random.default_rng(0).integers(0, 2, (30, row.shape[1]))]).astype(np.float32)
    result = tp.estimate(
        rbm, rows if given == "base" else "uniform", **how, **({} if given == "base" else {given: rows})
    )
    assert result.interval[1] < rbm.exact_log_z() - 3
    assert result.verdict is Verdict.MISSED
    if given != "witnesses":  # chains from there say how much is missing
        least = float(rbm.log_density(row)[0])
        assert f"at least {least:.2f}" in " ".join(finding.seen for finding in result.diagnosis.findings)


def test_rows_that_a_run_knows_raise_no_doubt():
    """All states of a small RBM are given, whose sum is log Z itself; the interval holds it."""
    rbm = tp.RBM(np.array([[0.8, -0.3], [1.2, 0.4], [-0.7, 0.9]]), np.zeros(3), np.zeros(2))
    states = np.array(list(np.ndindex(2, 2, 2)), np.float32)
    result = tp.estimate(rbm, "uniform", data=states, num_chains=20, num_rungs=6, seed=1)
    assert result.interval[0] < rbm.exact_log_z() < result.interval[1]
    assert Verdict.MISSED not in {finding.verdict for finding in result.diagnosis.findings}


def test_the_tracker_is_held_to_the_rows_of_training():
    """Kills: a bound that the tracker never hears of, one that counts a row twice, an error that stays finite."""
    rbm, row = spike_rbm(6.0)
    others = np.random.default_rng(0).integers(0, 2, (60, row.shape[1]))  # without them the base is the row
    rows = np.concatenate([np.repeat(row, 3, axis=0), others])
    trainer = Trainer(rows, rbm=rbm, num_updates=1, num_chains=20, num_rungs=6, learning_rate=1e-6, batch_size=3)
    tracked = trainer.step().tracked
    assert tracked.verdict is Verdict.MISSED
    assert tracked.std_error == np.inf
    assert f"at least {float(rbm.log_density(row)[0]):.2f}" in tracked.findings[-1].seen
    sound = Tracked(1.0, 0.1, 19, 1)
    assert sound.held_to(1.1) is sound


def test_a_tracker_in_ones_own_loop_is_held_to_the_rows_it_is_asked_about():
    """Kills: a likelihood whose rows alone add up to more than its log Z, with a finite error and a good verdict."""
    rbm, row = spike_rbm(6.0)
    others = np.random.default_rng(0).integers(0, 2, (60, row.shape[1]))
    tracker = tp.Tracker(rbm, others, num_chains=20, num_rungs=6)
    before = tracker.tracked
    tracker.mean_log_likelihood(others)
    assert tracker.tracked is before  # rows that are nothing special raise no doubt
    found = tracker.mean_log_likelihood(np.concatenate([row, others]))
    assert found.std_error == np.inf
    assert tracker.tracked.verdict is Verdict.MISSED
