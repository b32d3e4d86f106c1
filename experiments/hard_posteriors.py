"""Posteriors that nobody has tuned for, with default settings: correlated, badly scaled, costly, hierarchical.

    python experiments/hard_posteriors.py [--seeds 20] [--jobs 1] [--only "logistic"]

The Gaussian process is held against a sum over a grid in its three parameters, the normal ones against formulas, and
the regressions and hierarchical models against a reference run of the same kind that is 20 times as long.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import repeats
from scipy import stats

import tempering as tp

FIRST_SEED = 7300  # not used in development
NUM_SEEDS = {"Gaussian process, 50 points": 10}
DEFAULT_SEEDS = 20


class Hard(NamedTuple):
    """A posterior, and its log evidence where it is known."""

    model: tp.AbstractModel
    log_z: float | None


def gaussian_process() -> Hard:
    """Amplitude, length and noise of a Gaussian process, as logarithms under N(0, 1) each."""
    rng = np.random.default_rng(20160619)
    places = np.sort(rng.uniform(0, 5, 50))
    seen = np.sin(2 * places) + 0.3 * rng.normal(size=50)
    squares, y = jnp.asarray((places[:, None] - places) ** 2, jnp.float32), jnp.asarray(seen, jnp.float32)

    def log_likelihood(x):
        kernel = jnp.exp(2 * x[0]) * jnp.exp(-0.5 * squares * jnp.exp(-2 * x[1]))
        factor = jnp.linalg.cholesky(kernel + (jnp.exp(2 * x[2]) + 1e-4) * jnp.eye(50))
        whitened = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return -0.5 * whitened @ whitened - jnp.log(jnp.diag(factor)).sum() - 25 * jnp.log(2 * jnp.pi)

    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(3))), log_evidence_of_process(places, seen))


def log_evidence_of_process(places: np.ndarray, seen: np.ndarray, num_points: int = 81) -> float:
    """A sum over a grid in float64, from −4 to 4 in each parameter; its spacing of 0.1 is below all their scales."""
    grid = np.linspace(-4.0, 4.0, num_points)
    log_prior, squares = stats.norm.logpdf(grid), (places[:, None] - places) ** 2
    noise = (np.exp(2 * grid) + 1e-4)[:, None, None] * np.eye(len(seen))
    log_sums = []
    for i, amplitude in enumerate(np.exp(2 * grid)):
        for j, shape in enumerate(np.exp(-0.5 * squares * np.exp(-2 * grid)[:, None, None])):
            factor = np.linalg.cholesky(amplitude * shape + noise)
            whitened = np.linalg.solve(factor, np.broadcast_to(seen[:, None], (num_points, len(seen), 1)))[..., 0]
            log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
            values = -0.5 * np.sum(whitened**2, axis=1) - log_det - len(seen) / 2 * np.log(2 * np.pi)
            log_sums.append(np.logaddexp.reduce(values + log_prior) + log_prior[i] + log_prior[j])
    return float(np.logaddexp.reduce(log_sums) + 3 * np.log(grid[1] - grid[0]))


def normal_posterior(covariance: np.ndarray, seed: int) -> Hard:
    """Prior N(0, 1)^d and a normal likelihood of x about m; log N(m; 0, 1 + Σ)."""
    num_dims = len(covariance)
    mean = np.random.default_rng(seed).normal(size=num_dims)
    precision, centre = jnp.asarray(np.linalg.inv(covariance), jnp.float32), jnp.asarray(mean, jnp.float32)
    constant = 0.5 * float(np.linalg.slogdet(2 * np.pi * covariance)[1])

    def log_likelihood(x):
        return -0.5 * (x - centre) @ (precision @ (x - centre)) - constant

    log_z = stats.multivariate_normal(np.zeros(num_dims), np.eye(num_dims) + covariance).logpdf(mean)
    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(num_dims))), float(log_z))


def badly_scaled() -> Hard:
    """100 coordinates with scales from 0.03 to 1."""
    return normal_posterior(np.diag(np.geomspace(0.03, 1.0, 100) ** 2), 1)


def correlated(num_dims: int = 50, correlation: float = 0.9) -> Hard:
    """Neighbours correlated, scale 0.3."""
    places = np.arange(num_dims)
    return normal_posterior(0.09 * correlation ** np.abs(places[:, None] - places), 2)


def logistic(scale: float) -> Hard:
    """30 standardised features and 569 rows: scikit-learn's breast cancer data."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    inputs = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    x, y = jnp.asarray(inputs, jnp.float32), jnp.asarray(2 * data.target - 1, jnp.float32)

    def log_likelihood(weights):
        return -jnp.sum(jax.nn.softplus(-y * (x @ weights)))

    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(30), scale)), None)


