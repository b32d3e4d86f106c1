"""Warm-ups: their starts, their stopping rule, and that what they hand on is right."""

import jax
import numpy as np
import pytest
from scipy import stats as scipy_stats

import checks
import exact
import tempering as tp
from samples import CHAINS, RUNGS, changed, healthy, log_sums_that_drift
from tempering.estimators.both_ways import log_z_from_both_ways
from tempering.sampling import Setup, Stage
from tempering.stats import chain_groups
from tempering.warmups import initial_iterations
from tempering.warmups.initial_iterations import MAX_UNEVENNESS, is_even
from tempering.warmups.measuring import rungs_by_weight


def _drive(warmup, ladder: tp.Ladder, num_chains: int, num_steps: int, seed: int = 0) -> list[Stage]:
    """Every finished stage of a run that took steps."""
    key, move, finished = jax.random.key(seed), tp.BlockGibbs(), []
    stage = warmup.first(Setup(key, ladder, move, num_chains))
    while True:
        if stage.num_steps == 0:
            stage = warmup.after(Setup(key, ladder, move, num_chains, num_steps), stage)
        blocks = tp.run_chains(
            jax.random.fold_in(key, stage.number), stage.ladder, stage.kernel, stage.empty_record(), stage.states,
            num_steps=stage.num_steps, block_steps=stage.block_steps,
        )  # fmt: skip
        for block in blocks:
            stage = stage.after_block(block.num_steps, block.states, block.record.on_host())
        finished.append(stage)
        if stage.is_sampling:
            return finished
        stage = warmup.after(Setup(key, ladder, move, num_chains, num_steps), stage)


@pytest.fixture(scope="module")
def ladder() -> tp.Ladder:
    return tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, tp.ladder.uniform_betas(11)))


@pytest.fixture(scope="module")
def annealed(ladder) -> list[Stage]:
    return _drive(tp.AnnealedStart(60, (40, 60)), ladder, 400, 100)


def test_stages_follow_one_another(annealed):
    assert [stage.kind.label for stage in annealed] == ["annealing", "equilibrating", "equilibrating", "sampling"]
    assert [stage.number for stage in annealed] == [0, 1, 2, 3]
    assert [stage.warmup.num_steps for stage in annealed] == [0, 60, 100, 160]
    assert all(stage.done == stage.num_steps for stage in annealed)


def test_annealed_weights_average_to_z(annealed, ladder):
    """E[w] = Z_{K-1} / Z_0 over 400 independent passes; a kernel at the wrong rung shifts it."""
    truth = exact.small_rbm().exact_log_z() - ladder.path.log_z_base()
    log_weights = annealed[0].recording.log_weights()[:, -1]
    checks.assert_mean(np.exp(log_weights - truth), 1.0)


def test_kept_states_are_those_of_the_rung_where_chains_start(ladder):
    """With a slow pass on a small model, the state kept at a rung follows that rung's law: here the last one."""
    warmup = tp.AnnealedStart(100, (1,))
    stages = _drive(warmup, ladder, 3000, 1)
    states, rungs = stages[0].states, np.asarray(stages[0].states.kept_at)
    path = stages[0].ladder.path
    assert rungs.min() == 0
    assert rungs.max() == path.num_rungs - 1
    top = np.asarray(states.kept.v)[rungs == rungs.max()].astype(int) @ (1 << np.arange(5)[::-1])
    log_f = exact.log_densities(ladder.path)
    checks.assert_law(np.bincount(top, minlength=32), np.exp(log_f[:, -1] - exact.log_z(ladder.path)[-1]))
    np.testing.assert_allclose(
        states.kept.field, states.kept.v @ np.asarray(path.weights) + np.asarray(path.hbias), atol=1e-5
    )


def test_a_pass_back_down_joins_in_the_guess(ladder):
    """Up, down, two tempered runs, sampling. Kills: the guess of one pass alone, a pass down from other states, a
    tempered run left out, starts that are not those kept on the way up.
    """
    up, down, *tempered, last = _drive(tp.AnnealedStart(20, (10, 10), returns=True), ladder, 30, 40)
    assert [stage.num_steps for stage in (up, down, *tempered, last)] == [20, 20, 10, 10, 40]
    both = log_z_from_both_ways(up.recording.log_weights(), down.recording.log_weights_down())
    fine, betas = (np.asarray(stage.ladder.path.betas, np.float64) for stage in (up, last))
    np.testing.assert_allclose(tempered[0].ladder.log_z_guess, np.interp(betas, fine, both), atol=1e-5)
    assert down.states.rung.max() == 0
    first = np.asarray(down.recording.log_increments)[:, 0]
    assert not np.allclose(first, -np.asarray(up.recording.log_increments)[:, -1])  # they have moved before
    np.testing.assert_array_equal(down.kind.kept.v, up.states.kept.v)


