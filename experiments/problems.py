"""Models whose log Z is known, of every kind that the package is for: what claims about error bars are tested on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import repeats
from scipy import special, stats

import tempering as tp
from tempering.api.settings import Settings


class Problem(NamedTuple):
    """A model, what it is tempered from, and its log Z."""

    model: tp.AbstractModel
    base: Any
    log_z: float


def mnist_rbm(num_hidden: int) -> Problem:
    """Trained on MNIST; by enumeration of its hidden units."""
    rbm = tp.load(f"{repeats.DATA / 'rbm_mnist_small.npz'}:{num_hidden}")
    return Problem(rbm, repeats.mnist_base(), rbm.exact_log_z())


def digits_rbm() -> Problem:
    """The example of the package."""
    rbm, frequencies = tp.load_example()
    return Problem(rbm, frequencies, rbm.exact_log_z())


def ising(coupling: float) -> Problem:
    """8 × 8, periodic, by Kaufman's formula; the infinite lattice is critical at 0.4407."""
    model = tp.Ising.square(8, 8, coupling)
    exact = model.quick_log_z()
    assert exact is not None
    return Problem(model, None, exact)


def mixture(distance: float) -> Problem:
    """Two normal densities in 6 dimensions with weights 1 and 4, the heavier one wider, so far from one another."""
    means = np.zeros((2, 6))
    means[1, :2] = distance * np.array([0.8, 0.6])
    covariances = np.stack([np.eye(6), np.diag(np.linspace(0.5, 2.0, 6)) + 0.2])
    return Problem(tp.GaussianMixture([1.0, 4.0], means, covariances), None, float(np.log(5.0)))


def narrow_normal() -> Problem:
    """20 dimensions, scale 0.2, from a standard normal."""
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum((x / 0.2) ** 2), tp.Normal(np.zeros(20), 1.0))
    return Problem(model, None, float(10 * np.log(2 * np.pi * 0.2**2)))


def correlated_normal() -> Problem:
    """20 dimensions, neighbours correlated by 0.8, scales from 0.3 to 3, off centre."""
    scales, places = np.geomspace(0.3, 3.0, 20), np.arange(20)
    covariance = scales[:, None] * 0.8 ** np.abs(places[:, None] - places) * scales
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    mean = jnp.asarray(0.7 * scales * np.sin(places / 3), jnp.float32)
    model = tp.LogDensity(lambda x: -0.5 * (x - mean) @ (precision @ (x - mean)), tp.Normal(np.zeros(20), scales))
    return Problem(model, None, float(0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]))


def heavy_tails() -> Problem:
    """Student's t with 4 degrees of freedom in 5 dimensions, off centre, from a wider one."""
    scale, location = jnp.array([0.5, 1.0, 2.0, 0.3, 1.5]), jnp.array([1.0, -1.0, 0.5, 0.2, -2.0])
    dof, num_dims = 4.0, 5

    def log_f(x):
        return -0.5 * (dof + num_dims) * jnp.log1p(jnp.sum(((x - location) / scale) ** 2) / dof)

    log_z = special.gammaln(dof / 2) - special.gammaln((dof + num_dims) / 2) + num_dims / 2 * np.log(dof * np.pi)
    log_z += float(np.log(np.asarray(scale, np.float64)).sum())
    return Problem(tp.LogDensity(log_f, tp.Student(3.0, jnp.zeros(5), 2.0)), None, float(log_z))


def regression() -> Problem:
    """Linear regression with known noise: y ~ N(0, σ² I + s² X Xᵀ)."""
    rng = np.random.default_rng(20160619)
    inputs = rng.normal(size=(60, 6))
    outputs = inputs @ np.array([1.0, -2.0, 0.5, 0.0, 0.3, -0.7]) + rng.normal(0, 0.8, 60)
    x, y = jnp.asarray(inputs, jnp.float32), jnp.asarray(outputs, jnp.float32)

    def log_likelihood(weights):
        return jnp.sum(jax.scipy.stats.norm.logpdf(y, x @ weights, 0.8))

    covariance = 0.8**2 * np.eye(60) + 2.0**2 * inputs @ inputs.T
    evidence = stats.multivariate_normal(np.zeros(60), covariance).logpdf(outputs)
    return Problem(tp.Posterior(log_likelihood, tp.Normal(np.zeros(6), 2.0)), None, float(evidence))


