"""Bases with a formula: bits, normal, Student and uniform variables, and any density with a sampler."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from tempering._precision import in_full_precision, product
from tempering._threefry import straight_key
from tempering._types import Key, LogF, Numbers, Scalar, State
from tempering.bases.base import AbstractBase
from tempering.bases.checks import as_float_array, check_argument, cholesky, finite_arrays, fitting_arrays, is_positive

_LOG_2PI = float(np.log(2 * np.pi))


class Bernoulli(AbstractBase):
    """Independent bits with given log-odds, unnormalised: log p(x) = x · logits, Z = Π_i (1 + exp(logits_i)).

    ```python
    Bernoulli([0.5, -1.0, 0.0])
    ```
    """

    logits: Float[Array, " bit"]

    def __init__(self, logits: Numbers):
        """Check the log-odds.

        Args:
            logits: log-odds (bit,), finite.
        """
        (odds,) = finite_arrays("Bernoulli", logits=logits)
        check_argument("Bernoulli", "logits", odds.ndim == 1, f"must be a vector, got shape {odds.shape}")
        self.logits = as_float_array(odds)

    def log_density(self, x: Float[Array, " bit"]) -> Scalar:
        return product(x, self.logits)

    def sample(self, key: Key) -> Float[Array, " bit"]:
        return jax.random.bernoulli(straight_key(key), jax.nn.sigmoid(self.logits)).astype(self.logits.dtype)

    def log_z(self) -> float:
        return log_z_of_bits(self.logits)


class Unnormalised(AbstractBase):
    """A base whose normaliser is unknown: the estimate is then log(Z_target / Z_base).

    ```python
    Unnormalised(log_f, draw)
    ```

    Caveats: draws that are not exact bias the estimate, and no diagnostic sees it.

    Attributes:
        log_f: the log density up to a constant, a function of one state.
        draw: one exact draw as a function of a key, or a draw of a chain that has converged.
    """

    log_f: LogF
    draw: Callable[[Key], State]

    @in_full_precision
    def log_density(self, x: State) -> Scalar:
        return self.log_f(x)

    @in_full_precision
    def sample(self, key: Key) -> State:
        return self.draw(key)


class Normal(AbstractBase):
    """Independent normal variables of any shape or, with a covariance matrix, correlated ones.

    ```python
    Normal(jnp.zeros(10), jnp.sqrt(30.0))            # mean and standard deviation, broadcast
    Normal(jnp.zeros(2), covariance=[[2, 1], [1, 2]])
    ```
    """

    mean: Float[Array, "..."]
    scale: Float[Array, "..."]  # standard deviations, or the lower Cholesky factor of the covariance
    is_correlated: bool = eqx.field(static=True)

    def __init__(self, mean: Numbers, std: Numbers = 1.0, *, covariance: Numbers | None = None):
        """Check the moments.

        Args:
            mean: the mean; its shape, broadcast against `std`, is the shape of a state.
            std: standard deviations, positive.
            covariance: a matrix (size, size) over the flattened coordinates, in place of `std`.
        """
        self.is_correlated = covariance is not None
        if covariance is None:
            center, scale = fitting_arrays("Normal", mean=mean, std=std)
            check_argument("Normal", "std", is_positive(scale), "must be positive")
        else:
            is_left_out = np.ndim(std) == 0 and std == 1.0
            check_argument("Normal", "std", is_left_out, "must be left out where a covariance is given")
            center, matrix = finite_arrays("Normal", mean=mean, covariance=covariance)
            wanted = (center.size, center.size)
            rule = f"must have shape {wanted}, got {matrix.shape}"
            check_argument("Normal", "covariance", matrix.shape == wanted, rule)
            scale = cholesky("Normal", "covariance", matrix)
        self.mean, self.scale = as_float_array(center), as_float_array(scale)

    def log_density(self, x: Float[Array, "..."]) -> Scalar:
        off = x - self.mean
        if self.is_correlated:
            z = jax.scipy.linalg.solve_triangular(self.scale, off.ravel(), lower=True)
            log_scale = jnp.sum(jnp.log(jnp.diagonal(self.scale)))
        else:
            z, log_scale = off / self.scale, jnp.sum(jnp.log(self.scale))
        return -0.5 * jnp.sum(z**2) - log_scale - 0.5 * _LOG_2PI * self.mean.size

    def sample(self, key: Key) -> Float[Array, "..."]:
        noise = jax.random.normal(straight_key(key), self.mean.shape, self.mean.dtype)
        if not self.is_correlated:
            return self.mean + self.scale * noise
        return self.mean + product(self.scale, noise.ravel()).reshape(self.mean.shape)


class Student(AbstractBase):
    """Independent Student t variables, for targets with heavy tails.

    ```python
    Student(4.0, jnp.zeros(3), 2.0)
    ```
    """

    df: Float[Array, "..."]
    mean: Float[Array, "..."]
    scale: Float[Array, "..."]
    log_norm: Scalar  # computed on the host: in float32 the two gamma functions cancel for many degrees of freedom

    def __init__(self, df: Numbers, mean: Numbers, scale: Numbers = 1.0):
        """Check the parameters, which are broadcast against each other.

        Args:
            df: degrees of freedom, positive.
            mean: the centre.
            scale: the scale, positive.
        """
        freedom, center, spread = fitting_arrays("Student", df=df, mean=mean, scale=scale)
        check_argument("Student", "df", is_positive(freedom), "must be positive")
        check_argument("Student", "scale", is_positive(spread), "must be positive")
        log_norms = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(np.pi * freedom) / 2 - np.log(spread)
        self.df, self.mean, self.scale = map(as_float_array, (freedom, center, spread))
        self.log_norm = as_float_array(np.asarray(log_norms.sum()))

    def log_density(self, x: Float[Array, "..."]) -> Scalar:
        z = (x - self.mean) / self.scale
        return self.log_norm - jnp.sum((self.df + 1) / 2 * jnp.log1p(z**2 / self.df))

    def sample(self, key: Key) -> Float[Array, "..."]:
        return self.mean + self.scale * jax.random.t(straight_key(key), self.df, self.mean.shape, self.mean.dtype)


class Uniform(AbstractBase):
    """Independent uniform variables on [low, high].

    ```python
    Uniform(jnp.zeros(3), 10.0)
    ```

    Caveats: the density vanishes outside, at every rung but the target's. A target that extends beyond is not
    reached there.
    """

    low: Float[Array, "..."]
    high: Float[Array, "..."]

    def __init__(self, low: Numbers, high: Numbers):
        """Check the ends, which are broadcast against each other.

        Args:
            low: the lower ends, finite.
            high: the upper ends, finite and above `low`.
        """
        self.low, self.high = map(as_float_array, fitting_arrays("Uniform", low=low, high=high))
        # Compared as they are on the device: two ends may differ in float64 alone.
        is_box = bool(np.all(np.asarray(self.low) < np.asarray(self.high)))
        check_argument("Uniform", "low, high", is_box, "must have low < high everywhere")

    def log_density(self, x: Float[Array, "..."]) -> Scalar:
        inside = jnp.all((x >= self.low) & (x <= self.high))  # a draw may be rounded up to `high` itself
        return jnp.where(inside, -jnp.sum(jnp.log(self.high - self.low)), -jnp.inf)

    def sample(self, key: Key) -> Float[Array, "..."]:
        return jax.random.uniform(straight_key(key), self.low.shape, self.low.dtype, self.low, self.high)


def log_z_of_bits(logits: Float[Array, " bit"] | np.ndarray) -> float:
    """Σ_i log(1 + exp(logits_i)), in float64 on the host: log Z of independent bits with density exp(x · logits)."""
    return float(np.logaddexp(0.0, np.asarray(logits, np.float64)).sum())
