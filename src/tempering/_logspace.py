"""Sums of numbers that are given by their logarithms."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

from tempering._device_arrays import device_full, device_zeros

LOG_ZERO = -1e30  # the log of a number that vanishes, where it must be finite: exp of a small share of it is still 0

_ROUNDINGS = 8.0  # float32 numbers next to each other, on each side of 1


class LogSum(eqx.Module):
    """A sum of exponentials, Σ exp(log_x), that neither overflows nor underflows while it grows.

    The sum is exp(peak) · scaled, where `peak` is the largest term so far. A new term costs one exponential, because
    one of the factors exp(peak − new peak) and exp(log_x − new peak) is always 1. In float32 the relative error after n
    terms is at most about n·6e-8, so keep n below 10⁴ and join sums on the host.
    """

    peak: Float[Array, "..."]
    scaled: Float[Array, "..."]

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "LogSum":
        """The sum of no terms; its peak is finite, so that −inf can be added to it."""
        return cls(device_full(shape, float(np.finfo(np.float32).min), np.float32), device_zeros(shape))

    def add(self, log_x: Float[Array, "..."]) -> "LogSum":
        """Add exp(log_x), elementwise."""
        smaller = jnp.exp(-jnp.abs(log_x - self.peak))
        is_new_peak = log_x > self.peak
        scaled = jnp.where(is_new_peak, self.scaled * smaller + 1, self.scaled + smaller)
        return LogSum(jnp.maximum(self.peak, log_x), scaled)

    def add_at(self, index, log_x: Float[Array, "..."]) -> "LogSum":
        """Add exp(log_x) to one entry along the first axis."""
        entry = LogSum(self.peak[index], self.scaled[index]).add(log_x)
        return LogSum(self.peak.at[index].set(entry.peak), self.scaled.at[index].set(entry.scaled))

    def log(self) -> np.ndarray:
        """The logarithm of the sum, on the host in float64; −inf where nothing was added."""
        return np.asarray(np.asarray(self.peak, np.float64) + log_or_minus_inf(np.asarray(self.scaled, np.float64)))


class Sum(eqx.Module):
    """A plain float32 sum of numbers between 0 and 1, at half the cost of a `LogSum`; terms below 1e-38 are lost."""

    total: Float[Array, "..."]

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "Sum":
        return cls(device_zeros(shape))

    def add(self, x: Float[Array, "..."]) -> "Sum":
        return Sum(self.total + x)

    def log(self) -> np.ndarray:
        """As for `LogSum`."""
        return log_or_minus_inf(np.asarray(self.total, np.float64))


def finite_zeros(log_x: Float[Array, " entry"]) -> Float[Array, " entry"]:
    """log x with `LOG_ZERO` for −inf and NaN, on the device; unchanged where all entries are −inf or NaN."""
    is_positive = log_x > -jnp.inf
    return jnp.where(is_positive | ~jnp.any(is_positive), log_x, LOG_ZERO)


def log_or_minus_inf(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """log x without a warning at 0: −inf is the right answer for an empty sum, or for what was never seen."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(x))


def log_sum_exp(log_x: np.ndarray, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> np.ndarray:
    """log of the sum of exp(log_x) along `axis`, on the host; an array where SciPy may return a number."""
    return np.asarray(logsumexp(log_x, axis=axis, keepdims=keepdims))


def log_mean_exp(log_x: Float[np.ndarray, "..."], axis: int) -> Float[np.ndarray, "..."]:
    """log of the mean of exp(log_x) along `axis`, in float64 on the host."""
    return log_sum_exp(log_x, axis) - np.log(log_x.shape[axis])


def power(exponent, log_density):
    """The log of a power, where 0⁰ = 1: a density that vanishes does not matter where its exponent is 0."""
    return jnp.where(exponent == 0, 0.0, exponent * log_density)


def rounding_of(log_z: float) -> float:
    """How far apart two estimates of log Z may be by rounding alone: log densities of that size are in float32.

    Args:
        log_z: One of the estimates.
    """
    return _ROUNDINGS * float(np.finfo(np.float32).eps) * (1 + abs(log_z))
