"""Where rungs go and how many there are: distances with closed forms, and ladders that follow from them."""

import itertools
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import checks
import exact
import tempering as tp
from tempering.ladder import LadderRule, StepLengths, power_betas, uniform_betas
from tempering.ladder.step_lengths import LONGEST_STEP, RUNG_NUMBERS, rejection_lengths, root_kl_lengths
from tempering.sampling import Setup
from tempering.sampling.checkpoint import StageDirectory, checkpoint_templates
from tempering.warmups import AnnealedStart

NORMAL = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]  # as even as so many numbers can be
FEW = stats.norm.ppf((np.arange(400) + 0.5) / 400)[:, None]


def pairwise(increments: np.ndarray) -> float:
    """½ E|Δ − Δ′| over all pairs of different chains, one by one."""
    return float(np.mean([abs(a - b) / 2 for a, b in itertools.combinations(increments, 2)]))


# Distances.


def test_both_measures_of_normal_increments():
    """σ and σ/√π, whatever the mean; 20,000 numbers are within 1e-4 of the law. Kills: another tail's correction,
    ½ left out, √π for √(2π) (which is the total variation's)."""
    scales, means = np.array([0.01, 0.3, 2.0]), np.array([-5.0, 0.0, 40.0])
    increments = means + scales * NORMAL
    np.testing.assert_allclose(root_kl_lengths(increments), scales, rtol=1e-4)
    np.testing.assert_allclose(rejection_lengths(increments), scales / np.sqrt(np.pi), rtol=1e-4)
    ratios = rejection_lengths(increments) / root_kl_lengths(increments)
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-10)


@pytest.mark.parametrize("num_chains", [2, 3, 8])
def test_the_rejection_is_half_the_mean_difference_of_pairs(num_chains, monkeypatch):
    """Against every pair, with nothing pulled in. Kills: i (n − i) off by one, n² for n (n − 1), unsorted gaps."""
    monkeypatch.setattr("tempering.ladder.step_lengths._TAIL", 0.0)
    monkeypatch.setattr("tempering.ladder.step_lengths._AT_TAIL", 30.0)  # where a normal law has nothing left
    increments = np.random.default_rng(num_chains).gumbel(size=(num_chains, 4)) * [0.1, 1, 2, 30]
    expected = [pairwise(column) for column in increments.T]
    np.testing.assert_allclose(rejection_lengths(increments), expected, rtol=1e-12)


def test_the_rejection_is_that_of_an_exchange():
    """1 − E min(1, exp(Δ(x) − Δ(y))) between neighbours k and k + 1, listed state by state, for a short step.

    To first order in the step h, so that the difference falls as h². Kills: a missing ½, σ of one density for both.
    """
    rng = np.random.default_rng(3)
    energy, base = rng.gumbel(size=60), rng.dirichlet(np.full(60, 3.0))

    def exchanged(step: float) -> tuple[float, float]:
        other = base * np.exp(step * energy)
        other /= other.sum()
        rejected = 1 - np.minimum(1, np.exp(step * (energy[:, None] - energy))) @ other @ base
        return float(rejected), float(step * np.abs(energy[:, None] - energy) @ base @ base / 2)

    exact_rejection, first_order = exchanged(1e-3)
    assert first_order == pytest.approx(exact_rejection, rel=2e-3)
    draws = np.repeat(energy, np.rint(base * 20_000).astype(int))[:, None]
    assert rejection_lengths(1e-3 * draws)[0] == pytest.approx(exact_rejection, rel=0.03)  # tails are pulled in


def test_a_few_chains_far_out_change_little():
    """1 % of the chains a million nats away: √KL by quantiles and rejections with their tails pulled in stay put."""
    increments = NORMAL[50::100].copy()
    increments[:2] = -1e6
    assert root_kl_lengths(increments)[0] == pytest.approx(1.0, abs=0.02)
    assert rejection_lengths(increments)[0] == pytest.approx(1 / np.sqrt(np.pi), rel=0.05)


