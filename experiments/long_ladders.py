"""Posteriors on long ladders with default settings: prior N(0, 1)^d, likelihood N(x; m, s), against the exact evidence.

    python experiments/long_ladders.py [--quick]

The sequential Monte Carlo of PyMC and of BlackJAX runs beside it, in the same process, where these are installed.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import repeats

import tempering as tp

FIRST_SEED = 7100  # not used in development
SIZES = {10: 20, 30: 20, 100: 20, 300: 5, 1000: 5}  # dimensions, and how many seeds
NOISE = 0.1


def means(num_dims: int) -> np.ndarray:
    """The observation, which is the same in every run."""
    return np.random.default_rng(20160619 + num_dims).normal(size=num_dims)


def evidence(num_dims: int) -> float:
    """log N(m; 0, 1 + s²), summed over coordinates."""
    variance = 1 + NOISE**2
    return float(-0.5 * np.sum(np.log(2 * np.pi * variance) + means(num_dims) ** 2 / variance))


def posterior(num_dims: int) -> tp.Posterior:
    """The posterior."""
    mean = jnp.asarray(means(num_dims), jnp.float32)
    constant = num_dims * float(np.log(NOISE * np.sqrt(2 * np.pi)))

    def log_likelihood(x):
        return -0.5 * jnp.sum(((x - mean) / NOISE) ** 2) - constant

    return tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(num_dims)))


def our_rows(num_dims: int, num_seeds: int) -> list[dict[str, Any]]:
    """One row per seed, with default settings; the first call compiles and is not counted."""
    model, truth = posterior(num_dims), evidence(num_dims)
    tp.estimate(model, seed=FIRST_SEED - 1, max_seconds=1)
    rows = []
    for seed in range(FIRST_SEED, FIRST_SEED + num_seeds):
        result = tp.estimate(model, seed=seed)
        rows.append(repeats.row_of(result, truth))
    return rows


def blackjax_rows(num_dims: int, num_seeds: int) -> list[dict[str, Any]]:
    """Adaptive tempered SMC of BlackJAX with 1000 particles and HMC of ten leaps."""
    import blackjax
    from blackjax.smc import extend_params, resampling

    mean, step = jnp.asarray(means(num_dims), jnp.float32), 0.5 * num_dims**-0.25 * NOISE
    smc = blackjax.adaptive_tempered_smc(
        lambda x: jax.scipy.stats.norm.logpdf(x).sum(),
        lambda x: jax.scipy.stats.norm.logpdf(x, mean, NOISE).sum(),
        blackjax.hmc.build_kernel(), blackjax.hmc.init,
        extend_params({"step_size": step, "inverse_mass_matrix": jnp.ones(num_dims), "num_integration_steps": 10}),
        resampling.systematic, target_ess=0.5, num_mcmc_steps=5,
    )  # fmt: skip
    step_once, rows = jax.jit(smc.step), []
    for seed in range(FIRST_SEED - 1, FIRST_SEED + num_seeds):
        key, started = jax.random.key(seed), time.perf_counter()
        state, log_z = smc.init(jax.random.normal(key, (1000, num_dims))), 0.0
        while state.tempering_param < 1:
            key, key_step = jax.random.split(key)
            state, info = step_once(key_step, state)
            log_z += float(info.log_likelihood_increment)
        rows.append({"seed": seed, "error": log_z - evidence(num_dims), "seconds": time.perf_counter() - started})
    return rows[1:]  # the first one compiles


def pymc_rows(num_dims: int, num_seeds: int) -> list[dict[str, Any]]:
    """`pymc.sample_smc` with its defaults; each of its chains gives an estimate, of which the mean is taken."""
    import pymc

    rows = []
    for seed in range(FIRST_SEED, FIRST_SEED + num_seeds):
        started = time.perf_counter()
        with pymc.Model():
            x = pymc.Normal("x", 0.0, 1.0, shape=num_dims)
            pymc.Normal("y", x, NOISE, observed=means(num_dims))
            trace = pymc.sample_smc(random_seed=seed, progressbar=False, cores=2)
        log_z = np.mean(last_of_each(trace.sample_stats["log_marginal_likelihood"].values.tolist()))
        rows.append(
            {"seed": seed, "error": float(log_z - evidence(num_dims)), "seconds": time.perf_counter() - started}
        )
    return rows


def last_of_each(nested: list[Any]) -> list[float]:
    """The last number of each chain: PyMC nests a list of its stages, which may differ in number, for every chain."""
    if isinstance(nested[0], list):
        return [value for part in nested for value in last_of_each(part)]
    return [[value for value in nested if not np.isnan(value)][-1]]


def in_a_process_of_its_own(function: Callable[..., Any], *arguments: Any) -> Any:
    """PyMC forks, which programs that use JAX must not do."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def other_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the table shows of another package."""
    errors = np.array([row["error"] for row in rows])
    return {
        "runs": len(rows), "rmse": float(np.sqrt(np.mean(errors**2))), "bias": float(errors.mean()),
        "good": None, "covered": None, "sweeps": None, "gradients": None,
        "seconds": float(np.median([row["seconds"] for row in rows])),
    }  # fmt: skip


def main() -> None:
    quick = "--quick" in sys.argv
    sizes = {10: 3, 30: 3} if quick else SIZES
    rows: dict[str, list[dict[str, Any]]] = {}
    for num_dims, num_seeds in sizes.items():
        rows[f"d = {num_dims}"] = our_rows(num_dims, num_seeds)
        if num_dims in (10, 100):
            rows[f"d = {num_dims}, BlackJAX"] = blackjax_rows(num_dims, 3)
            rows[f"d = {num_dims}, PyMC"] = in_a_process_of_its_own(pymc_rows, num_dims, 2)
    ours = {name: repeats.default_summary(part) for name, part in rows.items() if "," not in name}
    others = {name: other_summary(part) for name, part in rows.items() if "," in name}
    summaries = {name: (ours | others)[name] for name in rows}
    repeats.print_table(summaries)
    if not quick:
        repeats.write("long_ladders", summaries, rows)


if __name__ == "__main__":
    main()
