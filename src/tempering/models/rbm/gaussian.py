"""The Gaussian–binary restricted Boltzmann machine, for real-valued data."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._softplus import SoftplusSums
from tempering._types import HostPerRung, Key, Numbers, PerRung, Scalar
from tempering.bases import Normal
from tempering.ladder import checked_betas
from tempering.models.rbm.hidden_bits import (
    HIGHEST,
    AbstractHiddenBitsModel,
    AbstractHiddenBitsPath,
    HiddenBitsState,
    checked_parameters,
    softplus,
    sums_for_any_field,
)

_LOG_2PI = float(np.log(2 * np.pi))
_SMOOTHING = 0.02  # of the base's variance is the model's own: a unit that never varies must not freeze the ladder


class GaussianRBM(AbstractHiddenBitsModel):
    """log f(v, h) = −Σ_i (v_i − c_i)²/(2σ_i²) + Σ_ij v_i W_ij h_j / σ_i² + h·b over real v and bits h.

    The convention of Cho, Ilin and Raiko (2011): given h, v_i is normal around c_i + (Wh)_i with variance σ_i². Others
    divide v_i by σ_i; their weights are these divided by σ_i.

    ```python
    GaussianRBM(weights, vbias, hbias, sigmas)   # (visible, hidden), (visible,), (hidden,), (visible,) or one number
    ```

    `base` may be rows of data, for normals with their mean and variance; `tp.Normal(mean, std)`; or nothing, for
    normals around c with variance σ².
    """

    weights: Float[np.ndarray, "visible hidden"]
    vbias: Float[np.ndarray, " visible"]  # c
    hbias: Float[np.ndarray, " hidden"]  # b
    sigmas: Float[np.ndarray, " visible"]

    def __init__(self, weights: Numbers, vbias: Numbers, hbias: Numbers, sigmas: Numbers = 1.0):
        """Arrays of any kind, kept in float64 so that exact answers are exact."""
        shape = np.shape(weights)
        if len(shape) != 2:
            raise InputError(f"GaussianRBM(weights=...) must have shape (visible, hidden), got {shape}.")
        spreads = np.broadcast_to(sigmas, shape[:1]) if np.ndim(sigmas) == 0 else sigmas
        shapes = {"weights": shape, "vbias": shape[:1], "hbias": shape[1:], "sigmas": shape[:1]}
        arrays = {"weights": weights, "vbias": vbias, "hbias": hbias, "sigmas": spreads}
        self.weights, self.vbias, self.hbias, self.sigmas = checked_parameters("GaussianRBM", shapes, arrays)
        if not np.all(self.sigmas > 0):
            raise InputError("GaussianRBM(sigmas=...) must be positive; they are standard deviations, not logarithms.")

    @property
    def num_visible(self) -> int:
        """Rows of W."""
        return self.weights.shape[0]

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """log Σ_h f(v, h) of each row."""
        rows = self.checked_data(data).astype(np.float64)
        quadratic = -0.5 * (((rows - self.vbias) / self.sigmas) ** 2).sum(axis=1)
        return quadratic + softplus((rows / self.sigmas**2) @ self.weights + self.hbias).sum(axis=1)

    def log_visible_z(self, h: Float[np.ndarray, "pattern hidden"]) -> Float[np.ndarray, " pattern"]:
        """Completing the square: Σ_i ((c_i + (Wh)_i)² − c_i²)/(2σ_i²) + ½ log 2πσ_i²."""
        shift = h @ self.weights.T
        square = shift * (shift + 2 * self.vbias) / (2 * self.sigmas**2)
        return square.sum(axis=1) + np.log(self.sigmas).sum() + self.num_visible * _LOG_2PI / 2

    def num_visible_numbers(self) -> int:
        """One a unit."""
        return self.num_visible

    def path(self, base: Any, betas: HostPerRung) -> "GaussianRBMPath":
        """From independent normals to this model."""
        return GaussianRBMPath.create(self, *self.base_moments(base), betas)

    def base_moments(self, base: Any) -> tuple[Float[np.ndarray, " visible"], Float[np.ndarray, " visible"]]:
        """Mean and variance of p_1. A little of the model's own variance is mixed in: data may be constant."""
        if base is None:
            return self.vbias, self.sigmas**2
        if isinstance(base, Normal):
            if base.is_correlated or base.mean.shape != (self.num_visible,):
                raise InputError(f"`base` must be independent normals of shape ({self.num_visible},), no covariance.")
            return np.asarray(base.mean, np.float64), np.asarray(base.scale, np.float64) ** 2
        if isinstance(base, str):
            raise InputError(f'`base` must be rows of data, tp.Normal(mean, std) or None; got "{base}".')
        rows = self.checked_data(base).astype(np.float64)
        return rows.mean(axis=0), (1 - _SMOOTHING) * rows.var(axis=0) + _SMOOTHING * self.sigmas**2

    def checked_data(self, data: Any) -> np.ndarray:
        """Real rows."""
        data = np.asarray(data)
        if data.ndim != 2 or data.shape[1] != self.num_visible or len(data) == 0:
            raise InputError(f"Data must have shape (rows, {self.num_visible}) for this GaussianRBM, got {data.shape}.")
        data = data.astype(np.float32) if data.dtype.kind in "biu" else data
        if data.dtype.kind != "f" or not np.all(np.isfinite(data)):
            raise InputError("Data for a GaussianRBM must be finite real numbers.")
        return data


