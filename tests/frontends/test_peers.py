"""Evidences that others have computed too: by quadrature where that is exact, by nested sampling where it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import checks
import tempering as tp
from tempering.frontends.numpyro import from_numpyro

MAX_ERRORS = 4.0  # combined standard errors between two answers to one question; exceeded once in 16 000 times

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])  # Rubin 1981
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools_log_z() -> float:
    """μ ~ N(0, 5²) integrated by hand, τ ~ HalfNormal(5) on a grid of log τ; −31.036."""
    log_tau = np.linspace(-25, 5, 6001)
    variance = np.exp(2 * log_tau)[:, None] + ERRORS**2
    precision = (1 / variance).sum(axis=1) + 1 / 25
    pull = (EFFECTS / variance).sum(axis=1)
    log_y = -0.5 * (np.log(2 * np.pi * variance) + EFFECTS**2 / variance).sum(axis=1)
    log_y += 0.5 * pull**2 / precision - 0.5 * np.log(25 * precision)
    log_prior = stats.halfnorm.logpdf(np.exp(log_tau), scale=5) + log_tau
    return float(np.log(np.trapezoid(np.exp(log_y + log_prior), log_tau)))


def schools(is_centred: bool):
    numpyro = pytest.importorskip("numpyro", reason="NumPyro is not installed")
    dist = numpyro.distributions
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("schools", 8):
        if is_centred:
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
        else:
            theta = mu + tau * numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("effects", dist.Normal(theta, ERRORS), obs=EFFECTS)


@pytest.mark.parametrize(
    "is_centred",
    [
        pytest.param(True, id="centred", marks=pytest.mark.slow),
        pytest.param(False, id="not centred", marks=pytest.mark.slow),
    ],
)
def test_eight_schools_in_both_parametrisations(is_centred):
    """One model written in two ways has one evidence, −31.036.

    The centred one has a neck at small τ where trajectories fail, and the verdict may say so; it is short enough here.
    Steps are given to save the time of tuning; the regressions of the other files have theirs tuned.
    """
    pytest.importorskip("numpyro", reason="NumPyro is not installed")
    exact = eight_schools_log_z()
    assert exact == pytest.approx(-31.036, abs=5e-4)
    result = tp.estimate(from_numpyro(schools, is_centred), move=tp.HMC(0.3), num_rungs=15, num_sweeps=500)
    assert result.std_error < 0.1
    assert abs(result.log_z - exact) < MAX_ERRORS * result.std_error, result.summary()
    assert is_centred or result.verdict.is_good, result.summary()


def mixture_data(num: int) -> np.ndarray:
    rng = np.random.default_rng(12)
    return np.where(rng.uniform(size=num) < 0.4, rng.normal(-2.0, 1.0, num), rng.normal(1.5, 1.0, num))


def mixture(y: np.ndarray, num_components: int) -> tp.Posterior:
    """Equal weights and known scale; the labels of the means can be exchanged, so there are K! modes."""
    data = jnp.asarray(y, jnp.float32)[:, None]

    def log_likelihood(means):
        log_parts = -0.5 * (data - means) ** 2 - 0.5 * jnp.log(2 * jnp.pi) - jnp.log(num_components)
        return jnp.sum(jax.nn.logsumexp(log_parts, axis=1))

    return tp.Posterior(log_likelihood, prior=tp.Normal(np.full(num_components, 0.5), 3.0))


def mixture_log_z(y: np.ndarray, num_components: int, grid: np.ndarray) -> float:
    """By summing over a grid of all means."""
    axes = [tuple(slice(None) if i == k else None for i in range(num_components)) for k in range(num_components)]
    log_f = sum(stats.norm.logpdf(grid, 0.5, 3.0)[axis] for axis in axes)
    for datum in y:
        log_f = log_f + np.log(sum(stats.norm.pdf(datum, grid, 1.0)[axis] for axis in axes) / num_components)
    return float(special.logsumexp(log_f) + num_components * np.log(grid[1] - grid[0]))


@pytest.mark.slow  # test_mixtures.py finds both modes of a mixture in their shares
def test_a_mixture_with_two_labels_by_quadrature():
    """The grid is exact to 1e-6: it is fine against the posterior's width of 0.25, and the integrand is smooth."""
    y = mixture_data(30)
    exact = mixture_log_z(y, 2, np.linspace(-8, 8, 641))
    result = tp.estimate(
        mixture(y, 2), move=tp.HMC(0.15), num_rungs=15, num_sweeps=500, expect=lambda means: (means > 0).astype(float)
    )
    assert result.verdict.is_good, result.summary()
    assert result.std_error < 0.1
    assert abs(result.log_z - exact) < MAX_ERRORS * result.std_error
    # both labellings are visited alike: each mean is the upper one half of the time
    checks.assert_within(result.expectation.value, 0.5, result.expectation.std_error, most=4.5)


@pytest.mark.slow
def test_a_mixture_with_three_labels_by_nested_sampling():
    dynesty = pytest.importorskip("dynesty", reason="dynesty is not installed")
    y = mixture_data(30)

    def log_likelihood(means):
        return special.logsumexp(stats.norm.logpdf(y[:, None], means, 1.0), axis=1).sum() - len(y) * np.log(3)

    sampler = dynesty.NestedSampler(
        log_likelihood, lambda u: stats.norm.ppf(u, 0.5, 3.0), 3, nlive=2000, rstate=np.random.default_rng(5)
    )
    sampler.run_nested(print_progress=False)
    result = tp.estimate(mixture(y, 3))
    assert result.verdict.is_good, result.summary()
    assert result.std_error < 0.1
    combined = np.hypot(result.std_error, sampler.results.logzerr[-1])  # dynesty claims 0.14 with 2000 points
    assert abs(result.log_z - sampler.results.logz[-1]) < MAX_ERRORS * combined
    assert abs(result.log_z - mixture_log_z(y, 3, np.linspace(-7, 7, 141))) < MAX_ERRORS * result.std_error