def hierarchical(is_centred: bool) -> Hard:
    """58 groups with a common mean and scale: 60 parameters."""
    rng = np.random.default_rng(20160619)
    errors = rng.uniform(0.5, 2.0, 58)
    seen = rng.normal(rng.normal(1.0, 0.7, 58), errors)
    y, s = jnp.asarray(seen, jnp.float32), jnp.asarray(errors, jnp.float32)

    def log_likelihood(x):
        mean, scale = 2 * x[0], jnp.exp(x[1])
        effects = mean + scale * x[2:]
        return jax.scipy.stats.norm.logpdf(y, effects, s).sum()

    def log_centred(x):
        mean, scale, effects = 2 * x[0], jnp.exp(x[1]), x[2:]
        prior = jax.scipy.stats.norm.logpdf(x[:2]).sum() + jax.scipy.stats.norm.logpdf(effects, mean, scale).sum()
        return prior + jax.scipy.stats.norm.logpdf(y, effects, s).sum()

    if is_centred:
        return Hard(tp.LogDensity(log_centred, base=tp.Normal(jnp.zeros(60), 2.0)), None)
    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(60))), None)


def lkj() -> Hard:
    """Five coordinates with an LKJ prior of their correlations, in NumPyro."""
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(20160619)
    mixing = rng.normal(size=(5, 5)) * 0.4 + np.eye(5)
    rows = jnp.asarray(rng.normal(size=(80, 5)) @ mixing.T, jnp.float32)

    def model():
        scale = numpyro.sample("scale", dist.HalfNormal(2.0).expand([5]).to_event(1))
        factor = numpyro.sample("factor", dist.LKJCholesky(5, 2.0))
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(5), scale_tril=scale[:, None] * factor), obs=rows)

    return Hard(tp.from_numpyro(model), None)


PROBLEMS: dict[str, Callable[[], Hard]] = {
    "Gaussian process, 50 points": gaussian_process,
    "LKJ, 5-d": lkj,
    "normal, 100-d, scales 0.03 to 1": badly_scaled,
    "normal, 50-d, neighbours 0.9": correlated,
    "logistic, 30 features, N(0, 1)": lambda: logistic(1.0),
    "logistic, 30 features, N(0, 10²)": lambda: logistic(10.0),
    "hierarchical, 60, non-centred": lambda: hierarchical(False),
    "hierarchical, 60, centred": lambda: hierarchical(True),
}


def reference(hard: Hard) -> float:
    """The exact answer, or that of a run that is 20 times as long."""
    if hard.log_z is not None:
        return hard.log_z
    usual = tp.estimate(hard.model, seed=FIRST_SEED - 1)
    return tp.estimate(hard.model, seed=FIRST_SEED - 2, num_sweeps=20 * usual.num_sweeps).log_z


def main() -> None:
    parser = repeats.study_parser(__doc__)
    parser.add_argument("--seeds", type=int, help="of each problem; by default 20, and 10 of the costly one")
    arguments = parser.parse_args()
    names = [name for name in PROBLEMS if arguments.only in name]
    if arguments.jobs > 1 and len(names) > 1:
        options = [] if arguments.seeds is None else ["--seeds", str(arguments.seeds)]
        rows = repeats.in_processes(__file__, names, arguments.jobs, options)
    else:
        rows = {name: runs_of(name, arguments.seeds) for name in names}
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
    elif len(names) == len(PROBLEMS):
        repeats.write("hard_posteriors", {name: repeats.default_summary(part) for name, part in rows.items()}, rows)


def runs_of(name: str, num_seeds: int | None) -> list[dict[str, Any]]:
    """One row per seed."""
    hard = PROBLEMS[name]()
    truth = reference(hard)
    seeds = range(FIRST_SEED, FIRST_SEED + (num_seeds or NUM_SEEDS.get(name, DEFAULT_SEEDS)))
    rows = [repeats.row_of(tp.estimate(hard.model, seed=seed), truth) for seed in seeds]
    repeats.print_table({name: repeats.default_summary(rows)})
    return rows


if __name__ == "__main__":
    main()
