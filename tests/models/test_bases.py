"""Bases: their densities against SciPy and quadrature, their draws against their distribution functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import checks
import tempering as tp
from tempering.bases import Distribution, as_base

NUM_DRAWS = 20_000
MEAN, STD = np.array([0.3, -1.2, 2.0]), np.array([0.5, 2.0, 1.1])
COVARIANCE = np.array([[2.0, 0.9, -0.3], [0.9, 1.0, 0.2], [-0.3, 0.2, 0.7]])
DF = np.array([1.5, 4.0, 30.0])
LOW, HIGH = np.array([-1.0, 0.5, 2.0]), np.array([0.2, 3.0, 2.5])


def assert_distribution(samples, cdf) -> None:
    """Independent draws have this distribution function, by Kolmogorov and Smirnov; sees a gap of 2.7/√n."""
    p_value = stats.kstest(np.asarray(samples, np.float64), cdf).pvalue
    assert p_value > checks.FALSE_FAILURE, f"Kolmogorov-Smirnov p-value {p_value:.1e}"


def assert_not_distribution(samples, cdf) -> None:
    """A broken twin must be seen."""
    p_value = stats.kstest(np.asarray(samples, np.float64), cdf).pvalue
    assert p_value < checks.FALSE_FAILURE, f"the broken twin passed, with p-value {p_value:.1e}"


def draws_of(base, seed=0):
    return jax.jit(jax.vmap(base.sample))(jax.random.split(jax.random.key(seed), NUM_DRAWS))


NORMAL = tp.Normal(MEAN, STD)
CORRELATED = tp.Normal(MEAN, covariance=COVARIANCE)
STUDENT = tp.Student(DF, MEAN, STD)
UNIFORM = tp.Uniform(LOW, HIGH)


# Densities.


@pytest.mark.parametrize(("base", "reference"), [
    (NORMAL, lambda x: stats.norm.logpdf(x, MEAN, STD).sum(axis=1)),
    (CORRELATED, lambda x: stats.multivariate_normal.logpdf(x, MEAN, COVARIANCE)),
    (STUDENT, lambda x: stats.t.logpdf(x, DF, MEAN, STD).sum(axis=1)),
    (UNIFORM, lambda x: stats.uniform.logpdf(x, LOW, HIGH - LOW).sum(axis=1)),
], ids=["normal", "correlated", "student", "uniform"])  # fmt: skip
def test_log_densities_are_those_of_scipy(base, reference):
    """Kills: a scale left out or squared, a transposed Cholesky factor, a degree of freedom more, no constant."""
    x = np.random.default_rng(0).normal([-0.3, 1.0, 2.2], 1.0, (500, 3)).astype(np.float32)
    came = np.asarray(jax.vmap(base.log_density)(jnp.asarray(x)))
    expected = reference(x.astype(np.float64))
    if base is UNIFORM:
        assert 5 < np.isfinite(expected).sum() < 495
    np.testing.assert_allclose(came, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("df", [0.7, 1e4, 1e7])
def test_a_student_keeps_its_constant_for_many_degrees_of_freedom(df):
    """Kills: gamma functions in float32, which are off by a nat at 1e7."""
    base = tp.Student(df, np.zeros(4), 2.0)
    x = np.array([0.1, -3.0, 5.0, 0.0])
    assert float(base.log_density(jnp.asarray(x))) == pytest.approx(stats.t.logpdf(x, df, 0, 2).sum(), abs=2e-5)


@pytest.mark.parametrize(("base", "low", "high"), [
    (tp.Normal(0.4, 0.7), -7, 8), (tp.Student(5.0, 0.4, 0.7), -400, 400), (tp.Uniform(-0.3, 1.6), -1, 3),
], ids=["normal", "student", "uniform"])  # fmt: skip
def test_densities_integrate_to_one(base, low, high):
    # Half steps between the float32 numbers of a uniform's ends cancel; the grid is fine enough for the others.
    x = np.linspace(low, high, 400_001)
    density = np.exp(np.asarray(jax.vmap(base.log_density)(jnp.asarray(x, jnp.float32)), np.float64))
    assert integrate.simpson(density, x=x) == pytest.approx(1, abs=2e-5)
    assert base.log_z() == 0


def test_a_correlated_normal_integrates_to_one():
    base = tp.Normal([0.3, -0.2], covariance=[[1.5, 0.8], [0.8, 0.9]])
    side = np.linspace(-8, 8, 401)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    density = np.exp(np.asarray(jax.vmap(base.log_density)(jnp.asarray(grid, jnp.float32)), np.float64))
    assert density.sum() * (side[1] - side[0]) ** 2 == pytest.approx(1, abs=1e-5)  # sums of normals converge fast


def test_bits_add_up():
    """Σ over all bits of exp(x · logits) is exp(log Z)."""
    base = tp.Bernoulli([0.3, -1.0, 2.0])
    x = jnp.asarray(np.indices((2, 2, 2)).reshape(3, -1).T, jnp.float32)
    assert np.log(np.exp(jax.vmap(base.log_density)(x)).sum()) == pytest.approx(base.log_z(), abs=1e-6)


# ReducedDraws, each beside a broken twin.


def _twin(base, field, change):
    return eqx.tree_at(lambda b: getattr(b, field), base, change(getattr(base, field)))


@pytest.mark.parametrize(("base", "twin", "cdf"), [
    (NORMAL, _twin(NORMAL, "scale", jnp.sqrt), lambda i: stats.norm(MEAN[i], STD[i]).cdf),
    (STUDENT, _twin(STUDENT, "df", lambda df: df / 2), lambda i: stats.t(DF[i], MEAN[i], STD[i]).cdf),
    (UNIFORM, _twin(UNIFORM, "high", lambda high: high + 0.1), lambda i: stats.uniform(LOW[i], (HIGH - LOW)[i]).cdf),
], ids=["normal", "student", "uniform"])  # fmt: skip
def test_draws_follow_the_density(base, twin, cdf):
    draws, wrong = draws_of(base), draws_of(twin)
    for i in range(3):
        assert_distribution(draws[:, i], cdf(i))
    assert_not_distribution(wrong[:, 0], cdf(0))


def test_correlated_draws_follow_the_density():
    """Along directions that mix coordinates; the twin multiplies by the transposed factor."""
    draws, wrong = draws_of(CORRELATED), draws_of(_twin(CORRELATED, "scale", jnp.transpose))
    rejected = 0
    for direction in np.array([[1.0, 0, 0], [0, 1, 0], [1, -1, 0.5], [0.2, 1, 2]]):
        cdf = stats.norm(direction @ MEAN, np.sqrt(direction @ COVARIANCE @ direction)).cdf
        assert_distribution(draws @ direction.astype(np.float32), cdf)
        rejected += stats.kstest(np.asarray(wrong @ direction, np.float64), cdf).pvalue < checks.FALSE_FAILURE
    assert rejected >= 2


def test_bits_follow_their_odds():
    logits = np.array([0.8, -1.5])
    base = tp.Bernoulli(logits)
    law = np.exp(np.array([0, logits[1], logits[0], logits.sum()]) - base.log_z())
    for used, check in ((base, checks.assert_law), (_twin(base, "logits", jnp.negative), checks.assert_not_law)):
        draws = np.asarray(draws_of(used), np.int64)
        check(np.bincount(draws @ [2, 1], minlength=4), law)


def test_draws_of_a_uniform_are_never_outside():
    """Kills: a strict inequality at `high`, to which float32 may round."""
    narrow = tp.Uniform(np.float32(1e6), np.float32(1e6 + 0.5))  # eight numbers in all
    values = np.asarray(jax.vmap(narrow.log_density)(draws_of(narrow)))
    np.testing.assert_allclose(values, np.log(2), rtol=1e-6)


# Forms.


def test_any_shape_and_broadcasting():
    assert tp.Normal(np.zeros((2, 3))).sample(jax.random.key(0)).shape == (2, 3)
    assert tp.Normal(0.0, np.ones(3)).sample(jax.random.key(0)).shape == (3,)
    assert tp.Normal(0).sample(jax.random.key(0)).shape == ()
    assert tp.Uniform(np.zeros(2), 1.0).sample(jax.random.key(0)).shape == (2,)
    flat, square = (
        tp.Normal(np.arange(4.0), covariance=np.eye(4)),
        tp.Normal(np.arange(4.0).reshape(2, 2), covariance=np.eye(4)),
    )
    x = square.sample(jax.random.key(1))
    assert x.shape == (2, 2)
    np.testing.assert_array_equal(x.ravel(), flat.sample(jax.random.key(1)))
    assert float(square.log_density(x)) == pytest.approx(float(flat.log_density(x.ravel())), abs=1e-6)


@pytest.mark.parametrize("parts", [
    {"a": NORMAL, "b": tp.Uniform(0.0, 4.0)}, (NORMAL, tp.Uniform(0.0, 4.0)), [NORMAL, tp.Uniform(0.0, 4.0)],
    {"outer": {"a": NORMAL}, "part": (tp.Product([tp.Uniform(0.0, 4.0)]),)},
], ids=["dict", "tuple", "list", "nested"])  # fmt: skip
def test_a_product_is_the_sum_of_its_parts(parts):
    """Kills: one key for all parts, parts that are matched in another order."""
    base = tp.Product(parts)
    x = base.sample(jax.random.key(3))
    leaves = jax.tree.leaves(x)
    assert [leaf.shape for leaf in leaves] == [(3,), ()]
    expected = stats.norm.logpdf(np.asarray(leaves[0]), MEAN, STD).sum() - np.log(4)
    assert float(eqx.filter_jit(base.log_density)(x)) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match=r"structure|mismatch|[Ee]xpected"):
        base.log_density(jnp.zeros(4))


def test_parts_of_a_product_are_independent():
    draws = draws_of(tp.Product((tp.Normal(0.0), tp.Normal(0.0))))
    checks.assert_mean(np.asarray(draws[0] * draws[1]), 0.0)
    assert tp.Product((tp.Bernoulli([1.0]), tp.Bernoulli([-2.0]))).log_z() == pytest.approx(
        np.logaddexp(0, 1) + np.logaddexp(0, -2)
    )


def test_new_numbers_compile_nothing_anew():
    """Bases are pytrees: jit and vmap take them as arguments."""
    num_traces = 0

    @eqx.filter_jit
    def log_density(base, x):
        nonlocal num_traces
        num_traces += 1
        return base.log_density(x)

    for shift in (0.0, 1.0):
        log_density(tp.Normal(MEAN + shift, covariance=COVARIANCE), jnp.zeros(3))
        log_density(tp.Student(DF + shift, MEAN), jnp.zeros(3))
    assert num_traces == 2
    many = eqx.filter_vmap(tp.Normal.log_density, in_axes=(eqx.if_array(0), None))
    stacked = jax.tree.map(lambda a: jnp.stack([a, a + 1]), NORMAL)
    assert many(stacked, jnp.zeros(3)).shape == (2,)


def test_float64_where_the_user_asked_for_it():
    with jax.enable_x64(True):
        base = tp.Normal(MEAN, covariance=COVARIANCE)
        x = base.sample(jax.random.key(0))
        assert x.dtype == jnp.float64
        expected = stats.multivariate_normal.logpdf(np.asarray(x), MEAN, COVARIANCE)
        assert float(base.log_density(x)) == pytest.approx(expected, abs=1e-10)
        student = tp.Student(DF, MEAN, STD)
        assert float(student.log_density(x)) == pytest.approx(
            stats.t.logpdf(np.asarray(x), DF, MEAN, STD).sum(), abs=1e-10
        )


# Refusals.


@pytest.mark.parametrize(("make", "words"), [
    (lambda: tp.Normal(np.zeros(2), np.ones(3)), "fit together"),
    (lambda: tp.Normal(0.0, 0.0), "positive"), (lambda: tp.Normal(0.0, -1.0), "positive"),
    (lambda: tp.Normal(0.0, 1e-60), "positive"), (lambda: tp.Normal(0.0, np.inf), "improper"),
    (lambda: tp.Normal(np.nan), "finite"), (lambda: tp.Normal("zero"), "numbers"),
    (lambda: tp.Normal(np.zeros(2), covariance=np.eye(3)), r"shape \(2, 2\)"),
    (lambda: tp.Normal(np.zeros(2), covariance=[[1, 0.5], [0.2, 1]]), "symmetric"),
    (lambda: tp.Normal(np.zeros(2), covariance=[[1, 2], [2, 1]]), "positive definite"),
    (lambda: tp.Normal(np.zeros(2), 2.0, covariance=np.eye(2)), "left out"),
    (lambda: tp.Student(0.0, 0.0), "df.*positive"), (lambda: tp.Student(2.0, 0.0, 0.0), "scale.*positive"),
    (lambda: tp.Uniform(1.0, 1.0), "low < high"), (lambda: tp.Uniform(1.0, 1.0 + 1e-12), "low < high"),
    (lambda: tp.Uniform(0.0, np.inf), "improper"), (lambda: tp.Uniform(np.zeros(2), np.ones(3)), "fit together"),
    (lambda: tp.Bernoulli(np.zeros((2, 2))), "vector"), (lambda: tp.Bernoulli([np.inf]), "finite"),
    (lambda: tp.Product({}), "a base or more"), (lambda: tp.Product({"a": 3.0}), "got a float"),
    (lambda: as_base(None), "NoneType"), (lambda: as_base(tp.Normal), "class Normal itself"),
    (lambda: as_base([tp.Normal(0.0)]), "tp.Product"), (lambda: as_base(stats.norm()), "log_prob"),
    (lambda: jax.jit(lambda mean: tp.Normal(mean).mean)(jnp.zeros(2)), "before anything is compiled"),
])  # fmt: skip
def test_mistakes_are_one_line(make, words):
    with pytest.raises(tp.InputError, match=words) as refused:
        make()
    assert "\n" not in str(refused.value)


# Distributions of other libraries.


def test_a_numpyro_distribution_is_a_base():
    dist = pytest.importorskip("numpyro.distributions", reason="NumPyro is not installed")
    base = as_base(dist.Normal(MEAN, STD))
    x = jnp.asarray([0.5, 0.1, -0.7])
    assert float(jax.jit(base.log_density)(x)) == pytest.approx(float(NORMAL.log_density(x)), abs=1e-5)
    assert_distribution(draws_of(base)[:, 1], stats.norm(MEAN[1], STD[1]).cdf)
    product = tp.Product({"a": dist.MultivariateNormal(MEAN, COVARIANCE), "b": NORMAL})
    assert jax.tree.map(jnp.shape, product.sample(jax.random.key(0))) == {"a": (3,), "b": (3,)}


def test_a_numpyro_density_ends_with_its_support():
    """Kills: log_prob taken as it is: unvalidated, a half normal is finite below 0 and Z twice what it should be."""
    dist = pytest.importorskip("numpyro.distributions", reason="NumPyro is not installed")
    x = np.linspace(-8, 8, 160_001)
    for distribution in (dist.HalfNormal(1.3, validate_args=False), dist.Gamma(2.5, 1.5)):
        base = as_base(distribution)
        density = np.exp(np.asarray(jax.vmap(base.log_density)(jnp.asarray(x, jnp.float32)), np.float64))
        assert integrate.simpson(density, x=x) == pytest.approx(1, abs=1e-3)


def test_numpyro_distributions_that_cannot_be_a_base():
    dist = pytest.importorskip("numpyro.distributions", reason="NumPyro is not installed")
    for wrong, words in (
        (dist.Poisson(3.0), "integers"),
        (dist.Bernoulli(0.3), "integers"),
        (dist.Dirichlet(jnp.ones(3)), "surface"),
        (dist.ImproperUniform(dist.constraints.real, (), ()), "improper"),
    ):
        with pytest.raises(tp.InputError, match=words) as refused:
            tp.Product({"a": wrong})
        assert "\n" not in str(refused.value)


class _Seeded:
    """As in TensorFlow Probability and distrax: the key is called `seed`."""

    def sample(self, *, seed, sample_shape=()):
        return 3 + jax.random.normal(seed, sample_shape)

    def log_prob(self, x):
        return -0.5 * (x - 3) ** 2 - 0.5 * np.log(2 * np.pi)


class _Torch:
    """As in PyTorch: no key at all."""

    def sample(self, sample_shape=()):
        return np.zeros(sample_shape)

    def log_prob(self, x):
        return x


def test_distributions_of_other_kinds():
    base = as_base(_Seeded())
    assert isinstance(base, Distribution)
    assert_distribution(draws_of(base), stats.norm(3).cdf)
    assert float(base.log_density(jnp.asarray(1.0))) == pytest.approx(stats.norm(3).logpdf(1.0), abs=1e-6)
    with pytest.raises(tp.InputError, match="does not use JAX"):
        as_base(_Torch())
