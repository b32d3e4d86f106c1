"""Paths through given densities, along averaged moments, and datum by datum: each against what it should be."""

import dataclasses
import itertools
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from tempering.estimators.methods import METHODS, RunKind
from tempering.ladder import AbstractPath
from tempering.models import Gaussian, Sequence, SubsampledPosterior
from tempering.paths import GaussianMomentPath, LikelihoodPath, SequencePath, SubsampledPath
from tempering.stats import BlockedStats, Recording, ReducedDraws, Travel
from tempering.verdicts import Verdict

TOLERANCE = 1e-10
TWO_ENDS = np.array([0.0, 1.0])
LOGITS = np.array([0.5, -0.3, 0.2, -1.0])
COUPLINGS = np.random.default_rng(3).normal(0, 1.0, (3, 4, 4))  # of f_1, f_2 and f_3, which have little in common
BITS = exact.patterns(4)


class Pairs(eqx.Module):
    """log f(x) = xᵀ A x over bits."""

    coupling: jax.Array

    def __call__(self, x):
        return jnp.einsum("i,ij,j->", x, self.coupling, x, precision="highest")


class PairsOfM(eqx.Module):
    """The same three densities as one function of (x, m)."""

    couplings: jax.Array

    def __call__(self, x, m):
        return Pairs(self.couplings[m - 1])(x)


def _floats(array):
    return jnp.asarray(array, jnp.result_type(float))


@eqx.filter_jit
def _of_all(path, x):
    """log f together, log f one by one, and features, of rows of x."""
    rungs = jnp.arange(path.num_rungs)
    one_by_one = jax.vmap(jax.vmap(path.log_density, (None, 0)), (0, None))(x, rungs)
    return jax.vmap(path.log_densities)(x), one_by_one, jax.vmap(path.features)(x)


def sequence_path(betas=None, *, indexed=False) -> SequencePath:
    base = tp.Bernoulli(LOGITS)
    if indexed:
        return SequencePath.create(PairsOfM(_floats(COUPLINGS)), base, betas, num_densities=3)
    return SequencePath.create([Pairs(_floats(a)) for a in COUPLINGS], base, betas)


def log_f_at_knots() -> np.ndarray:
    """(state, knot) of all 16 states, in NumPy."""
    return np.column_stack([BITS @ LOGITS, *(np.einsum("ni,ij,nj->n", BITS, a, BITS) for a in COUPLINGS)])


def log_f_of_sequence(betas: np.ndarray) -> np.ndarray:
    """(state, rung): straight lines in β between the knots."""
    return np.array([np.interp(betas, np.linspace(0, 1, 4), row) for row in log_f_at_knots()])


# Any sequence of densities


@pytest.mark.parametrize("indexed", [False, True], ids=["list", "function of m"])
def test_a_sequence_is_linear_between_its_densities(indexed):
    """Kills: shares exchanged, the wrong neighbour, m counted from 0, the last density left out, betas ignored."""
    betas = np.array([0.0, 0.125, 1 / 3, 0.5, 0.875, 1.0])
    with jax.enable_x64(True):
        path = sequence_path(betas, indexed=indexed)
        expected = log_f_of_sequence(betas)  # at 1/3 too: a rung on a knot stands there exactly, in float32 as well
        together, one_by_one, features = _of_all(path, jnp.asarray(BITS))
        elsewhere = path.with_betas(np.array([0.0, 0.75, 1.0]))
        np.testing.assert_allclose(together, expected, atol=TOLERANCE)
        np.testing.assert_allclose(one_by_one, expected, atol=TOLERANCE)
        np.testing.assert_allclose(np.asarray(features) @ path.feature_matrix().T, expected, atol=TOLERANCE)
        np.testing.assert_allclose(
            _of_all(elsewhere, jnp.asarray(BITS))[0],
            log_f_of_sequence(np.array([0.0, 0.75, 1.0])),
            atol=TOLERANCE,
        )
    assert path.log_z_base() == pytest.approx(np.logaddexp(0, LOGITS).sum())


def test_rungs_stand_on_the_densities_unless_told_otherwise():
    path = sequence_path()
    np.testing.assert_allclose(path.betas, np.linspace(0, 1, 4), atol=1e-7)
    np.testing.assert_allclose(jax.vmap(path.log_densities)(jnp.asarray(BITS)), log_f_at_knots(), atol=1e-5)
    np.testing.assert_array_equal(path.feature_matrix(), np.eye(4))


def test_beta_is_read_where_it_stands():
    """As a continuous β needs it: a path of one rung, at any β. Kills: places that were worked out beforehand."""
    for path in (sequence_path(), sequence_path(indexed=True)):
        moved = eqx.tree_at(lambda p: p.betas, path, jnp.asarray([0.45], jnp.float32))
        found = jax.vmap(moved.log_density, (0, None))(jnp.asarray(BITS), jnp.int32(0))
        np.testing.assert_allclose(found, log_f_of_sequence(np.array([0.45]))[:, 0], atol=1e-5)


