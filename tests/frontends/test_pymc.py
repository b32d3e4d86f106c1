"""PyMC models: the same halves and constants as by hand, nothing global changed, wrong models refused."""

import os
import subprocess
import sys
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import special, stats

import checks
import tempering as tp
from tempering.frontends.pymc import from_pymc

# PyTensor says so whenever it builds a model where no BLAS was installed for it; models here run in JAX.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")


@pytest.fixture(autouse=True, scope="module")
def _pymc():
    """Three seconds of importing, which a process that runs other tests does without."""
    global pm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyMC's own dependencies say of their future when they are imported
        pm = pytest.importorskip("pymc", reason="PyMC is not installed")


SHIFTED = np.array([0.3, -1.2, 2.5, 0.8, 1.9])


def design() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    x = np.column_stack([np.ones(12), rng.normal(0.5, 1, 12)])
    return x, x @ [0.7, -1.1] + rng.normal(0, 0.5, 12)


@pytest.fixture(scope="module")
def regression():
    x, y = design()
    with pm.Model() as model:
        weights = pm.Normal("weights", 0.2, 1.5, shape=2)
        pm.Deterministic("first", weights[0] ** 2)
        pm.Normal("y", x @ weights, 0.5, observed=y)
    return from_pymc(model)


def test_both_halves_of_a_regression_by_hand(regression):
    x, y = design()
    weights = np.random.default_rng(1).normal(0, 1.5, (20, 2))
    states = {"weights": jnp.asarray(weights, jnp.float32)}
    log_prior = stats.norm.logpdf(weights, 0.2, 1.5).sum(axis=1)
    log_likelihood = stats.norm.logpdf(y, weights @ x.T, 0.5).sum(axis=1)
    np.testing.assert_allclose(jax.vmap(regression.prior.log_density)(states), log_prior, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(regression.log_likelihood)(states), log_likelihood, rtol=1e-4)
    assert regression.measure == "the density of y (Lebesgue measure)"


def test_names_come_back_under_jit_and_vmap(regression):
    states = jax.vmap(regression.prior.sample)(jax.random.split(jax.random.key(0), 7))
    named = jax.jit(jax.vmap(regression.named))(states)
    assert set(named) == {"weights", "first"}
    np.testing.assert_allclose(named["first"], named["weights"][:, 0] ** 2, rtol=1e-6)
    assert len(np.unique(named["weights"])) == 14  # no two draws share their random numbers


def test_evidence_of_a_coin_by_quadrature():
    """Kills a missing or doubled Jacobian, a dropped binomial coefficient, halves that are swapped."""
    with pm.Model() as coin:
        p = pm.Beta("p", 2.0, 3.5)
        pm.Binomial("heads", 10, p, observed=3)
        pm.Potential("bonus", 0.4 * p)
    model = from_pymc(coin)
    u = np.linspace(-15, 15, 3001)
    states = {"p_logodds__": jnp.asarray(u, jnp.float32)}
    p = special.expit(u)
    log_prior = np.asarray(jax.jit(jax.vmap(model.prior.log_density))(states), np.float64)
    log_likelihood = np.asarray(jax.jit(jax.vmap(model.log_likelihood))(states), np.float64) - 0.4 * p
    assert np.trapezoid(np.exp(log_prior), u) == pytest.approx(1, abs=1e-4)
    exact = stats.betabinom.logpmf(3, 10, 2.0, 3.5)
    assert np.log(np.trapezoid(np.exp(log_prior + log_likelihood), u)) == pytest.approx(exact, abs=1e-4)
    assert model.measure == (
        "the probability of heads (counting measure) times the potentials bonus as they are, normalised or not"
    )


@pytest.fixture(scope="module")
def every_support():
    with pm.Model() as model:
        a = pm.HalfNormal("a", 2.0)
        b = pm.Uniform("b", -1.0, 2 * a)
        c = pm.Exponential("c", 1 / a, shape=2)
        d = pm.TruncatedNormal("d", 1.0, 2.0, lower=0.0)
        e = pm.Weibull("e", 1.5, 2.0)
        pm.Normal("y", a + b + c.sum() + d + e, 1.0, observed=0.5)
    return from_pymc(model)


