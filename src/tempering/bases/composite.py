"""Bases made of other distributions: products, and those of other libraries."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tempering._errors import InputError
from tempering._precision import in_full_precision
from tempering._threefry import plain_key, straight_key
from tempering._types import Key, Scalar, State
from tempering.bases.base import AbstractBase
from tempering.bases.checks import check_argument

_NUM_TRIALS = 16  # draws at which a distribution of another library is checked
_NUDGE = 1e-3  # of the spread of its draws


class Product(AbstractBase):
    """Independent parts of any kind, in a dict, tuple or list; a state has the same structure.

    ```python
    Product({"location": Normal(0.0, 10.0), "weights": Uniform(jnp.zeros(3), jnp.ones(3))})
    ```
    """

    parts: Any

    def __init__(self, parts: Any):
        """Wrap distributions of other libraries.

        Args:
            parts: a pytree of bases, or of distributions with `log_prob` and `sample`.
        """
        self.parts = jax.tree.map(as_base, parts, is_leaf=_is_density)
        has_parts = bool(jax.tree.leaves(self.parts, is_leaf=_is_density))
        check_argument("Product", "parts", has_parts, "must hold a base or more")

    def log_density(self, x: State) -> Scalar:
        parts, form = jax.tree.flatten(self.parts, is_leaf=_is_density)
        logs = (part.log_density(own) for part, own in zip(parts, form.flatten_up_to(x), strict=True))
        return sum(logs, jnp.zeros(()))

    def sample(self, key: Key) -> State:
        parts, form = jax.tree.flatten(self.parts, is_leaf=_is_density)
        keys = jax.random.split(straight_key(key), len(parts))
        return form.unflatten([part.sample(plain_key(own)) for part, own in zip(parts, keys, strict=True)])

    def log_z(self) -> float:
        return sum(part.log_z() for part in jax.tree.leaves(self.parts, is_leaf=_is_density))


class Distribution(AbstractBase):
    """A distribution of NumPyro, TensorFlow Probability or distrax: any object with `log_prob` and `sample`.

    It must be continuous and have a density with respect to volume: neither integers nor a surface such as the simplex
    are accepted. Outside its `support`, if it has that attribute, the density is 0.

    Attributes:
        distribution: the object.
    """

    distribution: Any

    def __check_init__(self) -> None:
        """Refuse a distribution that cannot be drawn from, one over integers, and one on a surface."""
        name = type(self.distribution).__name__
        keys = jax.random.split(jax.random.key(0), _NUM_TRIALS)
        try:
            draws = jax.jit(jax.vmap(self.sample))(keys)
            jax.eval_shape(jax.vmap(self.log_density), draws)
        except Exception as error:  # whatever another library raises
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            cause = f"cannot be a base, because it cannot be drawn from and evaluated with JAX ({why})"
            raise InputError(f"A {name} {cause}. Is it improper, or of a library that does not use JAX?") from error
        if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(draws)):
            raise InputError(f"A {name} is over integers; a base must be over real numbers. For bits use tp.Bernoulli.")
        if not np.any(jax.jit(jax.vmap(self.is_inside))(jax.tree.map(_nudged, draws))):
            cure = "Use coordinates that are free, such as those of tp.from_numpyro."
            raise InputError(f"A {name} lies on a surface, as vectors of sum 1 do, and moves would leave it. {cure}")

    @in_full_precision
    def log_density(self, x: State) -> Scalar:
        log_prob = jnp.sum(self.distribution.log_prob(x))  # over a batch shape, if there is one
        # With validate_args=False NumPyro evaluates beyond the support: a half normal is as high at −1 as at 1.
        return jnp.where(self.is_inside(x), log_prob, -jnp.inf)

    @in_full_precision
    def sample(self, key: Key) -> State:
        # NumPyro takes the key first, TensorFlow Probability and distrax take it as `seed`.
        takes_seed = "seed" in inspect.signature(self.distribution.sample).parameters
        return self.distribution.sample(seed=key) if takes_seed else self.distribution.sample(key)

    def is_inside(self, x: State) -> Array:
        """Whether x is in the support; True if the distribution has no `support`."""
        support = getattr(self.distribution, "support", None)
        return jnp.all(jnp.asarray(support(x))) if callable(support) else jnp.ones((), bool)


def as_base(density: Any) -> AbstractBase:
    """A base unchanged; a distribution of another library wrapped as one.

    Args:
        density: a base, or an object with `log_prob` and `sample`.

    Returns:
        The base.
    """
    if isinstance(density, AbstractBase):
        return density
    if not isinstance(density, type) and hasattr(density, "log_prob") and hasattr(density, "sample"):
        return Distribution(density)
    came = f"the class {density.__name__} itself" if isinstance(density, type) else f"a {type(density).__name__}"
    cure = " Wrap several of them in tp.Product." if isinstance(density, dict | list | tuple) else ""
    accepted = "a base such as tp.Normal(mean, std), or a distribution with `log_prob` and `sample`"
    raise InputError(f"`base` must be {accepted}; got {came}.{cure}")


def _nudged(draws: Array) -> Array:
    """Draws moved a little: they stay in the support if it has a volume."""
    noise = np.random.default_rng(0).normal(size=draws.shape).astype(draws.dtype)
    return draws + _NUDGE * jnp.std(draws, axis=0) * noise


def _is_density(part: Any) -> bool:
    return isinstance(part, AbstractBase) or hasattr(part, "log_prob")