def test_the_base_is_no_value_of_the_function():
    """Its gradient is finite at rung 0. Kills: f(x, 0) asked for and thrown away, whose NaN the gradient keeps."""
    path = SequencePath.create(lambda x, m: x * jnp.log(m), tp.Normal(0.0), num_densities=2)
    assert float(jax.grad(path.log_density)(jnp.asarray(0.5), jnp.int32(0))) == pytest.approx(-0.5)


@pytest.mark.parametrize("num_densities", [10, 997])
def test_a_density_that_vanishes_does_not_reach_its_neighbours(num_densities):
    """Only every second f_m is positive at x. Kills: 0 · (−inf), and shares of 1e-7 left by rounding of m/M."""
    path = SequencePath.create(
        lambda x, m: jnp.where(m % 2 == 0, x, -jnp.inf), tp.Normal(0.0), num_densities=num_densities
    )
    x = jnp.asarray(0.7)
    is_positive = np.arange(num_densities + 1) % 2 == 0
    for found in _of_all(path, x[None])[:2]:
        np.testing.assert_array_equal(np.isfinite(found[0]), is_positive)
        np.testing.assert_allclose(np.asarray(found[0])[2::2], 0.7, atol=1e-6)
    between = path.with_betas(np.array([0.0, 0.5 / num_densities, 1.0]))
    assert float(between.log_densities(x)[1]) == -np.inf


def _exact_stats(log_f: np.ndarray, slopes: np.ndarray, betas: np.ndarray):
    """An infinitely long run over all 16 states, with what thermodynamic integration and stepping stones keep."""
    num_rungs = len(betas)
    prior = np.log(np.arange(1, num_rungs + 1) / np.arange(1, num_rungs + 1).sum())
    guess, count = np.sin(np.arange(num_rungs)), 10**15
    law = exact.joint_law(log_f, prior, guess) * count
    moments = np.stack([slopes, slopes**2, np.zeros_like(slopes)], axis=2)
    sums = np.einsum("vk,vkm->km", law, moments)[None, None]
    up = np.append(np.log((law[:, :-1] * np.exp(np.diff(log_f))).sum(axis=0)), -np.inf)
    down = np.append(-np.inf, np.log((law[:, 1:] * np.exp(-np.diff(log_f))).sum(axis=0)))
    none = np.zeros(1, np.int64)
    return BlockedStats(
        betas=betas, log_prior=prior, log_z_guess=guess, log_sums=np.log(law.sum(axis=0))[None, None],
        visits=np.rint(law.sum(axis=0)).astype(np.int64)[None, None], num_draws=np.array([[count]]),
        num_nonfinite=np.array([[0]]), travel=Travel(none, none, none), block_size=count,
        slope_reference=np.zeros(num_rungs), counted_slopes=sums, weighted_slopes=sums.copy(),
        log_steps=np.stack([up, down], axis=1)[None, None],
    )  # fmt: skip


def _on_all_states(path):
    with jax.enable_x64(True):
        log_f, _, features = _of_all(path, jnp.asarray(BITS))
        return [np.asarray(a) for a in (log_f, jax.vmap(path.slopes)(jnp.asarray(BITS)), features)]


def test_every_estimator_is_exact_on_exact_statistics():
    """What the path says of all 16 states goes in, log Z of the densities that were given comes out."""
    betas = np.array([0.0, 0.25, 0.375, 0.75, 1.0])
    with jax.enable_x64(True):
        path = sequence_path(betas)
    log_f, slopes, features = _on_all_states(path)
    truth = logsumexp(log_f_of_sequence(betas), axis=0)
    assert truth[-1] == pytest.approx(logsumexp(log_f_at_knots()[:, -1]))
    law = np.exp(log_f - logsumexp(log_f, axis=0))
    known = _exact_stats(log_f, slopes, betas)
    weighted = law.T @ exact.rung_posterior(log_f, known.log_prior, known.log_z_guess) * known.visits[0, 0][:, None]
    recording = Recording(known, np.rint(weighted)[None].astype(np.int64), weighted[None])
    draws = ReducedDraws(
        np.tile(features, (5, 1))[:, None], path.feature_matrix(), np.repeat(np.arange(5), 16)[:, None]
    )
    draws = dataclasses.replace(draws, weights=(law * [9.0, 4.0, 3.0, 5.0, 7.0]).T.reshape(-1, 1))
    answers = [
        tp.rts(known), tp.estimators.ts(known, pseudo_count=0.0), tp.estimators.sd(recording),
        tp.estimators.rsd(recording), tp.estimators.mixed([known]),
        tp.estimators.stepping_stone(known, direction="up"), tp.estimators.stepping_stone(known, direction="down"),
        tp.estimators.mbar(draws), tp.estimators.bar_chain(draws),
    ]  # fmt: skip
    for answer in answers:
        np.testing.assert_allclose(path.log_z_base() + answer.values, truth, atol=TOLERANCE, err_msg=answer.method)