def test_every_jacobian(every_support):
    """log p(u) = log p(θ) + log |dθ/du|, the density by SciPy and the Jacobian by differentiating the map itself.

    The last two are drawn by inversion, and that they follow these densities was checked when the model was made.
    """
    model = every_support
    state = eqx.filter_jit(model.prior.sample)(jax.random.key(3))
    theta = eqx.filter_jit(model.named)(state)
    a, b, c, d, e = (np.asarray(theta[name], np.float64) for name in "abcde")
    log_p = stats.halfnorm.logpdf(a, scale=2) + stats.uniform.logpdf(b, -1, 2 * a + 1)
    log_p += stats.expon.logpdf(c, scale=a).sum() + stats.truncnorm.logpdf(d, -0.5, np.inf, 1.0, 2.0)
    log_p += stats.weibull_min.logpdf(e, 1.5, scale=2.0)
    flat, unflatten = ravel_pytree(state)

    def parameters(u):
        named = model.named(unflatten(u))
        return jnp.concatenate([jnp.atleast_1d(named[name]) for name in "abcde"])

    _, log_det = np.linalg.slogdet(np.asarray(jax.jit(jax.jacfwd(parameters))(flat), np.float64))
    assert float(model.prior.log_density(state)) == pytest.approx(log_p + log_det, abs=1e-4)


WATCHED = """
import os, random
import jax, numpy as np, pymc as pm
from pymc.pytensorf import find_rng_nodes
import tempering
from tempering.frontends.pymc import from_pymc

with pm.Model() as model:
    pm.Normal("y", pm.Normal("mu", 0, 1), 1, observed=[0.3, -1.2])

def settings():
    config = {name: getattr(jax.config, name) for name in dir(jax.config) if name.startswith("jax_")}
    own = [str(rng.get_value().bit_generator.state) for rng in find_rng_nodes(model.basic_RVs)]
    return config, dict(os.environ), np.geterr(), random.getstate(), str(np.random.get_state()), own

before = settings()
posterior = from_pymc(model)
x = posterior.prior.sample(jax.random.key(0))
assert posterior.log_likelihood(x).dtype == "float32"
for old, new in zip(before, settings(), strict=True):
    assert old == new, (old, new)
"""


def test_nothing_global_changes():
    """In a fresh process: PyMC's bridge asks for double precision and for 100 devices when it is first imported."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), PYTHONWARNINGS="default")
    done = subprocess.run([sys.executable, "-c", WATCHED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def free(make):
    def build():
        with pm.Model() as model:
            make()
            pm.Normal("y", 0.0, 1.0, observed=0.5)
        return model

    return build


def unobserved():
    with pm.Model() as model:
        pm.Normal("mu", 0, 1)
    return model


def all_observed():
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=0.5)
    return model


def minibatch():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 1, observed=pm.Minibatch(SHIFTED, batch_size=2), total_size=5)
    return model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (free(lambda: pm.Poisson("k", 2.0)), "`k` is discrete"),
        (free(lambda: pm.Flat("mu")), "`mu` is improper"),
        (free(lambda: pm.HalfFlat("mu")), "`mu` is improper"),
        (free(lambda: pm.LKJCorr("c", n=3, eta=2.0)), "`c` is an LKJ"),
        (free(lambda: pm.LKJCholeskyCov("c", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))), "`c` is an LKJ"),
        (free(lambda: pm.Normal("o", 0, 1, shape=3, transform=pm.distributions.transforms.ordered)), "not finite"),
        (free(lambda: pm.Beta("p", 0.2, 0.2)), "not finite"),
        (free(lambda: pm.Wald("w", 1.0, 1.0)), "cannot be drawn from in JAX"),
        (free(lambda: pm.VonMises("angle", 0.3, 2.0)), "do not follow its density"),  # periodic on the whole line
        (unobserved, "observes nothing"),
        (all_observed, "no free variable"),
        (minibatch, "minibatch"),
        (lambda: "a text", "takes a pymc.Model, got a str"),
    ],
)
def test_wrong_models_are_refused_in_one_line(make, words):
    with pytest.raises(tp.InputError, match=words) as refused:
        from_pymc(make())
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_evidence_and_posterior_of_a_regression(regression):
    """The closed form within 4 standard errors, false failure 6e-5 at a fixed seed; the posterior mean likewise."""
    x, y = design()
    result = tp.estimate(regression, num_rungs=30, num_sweeps=400, expect=lambda u: regression.named(u)["weights"])
    assert result.verdict.is_good, result.summary()
    assert result.std_error < 0.1
    exact = stats.multivariate_normal.logpdf(y, x @ np.full(2, 0.2), 0.25 * np.eye(12) + 1.5**2 * x @ x.T)
    checks.assert_within(result.log_z, exact, result.std_error, most=4)
    precision = x.T @ x / 0.25 + np.eye(2) / 1.5**2
    mean = np.linalg.solve(precision, x.T @ y / 0.25 + 0.2 / 1.5**2)
    checks.assert_within(result.expectation.value, mean, result.expectation.std_error, most=4.5)
