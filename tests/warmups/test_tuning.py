"""Step sizes found in the warm-up: the pieces exactly, then the whole on densities whose best steps are known."""

import dataclasses
import itertools
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logit

import checks
import exact
import tempering as tp
from tempering.kernels import Schedule
from tempering.ladder import LadderRule, power_betas, respaced_betas
from tempering.sampling import Setup
from tempering.stats import Keep, MoveCounts, MoveSums, TuningCounts, TuningSums
from tempering.warmups import AnnealedStart, InitialIterations, Tuned, tuned_if_needed
from tempering.warmups.climb_tuning import aimed_acceptance
from tempering.warmups.tuned import approached, refitted, rescaled

BETAS = np.array([0.0, 0.25, 1.0])
STD_BASE, STD_TARGET, CENTER = 3.0, np.array([0.5, 2.0, 0.1, 1.0]), np.array([1.0, -2.0, 0.0, 0.5])


def _log_f(x):
    """Four independent normals of very different widths; log Z is known. One function, so that it is compiled once."""
    return -0.5 * jnp.sum(((x - CENTER) / STD_TARGET) ** 2)


def _gaussian() -> tp.LogDensity:
    return tp.LogDensity(_log_f, tp.Normal(jnp.zeros(4), STD_BASE))


LOG_Z = float(np.sum(np.log(STD_TARGET)) + 2 * np.log(2 * np.pi))


def _schedule(step_sizes, scales) -> Schedule:
    return dataclasses.replace(
        Schedule.constant(1.0).with_knots(BETAS, np.shape(scales)[1]),
        step_sizes=jnp.asarray(step_sizes, jnp.float32),
        scales=jnp.asarray(scales, jnp.float32),
    )


def test_steps_grow_where_too_many_are_accepted_and_shrink_where_too_few():
    """Mutants: the sign of the gain, the two ends exchanged, a linear instead of an inverse-square interpolation."""
    moves = MoveCounts(np.array([100.0, 0.0, 50.0]), np.array([90.0, 0.0, 10.0]), np.zeros(3))
    after = approached(_schedule([2.0, 9.0, 0.5], np.ones((3, 1))), moves, 0.6, gain=2.0)
    base, target = 2.0 * np.exp(2 * 0.3), 0.5 * np.exp(2 * (0.2 - 0.6))
    middle = (0.75 / base**2 + 0.25 / target**2) ** -0.5
    np.testing.assert_allclose(after.step_sizes, [base, middle, target], rtol=1e-6)


def test_steps_keep_their_length_in_the_tightest_coordinate():
    old = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 2.0]])
    new = np.array([[2.0, 1.0], [0.5, 0.1], [np.nan, 1.0]])
    after = rescaled(_schedule([1.0, 1.0, 3.0], old), new)
    np.testing.assert_allclose(after.scales, [[2.0, 1.0], [0.5, 0.1], [1.0, 1.0]], rtol=1e-6)
    np.testing.assert_allclose(after.step_sizes, [1.0, 10.0, 6.0], rtol=1e-6)


def test_steps_are_read_off_what_was_accepted():
    """Acceptance that follows the logistic model exactly gives back its own best steps; rung 0 takes none."""
    steps = np.geomspace(0.1, 4.0, 12)
    intercepts, slopes, target = np.array([6.0, 4.0, 3.0]), np.array([-2.0, -3.0, -5.0]), 0.651
    accepted = 1 / (1 + np.exp(-(intercepts[:, None] + slopes[:, None] * steps)))
    count = np.full((3, 12), 1e5)
    tuning = TuningCounts(steps, count, accepted * count, np.ones(3), np.zeros((3, 1)), np.ones((3, 1)))
    after = refitted(_schedule(np.ones(3), np.ones((3, 1))), tuning, target)
    best = (np.log(target / (1 - target)) - intercepts) / slopes
    np.testing.assert_allclose(after.step_sizes, best[[1, 1, 2]], rtol=2e-3)


