"""Verdicts: each is provoked, and the runs known to go confidently wrong are not called good."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact
import tempering as tp
from samples import BLOCKS, CHAINS, changed, few_crossings, healthy
from tempering import Verdict
from tempering.diagnosis import diagnose, transition_matrix
from tempering.estimators import Annealed
from tempering.paper.runs import REFERENCE_500
from tempering.sampling import Setup


def test_the_gravest_finding_decides():
    recording = changed(num_nonfinite=np.full((CHAINS, BLOCKS), 1), travel=few_crossings())
    diagnosis = diagnose(recording)
    assert {f.verdict for f in diagnosis.findings} == {Verdict.NONFINITE, Verdict.STUCK}
    assert diagnosis.verdict is Verdict.NONFINITE


def test_annealing_is_excused_only_on_its_low_side():
    """Widely scattered weights may hide half their variance below the truth, and nothing above it."""
    answer = tp.LogZ("rts", np.array([0.0, 10.0]), np.array([0.0, 0.1]), np.zeros(2), np.zeros(2), dof=99)
    assert Annealed(8.0, 0.1, 4.0).disagreement(answer) == pytest.approx(0.0)
    assert Annealed(7.0, 0.1, 4.0).disagreement(answer) == pytest.approx(1 / np.hypot(0.1, 0.1))
    assert Annealed(12.0, 0.1, 4.0).disagreement(answer) == pytest.approx(2 / np.hypot(0.1, 0.1))
    few, many = (Annealed(12.0, 0.1, 4.0, families).disagreement(answer) for families in (5.0, 1e6))
    assert few < 0.5 * many


def test_transition_matrix_is_row_normalised():
    counts = np.array([[[3, 1, 0], [0, 0, 0], [2, 2, 4]]])
    matrix = transition_matrix(dataclasses.replace(healthy(), transition_counts=counts))
    np.testing.assert_allclose(matrix, [[0.75, 0.25, 0], [0, 0, 0], [0.25, 0.25, 0.5]])


def test_a_continuous_ladder_that_is_stuck_has_its_rung_chain():
    """r is a density in β there. Kills: it taken for probabilities, equal shares for stretches of unequal length."""
    stuck = changed(betas=np.array([0.0, 0.1, 1.0]), log_prior=np.zeros(3), travel=few_crossings())
    np.testing.assert_allclose(np.exp(stuck.stats.log_rung_mass), [0.05, 0.5, 0.45])
    diagnosis = diagnose(stuck)
    assert diagnosis.verdict is Verdict.STUCK
    assert diagnosis.rung_chain is not None
    np.testing.assert_array_equal(healthy().stats.log_rung_mass, healthy().stats.log_prior)


def test_a_knot_of_a_continuous_ladder_may_lie_too_close_to_another_to_be_visited():
    """Of 8000 draws two are expected there, and none is seen. Kills: a density of 1 taken for all draws."""
    visits = healthy().stats.visits.copy()
    visits[:, :, 0] = 0
    close = changed(betas=np.array([0.0, 0.0005, 1.0]), log_prior=np.zeros(3), visits=visits)
    assert diagnose(close).verdict is Verdict.GOOD
    apart = changed(betas=np.array([0.0, 0.01, 1.0]), log_prior=np.zeros(3), visits=visits)
    assert diagnose(apart).verdict is Verdict.UNREACHED


def _paper_run(path, num_chains: int, num_iterations: int, num_sweeps: int):
    """The paper's initial iterations, then a run, on any path."""
    key, move = jax.random.key(0), tp.BlockGibbs()
    ladder = tp.Ladder.create(path)
    warmup = tp.InitialIterations(steps=50, max_iterations=num_iterations, min_iterations=num_iterations)
    stage = warmup.first(Setup(key, ladder, move, num_chains))
    while True:
        stage_key = jax.random.fold_in(key, stage.number)
        for block in tp.run_chains(
            stage_key, stage.ladder, stage.kernel, stage.empty_record(), stage.states,
            num_steps=stage.num_steps, block_steps=stage.block_steps,
        ):  # fmt: skip
            stage = stage.after_block(block.num_steps, block.states, block.record.on_host())
        if stage.is_sampling:
            return stage
        stage = warmup.after(Setup(key, ladder, move, num_chains, num_sweeps), stage)


@pytest.mark.slow  # the model of our own below is called the same
def test_the_naive_chain_over_v_and_h_is_not_called_good(shared_data):
    """On the 784×500 RBM it ends tens of nats wrong with a small error bar; the verdict must say so."""
    rbm = tp.load(shared_data / "rbm_mnist_cd25_500.npz")
    frequencies = tp.load_data(shared_data / "mnist_binarized.npz", num_visible=784).mean(axis=0)
    path = tp.models.JointRBM(rbm).path(frequencies, tp.ladder.uniform_betas(100))
    stage = _paper_run(path, num_chains=40, num_iterations=10, num_sweeps=250)
    answer = tp.rts(stage.recording.stats, log_z_base=path.log_z_base())
    off = abs(answer.log_z - REFERENCE_500)
    assert off > 10 * answer.std_error, "the naive chain is expected to be confidently wrong"
    diagnosis = diagnose(stage.recording, stage.warmup.annealed, log_z_base=path.log_z_base())
    assert not diagnosis.verdict.is_good


def test_the_naive_chain_on_a_model_of_our_own_is_not_called_good():
    """The same without data beside the clone: strong random weights, where every chain stays where it began."""
    rng = np.random.default_rng(3)
    rbm = tp.RBM(rng.normal(0, 0.7, (200, 100)), np.full(200, -1.0), rng.normal(0, 1, 100))
    path = tp.models.JointRBM(rbm).path("bias", tp.ladder.uniform_betas(30))
    stage = _paper_run(path, num_chains=50, num_iterations=4, num_sweeps=200)
    assert not diagnose(stage.recording, stage.warmup.annealed, log_z_base=path.log_z_base()).verdict.is_good


def test_a_density_that_is_nan_reaches_the_verdict():
    """Nothing raises inside the loop; the verdict names it."""
    path = exact.small_path()
    broken = dataclasses.replace(path, vbias=path.vbias.at[0].set(jnp.nan))
    ladder = tp.Ladder.create(broken)
    states = tp.Position(exact.states_of(path, exact.patterns(5)), jnp.zeros(32, jnp.int32))
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    record = tp.stats.TemperingRecord.empty(ladder)
    (block,) = tp.run_chains(jax.random.key(0), ladder, kernel, record, states, num_steps=20)
    assert diagnose(block.record.on_host()).verdict is Verdict.NONFINITE
