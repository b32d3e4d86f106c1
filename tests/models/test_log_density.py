"""Models that people write themselves: right ones give the right number, wrong ones one clear line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import checks
import tempering as tp

TWO_ENDS = np.array([0.0, 1.0])
NORMAL = tp.Normal(jnp.zeros(3))


def _quartic(x):
    return -jnp.sum(x**4)


def _looping(x):
    """−Σx², by a loop through which no gradient goes back."""
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] - x[c[0]] ** 2), (0, jnp.zeros(())))[1]


class _Improper(tp.AbstractBase):
    def log_density(self, x):
        return 0.0 * jnp.sum(x)

    def sample(self, key):
        return jax.random.normal(key, (3,))

    def log_z(self):
        return float("inf")


class _Integers(_Improper):
    def sample(self, key):
        return jax.random.randint(key, (3,), 0, 5)


class _NeverFinite(_Improper):
    def log_density(self, x):
        return jnp.sum(x) * jnp.nan


@pytest.mark.parametrize("wrap", [tp.LogDensity, tp.Posterior])
@pytest.mark.parametrize(("log_f", "base", "words"), [
    (lambda x: -jnp.inf + 0 * jnp.sum(x), NORMAL, "−inf at all of 64"),
    (lambda x: jnp.nan * jnp.sum(x), NORMAL, "NaN at all of 64"),
    (lambda x: jnp.where(x[0] > 0, jnp.nan, -jnp.inf), NORMAL, "−inf or NaN at all"),
    (lambda x: jnp.where(x[0] > 0, jnp.inf, 0.0), NORMAL, r"\+inf at some"),
    (lambda x: jnp.where(x[0] > 9, jnp.sqrt(x[0] - 9), -jnp.sum(x**2)), NORMAL, "gradient.*not finite at 64"),
    (_looping, NORMAL, "no gradient.*RandomWalk"),
    (lambda x: jnp.ones((4, 4)) @ x @ jnp.ones(4), NORMAL, r"float32\[3\].*TypeError.*shape that it expects"),
    (lambda x: -jnp.sum(x["a"] ** 2), NORMAL, r"float32\[3\].*shape that it expects"),
    (lambda x: -(x**2), NORMAL, r"one number for one x, got float32\[3\]\. Add it up"),
    (lambda x: (x, x), NORMAL, r"one number for one x, got \("),
    (lambda x: None, NORMAL, "one number for one x, got None"),
    (lambda x: np.sum(np.exp(np.asarray(x))), NORMAL, "with jax.numpy instead of numpy"),
    (lambda x: 0.0 if x[0] > 0 else 1.0, NORMAL, "jnp.where in place of"),
    (lambda x: jnp.sum(x > 0), NORMAL, "real number, got int32"),
    (lambda x: 1 / 0, NORMAL, "ZeroDivisionError"),
    (_quartic, 3.0, "got a float"), (_quartic, tp.Normal, "the class Normal itself"),
    (_quartic, [NORMAL, NORMAL], "tp.Product"), (_quartic, np.zeros((5, 3)), "ndarray"),
    (_quartic, _Improper(), "improper"), (_quartic, _Integers(), r"int32\[3\].*tp.Bernoulli"),
    (_quartic, _NeverFinite(), "own draws"),
    (lambda x: jnp.sum(x["a"]), tp.Product({"a": NORMAL, "b": tp.Bernoulli(jnp.zeros(2))}), "2 of 5 .* bits"),
])  # fmt: skip
def test_a_wrong_model_is_one_line(wrap, log_f, base, words):
    with pytest.raises(tp.InputError, match=words) as refused:
        wrap(log_f, base)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("base", "words"), [
    (tp.Normal(jnp.zeros(4)), r"float32\[3\] for this model, got float32\[4\]"),
    (tp.Product({"a": NORMAL}), r"got \{'a': float32\[3\]\}"),
    (tp.Uniform(20 * jnp.ones(3), 21.0), "overlap"), ("uniform", "got a str"),
])  # fmt: skip
def test_a_base_that_does_not_fit(base, words):
    """Also where it comes with the call, and not with the model."""
    model = tp.LogDensity(lambda x: jnp.where(jnp.all(x < 9), _quartic(x), -jnp.inf), NORMAL)
    with pytest.raises(tp.InputError, match=words):
        tp.estimate(model, base)


def test_a_posterior_takes_no_other_base():
    model = tp.Posterior(_quartic, NORMAL)
    with pytest.raises(tp.InputError, match="tempered from its prior"):
        model.path(NORMAL, TWO_ENDS)


def test_moves_are_chosen_by_the_state():
    """Kills: Hamiltonian dynamics on bits, which would leave them; a gradient asked of those who need none."""
    assert isinstance(tp.LogDensity(_quartic, NORMAL).move(), tp.HMC)
    bits = tp.Bernoulli(jnp.zeros(3))
    assert isinstance(tp.LogDensity(lambda x: jnp.sum(jnp.sqrt(x)), bits).move(), tp.BitFlips)
    parts = tp.Product(
        {"a": bits, "b": tp.Unnormalised(lambda x: 0 * x, lambda key: jnp.round(jax.random.uniform(key)))}
    )
    assert isinstance(tp.Posterior(lambda x: jnp.sum(x["a"]) + x["b"], parts).move(), tp.BitFlips)
    assert isinstance(tp.LogDensity(_looping, NORMAL, move=tp.RandomWalk()).move(), tp.RandomWalk)


def test_paths_have_the_two_ends():
    """Kills: a prior that is tempered away, a base that is counted twice."""
    x, betas = jnp.array([0.3, -0.2, 0.9]), np.array([0.0, 0.3, 1.0])
    log_f, log_p = float(_quartic(x)), float(NORMAL.log_density(x))
    geometric = tp.LogDensity(_quartic, NORMAL).path(None, betas)
    np.testing.assert_allclose(geometric.log_densities(x), (1 - betas) * log_p + betas * log_f, atol=1e-6)
    bayesian = tp.Posterior(_quartic, NORMAL).path(None, betas)
    np.testing.assert_allclose(bayesian.log_densities(x), log_p + betas * log_f, atol=1e-6)
    wider = tp.LogDensity(_quartic, NORMAL).path(tp.Normal(jnp.zeros(3), 2.0), betas)
    assert float(wider.log_density(x, jnp.int32(0))) == pytest.approx(
        float(tp.Normal(jnp.zeros(3), 2.0).log_density(x))
    )


def test_names_of_parameters():
    base = tp.Product({"a": NORMAL, "b": {"c": tp.Normal(0.0)}})
    x = base.sample(jax.random.key(0))
    model = tp.Posterior(lambda x: -jnp.sum(x["a"] ** 2), base)
    assert model.named(x).keys() == {"a", "b.c"}
    named = tp.Posterior(lambda x: -jnp.sum(x["a"] ** 2), base, constrain=lambda x: {"scale": jnp.exp(x["b"]["c"])})
    assert named.named(x).keys() == {"scale"}
    assert model.keeps_draws()


def _assert_close(result, truth):
    limit = stats.t.isf(checks.FALSE_FAILURE / 2, result.num_chains - 1)
    assert abs(result.log_z - truth) < limit * result.std_error


@pytest.mark.slow  # tests/warmups/test_tuning.py estimates a density whose log Z is known
def test_an_estimate_of_a_quartic():
    """∫ exp(−x⁴) dx = 2Γ(5/4) for each coordinate."""
    result = tp.estimate(tp.LogDensity(_quartic, NORMAL), move=tp.HMC(0.3), num_rungs=20, num_sweeps=300)
    _assert_close(result, 3 * (np.log(2) + gammaln(1.25)))
    assert result.std_error < 0.1


@pytest.mark.slow  # test_vanishing.py runs into a hole of NaN, and names it
def test_a_density_that_is_sometimes_nan_runs_and_is_named():
    """NaN beyond 1.5, so that the base meets it now and then: the rest is estimated, and the verdict says so."""
    model = tp.LogDensity(lambda x: jnp.where(x[0] > 1.5, jnp.nan, _quartic(x)), NORMAL)
    result = tp.estimate(model, move=tp.HMC(0.3), num_rungs=20, num_sweeps=300)
    assert result.verdict is tp.Verdict.NONFINITE
    assert np.isfinite(result.log_z)
    assert "NaN, which counts as f = 0" in next(
        f.seen for f in result.diagnosis.findings if f.verdict is tp.Verdict.NONFINITE
    )


def test_a_density_without_a_gradient_moves_by_a_random_walk():
    model = tp.LogDensity(_looping, NORMAL, move=tp.RandomWalk(0.5))
    result = tp.estimate(model, num_rungs=8, num_sweeps=64, num_chains=20, warmup="iterations")
    _assert_close(result, 1.5 * np.log(np.pi))