def test_the_trapezoid_of_secants_goes_from_rung_to_rung():
    """Σ ½ (E_k + E_{k+1})[log f_{k+1} − log f_k]. Kills: the slope of one side, equal weights of unequal steps."""
    betas = np.array([0.0, 0.25, 0.375, 0.75, 1.0])
    with jax.enable_x64(True):
        path = sequence_path(betas)
    log_f, slopes, _ = _on_all_states(path)
    law = np.exp(log_f - logsumexp(log_f, axis=0))
    rises = np.diff(log_f)
    expected = ((law[:, :-1] + law[:, 1:]) / 2 * rises).sum()
    answer = tp.estimators.ti(_exact_stats(log_f, slopes, betas))
    assert answer.log_z == pytest.approx(expected, abs=TOLERANCE)
    assert not np.any(path.curvatures(jnp.asarray(BITS[0], jnp.float32)))


@pytest.mark.parametrize("num_rungs", [9, 33])
def test_thermodynamic_integration_is_of_second_order_though_the_path_bends(num_rungs):
    """Rungs miss the knots, and the error stays below 1.5 h²; with the slopes of one side it would be 5 h."""
    betas = np.linspace(0, 1, num_rungs)
    with jax.enable_x64(True):
        path = sequence_path(betas)
    log_f, slopes, _ = _on_all_states(path)
    truth = logsumexp(log_f_at_knots()[:, [0, -1]], axis=0)
    error = tp.estimators.ti(_exact_stats(log_f, slopes, betas)).log_z - (truth[1] - truth[0])
    assert abs(error) * (num_rungs - 1) ** 2 < 1.5


def test_draws_where_later_densities_vanish_count():
    """f_m is 1 below 1 − m/4 on a grid, and 0 above. Kills: −inf in features, which makes MBAR drop draws."""
    grid = jnp.arange(16) / 16.0
    base = tp.Unnormalised(lambda x: 0.0 * x, lambda key: jax.random.choice(key, grid))
    path = SequencePath.create(lambda x, m: jnp.where(x < 1 - m / 4, 0.0, -jnp.inf), base, num_densities=3)
    features, log_f = (np.asarray(jax.vmap(of)(grid), np.float64) for of in (path.features, path.log_densities))
    rows, rungs = np.nonzero(np.isfinite(log_f))  # every x that a rung can have, once
    weights = 1 / np.isfinite(log_f).sum(axis=0)[rungs]
    draws = ReducedDraws(features[rows][:, None], path.feature_matrix(), rungs[:, None], weights[:, None])
    for answer in (tp.estimators.mbar(draws), tp.estimators.bar_chain(draws)):
        np.testing.assert_allclose(answer.values, np.log([1, 3 / 4, 1 / 2, 1 / 4]), atol=TOLERANCE)
        assert Verdict.NONFINITE not in {finding.verdict for finding in answer.findings}


# Averaged moments

MEAN, COVARIANCE = np.array([3.0, -1.0, 0.4]), np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 2.0]])
BASE_MEAN, BASE_COVARIANCE = np.array([0.5, 0.2, -1.0]), np.array([[2.0, -0.4, 0.1], [-0.4, 1.0, 0.3], [0.1, 0.3, 0.7]])
MOMENT_BETAS = np.array([0.0, 0.125, 0.5, 0.75, 1.0])


def moment_path(betas=MOMENT_BETAS) -> GaussianMomentPath:
    return GaussianMomentPath.create(MEAN, COVARIANCE, BASE_MEAN, BASE_COVARIANCE, betas)


def moments_at(beta: float) -> tuple[np.ndarray, np.ndarray]:
    """The formulas of Grosse, Maddison and Salakhutdinov (2013)."""
    off = MEAN - BASE_MEAN
    covariance = (1 - beta) * BASE_COVARIANCE + beta * COVARIANCE + beta * (1 - beta) * np.outer(off, off)
    return (1 - beta) * BASE_MEAN + beta * MEAN, covariance


def log_f_of_moments(x: np.ndarray, beta: float) -> np.ndarray:
    mean, covariance = moments_at(beta)
    return stats.multivariate_normal(mean, covariance).logpdf(x) + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]


