"""The mixed-Ẑ estimator: exact on exact statistics, RTS when there is one run, not silent about runs that differ."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from tempering.estimators import mixed
from tempering.estimators.mixed_guesses import _Likelihood, _maximum, _Scores, _Shares
from tempering.stats import BlockedStats, Travel

TOLERANCE = 1e-10
GUESSES = ([0.0, 0.7, -1.1], [0.0, -2.0, 1.5], [0.0, 4.0, 6.0])  # all wrong, each in its own way
PRIORS = ([0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5])


@pytest.fixture
def log_f() -> np.ndarray:
    return exact.log_densities(exact.small_path())


@pytest.fixture
def truth(log_f) -> np.ndarray:
    return logsumexp(log_f, axis=0) - logsumexp(log_f[:, 0])


def stats_of(parts, log_prior, log_z_guess) -> BlockedStats:
    """Statistics with the given posterior sums, of axes (chain, block, rung)."""
    parts = np.asarray(parts, np.float64)
    none = np.zeros(len(parts), np.int64)
    with np.errstate(divide="ignore"):  # a sum of 0 is that of a rung never reached
        log_sums = np.log(parts)
    return BlockedStats(
        betas=np.linspace(0, 1, parts.shape[2]),
        log_prior=np.asarray(log_prior, np.float64),
        log_z_guess=np.asarray(log_z_guess, np.float64),
        log_sums=log_sums,
        visits=np.rint(parts).astype(np.int64),
        num_draws=np.rint(parts.sum(axis=2)).astype(np.int64),
        num_nonfinite=np.zeros(parts.shape[:2], np.int64),
        travel=Travel(none, none, none),
        block_size=int(np.rint(parts.sum(axis=2).max())),
    )


def random_runs(rng, num_runs: int, num_rungs: int, spread: float, num_chains: int = 20, num_blocks: int = 2):
    """Chains of independent draws of the right law, around guesses that are off by `spread`; and log Z."""
    log_z = rng.normal(0, 3, num_rungs)
    log_z -= log_z[0]
    runs = []
    for _ in range(num_runs):
        log_prior = np.log(rng.dirichlet(np.full(num_rungs, 5.0)))
        guess = log_z + rng.normal(0, spread, num_rungs)
        log_law = log_prior - guess + log_z
        law = np.exp(log_law - logsumexp(log_law))
        draws = int(rng.integers(10, 200))
        parts = np.array(
            [[draws * rng.dirichlet(40 * law + 1e-3) for _ in range(num_blocks)] for _ in range(num_chains)]
        )
        runs.append(stats_of(parts, log_prior, guess - guess[0]))
    return runs, log_z


def test_exact_on_exact_statistics_of_wrong_guesses(log_f, truth):
    """Kills: Ẑ of another run, r_k dropped or of another run, a plus for the minus of L, rung 0 not subtracted."""
    runs = [exact.stats_from_law(log_f, np.log(r), np.array(z)) for r, z in zip(PRIORS, GUESSES, strict=True)]
    np.testing.assert_allclose(mixed(runs).values, truth, atol=TOLERANCE)
    np.testing.assert_allclose(mixed(runs[1:], log_z_base=3.5).values, truth + 3.5, atol=TOLERANCE)


def test_gradient_of_the_likelihood_vanishes_and_counts_every_draw():
    """Where runs disagree their lengths decide: Σ_t N_t (ĉ^t − s^t) = 0, written out. Kills: N_t left out."""
    counts = np.array([[70.0, 20.0, 10.0], [5.0, 8.0, 2.0]])
    runs = [stats_of(c[None, None], np.log(r), z) for c, r, z in zip(counts, PRIORS, GUESSES, strict=False)]
    z = np.exp(mixed(runs).values)
    predicted = np.array(PRIORS[:2]) * z / np.exp(np.array(GUESSES[:2]))
    predicted /= predicted.sum(axis=1, keepdims=True)
    totals = counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose((counts - totals * predicted).sum(axis=0), 0, atol=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 30))
@settings(max_examples=25, deadline=None)
def test_with_one_run_it_is_rts(seed, num_rungs):
    """Value, error, bias and skewness. Kills: an influence not anchored at rung 0, units not scaled by their number."""
    (run,), _ = random_runs(np.random.default_rng(seed), 1, num_rungs, 1.0)
    ours, theirs = mixed([run]), tp.rts(run)
    for name in ("values", "std_errors", "biases", "skewness"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=TOLERANCE, rtol=1e-8)
    assert ours.dof == theirs.dof


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 30), st.sampled_from([0.1, 1.0, 3.0]))
@settings(max_examples=25, deadline=None)
def test_the_likelihood_never_falls_and_ends_at_its_maximum(seed, num_runs, num_rungs, spread):
    """Kills: Newton's step without a safeguard, its sign, a tolerance that is never met."""
    runs, _ = random_runs(np.random.default_rng(seed), num_runs, num_rungs, spread)
    likelihood = _Likelihood.from_runs(runs, np.ones(num_rungs, bool))
    seen = []
    watched = _Watched(**{f.name: getattr(likelihood, f.name) for f in dataclasses.fields(likelihood)})
    object.__setattr__(watched, "seen", seen)
    log_z = _maximum(watched)
    heights = [_height(runs, z) for z in seen]
    assert np.all(np.diff(heights) > -1e-9 * np.abs(heights[0]))
    assert not any(f.verdict is tp.Verdict.UNCONVERGED for f in mixed(runs).findings)
    for other in np.random.default_rng(seed).normal(log_z, 0.1, (5, num_rungs)):
        # Where a rung has next to no mass, L is flat to the last digit.
        assert _height(runs, other) < _height(runs, log_z) + 1e-12 * np.abs(heights[0])


