"""Self-adjusting weights: the truth is where the recursions stand still, groups are independent, runs resume."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from tempering.estimators import Adjusted, sams, wang_landau
from tempering.kernels import Guided, GuidedTempering
from tempering.sampling import Setup
from tempering.sampling.checkpoint import StageDirectory, checkpoint_templates
from tempering.stats import Occupancy, chain_groups
from tempering.warmups import SelfAdjusting, adjust
from tempering.warmups.self_adjusting import corrected, halved, sams_gains

PRIOR = np.exp(exact.LOG_PRIOR)
RULES = ("sams", "wang_landau")


@pytest.fixture(scope="module")
def log_f() -> np.ndarray:
    return exact.log_densities(exact.small_path())


@pytest.fixture(scope="module")
def truth(log_f) -> np.ndarray:
    return logsumexp(log_f, axis=0) - logsumexp(log_f[:, 0])


def expected_occupancy(log_f, log_z: np.ndarray) -> np.ndarray:
    """q(k) under a guess, exactly: of posteriors and of visits alike."""
    return exact.joint_law(log_f, exact.LOG_PRIOR, log_z).sum(axis=0)


# Without randomness.


def test_the_recursion_stands_still_at_the_truth_and_gets_there(log_f, truth):
    """With ĉ replaced by q, eq. 19 ends at log Z to 1e-10, from a wrong guess and at any gain below 2.

    Kills: the sign, r_k left out, rung 0 not subtracted.
    """
    for gain in (0.3, 1.0, 1.5):
        log_z = np.array([exact.LOG_Z_GUESS])
        for _ in range(400):
            log_z = corrected(log_z, expected_occupancy(log_f, log_z[0])[None], np.array([[gain]]), PRIOR)
        np.testing.assert_allclose(log_z[0], truth, atol=1e-10)
    still = corrected(truth[None], PRIOR[None], np.full((1, 1), 0.7), PRIOR)
    np.testing.assert_allclose(still[0], truth, atol=1e-14)


def test_the_recursion_contracts_at_the_rate_of_its_gain(log_f, truth):
    """Near the truth an error shrinks by 1 − γ: what makes 1/t the best gain. Kills: ĉ/r with another power of r."""
    off = np.array([0.0, 2e-6, -1e-6])
    moved = corrected((truth + off)[None], expected_occupancy(log_f, truth + off)[None], np.full((1, 1), 0.25), PRIOR)
    np.testing.assert_allclose(moved[0] - truth, 0.75 * off, atol=1e-11)


@pytest.mark.parametrize("rule", RULES)
def test_the_bookkeeping_of_an_adjustment_written_out(rule, log_f, truth):
    """Short runs that give q(k) exactly, in groups of one chain and of two; the recursion by hand beside them.

    Kills: t that counts updates for draws, or draws of all groups; a histogram that is never emptied; δ for log(1 + δ);
    a gain that falls before every rung was visited.
    """
    how = SelfAdjusting(rule, num_steps=240, update_steps=2, flatness=0.5)
    adjusted = _fed_with_expectations(how, log_f, num_chains=12)
    for group, draws in ((0, 4), (9, 2)):
        by_hand = (_sams_by_hand if rule == "sams" else _wang_landau_by_hand)(how, log_f, draws)
        np.testing.assert_allclose(adjusted.log_z[group], by_hand, atol=1e-4)
    assert adjusted.log_z.shape == (10, 3)
    np.testing.assert_allclose(adjusted.log_z, np.tile(truth, (10, 1)), atol=0.05)
    np.testing.assert_allclose(adjusted.occupancy(), 1, atol=0.05)
    np.testing.assert_allclose(adjusted.visits.sum(axis=1), 60 * np.bincount(chain_groups(12)) * 2, rtol=1e-5)
    assert adjusted.has_slowed.all()
    assert adjusted.is_equilibrated


def test_gains_fall_slowly_and_then_as_one_over_t():
    """Kills: 1/t from the start, a jump at t_0, a gain before the flood is over."""
    t, t0, a = np.array([0.0, 1.0, 32.0, 100.0, 100.0 + 1e-9, 300.0]), np.full(6, 100.0), 0.6
    gains = sams_gains(t, t0, a)
    assert np.isinf(gains[0])
    np.testing.assert_allclose(gains[1:4], t[1:4] ** -a)
    np.testing.assert_allclose(gains[4], gains[3], rtol=1e-9)
    np.testing.assert_allclose(gains[5], 1 / (200 + 100**a))


def test_a_draw_adds_at_most_one_and_an_update_at_most_eq_19_with_gain_1():
    """While the flood lasts, here with all draws at one rung. Kills: the bound r_k, the bound 1/n, t that counts."""
    for num_chains, most in ((10, 2.0), (50, 5.0)):  # two draws a group; ten, of which 1/r_1 = 5 count
        how = SelfAdjusting("sams", num_steps=100, update_steps=2)
        stage = how.first(
            Setup(jax.random.key(0), exact.small_ladder().with_log_z(np.zeros(3)), tp.BlockGibbs(), num_chains)
        )
        seen = np.tile([0.0, 2.0, 0.0], (num_chains, 1))
        for number in range(40):
            stage = stage.after_block(2, stage.states, Occupancy(seen, seen, np.zeros(num_chains)))
            outcome = how.outcome(stage)
            np.testing.assert_allclose(outcome.log_z[:, 1], (number + 1) * most, rtol=1e-6)
            assert not outcome.has_slowed.any()
            stage = how.after(Setup(jax.random.key(0), stage.ladder, tp.BlockGibbs(), stage.num_chains, 1), stage)


def test_delta_is_halved_where_the_histogram_is_flat_until_one_over_t_takes_over():
    """Rung by rung relative to r_k. Kills: flatness by the mean, δ halved for ever, 1/t before the first halving."""
    histogram = np.array([[50.0, 20.0, 30.0], [50.0, 20.0, 2.0], [0.0, 0.0, 1.0], [50.0, 20.0, 30.0]])
    delta = np.array([0.5, 0.5, 1.0, 0.25])
    after, emptied = halved(delta, histogram, np.array([0.1, 0.1, 3.0, 0.2]), PRIOR, flatness=0.8)
    np.testing.assert_array_equal(after, [0.25, 0.5, 1.0, 0.0])
    np.testing.assert_array_equal(emptied, histogram * [[0], [1], [1], [0]])
    stays, _ = halved(np.zeros(1), histogram[:1], np.array([1e-9]), PRIOR, flatness=0.8)
    assert stays == 0


# The kernel.


def test_a_guided_step_follows_the_chains_own_guess(log_f):
    """Exact draws at rung 2 leave the joint law of the chain's own Ẑ invariant, whatever the ladder's Ẑ is.

    Kills: the rung drawn under the ladder's guess; the posterior of the ladder.
    """
    ladder, own = exact.small_ladder(), np.array([0.0, -0.5, 2.0], np.float32)
    law = exact.joint_law(log_f, exact.LOG_PRIOR, own.astype(np.float64))
    rng = np.random.default_rng(1)
    flat = rng.choice(law.size, size=20000, p=law.ravel())
    states, rungs = exact.states_of(ladder.path, exact.patterns(5)[flat // 3]), jnp.asarray(flat % 3, jnp.int32)
    guided = _guided(tp.Position(states, rungs), np.tile(own, (20000, 1)))
    keys = jax.random.split(jax.random.key(5), 20000)
    step = eqx.filter_jit(eqx.filter_vmap(lambda key, state: GuidedTempering(tp.BlockGibbs())(key, ladder, state)))
    after, draw = step(keys, guided)
    where = np.asarray(after.position.x.v).astype(int) @ (1 << np.arange(5)[::-1])
    checks.assert_law(np.bincount(3 * where + np.asarray(draw.rung), minlength=law.size), law)
    ladders = exact.joint_law(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    checks.assert_not_law(np.bincount(3 * where + np.asarray(draw.rung), minlength=law.size), ladders)
    expected = exact.rung_posterior(log_f, exact.LOG_PRIOR, own.astype(np.float64))[where]
    np.testing.assert_allclose(draw.posterior, expected, atol=2e-6)
    np.testing.assert_array_equal(after.log_z_guess, guided.log_z_guess)


# Runs.


@pytest.mark.parametrize(("rule", "estimator"), [
    ("sams", sams), pytest.param("wang_landau", wang_landau, marks=pytest.mark.slow),  # also in test_compare.py
])  # fmt: skip
def test_intervals_hold_on_a_small_rbm(rule, estimator):
    """The truth within the interval of level 1 − 1e-6, and nothing to complain of."""
    ladder = tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, tp.ladder.uniform_betas(11)))
    how = SelfAdjusting(rule, num_steps=1000)
    answer = estimator(
        adjust(jax.random.key(2), ladder, tp.BlockGibbs(), 100, how), log_z_base=ladder.path.log_z_base()
    )
    low, high = answer.interval_at(1 - checks.FALSE_FAILURE)
    assert low <= exact.small_rbm().exact_log_z() <= high
    assert answer.method == rule
    assert answer.dof == 9
    assert answer.std_error < 0.1
    assert not {f.verdict for f in answer.findings} & {
        tp.Verdict.UNEQUILIBRATED,
        tp.Verdict.UNREACHED,
        tp.Verdict.NONFINITE,
    }


def test_groups_do_not_know_of_one_another():
    """The first group of 20 chains ends the same whatever the other nine do. Kills: a Ẑ shared between groups."""
    ladder, how = exact.small_ladder(), SelfAdjusting(num_steps=20, update_steps=2)
    whole = adjust(jax.random.key(4), ladder, tp.BlockGibbs(), 20, how)
    stage = how.first(Setup(jax.random.key(4), ladder, tp.BlockGibbs(), 20))
    elsewhere = stage.states.log_z_guess.at[2:].add(jnp.array([0.0, 3.0, -9.0]))
    stage = dataclasses.replace(stage, states=dataclasses.replace(stage.states, log_z_guess=elsewhere))
    other = _driven(how, stage, ladder)
    np.testing.assert_array_equal(other.log_z[0], whole.log_z[0])
    assert not np.array_equal(other.log_z[1], whole.log_z[1])


@pytest.mark.parametrize("rule", RULES)
def test_the_stages_end_in_sampling_with_the_mean_of_the_groups(rule):
    """Kills: one update too many or too few, the Ẑ of one group for all, positions thrown away."""
    ladder, how, key = exact.small_ladder(), SelfAdjusting(rule, num_steps=10, update_steps=3), jax.random.key(6)
    stage, stages = how.first(Setup(key, ladder, tp.BlockGibbs(), 30)), []
    while not stage.is_sampling:
        for reached in stage.walk(key):
            stage = reached
        stages.append(stage)
        stage = how.after(Setup(key, ladder, tp.BlockGibbs(), stage.num_chains, 50), stage)
    assert [s.kind.label for s in stages] == ["adjusting"] * 4
    assert stage.warmup.num_steps == 12
    assert stage.num_steps == 50
    mean = adjust(key, ladder, tp.BlockGibbs(), 30, how).log_z.mean(axis=0)
    np.testing.assert_allclose(stage.ladder.log_z_guess, mean, atol=1e-6)
    np.testing.assert_array_equal(stage.states.x.v, stages[-1].states.position.x.v)


def test_a_warm_up_by_adjusting_serves_an_estimate():
    """Through the one-call door; its verdict names an adjustment that was too short. Kills: one always called good."""
    rbm, base = exact.small_rbm(), exact.BASE_FREQUENCIES
    long_enough = tp.estimate(rbm, base, num_rungs=11, num_sweeps=400, warmup=SelfAdjusting(num_steps=500))
    low, high = long_enough.log_z_by_rung.interval_at(1 - checks.FALSE_FAILURE)
    assert low <= rbm.exact_log_z() <= high
    assert long_enough.num_warmup_sweeps == 500
    short = tp.estimate(rbm, base, num_rungs=11, num_sweeps=20, warmup=SelfAdjusting(num_steps=2, update_steps=1))
    assert tp.Verdict.UNEQUILIBRATED in {finding.verdict for finding in short.diagnosis.findings}


@pytest.mark.parametrize("rule", RULES)
def test_an_adjustment_is_resumed_to_the_same_bits(tmp_path, rule):
    """Saved and restored after every short run. Kills: a part of the schedule that is kept outside of the states."""
    ladder, how, key = exact.small_ladder(), SelfAdjusting(rule, num_steps=12, update_steps=2), jax.random.key(7)
    expected = adjust(key, ladder, tp.BlockGibbs(), 20, how)
    first = how.first(Setup(key, ladder, tp.BlockGibbs(), 20))
    templates = checkpoint_templates(how, Setup(key, ladder, tp.BlockGibbs(), 20))
    stage = first
    with StageDirectory(tmp_path, {}, resume=True) as directory:
        for number in range(how.num_updates):
            for reached in stage.walk(key):
                directory.save(reached, 0.0)
            stage, _ = directory.restore(templates)
            if number + 1 < how.num_updates:
                stage = how.after(Setup(key, ladder, tp.BlockGibbs(), stage.num_chains, 1), stage)
    ended = how.outcome(stage)
    for field in dataclasses.fields(Adjusted):
        np.testing.assert_array_equal(getattr(ended, field.name), getattr(expected, field.name))


# What may be said of it.


def equilibrated(num_groups: int = 10, **changes) -> Adjusted:
    """Ten groups that agree and have visited their rungs as they should."""
    rng = np.random.default_rng(3)
    log_z = np.array([0.0, 1.0, -2.0]) + rng.normal(0, 0.05, (num_groups, 3)) * [0, 1, 1]
    halfway = log_z + rng.normal(0, 0.05, (num_groups, 3)) * [0, 1, 1]
    visits = np.tile(1000 * PRIOR, (num_groups, 1))
    plain = {
        "posterior": visits,
        "visits": visits,
        "has_slowed": np.ones(num_groups, bool),
        "log_prior": exact.LOG_PRIOR,
    }
    return Adjusted(**{"log_z": log_z, "halfway": halfway, **plain, **changes})


def test_the_answer_is_the_mean_of_the_groups_with_their_scatter():
    """And with what the second half shows of a start that they share.

    Kills: n for n − 1, the scatter of one group for that of the mean, a base that is not added, drift not in the error.
    """
    adjusted = equilibrated()
    answer = sams(adjusted, log_z_base=3.0)
    np.testing.assert_allclose(answer.values, 3 + adjusted.log_z.mean(axis=0), atol=1e-12)
    moved = adjusted.halfway - adjusted.log_z
    start = np.maximum(moved.mean(axis=0) ** 2 - moved.var(axis=0, ddof=1) / 10, 0)
    expected = np.sqrt(adjusted.log_z.var(axis=0, ddof=1) / 10 + start)
    np.testing.assert_allclose(answer.std_errors, expected, atol=1e-12)
    np.testing.assert_allclose(answer.biases, moved.mean(axis=0), atol=1e-12)
    drifting = sams(dataclasses.replace(adjusted, halfway=adjusted.halfway + np.array([0.0, 0.0, 5.0])))
    assert drifting.std_error == pytest.approx(5.0, abs=0.1)
    assert answer.dof == 9
    assert answer.findings == ()
    assert (answer.method, wang_landau(adjusted).method) == ("sams", "wang_landau")
    assert sams(equilibrated(num_groups=1)).verdict is tp.Verdict.NO_ERROR


def _but(**changes) -> Adjusted:
    return equilibrated(**changes)


GOOD = equilibrated()


@pytest.mark.parametrize(("adjusted", "verdict"), [
    (_but(posterior=GOOD.posterior * [1, 0.6, 1]), tp.Verdict.UNEQUILIBRATED),
    (_but(visits=GOOD.visits * [1, 0, 1]), tp.Verdict.UNREACHED),
    (_but(posterior=GOOD.posterior * 0.9), tp.Verdict.NONFINITE),
    (_but(has_slowed=np.arange(10) > 0), tp.Verdict.UNEQUILIBRATED),
    (_but(log_z=GOOD.log_z + np.arange(10)[:, None] * [0, 0, 1], halfway=GOOD.log_z), tp.Verdict.RELAXING),
    (_but(log_z=GOOD.halfway + [0.0, 0.0, 0.3] + 0.2 * (GOOD.log_z - GOOD.halfway)), tp.Verdict.RELAXING),
    (_but(log_z=GOOD.log_z + np.arange(-9, 10, 2)[:, None] * [0, 0, 1]), tp.Verdict.UNEQUILIBRATED),
])  # fmt: skip
def test_what_is_not_to_be_believed_is_named(adjusted, verdict):
    """Kills: each check left out."""
    assert verdict in {finding.verdict for finding in sams(adjusted).findings}


def test_the_papers_plain_gain_would_not_go_unnoticed():
    """Groups that agree on 5 nats too little while the top is hardly visited. Kills: trust in the scatter alone."""
    occupancy = np.tile([700.0, 250.0, 50.0], (10, 1))
    assert sams(equilibrated(posterior=occupancy, visits=occupancy)).verdict is tp.Verdict.UNEQUILIBRATED


@pytest.mark.parametrize("wrong", [
    {"rule": "tan"}, {"update_steps": 0}, {"update_steps": 9, "num_steps": 8}, {"update_steps": 251},
    {"decay": 0.5}, {"burn_in": 0.0}, {"flatness": 1.5},
])  # fmt: skip
def test_what_cannot_work_is_refused(wrong):
    with pytest.raises(tp.InputError, match="must"):
        SelfAdjusting(**wrong)


def _guided(position: tp.Position, guess: np.ndarray) -> Guided:
    none, one = jnp.zeros_like(guess), jnp.ones(len(guess))
    return Guided(position, jnp.asarray(guess), none, none, none, 0 * one, none, one, one)


def _driven(how: SelfAdjusting, stage, ladder) -> Adjusted:
    while True:
        for reached in stage.walk(jax.random.key(4)):
            stage = reached
        if stage.number + 1 == how.num_updates:
            return how.outcome(stage)
        stage = how.after(Setup(jax.random.key(4), ladder, tp.BlockGibbs(), stage.num_chains, 1), stage)


def _sams_by_hand(how: SelfAdjusting, log_f, draws: int) -> np.ndarray:
    log_z, t0 = exact.LOG_Z_GUESS, how.burn_in * how.num_updates * draws
    for update in range(how.num_updates):
        t = update * draws  # all rungs are visited at once, so t counts from the first update
        gain = np.inf if t == 0 else t**-how.decay if t <= t0 else 1 / (t - t0 + t0**how.decay)
        gains = np.minimum(np.minimum(PRIOR, gain), 1 / draws)
        log_z = log_z + gains * draws * expected_occupancy(log_f, log_z) / PRIOR
    return log_z - log_z[0]


def _wang_landau_by_hand(how: SelfAdjusting, log_f, draws: int) -> np.ndarray:
    log_z, delta, histogram, one_over_t = exact.LOG_Z_GUESS, 1.0, np.zeros(3), False
    for update in range(1, how.num_updates + 1):
        visits = draws * expected_occupancy(log_f, log_z)
        histogram = histogram + visits
        if not one_over_t and np.all(histogram / histogram.sum() > (1 - how.flatness) * PRIOR):
            delta, histogram = delta / 2, np.zeros(3)
        one_over_t = one_over_t or (delta < 1 and delta <= 3 / (update * draws))
        gain = np.log1p(3 / (update * draws) if one_over_t else delta) / 3
        log_z = log_z + min(gain, 1 / draws) * visits / PRIOR
    return log_z - log_z[0]


def _fed_with_expectations(how: SelfAdjusting, log_f, num_chains: int) -> Adjusted:
    """All updates of an adjustment whose every short run gives q(k) exactly, as posteriors and as visits."""
    ladder, key = exact.small_ladder(), jax.random.key(0)
    stage = how.first(Setup(key, ladder, tp.BlockGibbs(), num_chains))
    while True:
        guesses = np.asarray(stage.states.log_z_guess, np.float64)
        shares = how.update_steps * np.array([expected_occupancy(log_f, guess) for guess in guesses])
        stage = stage.after_block(how.update_steps, stage.states, Occupancy(shares, shares, np.zeros(num_chains)))
        if stage.number + 1 == how.num_updates:
            return how.outcome(stage)
        stage = how.after(Setup(key, ladder, tp.BlockGibbs(), stage.num_chains, 1), stage)