def test_the_moments_are_averages():
    """log f and log Z against SciPy. Kills: no outer product or another factor before it, a root transposed."""
    x = np.random.default_rng(0).normal(0, 3, (50, 3))
    with jax.enable_x64(True):
        path = moment_path()
        found, one_by_one, _ = _of_all(path, jnp.asarray(x))
        log_z, root = path.exact_log_z(), np.asarray(path.root)
        elsewhere = path.with_betas(np.array([0.0, 0.375, 1.0])).log_densities(jnp.asarray(x[0]))
    expected = np.column_stack([log_f_of_moments(x, beta) for beta in MOMENT_BETAS])
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    np.testing.assert_allclose(one_by_one, expected, atol=TOLERANCE)
    np.testing.assert_allclose(elsewhere[1], log_f_of_moments(x[0], 0.375), atol=TOLERANCE)
    determinants = [np.linalg.slogdet(2 * np.pi * moments_at(beta)[1])[1] for beta in MOMENT_BETAS]
    np.testing.assert_allclose(log_z, 0.5 * np.array(determinants), atol=TOLERANCE)
    np.testing.assert_allclose(root @ root.T, BASE_COVARIANCE, atol=TOLERANCE)


def test_slopes_and_curvatures_are_derivatives():
    """By differentiating log f once and twice. Kills: Σ″ forgotten, a sign, a half, the two ends exchanged."""
    x = np.random.default_rng(1).normal(0, 3, (20, 3))
    with jax.enable_x64(True):
        path = eqx.tree_at(lambda p: p.betas, moment_path(), jnp.asarray(MOMENT_BETAS))
        for own, default in (
            (path.slopes, AbstractPath.slopes),
            (path.curvatures, AbstractPath.curvatures),
        ):
            found, expected = jax.jit(jax.vmap(lambda x, own=own, default=default: (own(x), default(path, x))))(x)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_gaussians_that_lie_far_apart_keep_their_digits():
    """|δ| = 1000 in float32. Kills: the inverse as a difference of two large numbers, which is off by 0.02 there."""
    mean, zero, one = 1000 * np.array([0.48, -0.6, 0.64]), np.zeros(3), np.eye(3)
    path = GaussianMomentPath.create(mean, one, zero, one, np.array([0.0, 0.5, 1.0]))
    rng = np.random.default_rng(9)
    x = (rng.uniform(-0.2, 1.2, (50, 1)) * mean + rng.normal(size=(50, 3))).astype(np.float32)
    law = stats.multivariate_normal(mean / 2, one + np.outer(mean, mean) / 4)
    expected = law.logpdf(x.astype(np.float64)) - law.logpdf(mean / 2)
    np.testing.assert_allclose(_of_all(path, jnp.asarray(x))[0][:, 1], expected, atol=2e-3)


def test_the_base_of_averaged_moments_is_drawn_exactly():
    """Whitened by another factor, draws are three independent standard normals. Kills: Wᵀ for W⁻¹."""
    keys = jax.random.split(jax.random.key(0), 20_000)
    draws = np.asarray(jax.vmap(moment_path().sample_base)(keys), np.float64)
    white = np.linalg.solve(np.linalg.cholesky(BASE_COVARIANCE), (draws - BASE_MEAN).T)
    for row in (*white, (white[0] + white[1]) / np.sqrt(2), (white[1] - white[2]) / np.sqrt(2)):
        checks.assert_law(np.histogram(stats.norm.cdf(row), 20, (0, 1))[0], np.full(20, 0.05))


class Redraws(tp.AbstractMove):
    """An exact draw at any β of a path of averaged moments, whatever x was."""

    def __call__(self, key, path, rung, x):
        beta, keys = path.betas[rung], jax.random.split(key)
        z = jnp.sqrt(1 - beta + beta * path.ratios) * jax.random.normal(keys[0], path.shift.shape)
        z = z + (beta + jnp.sqrt(beta * (1 - beta)) * jax.random.normal(keys[1])) * path.shift
        return path.mean + jnp.dot(path.root, z, precision="highest"), tp.ladder.MoveInfo.accepted()


@pytest.mark.parametrize("is_right", [True, False])
def test_hmc_leaves_averaged_moments_invariant(is_right):
    """Exact draws at β = ½, one trajectory, and the same law again; the twin moves along the geometric path."""
    path, rung = moment_path(), jnp.int32(2)
    keys = jax.random.split(jax.random.key(1), 20_000)
    x = jax.vmap(lambda key: Redraws()(key, path, rung, None)[0])(keys)
    model = Gaussian(MEAN, COVARIANCE, path="geometric", base=tp.Normal(BASE_MEAN, covariance=BASE_COVARIANCE))
    used = path if is_right else model.path(None, MOMENT_BETAS)
    move = tp.HMC(0.6, num_leaps=4)
    x = eqx.filter_jit(jax.vmap(lambda key, x: move(jax.random.fold_in(key, 1), used, rung, x)[0]))(keys, x)
    mean, covariance = moments_at(0.5)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.asarray(x, np.float64) - mean).T)
    counts = np.histogram2d(stats.norm.cdf(white[0]), stats.norm.cdf(white[1]), 5, ((0, 1), (0, 1)))[0]
    (checks.assert_law if is_right else checks.assert_not_law)(counts, np.full((5, 5), 0.04))