def test_newton_solves_the_equations_of_the_curvature():
    """diag(S) − Σ w s sᵀ applied to the solution gives the right side back. Kills: A transposed, P(t | k) without w."""
    runs, log_z = random_runs(np.random.default_rng(5), 4, 7, 1.0)
    shares = _Likelihood.from_runs(runs, np.ones(7, bool)).shares_at(log_z)
    s, w = np.exp(shares.log_shares), shares.weights
    curvature = np.diag(w @ s) - np.einsum("t,tj,tk->jk", w, s, s)
    right = np.random.default_rng(6).normal(size=(3, 7))
    right -= right.mean(axis=1, keepdims=True)
    solved = shares.solved(right / (w @ s))
    np.testing.assert_allclose(solved @ curvature, right, atol=1e-12)


def test_error_is_the_jackknife_of_chains_that_go_on_from_run_to_run():
    """To first order they are the same. Kills: chains of each run counted apart, ψ without its expectation."""
    rng = np.random.default_rng(8)
    runs, _ = random_runs(rng, 3, 5, 2.0, num_chains=200)
    shared = rng.gamma(20.0, 1 / 20, (200, 1, 5))  # what a chain brings along into every run
    for number, run in enumerate(runs):
        parts = np.exp(run.log_sums) * shared
        parts *= run.block_size / parts.sum(axis=2, keepdims=True)  # chains of equal length, as real ones are
        runs[number] = stats_of(parts, run.log_prior, run.log_z_guess)
    answer = mixed(runs)
    left_out = np.array([mixed([_without(run, chain) for run in runs]).values for chain in range(200)])
    jackknife = np.sqrt(199 / 200 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(answer.std_errors[1:], jackknife[1:], rtol=0.02)
    assert answer.dof == 199
    bias = 199 * (left_out.mean(axis=0) - answer.values)
    np.testing.assert_allclose(answer.biases, bias, atol=0.05 * np.abs(bias).max())


def test_runs_of_different_chains_lend_their_own_units():
    """5 chains of 2 blocks are cut into 10 units, 20 chains are 20. Kills: an error that needs equal runs."""
    rng = np.random.default_rng(9)
    few, _ = random_runs(rng, 1, 4, 0.3, num_chains=5)
    many, _ = random_runs(rng, 1, 4, 0.3, num_chains=20)
    answer = mixed([few[0], dataclasses.replace(many[0], betas=few[0].betas)])
    assert answer.dof == 10 + 20 - 1
    assert np.isfinite(answer.std_error)


@pytest.mark.slow  # the jackknife above sees the same errors exactly
def test_intervals_of_independent_draws_cover():
    """Three runs around different guesses, 300 times. Kills: an error that forgets the curvature of some runs."""
    inside = 0
    for seed in range(300):
        rng = np.random.default_rng([1, seed])
        log_z = np.array([0.0, 1.0, -2.0])
        runs = []
        for draws, guess in ((200, [0.0, 0.0, 0.0]), (300, [0.0, 2.0, -3.0]), (100, [0.0, 1.0, -2.0])):
            law = np.exp(log_z - np.array(guess)) / np.exp(log_z - np.array(guess)).sum()
            counts = rng.multinomial(draws, law, size=(30, 1)).astype(np.float64)
            runs.append(stats_of(counts, np.log(np.full(3, 1 / 3)), guess))
        low, high = mixed(runs).interval
        inside += low <= -2.0 <= high
    checks.assert_coverage(inside, 300, 0.95, slack=0.02)


def test_a_rung_reached_in_one_run_only_is_known_from_it():
    """−inf in one run, a number in another. Kills: NaN from ∞ − ∞, a run dropped for one empty rung."""
    law = np.array([0.5, 0.3, 0.2])
    blind = np.array([10.0, 6.0, 0.0])
    runs = [stats_of([[blind]], np.log(law), np.zeros(3)), stats_of([[100 * law]], np.log(law), np.zeros(3))]
    answer = mixed(runs)
    z = np.exp(answer.values)
    assert np.isfinite(answer.values).all()
    predicted = law * z / (law @ z)
    np.testing.assert_allclose(116 * predicted, blind + 100 * law, atol=1e-9)


def test_what_no_run_reached_is_named():
    """Kills: a finite answer, or none at all, for a rung without draws."""
    runs = [stats_of([[[4.0, 6.0, 0.0]]], np.log(np.full(3, 1 / 3)), g) for g in ([0.0, 0.0, 0.0], [0.0, 0.5, 0.0])]
    answer = mixed(runs)
    assert answer.values[2] == -np.inf
    assert np.isfinite(answer.values[:2]).all()
    assert tp.Verdict.UNREACHED in {finding.verdict for finding in answer.findings}
    nothing = mixed([stats_of(np.zeros((2, 1, 3)), np.log(np.full(3, 1 / 3)), np.zeros(3))])
    assert np.isnan(nothing.values).all()
    assert nothing.verdict is tp.Verdict.NO_ERROR


def test_a_run_without_draws_changes_nothing():
    runs, _ = random_runs(np.random.default_rng(13), 2, 4, 0.3)
    empty = stats_of(np.zeros((20, 2, 4)), runs[0].log_prior, np.zeros(4))
    np.testing.assert_array_equal(mixed([*runs, empty]).values, mixed(runs).values)
    np.testing.assert_array_equal(mixed([*runs, empty]).std_errors, mixed(runs).std_errors)


def test_two_runs_pull_against_each_other():
    """What one pulls up the other pulls down, with one error. Kills: noise of the run without that of the answer."""
    runs, _ = random_runs(np.random.default_rng(12), 2, 4, 0.5)
    everywhere = np.ones(4, bool)
    likelihood = _Likelihood.from_runs(runs, everywhere)
    pulls, std_errors = _Scores.from_runs(runs, likelihood.shares_at(_maximum(likelihood)), everywhere).pulls()
    assert pulls[0] == pytest.approx(-pulls[1], abs=TOLERANCE)
    assert std_errors[0] == pytest.approx(std_errors[1], abs=TOLERANCE)


def test_runs_that_pull_apart_are_named_and_runs_that_agree_are_not():
    """Kills: scores without their expectation, the test turned around."""
    rng = np.random.default_rng(11)
    agreeing = sum(_disagrees(mixed(random_runs(rng, 3, 4, 0.3)[0])) for _ in range(100))
    assert scipy_stats.binom.sf(agreeing - 1, 100, 0.01) > checks.FALSE_FAILURE
    runs, _ = random_runs(rng, 3, 4, 0.3)
    more_at_the_top = np.array([1.0, 1.0, 1.0, 1.6])
    tilted = stats_of(np.exp(runs[0].log_sums) * more_at_the_top, runs[0].log_prior, runs[0].log_z_guess)
    (finding,) = [f for f in mixed([tilted, *runs[1:]]).findings if f.verdict is tp.Verdict.DISAGREES]
    assert finding.seen.startswith("run 0 of 3 pulls log Z by +")


def test_a_pull_that_is_rounding_is_no_disagreement():
    """Where the base is the target there is no noise. Kills: a test against errors of 1e-9 that float32 made."""
    law, rng = np.array([0.2, 0.3, 0.5]), np.random.default_rng(3)

    def run(pull: float) -> BlockedStats:
        parts = 100 * law * np.exp([0.0, 0.0, pull]) * (1 + 1e-9 * rng.normal(size=(20, 2, 3)))
        return stats_of(parts, np.log(law), np.zeros(3))

    assert mixed([run(-1e-7), run(1e-7)], log_z_base=7.7).verdict is tp.Verdict.GOOD
    assert mixed([run(-1e-4), run(1e-4)], log_z_base=7.7).verdict is tp.Verdict.DISAGREES


def test_a_run_that_drifts_is_named():
    """Kills: the halves of one run only."""
    runs, _ = random_runs(np.random.default_rng(14), 2, 4, 0.3)
    sums = np.exp(runs[1].log_sums)
    sums[:, 1] *= [1.0, 1.0, 1.0, 4.0]
    drifting = stats_of(sums, runs[1].log_prior, runs[1].log_z_guess)
    (finding,) = [f for f in mixed([runs[0], drifting]).findings if f.verdict is tp.Verdict.RELAXING]
    assert finding.seen.startswith("the second half of run 1 of 2 differs from the first by +")


def test_runs_without_common_rungs_are_named():
    """One run saw rungs 0 and 1, another 2 and 3. Kills: an error bar for a ratio that nothing determines."""
    law = np.log(np.full(4, 0.25))
    left = stats_of(np.full((20, 1, 4), [50.0, 50.0, 1e-9, 1e-9]), law, [0.0, 0.0, 30.0, 30.0])
    right = stats_of(np.full((20, 1, 4), [1e-9, 1e-9, 50.0, 50.0]), law, [0.0, 0.0, -30.0, -30.0])
    assert tp.Verdict.NO_OVERLAP in {finding.verdict for finding in mixed([left, right]).findings}


def test_a_guess_so_poor_that_rungs_are_empty_is_named():
    law = np.log(np.full(3, 1 / 3))
    answer = mixed([stats_of(np.full((20, 1, 3), [50.0, 45.0, 5.0]), law, np.zeros(3))])
    assert {finding.verdict for finding in answer.findings} == {tp.Verdict.UNEVEN}


def test_overlap_is_one_minus_the_second_eigenvalue_of_the_walk_over_runs():
    """Against the matrix itself. Kills: singular values not squared, the first for the second."""
    shares = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]))
    weights = np.array([0.4, 0.6])
    found = _Shares(shares, weights, np.log(weights @ np.exp(shares))).overlap()
    s = np.exp(shares)
    walk = s @ (weights[:, None] * s / (weights @ s)).T
    assert found == pytest.approx(1 - sorted(np.linalg.eigvals(walk).real)[0], abs=1e-12)


