"""NumPyro models with discrete parameters: summed out exactly, or refused in a line."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import checks
import tempering as tp
from tempering.frontends.numpyro import from_numpyro

numpyro = pytest.importorskip("numpyro", reason="NumPyro is not installed")
dist = pytest.importorskip("numpyro.distributions", reason="NumPyro is not installed")
pytest.importorskip("funsor", reason="discrete parameters are summed out by funsor")

DATA = np.array([0.3, -1.2, 2.5, 0.8])
SHARES, PLACES, WIDTHS = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.5, 4.0]), np.array([0.5, 1.0, 2.0])
SCALES = np.array([0.6, 1.7])


def mixture(y=None):
    """Each value of y has a component of its own, and one component is shared by all: local and global sums."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.5))
    tilt = numpyro.sample("tilt", dist.Bernoulli(0.3))
    place = numpyro.sample("place", dist.Normal(0.4, 2.0))
    with numpyro.plate("rows", len(DATA)):
        kind = numpyro.sample("kind", dist.Categorical(jnp.stack([share, 1 - share], axis=-1)))
        numpyro.sample("y", dist.Normal(place + 1.5 * kind + 0.7 * tilt, jnp.asarray(SCALES)[kind]), obs=y)


def chosen_prior(y=None):
    """A continuous parameter whose prior depends on a discrete one, so that its prior is a mixture."""
    k = numpyro.sample("k", dist.Categorical(jnp.asarray(SHARES)))
    x = numpyro.sample("x", dist.Normal(jnp.asarray(PLACES)[k], jnp.asarray(WIDTHS)[k]))
    numpyro.deterministic("which", x + k)
    numpyro.sample("y", dist.Normal(x, 0.8), obs=y)


def test_a_mixture_is_summed_by_hand():
    """Kills: a sum within the wrong plate, a global value summed per row, a prior inside the likelihood."""
    model = from_numpyro(mixture, y=DATA)
    found_likelihood, found_prior = map(eqx.filter_jit, (model.log_likelihood, model.prior.log_density))
    rng = np.random.default_rng(3)
    for _ in range(5):
        u, place = rng.normal(), rng.normal()
        share = special.expit(u)
        by_kind = [
            [stats.norm.logpdf(DATA, place + 1.5 * kind + 0.7 * tilt, SCALES[kind]) for kind in (0, 1)]
            for tilt in (0, 1)
        ]
        rows = special.logsumexp(by_kind, axis=1, b=np.array([share, 1 - share])[None, :, None])  # (tilt, row)
        log_likelihood = special.logsumexp(rows.sum(axis=1), b=[0.7, 0.3])
        log_prior = stats.beta.logpdf(share, 2.0, 3.5) + np.log(share * (1 - share)) + stats.norm.logpdf(place, 0.4, 2)
        state = {"share": jnp.float32(u), "place": jnp.float32(place)}
        assert float(found_likelihood(state)) == pytest.approx(log_likelihood, abs=1e-4)
        assert float(found_prior(state)) == pytest.approx(log_prior, abs=1e-4)
    assert model.measure == "the density of y (Lebesgue measure)"
    assert set(model.named(state)) == {"share", "place"}


@pytest.mark.slow  # a mixture is summed by hand in another test
def test_a_prior_that_is_a_mixture_and_its_evidence():
    """Kills: p(x | k) at one k, shares that are counted twice. A run finds what the closed form says."""
    model = from_numpyro(chosen_prior, y=1.5)
    x = np.linspace(-12, 18, 3001)
    states = {"x": jnp.asarray(x, jnp.float32)}
    log_prior = np.asarray(jax.jit(jax.vmap(model.prior.log_density))(states), np.float64)
    log_likelihood = np.asarray(jax.jit(jax.vmap(model.log_likelihood))(states), np.float64)
    expected = special.logsumexp(stats.norm.logpdf(x[:, None], PLACES, WIDTHS), axis=1, b=SHARES)
    np.testing.assert_allclose(log_prior, expected, atol=1e-3)
    exact = special.logsumexp(stats.norm.logpdf(1.5, PLACES, np.hypot(WIDTHS, 0.8)), b=SHARES)
    assert np.log(np.trapezoid(np.exp(log_prior + log_likelihood), x)) == pytest.approx(exact, abs=1e-4)
    result = tp.estimate(model, num_rungs=5, num_sweeps=100, progress=False)
    checks.assert_within(result.log_z, exact, result.std_error)
    assert set(model.named({"x": jnp.float32(0.3)})) == {"x"}  # what depends on k is left out


def without_a_plate():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    k = numpyro.sample("k", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(x + k, 1.0), obs=DATA[:2])  # as many as k has values


def from_one_on():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(x * numpyro.sample("k", dist.DiscreteUniform(1, 3)), 1.0), obs=0.5)


def a_vector():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    k = numpyro.sample("k", dist.Bernoulli(0.3).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(x + k.sum(-1), 1.0), obs=0.5)


def in_sequence():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    k = numpyro.sample("k", dist.Bernoulli(0.3), infer={"enumerate": "sequential"})
    numpyro.sample("y", dist.Normal(x + k, 1.0), obs=0.5)


def nothing_but_discrete():
    numpyro.sample("y", dist.Normal(numpyro.sample("k", dist.Bernoulli(0.3)), 1.0), obs=0.5)


def support_that_varies():
    k = numpyro.sample("k", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(numpyro.sample("x", dist.Uniform(0.0, 1.0 + k)), 1.0), obs=0.5)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (without_a_plate, r"`y` has independent values of shape \(2,\) outside of plates"),
        (from_one_on, "`k` is discrete with values from 1 on"),
        (a_vector, "`k` is discrete and a vector"),
        (in_sequence, "`k` is discrete and marked otherwise"),
        (nothing_but_discrete, "Every parameter of the model is discrete"),
        (support_that_varies, "The support of `x` depends on a discrete parameter"),
    ],
)
def test_what_cannot_be_summed_is_refused(model, words):
    """Guards against silent errors: NumPyro sums over 0, 1, 2 whatever the values are, and over axes that meet."""
    with pytest.raises(tp.InputError, match=words) as refused:
        from_numpyro(model)
    assert "\n" not in str(refused.value)


def test_without_funsor(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro.contrib.funsor", None)
    with pytest.raises(tp.InputError, match=r"pip install 'tempering\[funsor\]'"):
        from_numpyro(chosen_prior, y=1.5)
