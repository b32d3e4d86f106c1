"""Bases: densities p_1 that can be drawn from exactly, where every path begins."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from tempering._errors import InputError
from tempering._types import Key, LogF, Numbers, Scalar, State

_HIGHEST = jax.lax.Precision.HIGHEST
_LOG_2PI = float(np.log(2 * np.pi))
_NUM_TRIALS = 16  # draws at which a distribution of another library is looked at
_NUDGE = 1e-3  # of the spread of its draws


class AbstractBase(eqx.Module):
    """p_1: a density that can be drawn from exactly. Its normaliser is known, or 0 by convention (see `log_z`)."""

    def log_density(self, x: State) -> Scalar:
        """log of the base at x, normalised or not."""
        raise NotImplementedError

    def sample(self, key: Key) -> State:
        """An exact draw."""
        raise NotImplementedError

    def log_z(self) -> float:
        """log of the base's integral; 0 for a normalised density, or to make every answer a ratio to it."""
        return 0.0


class Bernoulli(AbstractBase):
    """Independent bits with the given log-odds, unnormalised: log p(x) = x · logits, Z = Π (1 + exp(logits))."""

    logits: Float[Array, " bit"]

    def __init__(self, logits: Numbers):
        """One finite number a bit."""
        (odds,) = _numbers("Bernoulli", logits=logits)
        _check("Bernoulli", "logits", odds.ndim == 1, f"must be a vector, got shape {odds.shape}")
        self.logits = _as_float(odds)

    def log_density(self, x: Float[Array, " bit"]) -> Scalar:
        """x · logits."""
        return jnp.dot(x, self.logits, precision=_HIGHEST)

    def sample(self, key: Key) -> Float[Array, " bit"]:
        """Bits as 0.0 and 1.0."""
        return jax.random.bernoulli(key, jax.nn.sigmoid(self.logits)).astype(self.logits.dtype)

    def log_z(self) -> float:
        """Σ_i log(1 + exp(logits_i))."""
        return float(np.logaddexp(0.0, np.asarray(self.logits, np.float64)).sum())


class Unnormalised(AbstractBase):
    """A base known only up to its constant: the answer is then log(Z_target / Z_base)."""

    log_f: LogF
    draw: Callable[[Key], State]  # exact, or as near to it as a long chain gives

    def log_density(self, x: State) -> Scalar:
        """log f at the base, up to a constant."""
        return self.log_f(x)

    def sample(self, key: Key) -> State:
        """The draw that was given."""
        return self.draw(key)


class Normal(AbstractBase):
    """Independent normals of any shape, or, with a `covariance` matrix, correlated ones.

    ```python
    Normal(jnp.zeros(10), jnp.sqrt(30.0))            # mean and standard deviation, broadcast
    Normal(jnp.zeros(2), covariance=[[2, 1], [1, 2]])
    ```
    """

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]  # standard deviations, or the lower Cholesky factor of the covariance
    is_correlated: bool = eqx.field(static=True)

    def __init__(self, mean: Numbers, std: Numbers = 1.0, *, covariance: Numbers | None = None):
        """Standard deviations, or a covariance instead of them."""
        self.is_correlated = covariance is not None
        if covariance is None:
            center, scale = _numbers("Normal", mean=mean, std=std)
            _check("Normal", "std", _is_positive(scale), "must be positive")
        else:
            _check("Normal", "std", np.ndim(std) == 0 and std == 1.0, "must be left out where a covariance is given")
            (center,), (matrix,) = _numbers("Normal", mean=mean), _numbers("Normal", covariance=covariance)
            wanted = (center.size, center.size)
            _check("Normal", "covariance", matrix.shape == wanted, f"must have shape {wanted}, got {matrix.shape}")
            scale = cholesky("Normal", "covariance", matrix)
        self.mean, self.scale = _as_float(center), _as_float(scale)

    def log_density(self, x: Float[Array, "..."]) -> Scalar:
        """Normalised."""
        off = x - self.mean
        if self.is_correlated:
            z = jax.scipy.linalg.solve_triangular(self.scale, off.ravel(), lower=True)
            log_scale = jnp.sum(jnp.log(jnp.diagonal(self.scale)))
        else:
            z, log_scale = off / self.scale, jnp.sum(jnp.log(self.scale))
        return -0.5 * jnp.sum(z**2) - log_scale - 0.5 * _LOG_2PI * self.mean.size

    def sample(self, key: Key) -> Float[Array, "..."]:
        """Mean + scale · noise."""
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        if not self.is_correlated:
            return self.mean + self.scale * noise
        return self.mean + jnp.dot(self.scale, noise.ravel(), precision=_HIGHEST).reshape(self.mean.shape)