def test_each_settling_stage_starts_from_what_the_last_one_found(annealed, ladder):
    """The guess after a stage is that stage's own estimate. Kills: a guess that is never updated."""
    for before, after in ((annealed[1], annealed[2]), (annealed[2], annealed[3])):
        np.testing.assert_allclose(after.ladder.log_z_guess, tp.rts(before.recording.stats).values, atol=1e-5)
    truth = exact.log_z(ladder.path) - exact.log_z(ladder.path)[0]
    found = tp.rts(annealed[3].recording.stats)
    inside = np.abs(found.values - truth) < scipy_stats.t.ppf(1 - 1e-7, found.dof) * (found.std_errors + 1e-9)
    assert inside.all()  # false failure: 11 rungs at 2e-7 each


def test_initial_iterations_stop_when_the_rungs_are_even(ladder):
    """They end with Ẑ that is right within noise, and with chains that came through. Kills: Ẑ never corrected."""
    stages = _drive(tp.InitialIterations(steps=50, max_iterations=60), ladder, 400, 50)
    iterations = stages[:-1]
    assert all(stage.kind.label == "initial iterations" for stage in iterations)
    assert not is_even(iterations[0].recording)
    assert is_even(iterations[-1].recording)
    assert iterations[-1].recording.stats.travel.num_crossings.mean() >= 2
    assert stages[-1].warmup.is_equilibrated
    truth = exact.log_z(ladder.path) - exact.log_z(ladder.path)[0]
    assert np.abs(stages[-1].ladder.log_z_guess - truth).max() < 0.5


@pytest.mark.parametrize(("even", "crossed", "lengths", "is_met", "growth"), [
    ([True], [True], [5], True, 1.0),
    ([False, True, True], [False, True], [5, 5, 10], True, 1.0),  # even and no round trip: twice as long
    ([False, True, False, True], [False, True], [5, 5, 10, 10], True, 1.0),  # uneven: no shorter
    ([True] * 4, [False] * 4, [5, 5, 10, 16], False, 1.0),  # the longest one is the last
    ([True] * 4, [False] * 4, [5, 10, 16], False, 2.0),
])  # fmt: skip
def test_even_iterations_are_made_longer_until_chains_come_through(
    even, crossed, lengths, is_met, growth, ladder, monkeypatch
):
    """Kills: evenness alone, round trips alone, iterations that stay short or shrink, no bound, growth not heeded."""
    answers = {"is_even": iter(even), "has_crossed": iter(crossed)}
    monkeypatch.setattr(initial_iterations, "is_even", lambda recording: next(answers["is_even"]))
    monkeypatch.setattr(
        initial_iterations, "round_trips", lambda stats: np.array([0.9 + 0.2 * next(answers["has_crossed"])])
    )
    stages = _drive(tp.InitialIterations(5, max_iterations=6, max_steps=16, growth=growth), ladder, 20, 10)
    assert [stage.num_steps for stage in stages[:-1]] == lengths
    assert stages[-1].warmup.is_equilibrated is is_met


def test_a_fixed_number_of_iterations_has_the_papers_length(ladder, monkeypatch):
    """Kills: the paper's ten of fifty sweeps made longer."""
    monkeypatch.setattr(initial_iterations, "is_even", lambda recording: True)
    stages = _drive(tp.InitialIterations(5, max_iterations=3, min_iterations=3), ladder, 20, 10)
    assert [stage.num_steps for stage in stages] == [5, 5, 5, 10]


def _uneven(ratios, scatter: float = 0.1, draws: int = 50):
    """Chains whose ĉ_k/r_k has these means and this relative scatter, half of them above and half below."""
    sign = np.where(np.arange(CHAINS) % 2 == 0, 1.0, -1.0)[:, None, None] * np.ones((1, 8, 1))
    return changed(log_sums=np.log(draws / RUNGS * np.asarray(ratios) * (1 + scatter * sign)))


