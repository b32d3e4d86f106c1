"""Small results of which pictures and reports are made in tests."""

from functools import cache

import jax.numpy as jnp
import numpy as np

import tempering as tp

QUICK = {"num_chains": 20, "num_sweeps": 24, "num_rungs": 5, "warmup": tp.AnnealedStart(4, (2, 2)), "progress": False}


def small_rbm() -> tp.RBM:
    rng = np.random.default_rng(1)
    return tp.RBM(rng.normal(0.2, 0.8, (9, 4)), rng.normal(size=9), rng.normal(size=4))


@cache
def rbm_result() -> tp.Result:
    """Of an RBM over 3 × 3 pixels, with draws."""
    return tp.estimate(small_rbm(), keep_draws=True, **QUICK)


@cache
def bare_result() -> tp.Result:
    """The same without draws."""
    return tp.estimate(small_rbm(), **QUICK)


@cache
def posterior_result() -> tp.Result:
    """Of a posterior with named parameters, one of them a vector."""
    prior = tp.Product({"mu": tp.Normal(0.0, 2.0), "theta": tp.Normal(np.zeros(2), 1.0)})

    def log_likelihood(x):
        return -0.5 * (x["mu"] + x["theta"][0] - 1.5) ** 2 - 0.5 * jnp.sum((x["theta"] - 0.3) ** 2)

    return tp.estimate(tp.Posterior(log_likelihood, prior), move=tp.RandomWalk(0.5), **QUICK)


@cache
def small_comparison() -> tp.Comparison:
    return tp.compare(small_rbm(), methods="rts,ts,ais", **QUICK)