@pytest.mark.parametrize("lengths", [root_kl_lengths, rejection_lengths])
def test_of_very_many_chains_some_are_enough(lengths):
    """Kills: the first ones only. Up to 20,000 chains all count."""
    increments = np.random.default_rng(2).normal(size=(20_000, 3)) * np.linspace(1.0, 3.0, 20_000)[:, None]
    twice = np.repeat(increments, 2, axis=0)
    np.testing.assert_array_equal(lengths(twice), lengths(increments))
    assert not np.allclose(lengths(increments), lengths(increments[::2]), rtol=1e-6)


def test_two_phases_are_seen_by_rejections_even_where_one_is_rare():
    """A tenth of the chains 5 nats behind, as at a phase transition: the quantiles at ±σ do not see them."""
    increments = 0.05 * NORMAL.copy()
    increments[np.arange(len(increments)) % 10 == 0] -= 5
    assert root_kl_lengths(increments)[0] < 0.1
    assert rejection_lengths(increments)[0] == pytest.approx(0.1 * 0.9 * 5, rel=0.1)


@pytest.mark.parametrize("measure", [root_kl_lengths, rejection_lengths])
def test_lost_chains_are_left_out(measure):
    """NaN and −inf as if those chains were not there; a step that no two chains took is of no length."""
    increments = np.random.default_rng(0).normal(size=(30, 3))
    with_lost = np.concatenate([increments, [[np.nan] * 3, [-np.inf] * 3]])
    np.testing.assert_allclose(measure(with_lost), measure(increments), rtol=1e-12)
    with_lost[1:, 1] = np.nan
    with_lost[:, 2] = -np.inf
    assert measure(with_lost)[0] > 0
    np.testing.assert_array_equal(measure(with_lost)[1:], 0)


# Ladders with closed forms.


def test_the_length_of_a_shift():
    """N(βL, 1) from 0 to L: √KL is L and the barrier L/√π, at any pace. Kills: steps that are not added up."""
    fine, distance = np.linspace(0, 1, 101) ** 2, 7.0
    spacing = StepLengths.from_increments(fine, np.diff(fine) * distance * NORMAL, "kl")
    length = spacing.length(uniform_betas(8))
    assert length.root_kl == pytest.approx(distance, rel=1e-4)
    assert length.barrier == pytest.approx(distance / np.sqrt(np.pi), rel=1e-4)
    assert length.longest_step == pytest.approx(distance / 7, rel=1e-4)