def _visited(*visits: int):
    return changed(
        visits=np.broadcast_to(np.asarray(visits), (CHAINS, 8, RUNGS)), log_sums=_uneven(np.ones(3)).stats.log_sums
    )


def test_rungs_are_even_up_to_a_tenth_and_noise():
    """With 20 chains the noise of a ratio of 1 is 0.1 √(20/19)/√20; of it Student's quantile, 3.35, is allowed.

    Kills: |r_k − ĉ_k| held against 0.1/K alone, the tenth halved or doubled, noise not allowed for, or twice.
    """
    error = 0.1 / np.sqrt(19)
    quantile = scipy_stats.t.ppf(1 - 0.01 / (2 * RUNGS), CHAINS - 1)
    most = (1 + MAX_UNEVENNESS) / (1 - quantile * error)  # where |x − 1| = 0.1 + quantile · x · error
    assert most == pytest.approx(1.1917, abs=1e-4)
    least = (1 - MAX_UNEVENNESS) / (1 + quantile * error)
    for ratio, is_so in ((most - 0.001, True), (most + 0.001, False), (least + 0.001, True), (least - 0.001, False)):
        assert is_even(_uneven([1.0, ratio, 1.0])) is is_so
    assert is_even(_uneven([1.0, 1.0, 1.0], scatter=0.0))


def test_the_rule_is_relative_to_the_weight_of_a_rung():
    """Kills: an absolute rule, by which the light rung here may have twice what it should."""
    prior = np.array([0.01, 0.5, 0.49])
    for factor, is_so in ((1.0, True), (2.0, False)):
        log_sums = _uneven(RUNGS * prior * [factor, 1.0, 1.0]).stats.log_sums
        assert is_even(changed(log_prior=np.log(prior), log_sums=log_sums)) is is_so


def test_what_noise_does_not_excuse():
    """Kills: noise that makes anything pass, a drift or an empty end not looked at, interior rungs held to more."""
    few = np.full((CHAINS, 8, RUNGS), 0.01)
    for num_of_them, is_so in ((7, True), (6, False)):  # chains at the target; (20/m − 1)/19 is the squared error
        parts = few.copy()
        parts[:num_of_them, :, -1] = (1 - 0.01 * (1 - num_of_them / CHAINS)) * CHAINS / num_of_them
        parts[:, :, :-1] = 1.0
        assert is_even(changed(log_sums=np.log(50 / RUNGS * parts))) is is_so
    assert is_even(healthy())
    assert not is_even(changed(log_sums=log_sums_that_drift()))
    assert is_even(_visited(1, 9, 9))
    assert not is_even(_visited(0, 20, 20)), "a base that nobody visited"
    assert not is_even(_visited(20, 20, 0))
    assert not is_even(_visited(20, 0, 20))
    tiny = np.array([0.5, 0.01, 0.49])
    rare = changed(
        log_prior=np.log(tiny), log_sums=_uneven(RUNGS * tiny).stats.log_sums,
        visits=np.broadcast_to(np.array([4, 0, 4]), (CHAINS, 8, RUNGS)),
    )  # fmt: skip
    assert is_even(rare), "12 visits were expected in the middle, which may stay away"


def test_the_number_and_the_length_of_iterations_by_name():
    for name, warmup in (
        ("iterations", tp.InitialIterations()), ("iterations:30", tp.InitialIterations(max_iterations=30)),
        ("iterations:40:200", tp.InitialIterations(200, 40)),
    ):  # fmt: skip
        assert tp.api.Settings(warmup=name).make_warmup() == warmup
    for name in ("iterations:0", "iterations:3:x", "iterations:1:2:3", "iterations:", "sams:3", "iteration"):
        with pytest.raises(tp.InputError, match="`warmup`"):
            tp.api.Settings(warmup=name)
    with pytest.raises(tp.InputError, match="steps"):
        tp.InitialIterations(steps=0)


def test_initial_iterations_that_run_out_say_so(ladder):
    stages = _drive(tp.InitialIterations(steps=1, max_iterations=2), ladder, 20, 10)
    assert [stage.kind.label for stage in stages] == ["initial iterations"] * 2 + ["sampling"]
    assert not stages[-1].warmup.is_equilibrated
    warmup = tp.InitialIterations(steps=1, max_iterations=2)
    result = tp.estimate(
        exact.small_rbm(), exact.BASE_FREQUENCIES, warmup=warmup, num_chains=20, num_rungs=11, num_sweeps=1000
    )
    assert tp.Verdict.UNEQUILIBRATED in {finding.verdict for finding in result.diagnosis.findings}