def test_runs_over_other_ladders_are_refused(log_f):
    stats = exact.stats_from_law(log_f)
    other = dataclasses.replace(stats, betas=np.array([0.0, 0.5, 1.0]))
    with pytest.raises(tp.InputError, match="those of run 1 are not those of run 0"):
        mixed([stats, other])
    with pytest.raises(tp.InputError, match="at least one run"):
        mixed([])


def test_initial_iterations_can_all_be_used(truth):
    """Real chains through three ladders: the truth within t(1 − 1e-6) standard errors, which all runs make smaller."""
    ladder, key = exact.small_ladder(), jax.random.key(3)
    keys = jax.random.split(key, 300)
    states = tp.Position(jax.vmap(ladder.path.sample_base)(keys), jnp.zeros(300, jnp.int32))
    runs = []
    for number in range(3):
        stats = tp.TemperingStats.empty(ladder)
        burnt_in = next(
            tp.run_chains(jax.random.fold_in(key, 2 * number), ladder, _KERNEL, stats, states, num_steps=50)
        )
        how = dict(num_steps=100)
        (block,) = tp.run_chains(
            jax.random.fold_in(key, 2 * number + 1), ladder, _KERNEL, stats, burnt_in.states, **how
        )
        states = block.states
        runs.append(block.record.on_host())
        ladder = ladder.with_log_z(tp.rts(runs[-1]).values)
    answer = mixed(runs)
    assert not {finding.verdict for finding in answer.findings} - {tp.Verdict.DISAGREES, tp.Verdict.RELAXING}
    low, high = answer.interval_at(1 - checks.FALSE_FAILURE)
    assert low <= truth[-1] <= high
    assert answer.std_error < tp.rts(runs[0]).std_error


_KERNEL = tp.SimulatedTempering(tp.BlockGibbs())


class _Watched(_Likelihood):
    """Notes where the ascent has been."""

    def shares_at(self, log_z):
        shares = super().shares_at(log_z)
        if not self.seen or not np.array_equal(self.seen[-1], log_z):
            self.seen.append(log_z)
        return shares


def _height(runs, log_z) -> float:
    """L of Appendix A, written out."""
    total = 0.0
    for run in runs:
        sums = np.exp(run.log_sums).sum(axis=(0, 1))
        total += sums @ log_z - sums.sum() * logsumexp(run.log_prior - run.log_z_guess + log_z)
    return total


def _without(run: BlockedStats, chain: int) -> BlockedStats:
    kept = np.arange(run.num_chains) != chain
    return stats_of(np.exp(run.log_sums[kept]), run.log_prior, run.log_z_guess)


def _disagrees(answer: tp.LogZ) -> bool:
    return any(finding.verdict is tp.Verdict.DISAGREES for finding in answer.findings)