class Student(AbstractBase):
    """Independent Student variables: heavy tails, for targets whose tails are heavy too."""

    df: Float[Array, "..."]
    mean: Float[Array, "..."]
    scale: Float[Array, "..."]
    log_norm: Scalar  # from the host: in float32 the two gamma functions would cancel for many degrees of freedom

    def __init__(self, df: Numbers, mean: Numbers, scale: Numbers = 1.0):
        """Degrees of freedom, centre and scale, broadcast against each other."""
        freedom, center, spread = _numbers("Student", df=df, mean=mean, scale=scale)
        _check("Student", "df", _is_positive(freedom), "must be positive")
        _check("Student", "scale", _is_positive(spread), "must be positive")
        log_norms = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(np.pi * freedom) / 2 - np.log(spread)
        self.df, self.mean, self.scale = _as_float(freedom), _as_float(center), _as_float(spread)
        self.log_norm = _as_float(np.asarray(log_norms.sum()))

    def log_density(self, x: Float[Array, "..."]) -> Scalar:
        """Normalised."""
        z = (x - self.mean) / self.scale
        return self.log_norm - jnp.sum((self.df + 1) / 2 * jnp.log1p(z**2 / self.df))

    def sample(self, key: Key) -> Float[Array, "..."]:
        """Mean + scale · Student noise."""
        return self.mean + self.scale * jax.random.t(key, self.df, self.mean.shape, self.mean.dtype)


class Uniform(AbstractBase):
    """Independent uniforms on [low, high): the density is 0 outside, and so is every rung but the target."""

    low: Float[Array, "..."]
    high: Float[Array, "..."]

    def __init__(self, low: Numbers, high: Numbers):
        """The two ends, finite, broadcast against each other."""
        ends = _numbers("Uniform", low=low, high=high)
        self.low, self.high = (_as_float(end) for end in ends)
        # As they are on the device: two ends may differ in float64 alone.
        is_box = bool(np.all(np.asarray(self.low) < np.asarray(self.high)))
        _check("Uniform", "low, high", is_box, "must have low < high everywhere")

    def log_density(self, x: Float[Array, "..."]) -> Scalar:
        """−log of the volume inside, −inf outside."""
        inside = jnp.all((x >= self.low) & (x <= self.high))  # a draw may be rounded up to `high` itself
        return jnp.where(inside, -jnp.sum(jnp.log(self.high - self.low)), -jnp.inf)

    def sample(self, key: Key) -> Float[Array, "..."]:
        """A point of the box."""
        return jax.random.uniform(key, self.low.shape, self.low.dtype, self.low, self.high)


class Product(AbstractBase):
    """Independent parts of any kind, in a dict, tuple or list; a state has the same form.

    ```python
    Product({"location": Normal(0.0, 10.0), "weights": Uniform(jnp.zeros(3), jnp.ones(3))})
    ```
    """

    parts: Any

    def __init__(self, parts: Any):
        """Bases, or distributions, in a pytree."""
        self.parts = jax.tree.map(as_base, parts, is_leaf=_is_density)
        _check("Product", "parts", bool(jax.tree.leaves(self.parts, is_leaf=_is_density)), "must hold a base or more")

    def log_density(self, x: State) -> Scalar:
        """The sum over the parts."""
        parts, form = jax.tree.flatten(self.parts, is_leaf=_is_density)
        return sum(
            (part.log_density(own) for part, own in zip(parts, form.flatten_up_to(x), strict=True)), jnp.zeros(())
        )

    def sample(self, key: Key) -> State:
        """A draw of each."""
        parts, form = jax.tree.flatten(self.parts, is_leaf=_is_density)
        keys = jax.random.split(key, len(parts))
        return form.unflatten([part.sample(own) for part, own in zip(parts, keys, strict=True)])

    def log_z(self) -> float:
        """The sum over the parts."""
        return sum(part.log_z() for part in jax.tree.leaves(self.parts, is_leaf=_is_density))


