"""The warm-up for paths with a knot: passes up and down, their pace, and what they hand on."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact
import tempering as tp
from tempering.estimators.both_ways import log_z_from_both_ways
from tempering.kernels import AnnealDown, AnnealState, positions_at_target
from tempering.kernels.anneal_back import AnnealBack
from tempering.ladder import StepLengths, respaced_betas, uniform_betas
from tempering.sampling import Setup, Stage, walk_stages
from tempering.stats import AnnealWeights
from tempering.warmups.annealed_start import Annealing
from tempering.warmups.hysteresis import better_pace, is_heavier_down, lost_work

STEPS, CHAINS = 16, 200
WARMUP = tp.HysteresisStart(STEPS, num_rounds=2, equilibration_steps=(10,))
NAMES = ["annealing", "annealing back"] * 2 + ["equilibrating", "sampling"]


def finished(warmup: tp.HysteresisStart, seed: int = 0) -> list[Stage]:
    """Every finished stage of a run on the small RBM."""
    ladder = tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, uniform_betas(11)))
    setup = Setup(jax.random.key(seed), ladder, tp.BlockGibbs(), CHAINS, num_steps=20)
    return [stage for stage in walk_stages(warmup, setup) if stage.is_finished]


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return finished(WARMUP)


def betas_of(stage: Stage) -> np.ndarray:
    return np.asarray(stage.ladder.path.betas, np.float64)


def test_a_pace_follows_the_root_of_the_friction_whatever_the_pace_before():
    """A pass that takes the time t(β) dβ loses ζ(β)/t(β). Nine tenths of the next one's time are ∝ √ζ.

    Kills: ζ for √ζ, work lost per β taken for work lost per time, a pace that forgets the one before.
    """

    def friction(betas):
        return 1 + 400 * np.exp(-(((betas - 0.6) / 0.05) ** 2))

    grid = np.linspace(0, 1, 200_001)
    wanted = np.concatenate([[0.0], np.cumsum(np.sqrt(friction(grid[:-1])))])
    wanted /= wanted[-1]
    for power in (1.0, 2.0):
        betas = np.linspace(0, 1, 4001) ** power
        steps, middle = np.diff(betas), (betas[1:] + betas[:-1]) / 2
        lost = friction(middle) * steps**2  # t(β) = 1/step
        found = better_pace(betas, lost, 1000, num_stretches=400)
        before = np.interp(found, betas, np.linspace(0, 1, 4001))
        time = 0.9 * np.interp(found, grid, wanted) + 0.1 * before
        np.testing.assert_allclose(time, np.linspace(0, 1, 1001), atol=2e-3)


def test_work_is_lost_where_passes_differ():
    """A pass down that retraces the pass up loses nothing. Kills: steps in the wrong order, a sign, infinite work."""
    up = np.array([[1.0, 2.0, 4.0], [3.0, 2.0, -np.inf]])
    assert lost_work(AnnealWeights(up), AnnealWeights(-up[:, ::-1])).tolist() == [0.0, 0.0, 0.0]
    late = np.array([[-4.0, -3.0, -2.0]])  # gives back one more at the middle step
    assert lost_work(AnnealWeights(up), AnnealWeights(late)).tolist() == [0.0, 1.0, 0.0]


def test_stages_follow_one_another(stages):
    """Each round is twice as long and paced by the one before. Kills: the old pace, passes from the old draws."""
    assert [stage.kind.label for stage in stages] == NAMES
    assert [stage.num_steps for stage in stages] == [16, 16, 32, 32, 10, 20]
    assert WARMUP.num_warmup_steps == stages[-1].warmup.num_steps == 106
    up, down, again, *_ = stages
    np.testing.assert_allclose(
        betas_of(again), better_pace(betas_of(up), lost_work(up.recording, down.recording), 32), atol=1e-6
    )
    at_base = (np.asarray(up.states.kept_at) == 0) & (np.asarray(again.states.kept_at) == 0)
    first, second = (np.asarray(stage.states.kept.v)[at_base] for stage in (up, again))
    assert len(first) > 5
    assert (first != second).any()


def test_passes_down_have_the_weights_of_annealing_down(stages):
    """E[w] = Z_0 / Z_{K-1} from draws of the target, to the bits of `AnnealDown`. Kills: a rung off by one."""
    up, down = stages[2], stages[3]
    positions = positions_at_target(up.ladder.path, up.states.x)
    plain = Stage.first(Annealing(), up.ladder, AnnealDown(tp.BlockGibbs()), positions, 32)
    *_, plain = dataclasses.replace(plain, number=3).walk(jax.random.key(0))
    np.testing.assert_array_equal(plain.recording.log_increments, down.recording.log_increments)


def test_a_state_is_kept_after_its_move_at_the_rung():
    """Kills: a rung off by one, a state kept before it moves, one that a later step overwrites."""
    path = exact.small_rbm().path(exact.BASE_FREQUENCIES, uniform_betas(5))
    x = path.state_of(jnp.array([1.0, 0, 1, 0, 0]))
    state, ladder = AnnealState(x, jnp.int32(3), jnp.int32(2), x), tp.Ladder.create(path)
    seen = []
    for key in jax.random.split(jax.random.key(2), 3):
        state, _ = AnnealBack(tp.BlockGibbs())(key, ladder, state)
        seen.append(np.asarray(state.x.v).tolist())
    assert len({tuple(v) for v in [[1, 0, 1, 0, 0], *seen]}) == 4
    assert np.asarray(state.kept.v).tolist() == seen[1]


def test_the_guess_is_from_both_passes_of_the_last_round(stages):
    """Kills: the guess of the pass up alone, that of an earlier round, one at the wrong rungs."""
    up, down, tempered = stages[2:5]
    both = log_z_from_both_ways(up.recording.log_weights(), down.recording.log_weights_down())
    expected = np.interp(betas_of(tempered), betas_of(up), both)
    np.testing.assert_allclose(tempered.ladder.log_z_guess, expected, atol=1e-5)
    truth = exact.log_z(tempered.ladder.path) - exact.log_z(tempered.ladder.path)[0]
    assert np.abs(expected - truth).max() < 0.5


def test_chains_begin_with_the_heavier_of_their_two_states():
    """Kept at their rungs. Kills: states of one pass alone, of other rungs, the lighter state."""
    up, down, last = finished(tp.HysteresisStart(STEPS, 1, ()), seed=5)
    setup = Setup(jax.random.key(5), last.ladder, tp.BlockGibbs(), CHAINS, num_steps=20)
    begun = tp.HysteresisStart(STEPS, 1, ()).after(setup, down)
    weights, kept_at = (up.recording.log_weights(), down.recording.log_weights_down()), np.asarray(down.states.kept_at)
    is_down = is_heavier_down(*weights, log_z_from_both_ways(*weights)[-1], kept_at)
    assert 0 < is_down.sum() < CHAINS
    x, rungs = np.asarray(begun.states.x.v), np.asarray(begun.states.rung)
    np.testing.assert_array_equal(x[~is_down], np.asarray(up.states.kept.v)[~is_down])
    np.testing.assert_array_equal(x[is_down], np.asarray(down.states.kept.v)[is_down])
    assert np.abs(betas_of(up)[kept_at] - betas_of(begun)[rungs]).max() < 0.5 / STEPS + 1e-6


def test_on_either_side_of_a_knot_the_phase_of_that_side_is_heavier():
    """Two phases whose log Z are −s(β − 0.6) apart; passes cross between them 0.1 too late, both ways.

    Kills: a side that is taken for the other, weights from the wrong end, the share of a pass left out.
    """
    betas, kept_at = np.linspace(0, 1, 101), np.arange(101)
    late_up, late_down = (50 * np.maximum(betas - place, 0) for place in (0.7, 0.5))
    up, down = late_up, late_down - late_down[-1]
    log_ratio = 50 * 0.4  # of phases that are equal at 0.6
    is_down = is_heavier_down(np.tile(up, (101, 1)), np.tile(down, (101, 1)), log_ratio, kept_at)
    np.testing.assert_array_equal(is_down[51:], betas[51:] > 0.6)
    assert not is_down[:50].any()
    is_down = is_heavier_down(np.tile(up + 30 * betas, (101, 1)), np.tile(down, (101, 1)), log_ratio, kept_at)
    assert is_down[55:95].all()  # a pass up that is 15 nats too heavy in all stands for fewer others


def test_half_of_the_rungs_of_an_adaptive_ladder_follow_the_pace():
    """Kills: rungs by length alone, rungs that follow the old pace, a length that is lost on the way."""
    warmup = tp.HysteresisStart(STEPS, num_rounds=2, equilibration_steps=(10,), respaces=True)
    stages = finished(warmup)
    up, down, again = stages[:3]
    both = np.concatenate([up.recording.log_increments, -down.recording.log_increments[:, ::-1]])
    lengths = StepLengths.from_increments(betas_of(up), both, "kl")
    until = np.interp(betas_of(again), betas_of(up), np.concatenate([[0.0], np.cumsum(lengths.root_kl)]))
    expected = respaced_betas(betas_of(again), np.diff(until), 11, share=0.5)
    for stage in stages[-2:]:
        np.testing.assert_allclose(betas_of(stage), expected, atol=1e-6)
        assert stage.warmup.length.root_kl > 0


def test_what_makes_no_sense_is_refused():
    for bad in ({"anneal_steps": 0}, {"num_rounds": 0}):
        with pytest.raises(tp.InputError, match="HysteresisStart"):
            tp.HysteresisStart(**bad)
