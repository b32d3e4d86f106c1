"""One run of each package that gives an evidence, for the prior N(0, 1)^d. Defines no algorithm.

Each function is called in a process of its own. It takes a problem and a name, and gives a function of a seed that
returns log Z and its claimed error, or None where the package claims none.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from evidence_problems import SCHOOLS, SCHOOLS_ERRORS, Problem
from scipy import special

Answer = tuple[float, float | None]
Run = Callable[[int], Answer]


class Peer(NamedTuple):
    """A package, and how it is asked."""

    package: str  # as pip names it
    make: Callable[[str, Problem], Run]
    settings: str


def tempering(name: str, problem: Problem) -> Run:
    import tempering as tp

    model = tp.Posterior(problem.log_likelihood, tp.Normal(jnp.zeros(problem.num_dims)))

    def run(seed: int) -> Answer:
        result = tp.estimate(model, seed=seed)
        return result.log_z, result.std_error

    return run


def pymc(name: str, problem: Problem) -> Run:
    import long_ladders
    import pymc

    def run(seed: int) -> Answer:
        with pymc.Model():
            pymc_model(name, problem.num_dims)
            trace = pymc.sample_smc(random_seed=seed, progressbar=False)
        chains = long_ladders.last_of_each(trace.sample_stats["log_marginal_likelihood"].values.tolist())
        return float(np.mean(chains)), float(np.std(chains, ddof=1) / np.sqrt(len(chains)))

    return run


def pymc_model(name: str, num_dims: int) -> None:
    """The same posterior in PyMC's own words."""
    import long_ladders
    import pymc

    x = pymc.Normal("x", 0.0, 1.0, shape=num_dims)
    if name.startswith("normal"):
        pymc.Normal("y", x, long_ladders.NOISE, observed=long_ladders.means(num_dims))
    elif name.startswith("logistic"):
        from sklearn.datasets import load_breast_cancer
        from sklearn.preprocessing import scale

        rows, labels = load_breast_cancer(return_X_y=True)
        pymc.Bernoulli("y", logit_p=pymc.math.dot(scale(rows), x), observed=labels)
    else:
        pymc.Normal("y", 5 * x[0] + 5 * x[1] * x[2:], SCHOOLS_ERRORS, observed=SCHOOLS)


def blackjax(name: str, problem: Problem) -> Run:
    import blackjax
    from blackjax.smc import extend_params, resampling

    num_dims = problem.num_dims
    step = 0.5 * num_dims**-0.25 * (0.1 if name.startswith("normal") else 0.5)
    smc = blackjax.adaptive_tempered_smc(
        lambda x: jax.scipy.stats.norm.logpdf(x).sum(), problem.log_likelihood,
        blackjax.hmc.build_kernel(), blackjax.hmc.init,
        extend_params({"step_size": step, "inverse_mass_matrix": jnp.ones(num_dims), "num_integration_steps": 10}),
        resampling.systematic, target_ess=0.5, num_mcmc_steps=5,
    )  # fmt: skip
    step_once = jax.jit(smc.step)

    def run(seed: int) -> Answer:
        key = jax.random.key(seed)
        state, log_z = smc.init(jax.random.normal(key, (1000, num_dims))), 0.0
        while state.tempering_param < 1:
            key, key_step = jax.random.split(key)
            state, info = step_once(key_step, state)
            log_z += float(info.log_likelihood_increment)
        return log_z, None

    return run


def dynesty(name: str, problem: Problem) -> Run:
    import dynesty

    log_likelihood = jax.jit(problem.log_likelihood)

    def run(seed: int) -> Answer:
        sampler = dynesty.NestedSampler(
            lambda x: float(log_likelihood(x.astype(np.float32))), special.ndtri, problem.num_dims,
            rstate=np.random.default_rng(seed),
        )  # fmt: skip
        sampler.run_nested(print_progress=False)
        return float(sampler.results.logz[-1]), float(sampler.results.logzerr[-1])

    return run


def nautilus(name: str, problem: Problem) -> Run:
    import nautilus

    log_likelihood = jax.jit(lambda rows: jax.lax.map(problem.log_likelihood, rows, batch_size=100))
    room = 128  # rows are filled up to a multiple of this, so that few shapes are compiled

    def rows_of(x: np.ndarray) -> np.ndarray:
        filled = np.zeros((-(-len(x) // room) * room, x.shape[1]), np.float32)
        filled[: len(x)] = x
        return np.asarray(log_likelihood(filled), np.float64)[: len(x)]

    def run(seed: int) -> Answer:
        sampler = nautilus.Sampler(special.ndtri, rows_of, n_dim=problem.num_dims, vectorized=True, seed=seed,
                                   pass_dict=False)  # fmt: skip
        sampler.run(verbose=False)
        return float(sampler.log_z), None

    return run


def jaxns(name: str, problem: Problem) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow Probability's own, about what it will drop
        from jaxns.core import NestedSampler
        from jaxns.model import Model
        from jaxns.priors import Prior
        from tensorflow_probability.substrates.jax import distributions

    def prior_model():
        zeros = jnp.zeros(problem.num_dims)
        x = Prior(distributions.MultivariateNormalDiag(zeros, zeros + 1), name="x").realise()
        return problem.log_likelihood(x)

    sampler = NestedSampler(model=Model(prior_model=prior_model))

    def run(seed: int) -> Answer:
        result = sampler.run(key=jax.random.PRNGKey(seed)).to_result().trim()
        return float(result.log_Z_mean), float(result.log_Z_uncert)

    return run


OURS = "tempering"
PEERS = {
    OURS: Peer("tempering", tempering, "`tp.estimate(posterior)`, defaults"),
    "PyMC": Peer("pymc", pymc, "`sample_smc`, defaults; the mean of its chains, and the error from their spread"),
    "BlackJAX": Peer(
        "blackjax", blackjax,
        "adaptive tempered SMC, 1000 particles, five HMC trajectories of ten leaps, whose step was set by hand; it "
        "claims no error",
    ),
    "dynesty": Peer("dynesty", dynesty, "`NestedSampler`, defaults"),
    "nautilus": Peer("nautilus-sampler", nautilus, "`Sampler`, defaults, vectorized; it claims no error"),
    "jaxns": Peer("jaxns", jaxns, "`NestedSampler`, defaults"),
}  # fmt: skip