def test_a_gaussian_has_both_paths():
    model = Gaussian(MEAN, COVARIANCE, base=tp.Normal(BASE_MEAN, covariance=BASE_COVARIANCE))
    x = jnp.asarray([0.3, -1.2, 0.5])
    log_f = log_f_of_moments(np.asarray(x, np.float64), 1.0)
    path = model.path(None, MOMENT_BETAS)
    assert isinstance(path, GaussianMomentPath)
    np.testing.assert_allclose(
        path.log_densities(x), [log_f_of_moments(np.asarray(x), b) for b in MOMENT_BETAS], atol=1e-4
    )
    geometric = Gaussian(MEAN, COVARIANCE, path="geometric").path(None, MOMENT_BETAS)
    assert float(geometric.log_densities(x)[-1]) == pytest.approx(log_f, abs=1e-4)
    assert float(geometric.log_densities(x)[0]) == pytest.approx(stats.norm.logpdf(np.asarray(x)).sum(), abs=1e-5)
    assert model.quick_log_z() == pytest.approx(path.exact_log_z()[-1], abs=1e-5)
    assert path.log_z_base() == pytest.approx(0.5 * np.linalg.slogdet(2 * np.pi * BASE_COVARIANCE)[1], abs=1e-5)
    np.testing.assert_array_equal(Gaussian([1.0, 2.0], [3.0, 4.0]).covariance, np.diag([3.0, 4.0]))
    np.testing.assert_array_equal(Gaussian([1.0, 2.0], 3.0).covariance, 3 * np.eye(2))
    wide = Gaussian([1.0, 2.0]).path(tp.Normal(np.zeros(2), [2.0, 3.0]), TWO_ENDS)
    np.testing.assert_allclose(np.asarray(wide.root) @ np.asarray(wide.root).T, np.diag([4.0, 9.0]), atol=1e-5)
    assert isinstance(model.move(), tp.HMC)
    assert model.keeps_draws()
    assert model.spacing() == "adaptive"


def test_new_moments_compile_nothing_anew():
    num_traces = 0

    @eqx.filter_jit
    def log_densities(path, x):
        nonlocal num_traces
        num_traces += 1
        return path.log_densities(x)

    for shift in (0.0, 1.0):
        log_densities(Gaussian(MEAN + shift, COVARIANCE + shift * np.eye(3)).path(None, TWO_ENDS), jnp.zeros(3))
    assert num_traces == 1


# Data one by one

COLUMN = np.random.default_rng(5).normal(0.4, 1.0, 40)
OUTCOME = 0.5 - 1.0 * COLUMN + np.random.default_rng(6).normal(0, 1.0, 40)
PRIOR = tp.Normal(np.array([0.3, -0.2]), 2.0)


class Line(eqx.Module):
    """The log-likelihood of each of 40 points on a line with noise 1."""

    column: jax.Array
    outcome: jax.Array

    def __call__(self, weights):
        return jax.scipy.stats.norm.logpdf(self.outcome, weights[0] + weights[1] * self.column, 1.0)


def line() -> Line:
    return Line(_floats(COLUMN), _floats(OUTCOME))


def log_evidence() -> float:
    design = np.column_stack([np.ones(40), COLUMN])
    off = OUTCOME - design @ [0.3, -0.2]
    return stats.multivariate_normal(cov=np.eye(40) + 4 * design @ design.T).logpdf(off)


def test_data_come_in_one_by_one():
    """By a loop over the data. Kills: an order that is not used or is inverted, a datum early or late, no prior."""
    betas, order = np.array([0.0, 1 / 128, 0.3, 0.625, 253 / 256, 1.0]), np.random.default_rng(7).permutation(40)
    x = np.random.default_rng(8).normal(0, 1, (10, 2))
    with jax.enable_x64(True):
        prior = tp.Normal(np.array([0.3, -0.2]), 2.0)
        path = SubsampledPath.create(line(), prior, order, betas)
        found, one_by_one, features = (np.asarray(a) for a in _of_all(path, jnp.asarray(x)))
        moved = _of_all(path.with_betas(np.array([0.0, 0.3, 1.0])), jnp.asarray(x))[0]
    for i, weights in enumerate(x):
        each = stats.norm.logpdf(OUTCOME[order], weights[0] + weights[1] * COLUMN[order], 1.0)
        for k, share in enumerate(betas):  # 0.3 is 12 data, and none of the 13th
            whole = int(np.floor(share * 40 + 1e-9))
            total = stats.norm.logpdf(weights, [0.3, -0.2], 2.0).sum() + each[:whole].sum()
            total += (share * 40 - whole) * each[whole] if whole < 40 else 0.0
            assert found[i, k] == pytest.approx(total, abs=1e-9)
    np.testing.assert_allclose(one_by_one, found, atol=TOLERANCE)
    np.testing.assert_allclose(moved, found[:, [0, 2, 5]], atol=TOLERANCE)
    rises = features @ path.feature_matrix().T
    np.testing.assert_allclose(rises - rises[:, :1], found - found[:, :1], atol=TOLERANCE)
    assert path.log_z_base() == 0


