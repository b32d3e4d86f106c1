"""The posteriors of benchmarks/evidence.py, all with a prior N(0, 1)^d, and their evidence. Defines no algorithm."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize, special, stats
from turns import repeats  # noqa: F401  experiments/ is on the path

# isort: split
import hard_posteriors
import long_ladders

SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])  # effects, Rubin 1981
SCHOOLS_ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


class Problem(NamedTuple):
    """A likelihood of standard normal coordinates."""

    num_dims: int
    log_likelihood: Callable[[jax.Array], jax.Array]
    log_z: Callable[[], float]


def normal(num_dims: int) -> Problem:
    """The long ladder of experiments/long_ladders.py."""
    model = long_ladders.posterior(num_dims)
    return Problem(num_dims, model.log_likelihood, lambda: long_ladders.evidence(num_dims))


def logistic() -> Problem:
    """The regression of experiments/hard_posteriors.py under N(0, 1)."""
    log_likelihood = hard_posteriors.logistic(1.0).model.log_likelihood
    return Problem(30, log_likelihood, lambda: by_importance(log_likelihood, 30)[0])


def schools() -> Problem:
    """Eight schools: μ ~ N(0, 5²), τ ~ HalfNormal(5), effects μ + τ z.

    τ may have either sign here: z is as likely as −z, so that the evidence is that of a τ above 0.
    """
    seen, errors = jnp.asarray(SCHOOLS, jnp.float32), jnp.asarray(SCHOOLS_ERRORS, jnp.float32)

    def log_likelihood(x):
        return jax.scipy.stats.norm.logpdf(seen, 5 * x[0] + 5 * x[1] * x[2:], errors).sum()

    return Problem(10, log_likelihood, schools_log_z)


def schools_log_z(num_points: int = 1001) -> float:
    """A sum over a grid of μ and τ, to eight deviations of their priors; the effects are integrated by hand."""
    grid = np.linspace(-8.0, 8.0, num_points)
    scales = np.sqrt((5 * grid[:, None]) ** 2 + SCHOOLS_ERRORS**2)
    log_sums = [special.logsumexp(stats.norm.logpdf(SCHOOLS, 5 * m, scales).sum(axis=1) + stats.norm.logpdf(grid))
                for m in grid]  # fmt: skip
    return float(special.logsumexp(log_sums + stats.norm.logpdf(grid)) + 2 * np.log(grid[1] - grid[0]))


def by_importance(log_likelihood: Callable, num_dims: int, num_draws: int = 200_000) -> tuple[float, float]:
    """log Z and its error by importance sampling from a Student distribution at the mode: no method of the table."""
    log_f = lambda x: log_likelihood(x) - 0.5 * x @ x - 0.5 * num_dims * jnp.log(2 * jnp.pi)  # noqa: E731
    value_and_slope = jax.jit(jax.value_and_grad(lambda x: -log_f(x)))
    mode = optimize.minimize(value_and_slope, np.zeros(num_dims), jac=True, method="BFGS", options={"gtol": 1e-3}).x
    curvature = -np.asarray(jax.hessian(log_f)(jnp.asarray(mode, jnp.float32)), np.float64)
    spread = np.linalg.inv((curvature + curvature.T) / 2)
    proposal = stats.multivariate_t(mode, (spread + spread.T) / 2, df=20, seed=0)
    draws = proposal.rvs(num_draws)
    values = jax.lax.map(log_f, jnp.asarray(draws, jnp.float32), batch_size=10_000)
    log_weights = np.asarray(values, np.float64) - proposal.logpdf(draws)
    log_z = special.logsumexp(log_weights) - np.log(num_draws)
    return float(log_z), float(np.exp(log_weights - log_z).std() / np.sqrt(num_draws))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "normal, d = 10": lambda: normal(10),
    "normal, d = 30": lambda: normal(30),
    "normal, d = 100": lambda: normal(100),
    "logistic regression, d = 30": logistic,
    "eight schools, d = 10": schools,
}
