"""Users' functions are evaluated in full precision: a GPU would round the factors of their products to ten bits.

Such a rounding makes another density, whose log Z is off by many claimed errors of very many chains. A CPU never rounds
so; these tests look at the programs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

import tempering as tp
from tempering.bases import Unnormalised, as_base
from tempering.frontends._prior_checks import DrawnPrior
from tempering.kernels.moves.flow import Flow
from tempering.models import Sequence, SubsampledPosterior

MATRIX = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
BETAS = np.linspace(0.0, 1.0, 4)
FULL = (jax.lax.Precision.HIGHEST,) * 2


def log_f(x):
    return -0.5 * jnp.sum((MATRIX @ x) ** 2)


class Correlated:
    """A distribution of another library, drawn by a product."""

    def log_prob(self, x):
        return log_f(x)

    def sample(self, key):
        return jnp.asarray(MATRIX) @ jax.random.normal(key, (3,))


def precisions(function: Callable[..., Any], *args: Any) -> set[Any]:
    """Those of all products of a function."""

    def of(jaxpr: Jaxpr) -> Iterator[Any]:
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                yield equation.params["precision"]
            for part in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: isinstance(p, ClosedJaxpr)):
                if isinstance(part, ClosedJaxpr):
                    yield from of(part.jaxpr)

    return set(of(jax.make_jaxpr(function)(*args).jaxpr))


NORMAL = tp.Normal(np.zeros(3))
MODELS = {
    "density": lambda: tp.LogDensity(log_f, NORMAL),
    "posterior": lambda: tp.Posterior(log_f, NORMAL),
    "sequence": lambda: Sequence([log_f, log_f], NORMAL),
    "sequence by number": lambda: Sequence(lambda x, m: m * log_f(x), NORMAL, num_densities=2),
    "subsampled": lambda: SubsampledPosterior(lambda x: jnp.asarray(MATRIX) @ x, NORMAL),
    "base": lambda: tp.LogDensity(lambda x: -jnp.sum(x**2), Correlated()),
}


@pytest.mark.parametrize("name", MODELS)
def test_products_of_a_users_density_are_those_of_float32(name):
    """Kills: a function that is not wrapped. Gradients have the precision of the products that they come from."""
    path = MODELS[name]().path(None, BETAS)
    assert precisions(path.log_densities, jnp.ones(3)) == {FULL}
    assert precisions(jax.grad(lambda x: path.log_density(x, jnp.int32(1))), jnp.ones(3)) == {FULL}


@pytest.mark.parametrize(
    "base",
    [
        as_base(Correlated()),
        Unnormalised(log_f, Correlated().sample),
        DrawnPrior(log_f, Correlated().sample),
    ],
    ids=["distribution", "unnormalised", "drawn"],
)
def test_draws_of_a_users_base_follow_its_density(base):
    """Kills: draws by rounded products, whose law is another than the density."""
    assert precisions(base.sample, jax.random.key(0)) == {FULL}
    assert precisions(base.log_density, jnp.ones(3)) == {FULL}


def test_a_precision_that_the_user_has_chosen_stays():
    path = MODELS["density"]().path(None, BETAS)
    with jax.default_matmul_precision("bfloat16"):
        assert FULL not in precisions(path.log_densities, jnp.ones(3))
    by_hand = tp.LogDensity(lambda x: -jnp.sum(jnp.dot(MATRIX, x, precision="bfloat16") ** 2), NORMAL)
    assert FULL not in precisions(by_hand.path(None, BETAS).log_densities, jnp.ones(3))


@pytest.mark.parametrize("covariances", [np.ones((2, 3)), np.stack([np.eye(3)] * 2)], ids=["scales", "dense"])
def test_controls_keep_their_mean_of_zero(covariances):
    """Kills: a velocity with rounded factors, whose divergence is another than the one that is added."""
    flow = Flow.between_normals(np.array([0.0, 1.0]), np.zeros((2, 3)), covariances)
    assert precisions(flow.control, jnp.float32(0.5), jnp.ones(3), jnp.ones(3)) == {FULL}
