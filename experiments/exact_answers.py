"""Models of every kind whose log Z is known, each in one call with default settings.

    python experiments/exact_answers.py [--seeds 5] [--jobs 1]

Prints a table and writes benchmarks/results/exact_answers.json. The NumPyro and PyMC rows need those packages.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import repeats
from scipy import special, stats

import tempering as tp

RNG = np.random.default_rng(20160619)
INPUTS = RNG.normal(size=(40, 3))
OUTPUTS = INPUTS @ np.array([1.0, -2.0, 0.5]) + RNG.normal(0, 0.7, 40)
NOISE, PRIOR_STD = 0.7, 2.0
SUCCESSES, TRIALS, PRIOR_A, PRIOR_B = 23, 30, 2.0, 3.5


def correlated_normal() -> tuple[tp.AbstractModel, float]:
    """50 dimensions, neighbours correlated by 0.8, scales from 0.2 to 5; the base knows the scales and nothing else."""
    num_dims = 50
    scales = np.geomspace(0.2, 5.0, num_dims)
    places = np.arange(num_dims)
    covariance = scales[:, None] * 0.8 ** np.abs(places[:, None] - places) * scales
    precision, mean = (
        jnp.asarray(np.linalg.inv(covariance), jnp.float32),
        jnp.asarray(0.5 * scales * np.sin(places / 5), jnp.float32),
    )
    base = tp.Normal(np.zeros(num_dims), scales)
    model = tp.LogDensity(lambda x: -0.5 * (x - mean) @ (precision @ (x - mean)), base)
    return model, float(0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1])


def unequal_mixture() -> tuple[tp.AbstractModel, float]:
    """Three components in 20 dimensions, of weights 1, 3 and 0.5 and of different shapes."""
    rng = np.random.default_rng(3)
    means = rng.normal(0, 3, (3, 20))
    roots = [np.diag(rng.uniform(0.4, 1.2, 20)) + np.tril(rng.normal(0, 0.15, (20, 20)), -1) for _ in range(3)]
    model = tp.GaussianMixture([1.0, 3.0, 0.5], means, np.stack([root @ root.T for root in roots]))
    return model, float(np.log(4.5))


def ising(coupling: float) -> tuple[tp.AbstractModel, float]:
    """16 × 16, periodic; Kaufman's formula."""
    model = tp.Ising.square(16, 16, coupling)
    exact = model.quick_log_z()
    assert exact is not None
    return model, exact


def regression_evidence() -> float:
    """y ~ N(0, σ² I + s² X Xᵀ)."""
    covariance = NOISE**2 * np.eye(40) + PRIOR_STD**2 * INPUTS @ INPUTS.T
    return float(stats.multivariate_normal(np.zeros(40), covariance).logpdf(OUTPUTS))


def coin_evidence() -> float:
    """Beta-binomial."""
    log_choose = special.gammaln(TRIALS + 1) - special.gammaln(SUCCESSES + 1) - special.gammaln(TRIALS - SUCCESSES + 1)
    posterior = special.betaln(PRIOR_A + SUCCESSES, PRIOR_B + TRIALS - SUCCESSES)
    return float(log_choose + posterior - special.betaln(PRIOR_A, PRIOR_B))


def numpyro_regression() -> tuple[tp.AbstractModel, float]:
    """Normal weights, known noise."""
    import numpyro
    import numpyro.distributions as dist

    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(0, PRIOR_STD).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ weights, NOISE), obs=y)

    return tp.from_numpyro(model, INPUTS, OUTPUTS), regression_evidence()


def numpyro_coin() -> tuple[tp.AbstractModel, float]:
    """A beta prior, binomial data."""
    import numpyro
    import numpyro.distributions as dist

    def model(successes):
        p = numpyro.sample("p", dist.Beta(PRIOR_A, PRIOR_B))
        numpyro.sample("successes", dist.Binomial(TRIALS, p), obs=successes)

    return tp.from_numpyro(model, np.asarray(SUCCESSES)), coin_evidence()


def pymc_regression() -> tuple[tp.AbstractModel, float]:
    """The same by PyMC."""
    import pymc as pm

    with pm.Model() as model:
        weights = pm.Normal("weights", 0, PRIOR_STD, shape=3)
        pm.Normal("y", pm.math.dot(INPUTS, weights), NOISE, observed=OUTPUTS)
    return tp.from_pymc(model), regression_evidence()


def pymc_coin() -> tuple[tp.AbstractModel, float]:
    """The same by PyMC."""
    import pymc as pm

    with pm.Model() as model:
        p = pm.Beta("p", PRIOR_A, PRIOR_B)
        pm.Binomial("successes", TRIALS, p, observed=SUCCESSES)
    return tp.from_pymc(model), coin_evidence()


TARGETS: dict[str, Callable[[], tuple[tp.AbstractModel, float]]] = {
    "Ising 16×16, K = 0.30": lambda: ising(0.30),
    "Ising 16×16, K = 0.44": lambda: ising(0.44),
    "Ising 16×16, K = 0.60": lambda: ising(0.60),
    "50-d correlated normal": correlated_normal,
    "3 unequal normals in 20-d": unequal_mixture,
    "regression, NumPyro": numpyro_regression,
    "regression, PyMC": pymc_regression,
    "beta-binomial, NumPyro": numpyro_coin,
    "beta-binomial, PyMC": pymc_coin,
}


def main() -> None:
    parser = repeats.study_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    names = [name for name in TARGETS if arguments.only in name]
    if arguments.jobs > 1:
        rows = repeats.in_processes(__file__, names, arguments.jobs, ["--seeds", str(arguments.seeds)])
    else:
        if arguments.rows is None:  # else other processes have the other cores
            repeats.use_all_cores()
        rows = {name: runs_of(name, arguments.seeds) for name in names}
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
        return
    table = {name: row(part) for name, part in rows.items()}
    repeats.print_table(table)
    repeats.write("exact_answers", table, rows)


def runs_of(name: str, num_seeds: int) -> list[dict[str, Any]]:
    """All runs of a model, with its exact log Z."""
    model, exact = TARGETS[name]()
    return [run | {"exact": exact} for run in repeats.repeat(model, None, exact, range(num_seeds))]


def row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What a table shows of one model; the seconds of the first run are mostly those of compiling."""
    off = [abs(run["error"]) / run["std_error"] for run in runs]
    return {
        "exact": runs[0]["exact"],
        "runs": len(runs),
        "rmse": float(np.sqrt(np.mean([run["error"] ** 2 for run in runs]))),
        "largest_std_error": max(run["std_error"] for run in runs),
        "largest_off": max(off),
        "good": sum(run["verdict"] == "good" for run in runs),
        "covers": sum(run["covers"] for run in runs),
        "first_seconds": runs[0]["seconds"],
        "later_seconds": float(np.mean([run["seconds"] for run in runs[1:]])) if len(runs) > 1 else None,
    }


if __name__ == "__main__":
    main()
