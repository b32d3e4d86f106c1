"""MBAR and BAR: exact by enumeration, equal to one another and to RTS in expectation, honest where rungs fall apart."""

import dataclasses
import functools
import importlib.util
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from samples import gaussian_draws
from tempering.estimators import _mbar_solver, _pool, asymptotic_covariance, bar, bar_chain, mbar, solve_mbar
from tempering.estimators._pool import Pool
from tempering.estimators.bennett import _bridge
from tempering.estimators.multistate import MAX_CUT_ERROR, _influences, weakest_cut
from tempering.stats import Recording, ReducedDraws
from tempering.verdicts import Verdict

TOLERANCE = 1e-10
COUNTS = np.array([70.0, 25.0, 45.5])


@pytest.fixture
def path():
    return exact.small_path()


@pytest.fixture
def truth(path):
    return exact.log_z(path) - exact.log_z(path)[0]


def enumerated(path, counts=COUNTS) -> ReducedDraws:
    """Every x at every rung with the weight n_k p_k(x): the draws of an infinitely long run, scaled to Σ n_k.

    A function of x alone is added to log f, as features may lack one.
    """
    log_f = exact.log_densities(path)
    law = np.exp(log_f - logsumexp(log_f, axis=0))
    num_states, num_rungs = log_f.shape
    seen = log_f + 5 * np.random.default_rng(5).normal(size=(num_states, 1))
    rungs = np.repeat(np.arange(num_rungs), num_states)
    draws = ReducedDraws.from_log_densities(np.tile(seen, (num_rungs, 1)), rungs)
    return dataclasses.replace(draws, weights=(law * counts).T.reshape(-1, 1))


def test_mbar_is_exact_on_exact_draws(path, truth):
    """Kills: π_k left out of p_k, the sign of log Z in it, weights ignored, log_z_base added twice or not at all."""
    answer = mbar(enumerated(path), log_z_base=3.5)
    assert answer.method == "mbar"
    np.testing.assert_allclose(answer.values, truth + 3.5, atol=TOLERANCE)
    assert answer.findings == ()


@pytest.mark.parametrize("empty", [[0], [1], [2], [0, 2]])
def test_rungs_without_draws_are_reweighted_to(path, truth, empty):
    """Kills: an anchor at the first rung that has draws, a rung without draws left at its start."""
    counts = COUNTS.copy()
    counts[empty] = 0
    np.testing.assert_allclose(mbar(enumerated(path, counts)).values, truth, atol=TOLERANCE)


def test_bar_is_exact_on_exact_draws(path, truth):
    """Kills: n_upper/n_lower upside down, draws of other rungs let in, neighbours added with the wrong sign."""
    np.testing.assert_allclose(bar(enumerated(path), 0, 2).values, [0, truth[2]], atol=TOLERANCE)
    np.testing.assert_allclose(bar(enumerated(path), 1, 2).values, [0, truth[2] - truth[1]], atol=TOLERANCE)
    answer = bar_chain(enumerated(path), log_z_base=-2.0)
    assert answer.method == "bar"
    np.testing.assert_allclose(answer.values, truth - 2.0, atol=TOLERANCE)


def test_bar_is_mbar_of_two_rungs():
    """On random draws with unequal counts, value and error. Kills: another bridge than the optimal one."""
    rng = np.random.default_rng(0)
    draws, _ = gaussian_draws(rng, (40, 30), num_rungs=2, rungs=(rng.random((40, 30)) < 0.2).astype(int))
    by_bar, by_mbar = bar(draws, 0, 1), mbar(draws)
    np.testing.assert_allclose(by_bar.values, by_mbar.values, atol=TOLERANCE)
    np.testing.assert_allclose(by_bar.std_errors, by_mbar.std_errors, atol=TOLERANCE)
    np.testing.assert_allclose(by_bar.skewness, by_mbar.skewness, atol=1e-8)