def narrowing(ratio: float, num_steps: int, power: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """β of a pass from precision 1 to `ratio` in one dimension, and its increments by even draws: −½ dλ x²."""
    fine = np.linspace(0, 1, num_steps + 1) ** power
    precision = 1 + fine[:-1] * (ratio - 1)
    return fine, -0.5 * np.diff(fine) * (ratio - 1) / precision * FEW**2


@pytest.mark.parametrize("measure", ["kl", "rejection"])
def test_a_narrowing_density_is_spaced_evenly_in_the_log_of_its_precision(measure):
    """V = −½ x² has E|V − V′|/2 = 1/(πλ): the barrier is log(ratio)/π, and steps are even in log λ by both measures.

    With even draws the increments of all steps have one shape, so that only the finite steps of the pass are seen:
    a step of log λ is a twentieth here. Kills: betas from the wrong measure's sum, lengths per β for lengths per step.
    """
    ratio = 50.0
    fine, increments = narrowing(ratio, 4000, power=3.0)
    spacing = StepLengths.from_increments(fine, increments, measure)
    barrier = spacing.rejection.sum()
    assert barrier == pytest.approx(np.log(ratio) / np.pi, rel=0.07)  # the tails, long for a square, are pulled in
    lengths = spacing.root_kl if measure == "kl" else spacing.rejection
    until = np.concatenate([[0.0], np.cumsum(lengths)])
    share = np.interp(np.linspace(0, 1, 5), until / until[-1], fine)
    np.testing.assert_allclose(1 + share * (ratio - 1), ratio ** np.linspace(0, 1, 5), rtol=2e-3)
    betas = spacing.betas(60)  # nine tenths by length, one tenth by the pass
    steps = np.diff(np.log1p(betas * (ratio - 1)))
    assert steps.max() < 1.15 * np.log(ratio) / 59


def test_the_measures_differ_where_increments_are_not_normal():
    """Kills: one measure for both names."""
    fine = np.linspace(0, 1, 3)
    increments = np.concatenate([NORMAL, np.where(NORMAL > 1.2, 5.0, 0.01 * NORMAL)], axis=1)
    by_kl, by_rejection = (
        StepLengths.from_increments(fine, increments, measure).betas(21) for measure in ("kl", "rejection")
    )
    assert (by_kl > 0.5).sum() < 5
    assert (by_rejection > 0.5).sum() > 8


# How many.


@pytest.mark.parametrize("distance", [0.01, 3.0, 20.0, 60.0, 350.0, 1e6])
def test_the_number_of_rungs_is_the_least_of_the_list_that_steps_finely_enough(distance):
    """Kills: the next size, steps by their mean, a number that is not on the list."""
    fine = np.linspace(0, 1, 2001)
    spacing = StepLengths.from_increments(fine, np.diff(fine) * distance * FEW, "kl")
    for betas_of in (uniform_betas, spacing.betas):
        chosen = spacing.num_rungs(betas_of)
        assert chosen in RUNG_NUMBERS
        if chosen != RUNG_NUMBERS[-1]:
            assert spacing.longest_step(betas_of(chosen)) <= LONGEST_STEP
        if chosen != RUNG_NUMBERS[0]:
            smaller = RUNG_NUMBERS[RUNG_NUMBERS.index(chosen) - 1]
            assert spacing.longest_step(betas_of(smaller)) > LONGEST_STEP


def test_the_longest_step_decides_where_rungs_stay():
    """All of the length in the first hundredth: uniform rungs must be many, respaced ones few."""
    fine = np.linspace(0, 1, 1001)
    scale = np.where(fine[:-1] < 0.01, 1.0, 1e-6)
    spacing = StepLengths.from_increments(fine, scale * FEW, "kl")
    assert spacing.num_rungs(uniform_betas) == 1600
    assert spacing.num_rungs(spacing.betas) == 25


def test_a_pass_that_saw_nothing_gives_the_default():
    spacing = StepLengths.from_increments(np.linspace(0, 1, 11), np.full((5, 10), np.nan), "kl")
    assert spacing.num_rungs(uniform_betas) == 100
    np.testing.assert_allclose(spacing.betas(3), [0, 0.5, 1])


# Whole runs.


HOW = {"num_chains": 100, "num_sweeps": 300, "seed": 4, "warmup": AnnealedStart(60, (40, 80))}


def estimated(**changes) -> tp.Result:
    return tp.estimate(exact.small_rbm(), exact.BASE_FREQUENCIES, **HOW | changes)


@pytest.mark.parametrize("betas", ["adaptive", "adaptive:rejection", "uniform"])
def test_log_z_stays_right_on_a_ladder_that_was_chosen(betas):
    """The pilot alone chooses the rungs, so that the draws that count are as good as on a ladder given beforehand."""
    result = estimated(betas=betas, num_rungs="auto")
    assert result.num_rungs == 25  # a short way
    checks.assert_within(result.log_z, exact.small_rbm().exact_log_z(), result.std_error)
    np.testing.assert_allclose(np.exp(result.recording.stats.log_prior).sum(), 1, rtol=1e-5)


def stages_of(warmup: AnnealedStart, num_steps: int, betas: np.ndarray) -> list:
    """Every finished stage."""
    ladder = tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, betas))
    setup = Setup(jax.random.key(1), ladder, tp.BlockGibbs(), num_chains=50, num_steps=num_steps)
    stage, finished = warmup.first(setup), []
    while True:
        for reached in stage.walk(setup.key):
            stage = reached
        finished.append(stage)
        if stage.is_sampling:
            return finished
        stage = warmup.after(setup, stage)