def test_sums_for_tuning_are_what_enumeration_says():
    """Every state once, weighted by q(k | x): scales at every rung; bins by the step. Mutants: counts by `rung`, not
    `origin`; moments without the weight; the second moment about 0."""
    path, ladder = exact.small_path(), exact.small_ladder()
    patterns = exact.patterns(5)
    log_f = exact.log_densities(path)
    posterior = exact.rung_posterior(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    states = exact.states_of(path, patterns)
    reference = np.full(8, 0.3)
    sums = TuningSums.empty(ladder, 0.5, 8.0, reference)
    step_sizes = np.array([0.5, 1.1, 2.9, 7.9])
    for i in range(len(patterns)):
        info = tp.ladder.MoveInfo(jnp.float32(0.1 * (i % 7)), jnp.float32(step_sizes[i % 4]), jnp.array(False))
        x = jax.tree.map(lambda leaf, i=i: leaf[i], states)
        draw = tp.ladder.Draw(x, jnp.int32(i % 3), jnp.int32((i + 1) % 3), jnp.asarray(log_f[i], jnp.float32), info)
        sums = sums.update(ladder, draw)
    counts = jax.tree.map(lambda leaf: np.asarray(leaf)[None], sums).on_host()
    bins = (np.log(step_sizes / 0.5) / np.log(16.0) * 12).astype(int)
    for rung in range(3):
        for which, place in enumerate(bins):
            mine = [i for i in range(32) if i % 3 == rung and i % 4 == which]
            assert counts.num_moves[rung, place] == len(mine)
            np.testing.assert_allclose(counts.accepted[rung, place], sum(0.1 * (i % 7) for i in mine), rtol=1e-5)
    flat = np.concatenate([np.asarray(states.v), np.asarray(states.field)], axis=1)
    weights = posterior / posterior.sum(axis=0)
    mean = weights.T @ flat
    scale = np.sqrt(weights.T @ flat**2 - mean**2)
    np.testing.assert_allclose(counts.scales(), scale, rtol=1e-4)


def test_moves_are_counted_at_the_rung_where_they_were_made():
    ladder = exact.small_ladder()
    sums = MoveSums.empty(ladder)
    for origin, prob, diverged in ((0, 0.5, False), (2, 0.25, True), (2, 0.75, False)):
        info = tp.ladder.MoveInfo(jnp.float32(prob), jnp.float32(1.0), jnp.array(diverged))
        state = ladder.path.sample_base(jax.random.key(0))
        draw = tp.ladder.Draw(state, jnp.int32(origin), jnp.int32(1), jnp.zeros(3), info)
        sums = sums.update(ladder, draw)
    counts = sums.on_host().then(sums.on_host())
    np.testing.assert_array_equal(counts.num_moves, [2, 0, 4])
    np.testing.assert_array_equal(counts.num_divergent, [0, 0, 2])
    np.testing.assert_allclose(counts.acceptance, [0.5, np.nan, 0.5])


def test_respaced_rungs_are_equally_far_apart():
    """Known lengths √KL per fine step: 1 each on the first half, 3 on the second."""
    fine = np.linspace(0, 1, 101)
    lengths = np.where(fine[:-1] < 0.5, 1.0, 3.0)
    betas = respaced_betas(fine, lengths, 5, share=1.0)
    until = np.concatenate([[0], np.cumsum(lengths)])
    np.testing.assert_allclose(np.diff(np.interp(betas, fine, until)), 50.0, rtol=1e-12)
    np.testing.assert_allclose(respaced_betas(fine, np.full(100, np.nan), 3), [0, 0.5, 1])  # nothing known: as before
    half = respaced_betas(fine, lengths, 5, share=0.5)
    np.testing.assert_allclose(half, (betas + np.linspace(0, 1, 5)) / 2, atol=0.05)


def _stages(warmup: Tuned, num_steps: int) -> list:
    """Every finished stage. Shapes are always the same, so that programs are compiled once."""
    ladder = tp.Ladder.create(_gaussian().path(None, power_betas(30)))
    setup = Setup(jax.random.key(3), ladder, tp.HMC(), num_chains=50, num_steps=num_steps)
    stage, stages = warmup.first(setup), []
    while True:
        for reached in stage.walk(setup.key, Keep(moves=True)):
            stage = reached
        stages.append(stage)
        if stage.is_sampling:
            return stages
        stage = warmup.after(setup, stage)


@pytest.fixture(scope="module")
def tuned():
    """The whole warm-up of an adaptive run, and a short stretch of what it leads to."""
    return _stages(Tuned(AnnealedStart(60, (60, 120), respaces=True)), 400)


def test_stages_follow_one_another(tuned):
    assert [stage.kind.label for stage in tuned] == [
        *["tuning steps"] * 20,
        "annealing",
        "equilibrating",
        "equilibrating",
        "sampling",
    ]
    assert tuned[-1].warmup.num_steps == 100 + 60 + 60 + 120
    assert len({stage.number for stage in tuned}) == len(tuned)  # each has keys of its own


def test_steps_are_accepted_as_often_as_they_should_be(tuned):
    """Within 0.2 of the target at every rung: the jitter and 400 steps allow no less. The base is drawn exactly."""
    acceptance = tuned[-1].recording.moves.acceptance
    assert acceptance[0] == 1
    assert np.all(np.abs(acceptance[1:] - tp.HMC.target_accept) < 0.2), acceptance.round(2)


def test_spreads_are_those_of_each_rung(tuned):
    """Precisions add up on a geometric path of normals. 3000 draws, of which every tenth suits a rung: a standard
    deviation is then known to 1/√600 = 4 %, and 25 % is six times that."""
    schedule = tuned[-1].move.schedule
    betas = np.asarray(schedule.betas, np.float64)[:, None]
    scale = ((1 - betas) / STD_BASE**2 + betas / STD_TARGET**2) ** -0.5
    assert np.all(np.abs(np.log(schedule.scales / scale)) < 0.25)


def test_rungs_have_moved_to_where_the_density_changes(tuned):
    """d s = √(Σ_i ½) |dλ_i/λ_i| for normals: steps of that length are even, which evenly spaced rungs are not."""
    betas = np.asarray(tuned[-1].ladder.path.betas, np.float64)
    fine = np.linspace(0, 1, 20_001) ** 3
    rate = 1 / STD_TARGET**2 - 1 / STD_BASE**2
    precision = (1 - fine[:, None]) / STD_BASE**2 + fine[:, None] / STD_TARGET**2
    mean = fine[:, None] * CENTER / STD_TARGET**2 / precision
    offset = CENTER / STD_TARGET**2 - mean * rate
    variance = np.sum(0.5 * (rate / precision) ** 2 + offset**2 / precision, axis=1)
    until = np.concatenate([[0], np.cumsum(np.sqrt(variance[:-1]) * np.diff(fine))])
    steps = np.diff(np.interp(betas, fine, until))
    assert steps.max() / steps.mean() < 2.0
    begun = np.diff(np.interp(np.linspace(0, 1, 30), fine, until))
    assert begun.max() / begun.mean() > 3.0  # the same yardstick sees it


def test_one_averaged_step_is_the_mean_of_those_found():
    ends = []
    for is_fixed in (False, True):
        warmup = Tuned(AnnealedStart(60, (60, 60)), num_updates=8, is_fixed=is_fixed)  # 20 steps find one size for all
        ends.append(np.asarray(_stages(warmup, 1)[-1].move.schedule.step_sizes))
    np.testing.assert_allclose(ends[1], np.full(30, ends[0].mean()), rtol=1e-5)
    assert np.ptp(ends[0]) > 0


def test_only_moves_without_a_size_of_their_own_are_tuned():
    plain = AnnealedStart()
    assert tuned_if_needed(plain, tp.BlockGibbs()) is plain
    assert tuned_if_needed(plain, tp.HMC(0.3)) is plain
    assert tuned_if_needed(Tuned(plain), tp.HMC()) == Tuned(plain)
    assert tuned_if_needed(plain, tp.RandomWalk()) == Tuned(plain)
    tunes_itself = tp.SequentialStart()
    assert tuned_if_needed(tunes_itself, tp.HMC()) is tunes_itself


@pytest.mark.parametrize(
    "move", [tp.HMC(), pytest.param(tp.RandomWalk(), marks=pytest.mark.slow)], ids=["hmc", "random walk"]
)
def test_a_density_in_one_call(move):
    result = tp.estimate(_gaussian(), move=move, num_sweeps=400, num_rungs=40, seed=5)
    assert result.verdict.is_good, result.diagnosis.findings
    checks.assert_within(result.log_z, LOG_Z, result.std_error)
    acceptance = result.acceptance[1:] if isinstance(move, tp.HMC) else result.acceptance  # no trajectory at β = 0
    # ±0.25 about HMC's own target of 0.651 was 1.02 or more in log odds. The warm-up aims at another, 0.9.
    off = logit(acceptance) - logit(aimed_acceptance(move))
    assert np.nanmax(np.abs(off)) < 1.02, acceptance.round(2)
    draws = result.draws.resampled(4000, seed=1)
    # Each round trip ends in an independent draw of the target, at least; 5.5 standard errors from so many.
    num = 100 * result.diagnosis.round_trips_per_chain
    checks.assert_within(draws.mean(axis=0), CENTER, STD_TARGET / np.sqrt(num))
    checks.assert_within(np.log(draws.std(axis=0) / STD_TARGET), 0.0, 1 / np.sqrt(2 * num))


@pytest.mark.slow  # flips keep the law of every rung in test_moves.py, and what tunes them is above
def test_bits_in_one_call():
    """An RBM's marginal over v, without its Gibbs sweeps; the number of flips falls with β."""
    rbm = exact.small_rbm()
    weights, vbias, hbias = (jnp.asarray(a, jnp.float32) for a in rbm.on_host())
    model = tp.LogDensity(
        lambda v: v @ vbias + jnp.sum(jax.nn.softplus(v @ weights + hbias)), tp.Bernoulli(jnp.zeros(5))
    )
    result = tp.estimate(model, num_sweeps=400, num_rungs=20)
    checks.assert_within(result.log_z, rbm.exact_log_z(), result.std_error)
    assert result.diagnosis.round_trips_per_chain > 5
    assert np.all(np.diff(result.acceptance[[0, 5, 19]]) < 0)


@pytest.mark.parametrize(
    "warmup", ["annealed", *(pytest.param(name, marks=pytest.mark.slow) for name in ("iterations", "sams"))]
)
def test_every_warm_up_tunes_and_resumes_to_the_same_bits(tmp_path, warmup):
    """Cut in the tuning, in the warm-up proper, and among the draws that count."""
    settings = {"num_sweeps": 64, "num_rungs": 40, "seed": 2, "warmup": warmup}  # shapes of the test above but one
    whole = tp.estimate(_gaussian(), **settings)
    stops, calls = (3, 24, 70), itertools.count()
    for _ in stops:
        with suppress(tp.Interrupted):
            tp.estimate(_gaussian(), out=tmp_path, resume=True, watch=lambda _: next(calls) in stops, **settings)
    assert next(calls) == stops[-1] + 1
    again = tp.estimate(_gaussian(), out=tmp_path, resume=True, **settings)
    assert again.log_z == whole.log_z
    np.testing.assert_array_equal(again.betas, whole.betas)
    np.testing.assert_array_equal(again.acceptance, whole.acceptance)


@pytest.mark.slow
def test_every_method_works_on_a_density():
    """A tuned move and respaced rungs are shared by all runs of a comparison."""
    comparison = tp.compare(_gaussian(), num_chains=40, num_sweeps=300, num_rungs=30, budget=700, truth=LOG_Z)
    names = [entry.method.name for entry in comparison.entries]
    assert {"rts", "mbar", "ti_rb", "ais", "reverse_ais", "sams", "continuous"} <= set(names)
    for entry in comparison.entries:
        if entry.verdict.is_good:
            assert abs(entry.answer.log_z - LOG_Z) < 6 * entry.answer.std_error + 0.02, entry.method.name
    assert sum(entry.verdict.is_good for entry in comparison.entries) >= 12


def test_an_adaptive_ladder_needs_a_warm_up_that_measures_the_path():
    with pytest.raises(tp.InputError, match="a warm-up that measures the path first"):
        tp.estimate(_gaussian(), betas="adaptive", warmup="iterations")
    chosen = tp.api.Settings(warmup=InitialIterations(20, 3), num_rungs=6).with_spacing("adaptive")
    np.testing.assert_array_equal(chosen.make_betas(), power_betas(6))  # "auto" then means the next best
    given = tp.api.Settings(warmup="annealed", num_rungs=100)
    assert given.with_spacing("adaptive").make_warmup() == AnnealedStart(respaces=True)
    free = tp.SequentialStart(
        respaces=True, chooses_number=True, least_rungs=100, rule=LadderRule("adaptive", "auto")
    )  # fmt: skip
    assert tp.api.Settings().with_spacing("adaptive").make_warmup() == free


@pytest.mark.slow  # the limit is in test_thresholds.py
def test_moves_that_are_never_accepted_are_called_frozen():
    """A step a thousand times too long: every rung but the base, which is drawn exactly, stands still."""
    result = tp.estimate(_gaussian(), move=tp.HMC(300.0), num_sweeps=200, num_rungs=6, num_chains=20)
    assert tp.Verdict.FROZEN in {finding.verdict for finding in result.diagnosis.findings}
    (found,) = [finding for finding in result.diagnosis.findings if finding.verdict is tp.Verdict.FROZEN]
    assert "of the moves at rung" in found.seen
    assert "tp.HMC(0.01)" in found.cure
    assert not result.verdict.is_good
    assert result.num_divergent > 1000