def test_rts_is_mbar_with_counts_replaced_by_their_expectation():
    """Appendix D on arbitrary x: with n_k = N q(k), q(k) ∝ r_k Z_k/Ẑ_k, eq. 18 is stationary at RTS and only there.

    Kills: counts that are not used in p_k, r_k/Ẑ_k inverted, the rungs of the draws let in.
    """
    rng = np.random.default_rng(1)
    log_f = rng.normal(0, 2, (50, 3))
    stats = exact.stats_from_law(log_f)  # sums of q(k | x) over exactly these x, with the weights that it gives them
    posterior = exact.rung_posterior(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    stats = dataclasses.replace(stats, log_sums=np.log(posterior.sum(axis=0))[None, None], num_draws=np.array([[50]]))
    by_rts = tp.rts(stats).values
    draws = ReducedDraws.from_log_densities(log_f, rng.integers(0, 3, 50))

    def expected_counts(log_z):
        q = np.exp(exact.LOG_PRIOR + log_z - exact.LOG_Z_GUESS)
        return 50 * q / q.sum()

    np.testing.assert_allclose(mbar(draws, counts=expected_counts(by_rts)).values, by_rts, atol=TOLERANCE)
    shares = expected_counts(by_rts) / 50
    assert _mbar_solver._evaluate(Pool.from_draws(draws), shares, by_rts).residual < TOLERANCE
    for other in by_rts + np.array([[0.0, 0.1, 0.0], [0.0, 0.0, -0.1]]):
        assert np.abs(mbar(draws, counts=expected_counts(other)).values - other).max() > 0.01
        assert _mbar_solver._evaluate(Pool.from_draws(draws), expected_counts(other) / 50, other).residual > 1e-3


@pytest.mark.parametrize("far", [0.0, 10.0, 300.0])
def test_the_solver_arrives_from_anywhere(far):
    """Kills: a step that is taken though it makes things worse; no fallback when Newton's fails."""
    rng = np.random.default_rng(2)
    pool = Pool.from_draws(gaussian_draws(rng, (500,), num_rungs=6, centre=4.0)[0])
    shares = pool.counts / pool.total
    point = _mbar_solver.solve(pool, shares, far * rng.normal(size=6))
    expected = _mbar_solver.solve(pool, shares, _mbar_solver.geometric_bridges(pool))
    assert point.is_solution
    np.testing.assert_allclose(np.diff(point.log_z), np.diff(expected.log_z), atol=1e-9)


def test_what_did_not_converge_says_so(monkeypatch):
    """Kills: a silent stop at the last iteration."""
    monkeypatch.setattr(_mbar_solver, "_MAX_STEPS", 1)
    draws, _ = gaussian_draws(np.random.default_rng(3), (400,))
    assert Verdict.UNCONVERGED in {finding.verdict for finding in mbar(draws).findings}


def test_chunks_do_not_show(monkeypatch):
    """Kills: a chunk that is dropped or seen twice, a unit that is lost where it is cut by a chunk."""
    draws, _ = gaussian_draws(np.random.default_rng(4), (20, 7))
    whole = mbar(draws)
    monkeypatch.setattr(_pool, "_CHUNK_NUMBERS", 4 * 9)
    pieces = mbar(draws)
    np.testing.assert_allclose(pieces.values, whole.values, atol=TOLERANCE)
    np.testing.assert_allclose(pieces.std_errors, whole.std_errors, atol=TOLERANCE)


def test_overlap_is_the_probability_to_be_taken_for_another_rung(path):
    """O_kl = Σ_x p_k(x) p(l | x) by enumeration, and its λ₂. Kills: n_k for n_l, the trivial mode left in."""
    log_f = exact.log_densities(path)
    law = np.exp(log_f - logsumexp(log_f, axis=0))
    shares = COUNTS / COUNTS.sum()
    expected = law.T @ (law * shares / (law @ shares)[:, None])
    solution = solve_mbar(enumerated(path))
    np.testing.assert_allclose(solution.overlap, expected, atol=TOLERANCE)
    cut = weakest_cut(solution)
    assert cut is not None
    assert 1 - cut.gap == pytest.approx(np.sort(np.linalg.eigvals(expected).real)[-2], abs=TOLERANCE)


def test_covariance_of_independent_draws_is_the_inverse_information(path):
    """(H⁺ − diag(1/π))/N with H = diag(π) − mean ppᵀ, and Bennett's variance for two rungs.

    Kills: a missing A, √N for N, the wrong rung as reference, 1/(1 − λ)² for 1/(1 − λ).
    """
    solution = solve_mbar(enumerated(path))
    shares = solution.shares
    information = np.diag(shares) - solution.moments * np.outer(shares, shares)
    covariance = (np.linalg.pinv(information) - np.diag(1 / shares)) / COUNTS.sum()
    contrast = np.eye(3) - np.eye(3)[0]
    np.testing.assert_allclose(asymptotic_covariance(solution), contrast @ covariance @ contrast.T, atol=TOLERANCE)
    np.testing.assert_allclose(
        mbar(enumerated(path)).std_errors, np.sqrt(np.diag(asymptotic_covariance(solution))), atol=TOLERANCE
    )
    two = solve_mbar(
        ReducedDraws.from_log_densities(np.random.default_rng(6).normal(size=(30, 2)), np.arange(30) // 20)
    )
    shared = 30 * two.moments[0, 1] * np.prod(two.shares)
    assert asymptotic_covariance(two)[1, 1] == pytest.approx(1 / shared - 1 / 20 - 1 / 10, abs=TOLERANCE)


@pytest.mark.parametrize("seed", range(50, 60))
def test_rungs_that_are_the_same_have_no_error(seed):
    """Up to a factor, which is then known exactly. Kills: the root of a variance that rounding has made negative."""
    factors = np.linspace(0, 3, 5)
    log_f = np.random.default_rng(seed).normal(size=(50, 1)) + factors
    for shape in ((50,), (10, 5)):
        draws = ReducedDraws.from_log_densities(log_f.reshape(*shape, 5), (np.arange(50) % 5).reshape(shape))
        for answer in (mbar(draws), bar_chain(draws)):
            np.testing.assert_allclose(answer.values, factors, atol=TOLERANCE)
            np.testing.assert_allclose(answer.std_errors, 0, atol=1e-7)
            assert answer.findings == ()


@pytest.mark.parametrize("counts", [None, np.array([3.0, 0.0, 5.0, 4.0])])
def test_influences_are_derivatives_with_respect_to_weights(counts):
    """What a draw contributes is how log Z moves as it counts more, by central differences; rung 1 has no draws.

    Kills: the effect of a draw on n_k left out, on the mixture of a reweighted rung left out, H without its null mode.
    """
    rungs = np.array([0, 0, 2, 3, 2, 0, 3, 3, 2, 0, 2, 3])
    draws, _ = gaussian_draws(np.random.default_rng(7), (12,), rungs=rungs)
    pool, solution = Pool.from_draws(draws), solve_mbar(draws, counts=counts)
    influences = _influences(pool, solution, counts) / 12
    step = 1e-5
    for i in range(12):
        ends = []
        for sign in (1, -1):
            weights = np.ones((12, 1))
            weights[i] += sign * step
            ends.append(solve_mbar(dataclasses.replace(draws, weights=weights), counts=counts).log_z)
        np.testing.assert_allclose(influences[i] - influences.mean(axis=0), (ends[0] - ends[1]) / (2 * step), atol=1e-7)


def test_influences_are_0_on_average_at_every_rung(path):
    """So counts that were chosen and counts that came about have the same error. Kills: e/π_k or p/π_k left out."""
    draws = enumerated(path)
    influences = _influences(Pool.from_draws(draws), solve_mbar(draws), None)  # already times each draw's weight
    for rung in range(3):
        np.testing.assert_allclose(influences[draws.rungs[:, 0] == rung].sum(axis=0), 0, atol=1e-9)


def test_influences_of_a_bridge_are_derivatives_with_respect_to_weights():
    """Kills: the effect of a draw on n_k left out, its sign."""
    draws, _ = gaussian_draws(np.random.default_rng(8), (9,), num_rungs=3)
    influences = _bridge(Pool.from_draws(draws), np.array([0, 2])).influences / 9
    for i in range(9):
        ends = []
        for sign in (1, -1):
            weights = np.ones((9, 1))
            weights[i] += sign * 1e-5
            ends.append(bar(dataclasses.replace(draws, weights=weights), 0, 2).log_z)
        assert influences[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize("estimator", [mbar, bar_chain])
def test_intervals_of_chains_cover(estimator, repeats):
    """Draws of a chain that come `repeats` times over are as few as they are. Kills: errors of independent draws."""
    rng = np.random.default_rng(9)
    num_inside = 0
    for _ in range(300):
        draws, truth = gaussian_draws(rng, (20, 12))
        again = [np.repeat(array, repeats, axis=1) for array in (draws.features, draws.rungs)]
        low, high = estimator(ReducedDraws(again[0], draws.matrix, again[1])).interval
        num_inside += low <= truth[-1] <= high
    checks.assert_coverage(num_inside, 300, 0.95, slack=0.03)


def test_intervals_of_independent_draws_cover():
    """One draw a chain. Kills: half the error."""
    rng = np.random.default_rng(10)
    num_inside = 0
    for _ in range(300):
        draws, truth = gaussian_draws(rng, (400,))
        low, high = mbar(draws).interval
        num_inside += low <= truth[-1] <= high
    checks.assert_coverage(num_inside, 300, 0.95, slack=0.03)


def test_few_chains_are_cut_into_stretches():
    """Kills: one unit a chain, so that two chains have an error with one degree of freedom."""
    rng = np.random.default_rng(11)
    assert mbar(gaussian_draws(rng, (2, 100))[0]).dof == 15
    assert mbar(gaussian_draws(rng, (1, 100))[0]).dof == 15
    assert mbar(gaussian_draws(rng, (20, 10))[0]).dof == 19
    assert bar(gaussian_draws(rng, (3000,))[0], 0, 1).dof == 1023
    assert np.isinf(mbar(ReducedDraws.from_log_densities(np.zeros((1, 2)), np.zeros(1, int))).interval[1])


@pytest.mark.parametrize("shape", [(600,), (20, 30)])
@pytest.mark.parametrize("distance", [20.0, 60.0, 200.0])
def test_rungs_that_share_nothing_have_no_answer(shape, distance):
    """A wide gap between rungs 1 and 2 of four. Kills: a pseudo-inverse that drops the mode which has come loose."""
    rng = np.random.default_rng(12)
    rungs = np.arange(np.prod(shape)).reshape(shape) % 4
    places = np.array([0.0, 0.5, distance, distance + 0.5])
    x = rng.normal(size=shape) + places[rungs]
    draws = ReducedDraws.from_log_densities(-((x[..., None] - places) ** 2) / 2, rungs)
    for answer in (mbar(draws), bar_chain(draws)):
        assert answer.verdict is Verdict.NO_OVERLAP
        (finding,) = answer.findings
        assert "rungs 1 and 2" in finding.seen
        assert answer.std_errors[1] < 0.2
        assert np.all(answer.std_errors[2:] > 5)
        assert answer.std_error > abs(answer.log_z) / 3


def test_groups_need_not_be_neighbours():
    """Rungs 0, 2 against 1, 3. Kills: only cuts between neighbouring numbers looked at."""
    rng = np.random.default_rng(13)
    places = np.array([0.0, 30.0, 0.5, 30.5])
    rungs = np.arange(400) % 4
    x = rng.normal(size=400) + places[rungs]
    solution = solve_mbar(ReducedDraws.from_log_densities(-((x[:, None] - places) ** 2) / 2, rungs))
    cut = weakest_cut(solution)
    assert cut is not None
    assert cut.std_error > 10 * MAX_CUT_ERROR
    assert (cut.below % 2) != (cut.above % 2)
    assert asymptotic_covariance(solution)[2, 2] < 0.1 < asymptotic_covariance(solution)[3, 3]


def test_a_cut_is_judged_by_bennetts_variance():
    """A well joined rung with few draws is no gap. Kills: a plain count of shared draws."""
    rng = np.random.default_rng(14)
    draws, _ = gaussian_draws(rng, (1000,), num_rungs=2, centre=0.2, rungs=(np.arange(1000) < 5).astype(int))
    answer = mbar(draws)
    assert answer.findings == ()
    cut = weakest_cut(solve_mbar(draws))
    assert cut is not None
    assert cut.std_error == pytest.approx(answer.std_error, rel=1e-6)  # 1/S − 1/n cancels all but 1e-4 of each


@pytest.mark.parametrize("estimator", [mbar, bar_chain])
def test_a_cut_is_judged_by_chains_where_their_draws_are_alike(estimator):
    """Each draw comes 25 times: 0.2 nats by their number, 1 nat in truth. Kills: independence taken for granted."""
    draws, _ = gaussian_draws(np.random.default_rng(19), (20, 20), num_rungs=2, centre=6.0)
    again = [np.repeat(array, 25, axis=1) for array in (draws.features, draws.rungs)]
    repeated = ReducedDraws(again[0], draws.matrix, again[1])
    cut = weakest_cut(solve_mbar(repeated))
    assert cut is not None
    assert cut.std_error < MAX_CUT_ERROR
    assert estimator(repeated).verdict is Verdict.NO_OVERLAP


def test_a_rung_that_few_weights_decide_says_so():
    """An empty rung far above the others. Kills: effective draws upside down, empty rungs not looked at."""
    rng = np.random.default_rng(15)
    draws, _ = gaussian_draws(rng, (500,), num_rungs=9, centre=16.0, rungs=np.arange(500) % 4)
    answer = mbar(draws)
    assert Verdict.HEAVY_TAILS in {finding.verdict for finding in answer.findings}
    assert "rung 8" in answer.findings[-1].seen


def test_draws_that_are_not_finite_are_left_out():
    """Kills: a NaN that spreads to every rung, a finding without its count."""
    draws, _ = gaussian_draws(np.random.default_rng(16), (200,))
    features = np.concatenate([draws.features, np.full((3, 1, 1), np.nan), np.full((2, 1, 1), -np.inf)])
    rungs = np.concatenate([draws.rungs, np.full((5, 1), 2)])
    for estimator in (mbar, bar_chain):
        answer, clean = estimator(ReducedDraws(features, draws.matrix, rungs)), estimator(draws)
        np.testing.assert_allclose(answer.values, clean.values, atol=TOLERANCE)
        assert answer.verdict is Verdict.NONFINITE
        assert "5 of 205" in answer.findings[0].seen
        nothing = estimator(ReducedDraws(features[-5:], draws.matrix, rungs[-5:]))
        assert np.isnan(nothing.log_z)
        assert np.isinf(nothing.std_error)
        assert Verdict.NONFINITE in {finding.verdict for finding in nothing.findings}


def test_a_chain_of_bridges_steps_over_rungs_without_draws(path, truth):
    """Kills: a number for a rung that no draw speaks of."""
    answer = bar_chain(enumerated(path, np.array([70.0, 0.0, 45.0])))
    np.testing.assert_allclose(answer.values, [0, np.nan, truth[2]], atol=TOLERANCE)
    assert answer.verdict is Verdict.UNREACHED
    without_base = bar_chain(enumerated(path, np.array([0.0, 70.0, 45.0])))
    assert np.isnan(without_base.values).all()
    assert np.isinf(without_base.std_errors).all()


def test_wrong_arguments_are_named():
    draws, _ = gaussian_draws(np.random.default_rng(17), (20,))
    for counts in (np.ones(3), np.array([1.0, -1.0, 1.0, 1.0]), np.zeros(4)):
        with pytest.raises(tp.InputError, match="`counts`"):
            mbar(draws, counts=counts)
    for pair in ((1, 1), (2, 1), (0, 4), (-1, 2)):
        with pytest.raises(tp.InputError, match="`lower` and `upper`"):
            bar(draws, *pair)
    with pytest.raises(tp.InputError, match="weights"):
        mbar(dataclasses.replace(draws, weights=-np.ones((20, 1))))
    with pytest.raises(tp.InputError, match="at least one draw"):
        mbar(ReducedDraws(np.zeros((0, 1, 1)), draws.matrix, np.zeros((0, 1), int)))
    with pytest.raises(tp.InputError, match="finite draw"):
        solve_mbar(dataclasses.replace(draws, features=np.full((20, 1, 1), np.nan)))


def test_kept_draws_of_a_run_give_its_log_z(path, truth):
    """From `Keep(features=True)` to an answer. Kills: the matrix of slopes, rungs of the next draw."""
    num_chains = 40
    ladder = tp.Ladder.create(path, exact.LOG_PRIOR, truth)
    states = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(0), num_chains))
    positions = tp.Position(states, jnp.zeros(num_chains, jnp.int32))
    record = tp.stats.TemperingRecord.empty(ladder, keep=tp.stats.Keep(features=True))
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    blocks = tp.run_chains(jax.random.key(1), ladder, kernel, record, positions, num_steps=200)
    kept = functools.reduce(Recording.then, [block.record.on_host() for block in blocks]).features.reduced_draws(path)
    after_start = ReducedDraws(kept.features[:, 20:], kept.matrix, kept.rungs[:, 20:])
    for estimator in (mbar, bar_chain):
        answer = estimator(after_start)
        assert answer.verdict.is_good
        low, high = answer.interval_at(1 - checks.FALSE_FAILURE)
        assert low < truth[-1] < high
        assert answer.std_error < 0.1


PYMBAR = """
import sys, numpy as np, pymbar
data = np.load(sys.argv[1])
out = {}
for name in {key[:-2] for key in data}:
    solved = pymbar.MBAR(data[name + "_u"], data[name + "_n"], relative_tolerance=1e-12)
    result = solved.compute_free_energy_differences()
    out[name + "_f"], out[name + "_d"] = result["Delta_f"][0], result["dDelta_f"][0]
np.savez(sys.argv[2], **out)
"""


def test_pymbar_agrees(path, tmp_path):
    """Free energies to 1e-6, uncertainties to 1e-4. In a process of its own: pymbar changes JAX for all who use it."""
    if importlib.util.find_spec("pymbar") is None:
        pytest.skip("pymbar, which this compares with, is not installed")
    rng = np.random.default_rng(18)
    cases = {"oscillators": _oscillators(rng), "ladder": _ladder_with_a_gap(rng), "rbm": _rbm_draws(rng, path)}
    inputs = {}
    for name, (log_f, rungs) in cases.items():
        order = np.argsort(rungs, kind="stable")  # as pymbar wants them
        inputs[name + "_u"], inputs[name + "_n"] = -log_f[order].T, np.bincount(rungs, minlength=log_f.shape[1])
    np.savez(tmp_path / "in.npz", **inputs)
    command = [sys.executable, "-c", PYMBAR, str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    subprocess.run(command, check=True, capture_output=True)
    with np.load(tmp_path / "out.npz") as theirs:
        for name, (log_f, rungs) in cases.items():
            answer = mbar(ReducedDraws.from_log_densities(log_f, rungs))
            assert answer.findings == ()
            np.testing.assert_allclose(answer.values, -theirs[name + "_f"], atol=1e-6)
            np.testing.assert_allclose(answer.std_errors, theirs[name + "_d"], atol=1e-4)


def _oscillators(rng) -> tuple[np.ndarray, np.ndarray]:
    """Five harmonic oscillators with unequal springs, places and numbers of draws."""
    rungs = np.repeat(np.arange(5), [300, 40, 150, 90, 220])
    springs, places = np.array([1.0, 1.7, 2.5, 1.2, 4.0]), np.array([0.0, 0.6, 1.0, 1.9, 2.2])
    x = rng.normal(size=800) / np.sqrt(springs[rungs]) + places[rungs]
    return -springs * (x[:, None] - places) ** 2 / 2, rungs


def _ladder_with_a_gap(rng) -> tuple[np.ndarray, np.ndarray]:
    """A geometric path of 7 rungs, the fourth without draws."""
    rungs = np.array([0, 1, 2, 4, 5, 6])[np.arange(900) % 6]
    draws, _ = gaussian_draws(rng, (900,), num_rungs=7, centre=3.0, rungs=rungs)
    return draws.features[:, 0] @ draws.matrix.T, rungs


def _rbm_draws(rng, path) -> tuple[np.ndarray, np.ndarray]:
    """Exact draws of the small RBM."""
    log_f = exact.log_densities(path)
    law = np.exp(log_f - logsumexp(log_f, axis=0))
    rungs = np.repeat(np.arange(3), [200, 100, 150])
    return log_f[[rng.choice(len(law), p=law[:, rung]) for rung in rungs]], rungs