class GaussianRBMPath(AbstractHiddenBitsPath):
    """From normals N(m, s²) to a Gaussian RBM: v | h, β is normal with precision (1 − β)/s² + β/σ²."""

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]  # c
    hbias: Float[Array, " hidden"]  # b
    precisions: Float[Array, " visible"]  # 1/σ²
    base_mean: Float[Array, " visible"]  # m
    base_precisions: Float[Array, " visible"]  # 1/s²
    betas: PerRung
    sums: SoftplusSums | None

    @classmethod
    def create(cls, rbm: GaussianRBM, mean: np.ndarray, variance: np.ndarray, betas: HostPerRung) -> "GaussianRBMPath":
        """Prepare the sums over hidden units that give all rungs at once, for fields of any size."""
        betas = checked_betas(betas)
        names = ("weights", "vbias", "hbias", "precisions", "base_mean", "base_precisions", "betas")
        values = (rbm.weights, rbm.vbias, rbm.hbias, rbm.sigmas**-2, mean, 1 / variance, betas)
        arrays = {name: jnp.asarray(value, jnp.float32) for name, value in zip(names, values, strict=True)}
        return cls(**arrays, sums=sums_for_any_field(betas))

    def log_z_base(self) -> float:
        """½ Σ_i log 2πs_i² + J log 2: at β = 0 the hidden units are fair coins."""
        log_precisions = np.log(np.asarray(self.base_precisions, np.float64))
        return float((_LOG_2PI - log_precisions).sum() / 2 + self.hbias.shape[0] * np.log(2))

    def sample_base(self, key: Key) -> HiddenBitsState:
        """Independent normals."""
        noise = jax.random.normal(key, self.base_mean.shape, self.base_mean.dtype)
        return self.state_of(self.base_mean + noise * jax.lax.rsqrt(self.base_precisions))

    def log_ends(self, v: Float[Array, " visible"]) -> tuple[Scalar, Scalar]:
        """The two quadratic forms."""
        at_base = -0.5 * jnp.sum(self.base_precisions * (v - self.base_mean) ** 2)
        return at_base, -0.5 * jnp.sum(self.precisions * (v - self.vbias) ** 2)

    def hidden_field(self, v: Float[Array, " visible"]) -> Float[Array, " hidden"]:
        """b_j + Σ_i v_i W_ij / σ_i²."""
        return jnp.dot(v * self.precisions, self.weights, precision=HIGHEST) + self.hbias

    def draw_visible(self, key: Key, beta: Scalar, h: Float[Array, " hidden"]) -> Float[Array, " visible"]:
        """Normals between the base's mean and c + Wh, weighted by their precisions."""
        from_base, from_model = (1 - beta) * self.base_precisions, beta * self.precisions
        center = self.vbias + jnp.dot(h, self.weights.T, precision=HIGHEST)
        mean = (from_base * self.base_mean + from_model * center) / (from_base + from_model)
        return mean + jax.random.normal(key, mean.shape, mean.dtype) * jax.lax.rsqrt(from_base + from_model)

    def with_betas(self, betas: HostPerRung) -> "GaussianRBMPath":
        """The same ends, other rungs."""
        betas = checked_betas(betas)
        return dataclasses.replace(self, betas=jnp.asarray(betas, jnp.float32), sums=sums_for_any_field(betas))