def test_rungs_follow_from_the_annealing_pass_alone():
    """Its increments give the very ladder of all that follows. Kills: rungs that later draws move, a number of rungs
    or a prior that stays behind, a length that is lost on the way."""
    rule = LadderRule("adaptive:rejection", "exp:3")
    warmup = AnnealedStart(60, (20, 20), respaces=True, measure="rejection", chooses_number=True, rule=rule)
    anneal, *tempered = stages_of(warmup, 30, power_betas(12))
    fine = np.asarray(anneal.ladder.path.betas, np.float64)
    spacing = StepLengths.from_increments(fine, anneal.recording.log_increments, "rejection")
    betas = spacing.betas(spacing.num_rungs(spacing.betas))
    for stage in tempered:
        np.testing.assert_array_equal(stage.ladder.path.betas, betas.astype(np.float32))
        np.testing.assert_allclose(stage.ladder.log_prior, rule.log_prior_of(betas), rtol=1e-5)
        assert stage.warmup.length == spacing.length(np.asarray(stage.ladder.path.betas, np.float64))
    assert len(betas) == 25
    again = stages_of(warmup, 1, power_betas(12))[-1]  # other draws that count, the same ladder
    np.testing.assert_array_equal(again.ladder.path.betas, tempered[-1].ladder.path.betas)


def test_chains_start_at_the_rungs_nearest_to_where_they_were_kept():
    """Kills: rungs of the old ladder taken for rungs of the new one."""
    rule = LadderRule("uniform", "ends")
    anneal, settle = stages_of(AnnealedStart(60, (), chooses_number=True, rule=rule), 1, uniform_betas(60))
    kept = np.asarray(anneal.ladder.path.betas)[np.asarray(anneal.states.kept_at)]
    start = AnnealedStart(60, (), chooses_number=True, rule=rule)
    ladder = tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, uniform_betas(60)))
    first = start.after(Setup(jax.random.key(1), ladder, tp.BlockGibbs(), 50, 1), anneal)
    assert settle.ladder.path.num_rungs == 25
    found = np.asarray(first.ladder.path.betas)[np.asarray(first.states.rung)]
    assert np.abs(found - kept).max() < 0.5 / 24 + 0.5 / 59 + 1e-6


STOPS = (3, 10, 20, 30, 40)


@pytest.mark.parametrize(("betas", "prior", "stops"), [
    ("adaptive", "ends", STOPS), ("uniform", "uniform", (10, 30)),
    pytest.param("uniform", "uniform", STOPS, marks=pytest.mark.slow),
    pytest.param("adaptive", "exp:2", STOPS, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_run_that_chose_its_rungs_resumes_to_the_same_bits(tmp_path, betas, prior, stops):
    """Cut while annealing, while settling, at the first and at a later draw that counts. Kills: the template's number
    of rungs, ends from a rounded prior, a path made of betas that were rounded at another time."""
    how = {"num_chains": 20, "num_sweeps": 32, "num_rungs": "auto", "betas": betas, "rung_weights": prior, "seed": 3}
    how["warmup"] = AnnealedStart(24, (8, 8))
    whole = tp.estimate(exact.small_rbm(), exact.BASE_FREQUENCIES, **how)
    for stop in stops:
        calls = itertools.count()
        with suppress(tp.Interrupted):
            tp.estimate(
                exact.small_rbm(), exact.BASE_FREQUENCIES, out=tmp_path / str(stop),
                watch=lambda _, calls=calls, stop=stop: next(calls) == stop, **how,
            )  # fmt: skip
        again = tp.estimate(exact.small_rbm(), exact.BASE_FREQUENCIES, out=tmp_path / str(stop), resume=True, **how)
        assert again.log_z == whole.log_z
        assert again.diagnosis.findings == whole.diagnosis.findings
        assert again.diagnosis.round_trips_per_chain == whole.diagnosis.round_trips_per_chain
        np.testing.assert_array_equal(again.betas, whole.betas)
        np.testing.assert_array_equal(again.recording.transition_counts, whole.recording.transition_counts)


@pytest.mark.parametrize("chooses_number", [True, False])
def test_the_length_of_the_path_is_kept_in_the_checkpoint(tmp_path, chooses_number):
    """And the ladder with it, its number of rungs and its ends, of which a rounded prior has others at K = 140.

    Kills: a length that is forgotten, ends made anew, the template's number of rungs.
    """
    rule = LadderRule("uniform", "uniform")
    warmup = AnnealedStart(20, (4,), chooses_number=chooses_number, rule=rule)
    ladder = tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, uniform_betas(140)))
    setup = Setup(jax.random.key(1), ladder, tp.BlockGibbs(), num_chains=10, num_steps=4)
    stages = stages_of(warmup, 4, uniform_betas(140))
    with StageDirectory(tmp_path, {}, resume=True) as directory:
        for stage in stages:
            directory.save(stage, 1.0)
            restored, _ = directory.restore(checkpoint_templates(warmup, setup))
            assert restored.warmup == stage.warmup
            for name in ("log_prior", "log_z_guess", "ends"):
                np.testing.assert_array_equal(getattr(restored.ladder, name), getattr(stage.ladder, name))
    assert stages[0].warmup.length is None
    assert stages[-1].warmup.length.barrier > 0


@pytest.mark.slow
def test_steps_are_tuned_on_a_ladder_that_was_chosen(tmp_path):
    """A move with a size and a number of rungs that changes under it, cut and resumed."""
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2) * 400, tp.Normal(jnp.zeros(3), 2.0))
    how = {"num_chains": 20, "num_sweeps": 200, "num_rungs": "auto", "seed": 1, "warmup": AnnealedStart(100, (60, 60))}
    whole = tp.estimate(model, **how)
    assert whole.num_rungs in RUNG_NUMBERS
    checks.assert_within(whole.log_z, 1.5 * np.log(2 * np.pi / 400), whole.std_error)
    calls = itertools.count()
    with suppress(tp.Interrupted):
        tp.estimate(model, out=tmp_path, watch=lambda _: next(calls) == 34, **how)
    again = tp.estimate(model, out=tmp_path, resume=True, **how)
    assert again.log_z == whole.log_z
    np.testing.assert_array_equal(again.acceptance, whole.acceptance)


