"""Running until the error is small enough: when to look, when to give up, and what stopping does to the answer."""

import dataclasses
import json
import math
import re
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import exact
import tempering as tp
from tempering.api import Interrupted
from tempering.diagnosis import Decision, Goal, Look, decide
from tempering.diagnosis import stopping as stopping
from tempering.diagnosis.stopping import END, Hope, rounded_up, too_short
from tempering.ladder import LearnedWeights
from tempering.verdicts import Finding, Verdict

GOAL = Goal(0.05, 100_000)


def seen(std_error: float, *verdicts: Verdict, num_sweeps: int = 1000, num_discarded: int = 0) -> Look:
    return Look(num_sweeps, num_discarded, std_error, tuple(Finding(v, "seen", "cure") for v in verdicts))


# The rule by itself.


@pytest.mark.parametrize(("std_error", "num_more"), [
    (0.05, 0),  # there
    (0.0501, 400),  # not quite: 1.4 times the length at least
    (0.07, 1352),  # 1.2 × 1.4² = 2.352 times the length
    (0.09, 2888),  # 1.2 × 1.8² = 3.888
    (0.1, 3000), (5.0, 3000), (math.inf, 3000),  # 4 times at most
])  # fmt: skip
def test_the_next_look_lies_where_the_error_should_be_small_enough(std_error, num_more):
    """Kills: error and target the wrong way up, no square, no margin, no limits, < for ≤."""
    assert decide(seen(std_error), GOAL) == Decision(num_more)
    assert decide(seen(std_error, num_discarded=500), GOAL) == Decision(num_more)  # only what counts has an error


def test_missing_round_trips_are_looked_for_where_half_of_the_missing_sweeps_are_done():
    """Kills: all of them, which waits for half a trip too long; the error forgotten; that rule in what is advised."""
    stuck = dataclasses.replace(seen(0.04, Verdict.STUCK), missing=2.5)
    assert decide(stuck, GOAL) == Decision(750)
    assert decide(dataclasses.replace(stuck, std_error=0.08), GOAL) == Decision(2072)  # 1.2 × 1.6² = 3.072
    short = too_short(dataclasses.replace(stuck, std_error=0.051), Goal(0.05, 1000))
    assert short is not None
    assert "about 2500 would do" in short.seen


def test_looks_lie_at_whole_blocks_within_the_budget():
    """Kills: blocks rounded down, a budget that forgets what was discarded, rounding beyond the budget."""
    look = seen(0.07, num_discarded=500)
    assert decide(look, GOAL, 64) == Decision(22 * 64)
    assert decide(look, Goal(0.05, 2000), 64) == Decision(500)
    assert decide(look, Goal(0.05, 1501), 64) == Decision(1)
    assert decide(look, Goal(0.05, 1500), 64) == END


def test_learned_weights_are_taken_where_they_save_a_quarter_of_what_is_left():
    """Of 1.2 × 4² = 19.2 lengths 18.2 are left; with a gain of g it is 19.2 / g, from the beginning.

    Kills: an answer that is there already and starts again, a length that forgets the gain, weights that are lost.
    """
    log_prior = np.log([0.2, 0.3, 0.5])
    for gain, is_better in ((1.0, False), (1.4, False), (1.41, True), (8.0, True)):
        decision = decide(dataclasses.replace(seen(0.2), learned=LearnedWeights(log_prior, gain)), GOAL)
        assert decision.is_anew is is_better
        assert (decision.log_prior is log_prior) is is_better
        assert decision.num_more == (3000 if not is_better else 2400 if gain == 8.0 else 4000)
    learned = LearnedWeights(log_prior, 8.0)
    assert decide(dataclasses.replace(seen(0.05), learned=learned), GOAL) == END
    little = dataclasses.replace(GOAL, max_sweeps=1900)  # less is left than there is already
    assert not decide(dataclasses.replace(seen(0.2), learned=learned), little).is_anew
    stuck = dataclasses.replace(seen(0.2), learned=learned, missing=37.4)  # 19.2 lengths for round trips alone
    assert not decide(stuck, GOAL).is_anew


