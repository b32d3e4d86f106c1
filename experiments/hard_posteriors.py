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
_SHARE = 5  # seeds of one process


class Hard(NamedTuple):
    """A posterior, and what computes its log evidence where it is known."""

    model: tp.AbstractModel
    exact: Callable[[], float] | None = None


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

    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(3))), lambda: log_evidence_of_process(places, seen))


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

    law = stats.multivariate_normal(np.zeros(num_dims), np.eye(num_dims) + covariance)
    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(num_dims))), lambda: float(law.logpdf(mean)))


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

    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(30), scale)))


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
        return Hard(tp.LogDensity(log_centred, base=tp.Normal(jnp.zeros(60), 2.0)))
    return Hard(tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(60))))


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

    return Hard(tp.from_numpyro(model))


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
    if hard.exact is not None:
        return hard.exact()
    usual = tp.estimate(hard.model, seed=FIRST_SEED - 1)
    return tp.estimate(hard.model, seed=FIRST_SEED - 2, num_sweeps=20 * usual.num_sweeps).log_z


def main() -> None:
    parser = repeats.study_parser(__doc__)
    parser.add_argument("--seeds", type=int, help="of each problem; by default 20, and 10 of the costly one")
    parser.add_argument("--first-seed", type=int, help="only from this one on; 0: only the reference")
    arguments = parser.parse_args()
    names = [name for name in PROBLEMS if arguments.only in name]
    if arguments.jobs > 1:
        options = [option for name in names for option in shares_of(name, arguments.seeds)]
        parts = repeats.by_processes(__file__, options, arguments.jobs)
    else:
        parts = [{name: runs_of(name, arguments.first_seed, arguments.seeds)} for name in names]
    rows = {name: [row for part in parts for row in part.get(name, [])] for name in names}
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
        return
    for name, part in rows.items():
        truth = next(row["reference"] for row in part if "reference" in row)
        rows[name] = [repeats.against(truth, row) for row in part if "reference" not in row]
    summaries = {name: repeats.default_summary(part) for name, part in rows.items()}
    repeats.print_table(summaries)
    if len(names) == len(PROBLEMS):
        repeats.write("hard_posteriors", summaries, rows)


def shares_of(name: str, num_seeds: int | None) -> list[list[str]]:
    """The options of the processes that share a problem: one for the reference, and one for every five seeds."""
    last = FIRST_SEED + num_seeds_of(name, num_seeds)
    first = range(FIRST_SEED, last, _SHARE)
    asked = [(0, 1), *((seed, min(_SHARE, last - seed)) for seed in first)]
    return [["--only", name, "--first-seed", str(seed), "--seeds", str(number)] for seed, number in asked]


def num_seeds_of(name: str, asked: int | None) -> int:
    """How many seeds a problem has."""
    return asked or NUM_SEEDS.get(name, DEFAULT_SEEDS)


def runs_of(name: str, first_seed: int | None, num_seeds: int | None) -> list[dict[str, Any]]:
    """The reference, and one row for each seed."""
    hard = PROBLEMS[name]()
    if first_seed == 0:
        return [{"reference": reference(hard)}]
    first, known = first_seed or FIRST_SEED, [] if first_seed else [{"reference": reference(hard)}]
    seeds = range(first, first + num_seeds_of(name, num_seeds))
    return known + [repeats.claim_of(tp.estimate(hard.model, seed=seed)) for seed in seeds]


if __name__ == "__main__":
    main()