def test_the_last_rung_is_the_posterior():
    """For every order. Kills: a datum that is left out or comes twice."""
    likelihood = line()
    whole = LikelihoodPath.create(lambda x: jnp.sum(likelihood(x)), PRIOR, TWO_ENDS)
    x = jnp.asarray([0.7, -1.1])
    orders = set()
    for seed in (0, 2):
        model = SubsampledPosterior(likelihood, PRIOR, seed=seed)
        np.testing.assert_allclose(model.path(None, TWO_ENDS).log_densities(x), whole.log_densities(x), rtol=1e-5)
        assert model.num_data == 40
        orders.add(tuple(model.order))
    assert len(orders) == 2
    np.testing.assert_array_equal(SubsampledPosterior(likelihood, PRIOR, seed=2).order, model.order)
    assert model.spacing() == "adaptive"
    assert model.keeps_draws()
    assert isinstance(model.move(), tp.HMC)


def test_a_datum_that_is_impossible_matters_only_once_it_is_in():
    """Kills: 0 · (−inf) for data that are yet to come; a feature of −inf."""
    path = SubsampledPath.create(
        lambda x: jnp.where(jnp.arange(4) == 2, -jnp.inf, -(x**2)), tp.Normal(0.0), np.arange(4), np.linspace(0, 1, 5)
    )
    x = jnp.asarray(0.5)
    for found in _of_all(path, x[None])[:2]:
        np.testing.assert_array_equal(np.isfinite(found[0]), [True, True, True, False, False])
        np.testing.assert_allclose(np.diff(np.asarray(found[0])[:3]), -0.25, atol=1e-6)
    assert np.isfinite(path.features(x)).all()


# Moves, estimates, refusals


