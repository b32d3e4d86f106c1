"""Mixtures of normals: their density against SciPy, their base by what it promises, and their log Z."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import checks
import tempering as tp
from tempering.models import GaussianMixture, paper_mixture
from tempering.models.density.mixtures import covering_normal

WEIGHTS = np.array([0.7, 2.0, 0.1])
MEANS = np.array([[-1.5, 0.4], [2.0, 1.0], [0.3, -3.0]])
COVARIANCES = np.array([[[0.6, 0.2], [0.2, 0.3]], [[1.0, -0.5], [-0.5, 0.8]], [[0.2, 0.0], [0.0, 2.0]]])


def _reference(x: np.ndarray) -> np.ndarray:
    parts = [
        np.log(w) + stats.multivariate_normal(m, c).logpdf(x)
        for w, m, c in zip(WEIGHTS, MEANS, COVARIANCES, strict=True)
    ]
    return logsumexp(parts, axis=0)


def test_the_density_is_that_of_scipy():
    """Kills: a weight normalised away, a transposed or missing factor, a determinant with the wrong sign or half."""
    x = np.random.default_rng(1).normal(0, 3, (200, 2))
    plain = jax.vmap(GaussianMixture(WEIGHTS, MEANS, COVARIANCES).log_f)(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(plain, _reference(x), rtol=1e-5, atol=1e-4)
    with jax.enable_x64(True):
        log_f = GaussianMixture(WEIGHTS, MEANS, COVARIANCES).log_f
        np.testing.assert_allclose(jax.vmap(log_f)(jnp.asarray(x)), _reference(x), atol=1e-10)


def test_far_from_everything_the_density_is_small_and_smooth():
    """Kills: exponentials that are summed as they are, which underflow 15 standard deviations away."""
    log_f = GaussianMixture(WEIGHTS, MEANS, COVARIANCES).log_f
    value, slope = jax.value_and_grad(log_f)(jnp.array([300.0, -400.0]))
    assert float(value) == pytest.approx(_reference(np.array([300.0, -400.0])), rel=1e-5)
    assert np.isfinite(slope).all()


def test_log_z_is_the_integral():
    model = GaussianMixture(WEIGHTS, MEANS, COVARIANCES)
    side = np.linspace(-14, 14, 561)
    grid = jnp.asarray(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2), jnp.float32)
    integral = np.exp(np.asarray(jax.vmap(model.log_f)(grid), np.float64)).sum() * (side[1] - side[0]) ** 2
    assert np.log(integral) == pytest.approx(model.quick_log_z(), abs=1e-5)
    assert model.quick_log_z() == pytest.approx(np.log(2.8), abs=1e-12)


@pytest.mark.parametrize(("given", "matrices"), [
    (0.5, [0.5 * np.eye(3)] * 2),
    ([0.5, 2.0], [0.5 * np.eye(3), 2 * np.eye(3)]),
    ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [np.diag([1.0, 2.0, 3.0]), np.diag([4.0, 5.0, 6.0])]),
    (np.eye(3) + 0.2, [np.eye(3) + 0.2] * 2),
], ids=["number", "per component", "variances", "one matrix"])  # fmt: skip
def test_covariances_may_be_short(given, matrices):
    model = GaussianMixture([1.0, 2.0], np.zeros((2, 3)), given)
    np.testing.assert_array_equal(model.covariances, matrices)


@pytest.mark.parametrize("case", ["three", "light", "wide", "line", "one"])
def test_the_default_base_covers_the_mixture(case):
    """Every mean within two standard deviations, no component wider, and no wider than that needs.

    Kills: a covariance without the means, a factor for standard deviations, a base that is just wide.
    """
    means, covariances = {
        "three": (MEANS, COVARIANCES),
        "light": (np.array([[0.0, 0], [9.0, 0]]), np.tile(0.1 * np.eye(2), (2, 1, 1))),
        "wide": (np.zeros((4, 2)), np.array([1.0, 1.0, 1.0, 50.0])[:, None, None] * np.eye(2)),
        "line": (np.array([[0.0]] * 30 + [[40.0]]), np.ones((31, 1, 1))),
        "one": (MEANS[:1], COVARIANCES[:1]),
    }[case]
    base = covering_normal(means, covariances)
    root = np.asarray(base.scale, np.float64)
    whitener = np.linalg.inv(root)
    distance = np.linalg.norm((means - np.asarray(base.mean)) @ whitener.T, axis=1).max()
    width = np.linalg.eigvalsh(whitener @ covariances @ whitener.T).max()
    assert distance < 2 + 1e-5
    assert width < 1 + 1e-5
    spread = covariances.mean(axis=0) + np.cov(means.T, bias=True).reshape(covariances[0].shape)
    is_moments = np.allclose(root @ root.T, spread, rtol=1e-4, atol=1e-5)
    assert is_moments or max(distance / 2, width) > 1 - 1e-4
    assert is_moments == (case in ("light", "three", "one"))


def test_the_papers_mixture():
    model = paper_mixture()
    assert model.quick_log_z() == pytest.approx(0, abs=1e-15)
    assert model.means.shape == (2, 10)
    np.testing.assert_array_equal(model.means[1] - model.means[0], [5.0] + 9 * [0.0])
    np.testing.assert_array_equal(model.covariances[0], 0.5 * np.eye(10))
    np.testing.assert_allclose(model.base.scale**2, 30 * np.ones(10), rtol=1e-6)
    np.testing.assert_array_equal(model.base.mean, np.zeros(10))
    assert model.keeps_draws()
    assert isinstance(model.move(), tp.HMC)
    x = jnp.arange(10.0)
    assert model.named(x).keys() == {"x"}
    np.testing.assert_array_equal(model.named(x)["x"], x)
    other = model.path(tp.Student(3.0, np.zeros(10)), np.array([0.0, 1.0]))
    assert isinstance(other.base, tp.Student)


def test_new_means_compile_nothing_anew():
    num_traces = 0

    @eqx.filter_jit
    def log_densities(path, x):
        nonlocal num_traces
        num_traces += 1
        return path.log_densities(x)

    for shift in (0.0, 1.0):
        model = GaussianMixture(WEIGHTS + shift, MEANS - shift, (1 + shift) * COVARIANCES)
        log_densities(model.path(None, np.linspace(0, 1, 4)), jnp.zeros(2))
    assert num_traces == 1


@pytest.mark.parametrize(("make", "words"), [
    (lambda: GaussianMixture([1.0], [0.0, 1.0]), "component, dim"),
    (lambda: GaussianMixture([1.0, 1.0], [[0.0, 1.0]]), "component, dim"),
    (lambda: GaussianMixture([1.0, 0.0], MEANS[:2]), "positive and finite"),
    (lambda: GaussianMixture([1.0, np.nan], MEANS[:2]), "positive and finite"),
    (lambda: GaussianMixture([1.0], [[0.0, np.inf]]), "finite"),
    (lambda: GaussianMixture([1.0], [[0.0, 1.0]], np.ones(5)), "one of the shapes"),
    (lambda: GaussianMixture([1.0], [[0.0, 1.0]], np.nan), "finite"),
    (lambda: GaussianMixture([1.0], [[0.0, 1.0]], -1.0), "positive definite"),
    (lambda: GaussianMixture([1.0], [[0.0, 1.0]], [[1.0, 0.5], [0.1, 1.0]]), "symmetric"),
    (lambda: GaussianMixture([1.0, 1.0], MEANS[:2], np.eye(2)), "Write matrices"),
    (lambda: GaussianMixture([1.0], [[0.0, 1.0]], base=tp.Normal(np.zeros(3))), r"float32\[2\]"),
    (lambda: GaussianMixture([1.0], [[0.0, 1.0]], base="wide"), "got a str"),
    (lambda: paper_mixture().path(tp.Normal(0.0), np.array([0.0, 1.0])), r"float32\[10\]"),
])  # fmt: skip
def test_mistakes_are_one_line(make, words):
    with pytest.raises(tp.InputError, match=words) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_an_estimate_and_both_modes():
    """A light mode far off is found, in its share; a base with the mixture's own covariance would miss it."""
    model = GaussianMixture([3.0, 0.06], [[0.0, 0.0, 0.0], [8.0, 0.0, 1.0]], 0.5)
    result = tp.estimate(
        model, move=tp.HMC(0.5, num_leaps=5), num_rungs=30, num_sweeps=600, expect=lambda x: 1.0 * (x[:1] > 4)
    )
    limit = stats.t.isf(checks.FALSE_FAILURE / 2, result.num_chains - 1)
    assert abs(result.log_z - np.log(3.06)) < limit * result.std_error
    assert result.std_error < 0.1
    share, error = np.asarray(result.expectation.value)[0], np.asarray(result.expectation.std_error)[0]
    assert abs(share - 0.06 / 3.06) < limit * error
    assert error < 0.004
    assert result.exact_log_z == pytest.approx(np.log(3.06))