class Distribution(AbstractBase):
    """A distribution of NumPyro, TensorFlow Probability or their kin: anything with `log_prob` and `sample`.

    It must be over real numbers with a volume: neither integers nor a surface such as the simplex. Outside of its
    `support`, where it says what that is, the density is 0.
    """

    distribution: Any

    def __check_init__(self) -> None:
        """Try it once, outside jit."""
        _check_distribution(self)

    def log_density(self, x: State) -> Scalar:
        """log_prob, added up over a batch shape if there is one."""
        log_prob = jnp.sum(self.distribution.log_prob(x))
        # With validate_args=False NumPyro goes on beyond the support: a half normal is as high at −1 as at 1.
        return jnp.where(self.is_inside(x), log_prob, -jnp.inf)

    def sample(self, key: Key) -> State:
        """NumPyro takes the key first, TensorFlow Probability and distrax take it as `seed`."""
        takes_seed = "seed" in inspect.signature(self.distribution.sample).parameters
        return self.distribution.sample(seed=key) if takes_seed else self.distribution.sample(key)

    def is_inside(self, x: State) -> Array:
        """Whether x is in the support; yes where the distribution does not say."""
        support = getattr(self.distribution, "support", None)
        return jnp.all(jnp.asarray(support(x))) if callable(support) else jnp.ones((), bool)


def as_base(density: Any) -> AbstractBase:
    """A base as it is, a distribution wrapped."""
    if isinstance(density, AbstractBase):
        return density
    if not isinstance(density, type) and hasattr(density, "log_prob") and hasattr(density, "sample"):
        return Distribution(density)
    came = f"the class {density.__name__} itself" if isinstance(density, type) else f"a {type(density).__name__}"
    cure = " Wrap several of them in tp.Product." if isinstance(density, dict | list | tuple) else ""
    raise InputError(
        "`base` must be a base such as tp.Normal(mean, std), or a distribution with `log_prob` and `sample`; "
        f"got {came}.{cure}"
    )


def cholesky(owner: str, name: str, covariance: np.ndarray) -> np.ndarray:
    """The lower Cholesky factors of covariances (..., dim, dim), in float64 on the host."""
    size = np.abs(covariance).max(initial=0.0)
    # NumPy would read the lower half alone, and take any matrix for a symmetric one.
    is_symmetric = bool(np.all(np.abs(covariance - np.swapaxes(covariance, -1, -2)) <= 1e-6 * size))
    _check(owner, name, is_symmetric, "must be symmetric")
    try:
        return np.linalg.cholesky((covariance + np.swapaxes(covariance, -1, -2)) / 2)
    except np.linalg.LinAlgError:
        raise InputError(f"{owner}({name}=...) must be positive definite.") from None


def _check_distribution(base: Distribution) -> None:
    """Refuse what cannot be drawn from, integers, and surfaces."""
    name = type(base.distribution).__name__
    keys = jax.random.split(jax.random.key(0), _NUM_TRIALS)
    try:
        draws = jax.jit(jax.vmap(base.sample))(keys)
        jax.eval_shape(jax.vmap(base.log_density), draws)
    except Exception as error:  # whatever another library raises
        why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise InputError(
            f"A {name} cannot be a base, because it cannot be drawn from and evaluated with JAX ({why}). "
            "Is it improper, or of a library that does not use JAX?"
        ) from error
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(draws)):
        raise InputError(f"A {name} is over integers; a base must be over real numbers. For bits use tp.Bernoulli.")
    if not np.any(jax.jit(jax.vmap(base.is_inside))(jax.tree.map(_nudged, draws))):
        raise InputError(
            f"A {name} lies on a surface, such as vectors that sum to 1, and moves would leave it. "
            "Use coordinates that are free, such as those of tp.from_numpyro."
        )


def _nudged(draws: Array) -> Array:
    """Draws a little off: still in a support that has a volume."""
    noise = np.random.default_rng(0).normal(size=draws.shape).astype(draws.dtype)
    return draws + _NUDGE * jnp.std(draws, axis=0) * noise


def _is_density(part: Any) -> bool:
    return isinstance(part, AbstractBase) or hasattr(part, "log_prob")


def _as_float(array: np.ndarray) -> Array:
    return jnp.asarray(array, jnp.result_type(float))  # float32, or float64 where the user has asked JAX for that


def _numbers(base: str, **values: Numbers) -> list[np.ndarray]:
    """What a person gave, as finite float64 arrays of one shape."""
    names = ", ".join(values)
    try:
        arrays = [np.asarray(value, np.float64) for value in values.values()]
    except (TypeError, ValueError):
        raise InputError(f"{base}({names}) must be arrays of numbers, known before anything is compiled.") from None
    for name, array in zip(values, arrays, strict=True):
        _check(base, name, bool(np.isfinite(array).all()), "must be finite: an infinite base is improper")
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(f"{base}({names}) must have shapes that fit together, got {shapes}.") from None


def _is_positive(array: np.ndarray) -> bool:
    """On the device too, where small numbers may become 0."""
    return bool(np.all(np.asarray(array, np.float32) > 0))


def _check(base: str, name: str, is_right: bool, rule: str) -> None:
    if not is_right:
        raise InputError(f"{base}({name}=...) {rule}.")