@pytest.mark.parametrize("is_right", [True, False])
def test_simulated_tempering_leaves_the_joint_law_of_a_sequence_invariant(is_right):
    """Over (x, k) at once, with flips of bits; the twin walks the straight path from the base to the last density."""
    betas, guess = np.array([0.0, 0.4, 2 / 3, 1.0]), np.array([0.0, 0.7, -0.4, 0.9])
    path = sequence_path(betas, indexed=True)
    prior = np.log([0.4, 0.2, 0.1, 0.3])
    law = exact.joint_law(log_f_of_sequence(betas), prior, guess)
    cells = np.random.default_rng(2).choice(law.size, size=20_000, p=law.ravel())
    states = tp.Position(jnp.asarray(BITS[cells // 4], jnp.float32), jnp.asarray(cells % 4, jnp.int32))
    straight = tp.paths.GeometricPath.create(Pairs(_floats(COUPLINGS[-1])), tp.Bernoulli(LOGITS), betas)
    ladder = tp.Ladder.create(path if is_right else straight, prior, guess)
    kernel, keys = tp.SimulatedTempering(tp.BitFlips(1.5, num_steps=3)), jax.random.split(jax.random.key(4), 20_000)
    moved, _ = eqx.filter_jit(jax.vmap(lambda key, state: kernel(key, ladder, state)))(keys, states)
    rows = np.asarray(moved.x, np.int64) @ (1 << np.arange(4)[::-1])
    counts = np.bincount(rows * 4 + np.asarray(moved.rung), minlength=64)
    (checks.assert_law if is_right else checks.assert_not_law)(counts, law)


def _compared(model, truth, **settings):
    """Every method, with those answers in which neither the run nor the estimator found a fault."""
    found = tp.compare(model, truth=truth, num_chains=50, budget=240, warmup=tp.AnnealedStart(40, (60,)), **settings)
    good = [e for e in found.entries if e.answer.verdict is Verdict.GOOD and not e.run_findings]
    for entry in good:
        answer = entry.answer
        checks.assert_within(answer.log_z - answer.biases[-1], truth, answer.std_error)
    return found, {entry.method.name for entry in good}


@pytest.mark.slow  # the same methods walk along a sequence below
def test_all_methods_walk_along_averaged_moments():
    """At every rung, where log Z is known too; x is redrawn exactly, so that the path alone is tried."""
    betas = np.linspace(0, 1, 9)
    model = Gaussian(MEAN, COVARIANCE, base=tp.Normal(BASE_MEAN, covariance=BASE_COVARIANCE))
    found, good = _compared(model, model.quick_log_z(), move=Redraws(), betas=betas)
    assert good >= {"rts", "mbar", "bar", "rsd", "stepping_up", "stepping_down", "ais", "continuous", "sams"}
    truth = model.path(None, betas).exact_log_z()
    for entry in found.entries:
        if entry.method.name in good and len(entry.answer.values) == len(truth):
            for value, exact_value, error in zip(entry.answer.values, truth, entry.answer.std_errors, strict=True):
                assert abs(value - exact_value) <= 5.5 * error + 1e-5, entry.method.name


class RedrawsBits(tp.AbstractMove):
    """An exact draw of four bits at any β, whatever x was."""

    def __call__(self, key, path, rung, x):
        states = jnp.asarray(BITS, jnp.float32)
        picked = jax.random.categorical(key, jax.vmap(path.log_density, (0, None))(states, rung))
        return states[picked], tp.ladder.MoveInfo.accepted()


@pytest.mark.parametrize("kinds", [
    [RunKind.TEMPERED], pytest.param([RunKind.TEMPERED, RunKind.CONTINUOUS, RunKind.ANNEALED], marks=pytest.mark.slow),
])  # fmt: skip
def test_methods_walk_along_a_sequence(kinds):
    model = Sequence(PairsOfM(_floats(COUPLINGS)), tp.Bernoulli(LOGITS), num_densities=3)
    assert isinstance(model.move(), tp.BitFlips)
    names = [method.name for method in METHODS.values() if method.kind in kinds]
    truth = float(logsumexp(log_f_at_knots()[:, -1]))
    _, good = _compared(model, truth, move=RedrawsBits(), methods=names, betas=np.linspace(0, 1, 7))
    expected = {"rts", "mbar", "bar", "rsd", "stepping_up", "stepping_down", "ais", "continuous"}
    assert good >= expected & set(names)


@pytest.mark.slow
def test_methods_walk_from_datum_to_datum():
    """Those that read a tempered run, or an annealing pass; the others see of the path what they see of a sequence."""
    model = SubsampledPosterior(line(), PRIOR)
    names = [method.name for method in METHODS.values() if method.kind is RunKind.TEMPERED]
    betas = np.linspace(0, 1, 14) ** 3
    _, good = _compared(
        model, log_evidence(), move=tp.RandomWalk(0.3, num_steps=4), methods=[*names, "ais"], betas=betas
    )
    assert good >= {"rts", "mbar", "bar"}


NORMAL = tp.Normal(np.zeros(3))
SQUARE = lambda x: -jnp.sum(x**2)  # noqa: E731


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Sequence([], NORMAL), "one or more; got none"),
    (lambda: Sequence([SQUARE, 3.0], NORMAL), "got a float at place 1"),
    (lambda: Sequence(3.0, NORMAL), "list of functions of x, or one of .x, m.; got a float"),
    (lambda: Sequence([SQUARE], NORMAL, num_densities=2), "`num_densities` is 2, but `log_fs` has 1"),
    (lambda: Sequence(lambda x, m: SQUARE(x), NORMAL), "also needs `num_densities`.*got None"),
    (lambda: Sequence(lambda x, m: SQUARE(x), NORMAL, num_densities=0), "1 or more.*got 0"),
    (lambda: Sequence(lambda x, m: SQUARE(x), NORMAL, num_densities=2.5), "whole number.*got 2.5"),
    (lambda: Sequence(lambda x: SQUARE(x), NORMAL, num_densities=2), "cannot be evaluated"),
    (lambda: Sequence([SQUARE, lambda x: -(x**2)], NORMAL), r"log_fs\[1\]. must return one number.*float32\[3\]"),
    (lambda: Sequence([SQUARE, lambda x: jnp.where(x[0] > 0, jnp.inf, 0.0)], NORMAL), "Density 2 of 2 is .inf"),
    (lambda: Sequence([lambda x: -jnp.inf + 0 * x[0], SQUARE], NORMAL), r"log_fs\[0\]. is −inf at all of 64"),
    (lambda: Sequence([SQUARE, lambda x: jnp.where(x[0] > 9, jnp.sqrt(x[0] - 9), SQUARE(x))], NORMAL),
     "gradient of density 2 of 2.*RandomWalk"),
    (lambda: Sequence([SQUARE, lambda x: jax.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] - x[0] ** 2),
                                                            (0, 0.0))[1]], NORMAL), "no gradients.*RandomWalk"),
    (lambda: Sequence([SQUARE], "wide"), "got a str"),
    (lambda: Sequence([SQUARE], NORMAL).path(tp.Normal(np.zeros(4)), TWO_ENDS), r"float32\[3\] for this model"),
    (lambda: SequencePath.create([SQUARE], NORMAL, np.array([0.0, 0.5])), "rise strictly"),
    (lambda: Gaussian([0.0], path="linear"), "one of moments, geometric; got 'linear'"),
    (lambda: Gaussian(0.0), "shapes"),
    (lambda: Gaussian([0.0, 1.0], np.ones(3)), r"got \(2,\) and \(3,\)"),
    (lambda: Gaussian(["a"]), "arrays of numbers"),
    (lambda: Gaussian([np.nan]), "finite"),
    (lambda: Gaussian([0.0, 1.0], [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
    (lambda: Gaussian([0.0, 1.0], [[1.0, 0.5], [0.1, 1.0]]), "symmetric"),
    (lambda: Gaussian([0.0, 1.0], -1.0), "positive definite"),
    (lambda: Gaussian([0.0], base=tp.Student(3.0, np.zeros(1))), "must be a tp.Normal, got a Student"),
    (lambda: Gaussian([0.0], base=NORMAL), r"float32\[1\] for this model, got float32\[3\]"),
    (lambda: GaussianMomentPath.create(MEAN, COVARIANCE, BASE_MEAN[:2], BASE_COVARIANCE, TWO_ENDS), "both ends"),
    (lambda: GaussianMomentPath.create(MEAN, -COVARIANCE, BASE_MEAN, BASE_COVARIANCE, TWO_ENDS), r".covariance=.*pos"),
    (lambda: GaussianMomentPath.create(MEAN, COVARIANCE + np.inf, BASE_MEAN, BASE_COVARIANCE, TWO_ENDS), "finite"),
    (lambda: SubsampledPosterior(3.0, NORMAL), "function of one state, got a float"),
    (lambda: SubsampledPosterior(SQUARE, NORMAL), r"vector.*got float32\[\]. Do not add it up"),
    (lambda: SubsampledPosterior(lambda x: jnp.outer(x, x), NORMAL), r"vector.*got float32\[3, 3\]"),
    (lambda: SubsampledPosterior(lambda x: (x, x), NORMAL), "vector"),
    (lambda: SubsampledPosterior(lambda x: 1 / 0, NORMAL), "ZeroDivisionError"),
    (lambda: SubsampledPosterior(lambda x: jnp.nan * x, NORMAL), "NaN at all of 64"),
    (lambda: SubsampledPosterior(lambda x: x, NORMAL, seed=-1), "0 or more; got -1"),
    (lambda: SubsampledPosterior(lambda x: -(x**2), NORMAL).path(NORMAL, TWO_ENDS), "tempered from its prior"),
    (lambda: SubsampledPath.create(lambda x: x, NORMAL, np.array([0, 2, 2]), TWO_ENDS), "every datum once"),
])  # fmt: skip
def test_mistakes_are_one_line(make, words):
    with pytest.raises(tp.InputError, match=words) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_later_densities_may_vanish_where_the_base_is():
    """As nested sets do; others lie between. Kills: the check of the target of a `LogDensity`, asked of every f_m."""
    model = Sequence(
        [lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf), lambda x: jnp.where(x[0] > 8, 0.0, -jnp.inf)], NORMAL
    )
    np.testing.assert_array_equal(model.knots, [0.0, 0.5, 1.0])
    assert isinstance(model.path(tp.Normal(np.ones(3)), model.knots), SequencePath)