# The door.


@pytest.mark.parametrize("wrong", [
    {"num_rungs": "many"}, {"num_rungs": "auto", "betas": [0, 0.5, 1]}, {"num_rungs": "auto",
    "rung_weights": np.zeros(3)},
    {"num_rungs": "auto", "warmup": "iterations"}, {"betas": "adaptive:magic"}, {"betas": "uniform:2"},
], ids=str)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(wrong):
    with pytest.raises(tp.InputError) as refusal:
        estimated(**wrong)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) > 30


def test_a_warm_up_that_counts_rungs_needs_a_rule():
    with pytest.raises(tp.InputError, match="rule"):
        AnnealedStart(chooses_number=True)
    with pytest.raises(tp.InputError, match="kl, rejection"):
        AnnealedStart(measure="entropy")


def test_words_become_the_warm_up():
    """Kills: a measure or a rule that is dropped on the way, a rule that is given where none is needed."""
    rule, plain = LadderRule("adaptive:rejection", "auto"), LadderRule("adaptive", "auto")
    for word, warmup in (
        ("sequential", tp.SequentialStart),
        ("annealed", AnnealedStart),
        ("hysteresis", tp.HysteresisStart),
    ):
        expected = warmup(respaces=True, measure="rejection", chooses_number=True, rule=rule)
        settings = tp.api.Settings(warmup=word, betas="adaptive:rejection", num_rungs="auto")
        assert settings.make_warmup() == expected
        given = tp.api.Settings(warmup=word, betas="adaptive", num_rungs=100)
        assert given.make_warmup() == warmup(respaces=True)
        free = warmup(respaces=True, chooses_number=True, least_rungs=100, rule=plain)
        assert tp.api.Settings(warmup=word, betas="adaptive").make_warmup() == free  # 100 rungs at least
        assert tp.api.Settings(warmup=word, betas="uniform").make_warmup() == warmup()
    assert type(tp.api.Settings().make_warmup()) is tp.SequentialStart
    assert tp.api.Settings(num_rungs="auto").with_spacing("adaptive").make_betas().shape == (100,)


def test_the_weights_of_a_respaced_ladder_follow_its_betas():
    """r_k ∝ exp(2 β_k) at the betas of the run. Kills: weights of the betas it began with."""
    result = estimated(betas="adaptive", num_rungs=12, rung_weights="exp:2", num_sweeps=20)
    log_prior = result.recording.stats.log_prior
    np.testing.assert_allclose(log_prior - log_prior[0], 2 * result.betas, atol=1e-5)