def test_every_verdict_has_its_hope():
    """Guards whoever adds a verdict: the rule must know whether more sweeps help, and the page must say so.

    Kills: any entry of the table changed for another.
    """
    assert set(stopping.HOPES) == set(Verdict) - {Verdict.GOOD}
    page = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "stopping.md").read_text()
    rows = re.findall(r"^\| (`[A-Z_`, ]+`) \| it ", page, re.M)
    order = (Hope.MORE, Hope.ANEW, Hope.MORE_IF_NOISY, Hope.NONE)
    said = {Verdict[n]: hope for row, hope in zip(rows, order, strict=True) for n in re.findall(r"\w+", row)}
    assert said | {Verdict.SHORT: Hope.MORE} == stopping.HOPES


@pytest.mark.parametrize("verdict", stopping.HOPES)
@pytest.mark.parametrize("std_error", [0.02, 0.07])
def test_what_each_verdict_leads_to(verdict, std_error):
    """Kills: stopping at a verdict that sweeps cure, going on with one that they do not, discarding without need."""
    hope, is_there = stopping.HOPES[verdict], std_error <= 0.05
    decision = decide(seen(std_error, verdict), GOAL)
    growth = 400 if is_there else 1352
    if hope is Hope.NONE or (hope is Hope.MORE_IF_NOISY and is_there):
        assert decision == END
    elif hope is Hope.ANEW:
        assert decision == Decision(1000 + growth, is_anew=True)
    else:
        assert decision == Decision(growth)


def test_several_findings():
    """Guards which of them decides: one without hope ends it, one that sweeps cure outweighs one that they may not."""
    assert decide(seen(0.1, Verdict.STUCK, Verdict.NONFINITE), GOAL) == END
    assert decide(seen(0.02, Verdict.DISAGREES, Verdict.NO_OVERLAP), GOAL) == END
    assert decide(seen(0.02, Verdict.DISAGREES, Verdict.STUCK), GOAL) == Decision(400)
    assert decide(seen(0.02, Verdict.STUCK, Verdict.UNEVEN), GOAL) == Decision(1400, is_anew=True)


def test_nothing_is_discarded_for_less_than_there_is():
    """Kills: beginning anew with a budget that does not reach as far as the run has come."""
    assert decide(seen(0.1, Verdict.UNEVEN), Goal(0.05, 2000)) == Decision(1000)
    assert decide(seen(0.1, Verdict.UNEVEN), Goal(0.05, 2001)) == Decision(1001, is_anew=True)


@pytest.mark.parametrize("always", [Verdict.STUCK, Verdict.UNEVEN, None])
def test_looks_are_few_and_the_budget_is_kept(always):
    """Guards the end of every run: what never gets better is looked at 15 times at most."""
    num_sweeps, num_discarded, looks, goal = 100, 0, 0, Goal(0.05, stopping.BUDGET * 100)
    while True:
        findings = () if always is None else (always,)
        decision = decide(seen(0.051, *findings, num_sweeps=num_sweeps, num_discarded=num_discarded), goal, 7)
        looks += 1
        if decision.ends:
            break
        if decision.is_anew:
            num_sweeps, num_discarded = decision.num_more, num_discarded + num_sweeps
        else:
            num_sweeps += decision.num_more
    assert num_sweeps + num_discarded == goal.max_sweeps
    assert looks <= 15


def test_too_short_says_what_would_do():
    """Kills: saying so when the error is there or the budget is not spent; a prediction without what was discarded."""
    spent = Goal(0.05, 1500)
    finding = too_short(seen(0.12, num_discarded=500), spent)
    assert finding is not None
    assert finding.verdict is Verdict.SHORT
    # 500 + 1.2 × 1000 × (0.12/0.05)² = 7412
    assert finding.seen == "the error is 0.12 after 1500 sweeps, 0.05 was asked for; about 7500 would do"
    assert finding.cure == "allow `max_sweeps=7500`, or accept `target_error=0.13`"
    assert too_short(seen(0.05, num_discarded=500), spent) is None
    assert too_short(seen(0.12), spent) is None
    late = too_short(seen(0.12), spent, is_late=True)
    assert late is not None
    assert late.cure == "resume with a larger `max_seconds`, or accept `target_error=0.13`"
    unknown = too_short(seen(math.inf), Goal(0.05, 1000))
    assert unknown is not None
    assert "would do" not in unknown.seen