def counts() -> Problem:
    """Poisson counts with a gamma(2, 0.5) rate, as a density of log λ: negative binomial evidence."""
    observed, shape, rate = np.array([3, 7, 4, 9, 2, 6, 5, 8, 4, 4.0]), 2.0, 0.5
    total, size = observed.sum(), len(observed)
    evidence = (
        shape * np.log(rate) - special.gammaln(shape) + special.gammaln(shape + total)
        - (shape + total) * np.log(rate + size) - special.gammaln(observed + 1).sum()
    )  # fmt: skip
    constant = shape * np.log(rate) - special.gammaln(shape) - special.gammaln(observed + 1).sum()

    def log_f(x):  # prior × Jacobian × likelihood
        return constant + (shape + total) * x[0] - (rate + size) * jnp.exp(x[0])

    return Problem(tp.LogDensity(log_f, tp.Normal(np.zeros(1), 3.0)), None, float(evidence))


def funnel(base: tp.bases.AbstractBase | None = None) -> Problem:
    """Neal's funnel in 10 dimensions: v ~ N(0, 3²), nine x ~ N(0, e^v)."""

    def log_f(x):
        v, z = x[0], x[1:] * jnp.exp(-x[0] / 2)  # where v is so low that z overflows, log f is −inf, not NaN
        log_scales = jnp.log(3.0) + 9 * v / 2 + 5 * jnp.log(2 * jnp.pi)
        return -0.5 * (v / 3) ** 2 - 0.5 * jnp.sum(z**2) - log_scales

    return Problem(tp.LogDensity(log_f, tp.Normal(np.zeros(10), 3.0) if base is None else base), None, 0.0)


def student(dof: float, num_dims: int, base: tp.bases.AbstractBase) -> Problem:
    """Independent Student variables, off centre, each with its normalising constant left out."""
    location = jnp.linspace(-1.0, 1.5, num_dims)

    def log_f(x):
        return -0.5 * (dof + 1) * jnp.sum(jnp.log1p((x - location) ** 2 / dof))

    log_z = special.gammaln(dof / 2) - special.gammaln((dof + 1) / 2) + 0.5 * np.log(dof * np.pi)
    return Problem(tp.LogDensity(log_f, base), None, float(num_dims * log_z))


def wide_component(base: tp.bases.AbstractBase) -> Problem:
    """0.9 N(0, 1) + 0.1 N(0, 10²) in 5 dimensions: few chains come from the one to the other."""

    def log_f(x):
        square = jnp.sum(x**2)
        wide = jnp.log(0.1) - 0.5 * square / 10**2 - 5 * jnp.log(10.0)
        return jnp.logaddexp(jnp.log(0.9) - 0.5 * square, wide)

    return Problem(tp.LogDensity(log_f, base), None, float(2.5 * np.log(2 * np.pi)))


def peak() -> Problem:
    """N(0, 1) and, of the same weight, N(0, 0.05²) in 5 dimensions: chains from above do not find the peak."""

    def log_f(x):
        square, scale = jnp.sum(x**2), 0.05
        return jnp.logaddexp(-0.5 * square, -0.5 * square / scale**2 - 5 * jnp.log(scale))

    log_z = float(np.log(2) + 2.5 * np.log(2 * np.pi))
    return Problem(tp.LogDensity(log_f, tp.Normal(np.zeros(5), 2.0)), None, log_z)


def horseshoe() -> Problem:
    """Six coefficients with half-Cauchy scales, seen with noise: integrals over each scale, by quadrature."""
    seen, noise = np.array([0.3, -0.1, 4.0, 0.6, -7.0, 0.05]), 0.5
    data = jnp.asarray(seen, jnp.float32)

    def log_f(x):  # of log λ and of z, where the coefficient is λ z
        scale = jnp.exp(x[:6])
        log_scales = jnp.log(2 / jnp.pi) - jnp.log1p(scale**2) + x[:6]
        return jnp.sum(
            log_scales + jax.scipy.stats.norm.logpdf(x[6:]) + jax.scipy.stats.norm.logpdf(data, scale * x[6:], noise)
        )

    places = np.linspace(-40, 40, 200_001)
    log_prior = np.log(2 / np.pi) - np.logaddexp(0.0, 2 * places) + places
    log_like = stats.norm.logpdf(seen[:, None], 0.0, np.sqrt(noise**2 + np.exp(2 * places)))
    log_z = special.logsumexp(log_prior + log_like, axis=1) + np.log(places[1] - places[0])
    return Problem(tp.LogDensity(log_f, tp.Student(3.0, jnp.zeros(12), 2.0)), None, float(log_z.sum()))


def narrow_modes() -> Problem:
    """25 narrow normals on a grid in two dimensions, with unequal weights."""
    grid = np.stack(np.meshgrid(np.arange(-2, 3), np.arange(-2, 3)), axis=-1).reshape(-1, 2) * 2.0
    weights = np.linspace(1.0, 3.0, 25)
    model = tp.GaussianMixture(weights, grid, np.repeat(0.03**2 * np.eye(2)[None], 25, axis=0))
    return Problem(model, tp.Normal(np.zeros(2), 4.0), float(np.log(weights.sum())))