@pytest.mark.parametrize("name", ["sequential", "annealed", "iterations"])
def test_the_one_call_door_is_these_pieces_put_together(name):
    """Bit for bit: every stage has a key of its own. Kills: one key for all stages, another order of stages."""
    rbm, betas = exact.small_rbm(), tp.ladder.uniform_betas(5)
    warmups = tp.SequentialStart(num_particles=40), tp.AnnealedStart(20, (10, 10)), tp.InitialIterations(10, 3)
    warmup = dict(zip(("sequential", "annealed", "iterations"), warmups, strict=True))[name]
    ladder = tp.Ladder.create(rbm.path(exact.BASE_FREQUENCIES, betas))
    by_hand = _drive(warmup, ladder, 30, 40, seed=7)[-1]
    how = {"num_chains": 30, "num_sweeps": 40, "betas": betas, "warmup": warmup, "seed": 7}
    result = tp.estimate(rbm, exact.BASE_FREQUENCIES, method="rts", **how)
    assert result.log_z == tp.rts(by_hand.recording.stats, log_z_base=ladder.path.log_z_base()).log_z


def test_iterations_that_grow(ladder):
    """12, 24, 48 …, up to the longest. Kills: growth from the second on, lengths that are added, no bound."""
    warmup = tp.InitialIterations(steps=12, max_iterations=4, min_iterations=4, growth=2.0, max_steps=50)
    stages = _drive(warmup, ladder, 20, 10)
    assert [stage.num_steps for stage in stages] == [12, 24, 48, 50, 10]
    assert [stage.warmup.num_steps for stage in stages] == [0, 12, 36, 84, 134]
    assert all(stage.recording.stats.num_draws.sum() == 20 * stage.num_steps for stage in stages)
    assert [tp.InitialIterations().steps_of(number) for number in (0, 1, 400)] == [50, 50, 50]
    assert tp.InitialIterations(steps=7000, growth=10.0).steps_of(10**6) == 7000  # the first one is never cut
    for growth in (0.5, np.nan, np.inf):
        with pytest.raises(tp.InputError, match="growth"):
            tp.InitialIterations(growth=growth)


def test_iterations_without_rao_blackwellization_correct_by_visits(ladder):
    """The next Ẑ is that of TS, with 0.1 added to every count. Kills: posteriors there too, visits in both."""
    for rao_blackwell, estimator in ((False, tp.estimators.ts), (True, tp.rts)):
        warmup = tp.InitialIterations(5, max_iterations=2, min_iterations=2, rao_blackwell=rao_blackwell)
        first, second, _ = _drive(warmup, ladder, 20, 10)
        found = estimator(first.recording.stats).values
        np.testing.assert_allclose(second.ladder.log_z_guess, found, atol=1e-4)  # float32 on the device
    assert np.abs(found - tp.estimators.ts(first.recording.stats).values).max() > 0.01


@pytest.mark.parametrize("num_chains", [100, 1000, 20_000])
def test_every_group_of_chains_starts_all_along_the_ladder(num_chains):
    """Kills: rungs in rising order. Groups then differ by where they begin, and with very many chains that is seen.

    m turns by the golden section are at most 1 + ½ log_φ m blocks of Fibonacci lengths, each of which counts an
    interval to within 2 (Denjoy and Koksma). So groups do, and so do all chains, by whose ranks intervals are cut.
    """
    ladder = exact.small_ladder()
    rungs = rungs_by_weight(ladder, num_chains)
    weights = np.exp(np.asarray(ladder.log_prior, np.float64))
    counts = np.bincount(rungs, minlength=len(weights))
    np.testing.assert_array_less(np.abs(counts - num_chains * weights), 1.0)
    groups = chain_groups(num_chains)
    for group in range(groups[-1] + 1):
        own = rungs[groups == group]
        bound = _miscounted(len(own)) + len(own) / num_chains * (1 + _miscounted(num_chains))
        np.testing.assert_array_less(np.abs(np.bincount(own, minlength=len(weights)) - len(own) * weights), bound)


def _miscounted(num_turns: int) -> float:
    return 2 + np.log(num_turns) / np.log((1 + 5**0.5) / 2)