@pytest.mark.parametrize(("number", "rounded"), [
    (7412.0, 7500), (7500.0, 7500), (99.1, 100), (123456.0, 130_000), (0.126, 0.13), (0.0301, 0.031), (5.0, 5.0),
])  # fmt: skip
def test_rounding_up(number, rounded):
    """Kills: rounding down or to nearest, which would promise too much."""
    assert rounded_up(number) == rounded
    assert isinstance(rounded_up(number), type(rounded))


# What stopping does to the answer.

REPLICATES, CHAINS, FIRST, BLOCK, BLOCKS = 400, 20, 24, 8, 60


class Replicates:
    """Many runs at once: chains start in equilibrium and are read as runs of 20 each, after any block."""

    def __init__(self):
        path = exact.small_rbm().path(exact.BASE_FREQUENCIES, exact.BETAS)
        truth = exact.log_z(path) - exact.log_z(path)[0]
        ladder = tp.Ladder.create(path, exact.LOG_PRIOR, truth + np.array([0.0, 0.3, -0.4]))
        law = exact.joint_law(exact.log_densities(path), exact.LOG_PRIOR, np.asarray(ladder.log_z_guess, np.float64))
        cells = np.random.default_rng(21).choice(law.size, size=REPLICATES * CHAINS, p=law.ravel())
        states = tp.Position(exact.states_of(path, exact.patterns(5)[cells // 3]), jnp.asarray(cells % 3, jnp.int32))
        blocks = tp.run_chains(
            jax.random.key(22), ladder, tp.SimulatedTempering(tp.BlockGibbs()), tp.TemperingStats.empty(ladder), states,
            num_steps=BLOCK * BLOCKS, block_steps=BLOCK,
        )  # fmt: skip
        self.truth, self.parts = float(truth[-1]), [block.record.on_host() for block in blocks]
        self.log_sums = np.logaddexp.accumulate([part.log_sums for part in self.parts])

    def answer(self, run: int, num_sweeps: int) -> tp.LogZ:
        """What one run says after so many sweeps."""
        chains, last = slice(run * CHAINS, (run + 1) * CHAINS), num_sweeps // BLOCK - 1
        part = self.parts[last]
        by_chain = ("visits", "origins", "num_draws", "num_nonfinite", "num_left_out")
        own = {name: getattr(part, name)[chains] for name in by_chain}
        return tp.rts(dataclasses.replace(part, log_sums=self.log_sums[last, chains], **own))

    def stopped(self, run: int, goal: Goal) -> tuple[tp.LogZ, int]:
        """Where the rule ends a run, and how often it looked."""
        num_sweeps, looks = FIRST, 1
        while True:
            answer = self.answer(run, num_sweeps)
            decision = decide(Look(num_sweeps, 0, answer.std_error, answer.findings), goal, BLOCK)
            if decision.ends:
                return answer, looks
            num_sweeps, looks = num_sweeps + decision.num_more, looks + 1


@pytest.fixture(scope="module")
def replicates() -> Replicates:
    return Replicates()


@pytest.mark.parametrize("times", [1.0, 2.0, 6.0])
def test_stopping_leaves_the_answer_as_good_as_it_claims(replicates, times):
    """Targets that take once, twice and six times the first look, 400 runs of 20 chains each.

    No bias (5 standard errors of the mean: 0.25 of one run's), a root mean square error below the target (χ² with 400
    degrees at 1e-6 allows 1.16 times it), and intervals that cover; slack 5 %, of which 2 were measured on 1000 runs.
    Kills: a rule that looks after every block (3.5 times the looks), one that never goes on (errors √6 too large).
    """
    truth, runs = replicates.truth, range(REPLICATES)
    claimed = np.mean([replicates.answer(run, FIRST).std_error for run in runs])
    goal = Goal(claimed / np.sqrt(times), BLOCK * BLOCKS)
    ends = [replicates.stopped(run, goal) for run in runs]
    errors = np.array([answer.log_z - truth for answer, _ in ends])
    assert max(answer.std_error for answer, _ in ends) <= goal.target_error
    checks.assert_mean(errors, 0.0)
    assert np.sqrt(np.mean(errors**2)) < 1.16 * goal.target_error
    inside = sum(low <= truth <= high for low, high in (answer.interval for answer, _ in ends))
    checks.assert_coverage(inside, len(ends), 0.95, slack=0.05)
    assert np.mean([looks for _, looks in ends]) < 3.5


# Whole runs. The same shapes in all of them: what was compiled for one serves the others.

WARMUP = tp.AnnealedStart(anneal_steps=20, equilibration_steps=(10, 20))
BLIND = tp.InitialIterations(steps=1, max_iterations=1)  # Ẑ is wrong by nats, and stays so
QUICK = {"num_chains": 20, "num_sweeps": 40, "num_rungs": 6, "seed": 3, "warmup": WARMUP}


def small_rbm(scale=1.0) -> tp.RBM:
    rng = np.random.default_rng(1)
    return tp.RBM(scale * rng.normal(0, 0.8, (6, 4)), rng.normal(size=6), rng.normal(0.5, 1.0, 4))


def quick(out=None, *, rbm=None, **changes) -> tp.Result:
    return tp.estimate(rbm or small_rbm(), "uniform", out=out, **{**QUICK, **changes})


def stop(progress) -> bool:
    return True


def answer_of(result: tp.Result):
    """Everything about a result that must not depend on how the run was cut."""
    arrays = (result.log_z_by_rung.values, result.log_z_by_rung.std_errors, result.recording.transition_counts)
    about = result.to_dict()
    del about["seconds"], about["settings"]  # which say how far a run was to go, and in what pieces
    return about, [array.tobytes() for array in arrays]


class Looks:
    """Notes where a run means to look."""

    def __init__(self):
        self.lengths, self.num_blocks = [], 0

    def __call__(self, progress: tp.Progress) -> None:
        assert progress.target_error == 0.02
        if progress.estimate is None:
            return
        self.num_blocks += 1
        if progress.num_steps not in self.lengths:
            self.lengths.append(progress.num_steps)


def test_it_goes_on_until_the_error_is_small_enough():
    """Guards the promise, the draws (those of one long run), and the answer against the exact one."""
    looks = Looks()
    result = quick(target_error=0.02, watch=looks)
    assert result.std_error <= 0.02
    assert result.verdict.is_good
    assert result.is_complete
    assert result.target_error == 0.02
    assert len(looks.lengths) > 1
    assert looks.lengths[0] == 40
    assert looks.lengths[-1] == result.num_sweeps
    assert looks.num_blocks < result.num_sweeps / 3  # of 2 sweeps at first, of more later
    for earlier, later in zip(looks.lengths, looks.lengths[1:], strict=False):
        assert 1.4 <= later / earlier <= 4.1
    assert (result.num_warmup_sweeps, result.recording.stats.num_draws.sum()) == (50, 20 * result.num_sweeps)
    checks.assert_within(result.log_z, small_rbm().exact_log_z(), result.std_error)
    long = quick(num_sweeps=result.num_sweeps)
    np.testing.assert_array_equal(result.recording.transition_counts, long.recording.transition_counts)
    whole, cut = (tp.rts(run.recording.stats).values for run in (long, result))
    np.testing.assert_allclose(cut, whole, atol=1e-6)  # blocks begin elsewhere, so that sums round differently
    assert result.to_dict()["target_error"] == 0.02
    assert long.to_dict()["target_error"] is None


def test_a_first_look_that_suffices_is_the_plain_run():
    """Kills: a rule that always goes on, or that changes what it looks at."""
    plain, asked = answer_of(quick()), answer_of(quick(target_error=5.0))
    assert plain[0] | {"target_error": 5.0} == asked[0]
    assert plain[1] == asked[1]


def test_a_wrong_guess_is_replaced_by_what_was_found():
    """Guards beginning anew: a run whose Ẑ is poor never becomes good by length, and soon does with a better Ẑ.

    Kills: keeping Ẑ, keeping the old draws, forgetting them in the count, reusing their keys.
    """
    how = {"warmup": BLIND, "rbm": small_rbm(3.0), "target_error": 0.05}
    longest = quick(warmup=BLIND, rbm=small_rbm(3.0), num_sweeps=4000)
    assert Verdict.UNEVEN in {finding.verdict for finding in longest.diagnosis.findings}
    result = quick(max_sweeps=4000, **how)
    assert result.verdict.is_good
    discarded = result.num_warmup_sweeps - 1
    assert discarded >= 40
    assert result.num_sweeps + discarded <= 4000
    assert result.recording.stats.num_draws[0].sum() == result.num_sweeps
    guesses = [np.asarray(r.recording.stats.log_z_guess) for r in (longest, result)]
    truth = small_rbm(3.0).exact_log_z()
    far, near = (abs(guess[-1] + result.log_z_by_rung.values[0] - truth) for guess in guesses)
    assert near < far
    checks.assert_within(result.log_z, truth, result.std_error)


@pytest.mark.parametrize("warmup", [pytest.param(WARMUP, marks=pytest.mark.slow), BLIND])  # which also begins anew
def test_a_run_stopped_at_every_chunk_looks_and_ends_as_the_uninterrupted_one(tmp_path, warmup):
    """Guards resuming between looks, at a look, and after beginning anew: the same decisions and the same bits."""
    how = {"warmup": warmup, "target_error": 0.05, "rbm": small_rbm(2.0), "chunk_sweeps": 20}
    whole = quick(**how)
    assert whole.num_sweeps > 40
    discarded = whole.num_warmup_sweeps - (50 if warmup is WARMUP else 1)
    assert (discarded > 0) == (warmup is BLIND)
    result = None
    while result is None or not result.is_complete:
        with suppress(Interrupted):  # in the warm-up
            result = quick(tmp_path, resume=True, watch=stop, **how)
    assert answer_of(result) == answer_of(whole)
    assert answer_of(quick(tmp_path, resume=True, **how)) == answer_of(whole)  # a finished run, asked again


def test_a_run_learns_its_weights(tmp_path, monkeypatch):
    """Where any gain is enough: the weights change, the answer stays right, and a run in pieces has the same bits.

    Kills: weights that are learned but not used, that are asked for by name and changed, or lost in a checkpoint;
    chains that are picked by another random number after resuming.
    """
    monkeypatch.setattr(stopping, "MOST_ANEW", 100.0)
    how = {"target_error": 0.05, "rbm": small_rbm(2.0), "num_rungs": 12, "chunk_sweeps": 20}
    asked, whole = quick(rung_weights="ends", **how), quick(**how)
    at_first, learned = (np.exp(result.recording.stats.log_prior) for result in (asked, whole))
    np.testing.assert_allclose(at_first, np.exp(tp.ladder.ends_log_prior(12)), rtol=1e-6)
    assert np.abs(learned / at_first - 1).max() > 0.1
    assert whole.num_warmup_sweeps - asked.num_warmup_sweeps >= 40
    for result in (asked, whole):
        checks.assert_within(result.log_z, small_rbm(2.0).exact_log_z(), result.std_error)
    result = None
    while result is None or not result.is_complete:
        with suppress(Interrupted):
            result = quick(tmp_path, resume=True, watch=stop, **how)
    assert answer_of(result) == answer_of(whole)


def test_a_finished_run_goes_on_towards_a_smaller_error(tmp_path):
    """Guards what may change on resuming: the target and the budget, but never to fewer sweeps than there are."""
    plain = quick(tmp_path)
    assert not list(quick(tmp_path, resume=True, target_error=0.05).diagnosis.findings)
    far = quick(tmp_path, resume=True, target_error=0.02)
    assert far.num_sweeps > plain.num_sweeps
    assert json.loads((tmp_path / "result.json").read_text())["num_sweeps"] == far.num_sweeps
    with pytest.raises(tp.InputError, match=f"already: give `max_sweeps={far.num_sweeps}` or more"):
        quick(tmp_path, resume=True, target_error=0.02, max_sweeps=100)
    assert answer_of(far) == answer_of(quick(tmp_path, resume=True, target_error=0.02, max_sweeps=far.num_sweeps))


def test_a_budget_that_is_spent():
    """Guards the finding, the sweeps of the budget to the last one, and that the result counts as complete."""
    result = quick(target_error=0.001, max_sweeps=333)
    assert result.verdict is Verdict.SHORT
    assert (result.num_sweeps, result.is_complete) == (333, True)
    (finding,) = result.diagnosis.findings
    needed = rounded_up(1.2 * 333 * (result.std_error / 0.001) ** 2)
    assert f"about {needed} would do" in finding.seen
    assert f"`max_sweeps={needed}`," in finding.cure


def test_the_default_budget():
    """Guards a bound where none was given: 40 times the first look, at least 5000. Kills: either of the two alone."""
    assert Goal.from_settings(1e-6, 2, None) == Goal.from_settings(1e-6, 125, None) == Goal(1e-6, 5000)
    assert Goal.from_settings(1e-6, 126, None) == Goal(1e-6, 5040)


@pytest.mark.slow  # the goal is above; a run is told of it in tests/api/test_defaults.py
def test_a_run_keeps_to_the_default_budget():
    result = quick(num_sweeps=2, target_error=1e-6)
    assert result.num_sweeps + result.num_warmup_sweeps == 5000 + 50
    assert result.verdict is not Verdict.GOOD


def test_time_that_is_up(tmp_path):
    """Guards a clock: the estimate so far, written down, and resumed to the same bits as if there were no clock."""
    whole = quick(target_error=0.03)
    late = quick(tmp_path, target_error=0.03, max_seconds=1e-9)
    assert late.num_sweeps < 40  # after the first chunk that counts
    assert late.is_complete
    assert Verdict.SHORT in {finding.verdict for finding in late.diagnosis.findings}
    assert (tmp_path / "result.json").exists()
    assert answer_of(quick(tmp_path, resume=True, target_error=0.03, max_seconds=1e6)) == answer_of(whole)


def test_what_no_sweeps_cure_ends_at_the_first_look():
    """Guards time and money: rungs that lie too far apart stay so, and a run is not made a hundred times longer."""
    result = quick(method="ti_riemann", num_sweeps=400, target_error=1e-4)
    assert result.verdict is Verdict.COARSE
    assert (result.num_sweeps, result.is_complete) == (400, True)
    assert result.std_error > 1e-4
    assert Verdict.SHORT not in {finding.verdict for finding in result.diagnosis.findings}


@pytest.mark.slow  # test_it_goes_on_until_the_error_is_small_enough sees the same on an RBM
def test_a_small_lattice_to_a_small_error():
    """Ising 4×4 in a field, against its exact log Z."""
    model = tp.Ising.square(4, 4, 0.35, field=0.15)
    result = tp.estimate(model, num_chains=40, num_sweeps=50, num_rungs=10, target_error=0.02, seed=4)
    assert result.std_error <= 0.02
    assert result.verdict.is_good
    checks.assert_within(result.log_z, model.exact_log_z(), result.std_error)


@pytest.mark.parametrize(("settings", "named"), [
    ({"target_error": 0.0}, "positive and finite"),
    ({"target_error": -0.1}, "positive and finite"),
    ({"target_error": math.nan}, "positive and finite"),
    ({"target_error": math.inf}, "positive and finite"),
    ({"target_error": 0.1, "max_sweeps": 39}, "40 or more (`num_sweeps`)"),
    ({"max_sweeps": 100}, "give one"),
    ({"max_seconds": 0.0}, "positive"),
    ({"target_error": 0.1, "max_seconds": 0.0}, "positive"),
    ({"target_error": 0.1, "max_seconds": math.inf}, "positive"),
])  # fmt: skip
def test_what_cannot_be_asked_for(settings, named):
    """Guards the door: one line, before anything runs."""
    with pytest.raises(tp.InputError) as caught:
        quick(**settings)
    assert named in str(caught.value)
    assert str(caught.value).isprintable()