def _symmetrised_kl(low, high) -> float:
    """Between two Gaussians with means and covariances."""
    (m0, s0), (m1, s1) = low, high
    inverses = np.linalg.inv(s0), np.linalg.inv(s1)
    traces = np.trace(inverses[1] @ s0) + np.trace(inverses[0] @ s1) - 2 * len(m0)
    return 0.5 * (traces + (m1 - m0) @ (inverses[0] + inverses[1]) @ (m1 - m0))


def _length(kind: str, apart: float, sigma: float, num_steps: int = 2000) -> float:
    mean, shift, rungs = np.zeros(2), np.array([apart, 0.0]), []
    for beta in np.sin(np.linspace(0, np.pi / 2, num_steps + 1)) ** 2:  # dense at both ends, where much happens
        if kind == "moments":
            spread = ((1 - beta) + beta * sigma**2) * np.eye(2) + beta * (1 - beta) * np.outer(shift, shift)
            rungs.append((beta * shift, spread))
        else:
            precision = (1 - beta) + beta / sigma**2
            rungs.append(((1 - beta) * mean + beta * shift / sigma**2 / precision, np.eye(2) / precision))
    return sum(np.sqrt(_symmetrised_kl(*pair)) for pair in itertools.pairwise(rungs))


def test_the_table_of_lengths_is_right():
    page = (Path(__file__).parents[2] / "docs" / "guides" / "paths.md").read_text()
    table = page.split("| apart | σ | geometric | moments |")[1].split("\n\n")[0]
    rows = [[float(cell) for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert len(rows) == 7
    for apart, sigma, geometric, moments in rows:
        assert _length("geometric", apart, sigma) == pytest.approx(geometric, rel=0.01)
        assert _length("moments", apart, sigma) == pytest.approx(moments, rel=0.01)