def unequal_modes() -> Problem:
    """Four normals in six dimensions, of unequal weight and width: the hot rungs hardly ever see the narrowest."""
    signs = np.array([[1.0] * 6, [-1.0] * 6, [1.0, -1.0] * 3, [-1.0, 1.0] * 3])
    weights, scales = np.array([1.0, 2.0, 0.5, 4.0]), np.array([0.5, 0.8, 0.6, 1.0])
    model = tp.GaussianMixture(weights, 3.0 * signs, scales[:, None, None] ** 2 * np.eye(6))
    return Problem(model, tp.Normal(np.zeros(6), 4.0), float(np.log(weights.sum())))


def rosenbrock() -> Problem:
    """exp(−(1 − x)²/2 − 5 (y − x²)²), whose log Z is that of two normals."""

    def log_f(x):
        return -0.5 * (1 - x[0]) ** 2 - 5 * (x[1] - x[0] ** 2) ** 2

    return Problem(tp.LogDensity(log_f, tp.Normal(np.zeros(2), 5.0)), None, float(np.log(2 * np.pi / np.sqrt(10.0))))


def long_ladder(num_dims: int) -> Problem:
    """Prior N(0, 1)^d, likelihood N(x; m, 0.1)."""
    from long_ladders import evidence, posterior

    return Problem(posterior(num_dims), None, evidence(num_dims))


class Kind(NamedTuple):
    """How a problem is made, and with how many chains it is run.

    A base is light where log f over it is skewed to the right under the target: parts of the target that have mass are
    hardly ever seen from there. So it is where the target has heavier tails, or a neck that is far narrower.
    """

    make: Callable[[], Problem]
    num_chains: int = Settings.num_chains
    has_light_base: bool = False


PROBLEMS = {
    "normal, 20-d, scale 0.2": Kind(narrow_normal),
    "RBM 784×10": Kind(lambda: mnist_rbm(10)),
    "RBM 784×15": Kind(lambda: mnist_rbm(15)),
    "RBM 784×20": Kind(lambda: mnist_rbm(20)),
    "RBM 64×16, digits": Kind(digits_rbm),
    "Ising 8×8, 0.30": Kind(lambda: ising(0.30)),
    "Ising 8×8, 0.44": Kind(lambda: ising(0.4407)),
    "Ising 8×8, 0.60": Kind(lambda: ising(0.60)),
    "mixture, near modes": Kind(lambda: mixture(3.0)),
    "mixture, far modes": Kind(lambda: mixture(9.0)),
    "correlated normal, 20-d": Kind(correlated_normal),
    "Student's t, 5-d": Kind(heavy_tails),
    "regression evidence": Kind(regression),
    "Poisson evidence": Kind(counts),
    "long ladder, 10-d": Kind(lambda: long_ladder(10)),
    "long ladder, 30-d": Kind(lambda: long_ladder(30)),
    "funnel under N(0, 3²), 10-d": Kind(funnel, has_light_base=True),
    "funnel under Student, 10-d": Kind(lambda: funnel(tp.Student(2.0, jnp.zeros(10), 5.0)), has_light_base=True),
    "Cauchy under N(0, 3²), 5-d": Kind(lambda: student(1.0, 5, tp.Normal(np.zeros(5), 3.0)), has_light_base=True),
    "Cauchy under Student, 5-d": Kind(lambda: student(1.0, 5, tp.Student(1.0, jnp.zeros(5), 2.0))),
    "Student 2 under N(0, 3²), 5-d": Kind(lambda: student(2.0, 5, tp.Normal(np.zeros(5), 3.0)), has_light_base=True),
    "Student 2 under Student, 5-d": Kind(lambda: student(2.0, 5, tp.Student(1.5, jnp.zeros(5), 2.0))),
    "wide component under N(0, 1.5²), 5-d": Kind(
        lambda: wide_component(tp.Normal(np.zeros(5), 1.5)), has_light_base=True
    ),
    "wide component under Student, 5-d": Kind(lambda: wide_component(tp.Student(1.0, jnp.zeros(5), 1.5))),
    "peak in a normal, 5-d": Kind(peak),
    "horseshoe, 12-d": Kind(horseshoe),
    "25 narrow modes": Kind(narrow_modes),
    "four unequal modes, 6-d": Kind(unequal_modes),
    "Rosenbrock": Kind(rosenbrock),
    "RBM 64×16, digits, 1000 chains": Kind(digits_rbm, 1000),
    "Ising 8×8, 0.44, 1000 chains": Kind(lambda: ising(0.4407), 1000),
    "mixture, far modes, 1000 chains": Kind(lambda: mixture(9.0), 1000),
    "regression evidence, 1000 chains": Kind(regression, 1000),
}
