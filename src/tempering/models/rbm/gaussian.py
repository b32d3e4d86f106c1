"""The Gaussian–binary restricted Boltzmann machine, for real-valued data."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._precision import product
from tempering._softplus import SoftplusSums
from tempering._threefry import straight_key
from tempering._types import HostPerRung, Key, Numbers, PerRung, Scalar
from tempering.bases import Normal
from tempering.models.rbm.arrays import checked_parameters, softplus, sums_for_any_field
from tempering.models.rbm.hidden_bits import AbstractHiddenBitsPath, AbstractListedBitsModel, HiddenBitsState
from tempering.models.rows import SMOOTHING, checked_rows

_LOG_2PI = float(np.log(2 * np.pi))
_AXES = {"weights": "visible hidden", "vbias": "visible", "hbias": "hidden", "sigmas": "visible"}


class GaussianRBM(AbstractListedBitsModel):
    """A Gaussian–binary RBM: log f(v, h) = −Σ_i (v_i − c_i)²/(2σ_i²) + Σ_ij v_i W_ij h_j / σ_i² + h·b.

    v is real and h are bits. The convention is that of Cho, Ilin and Raiko (2011): given h, v_i is normal around
    c_i + (Wh)_i with variance σ_i². Others divide v_i by σ_i; their weights are these divided by σ_i.

    ```python
    GaussianRBM(weights, vbias, hbias, sigmas)   # (visible, hidden), (visible,), (hidden,), (visible,) or one number
    ```

    `base` of `tp.estimate` may be rows of data, for normals with their mean and variance; `tp.Normal(mean, std)`; or
    None, for normals around c with variance σ².
    """

    weights: Float[np.ndarray, "visible hidden"]
    vbias: Float[np.ndarray, " visible"]
    hbias: Float[np.ndarray, " hidden"]
    sigmas: Float[np.ndarray, " visible"]
    counts_states: ClassVar[bool] = False  # v is real

    def __init__(self, weights: Numbers, vbias: Numbers, hbias: Numbers, sigmas: Numbers = 1.0):
        """Check the parameters, which are kept in float64, for exact answers.

        Args:
            weights: W (visible, hidden).
            vbias: c (visible,).
            hbias: b (hidden,).
            sigmas: σ (visible,), or one number; positive.
        """
        spreads = np.broadcast_to(sigmas, np.shape(weights)[:1]) if np.ndim(sigmas) == 0 else sigmas
        checked = checked_parameters("GaussianRBM", _AXES, weights, vbias, hbias, spreads)
        self.weights, self.vbias, self.hbias, self.sigmas = checked
        if not np.all(self.sigmas > 0):
            raise InputError("GaussianRBM(sigmas=...) must be positive; they are standard deviations, not logarithms.")

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        rows = self.checked_data(data).astype(np.float64)
        quadratic = -0.5 * (((rows - self.vbias) / self.sigmas) ** 2).sum(axis=1)
        return quadratic + softplus((rows / self.sigmas**2) @ self.weights + self.hbias).sum(axis=1)

    def log_visible_z(self, h: Float[np.ndarray, "pattern hidden"]) -> Float[np.ndarray, " pattern"]:
        # By completing the square: Σ_i ((c_i + (Wh)_i)² − c_i²)/(2σ_i²) + ½ log 2πσ_i².
        shift = h @ self.weights.T
        square = shift * (shift + 2 * self.vbias) / (2 * self.sigmas**2)
        return square.sum(axis=1) + np.log(self.sigmas).sum() + self.num_visible * _LOG_2PI / 2

    def path(self, base: Any, betas: HostPerRung) -> "GaussianRBMPath":
        return GaussianRBMPath.create(self, *self.base_moments(base), betas)

    def base_moments(self, base: Any) -> tuple[Float[np.ndarray, " visible"], Float[np.ndarray, " visible"]]:
        """Mean and variance of the independent normals that a base stands for.

        Args:
            base: None, rows of data, or a `tp.Normal` without a covariance. The variance of data is mixed with 2 % of
                σ², since data may be constant.

        Returns:
            Means and variances, one per visible unit.
        """
        if base is None:
            return self.vbias, self.sigmas**2
        if isinstance(base, Normal):
            if base.is_correlated or base.mean.shape != (self.num_visible,):
                raise InputError(f"`base` must be independent normals of shape ({self.num_visible},), no covariance.")
            return np.asarray(base.mean, np.float64), np.asarray(base.scale, np.float64) ** 2
        if isinstance(base, str):
            raise InputError(f'`base` must be rows of data, tp.Normal(mean, std) or None; got "{base}".')
        rows = self.checked_data(base).astype(np.float64)
        return rows.mean(axis=0), (1 - SMOOTHING) * rows.var(axis=0) + SMOOTHING * self.sigmas**2

    def checked_data(self, data: Any) -> np.ndarray:
        data = checked_rows(data, self.num_visible, "GaussianRBM")
        data = data.astype(np.float32) if data.dtype.kind in "biu" else data
        if data.dtype.kind != "f" or not np.all(np.isfinite(data)):
            raise InputError("Data for a GaussianRBM must be finite real numbers.")
        return data


class GaussianRBMPath(AbstractHiddenBitsPath):
    """A path from normals N(m, s²) to a Gaussian RBM: v | h, β is normal with precision (1 − β)/s² + β/σ².

    Attributes:
        weights, vbias, hbias, precisions: W, c, b and 1/σ².
        base_mean, base_precisions: m and 1/s².
        betas, sums, matrices: see `AbstractHiddenBitsPath`.
    """

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]
    precisions: Float[Array, " visible"]
    base_mean: Float[Array, " visible"]
    base_precisions: Float[Array, " visible"]

    @classmethod
    def create(cls, rbm: GaussianRBM, mean: np.ndarray, variance: np.ndarray, betas: HostPerRung) -> "GaussianRBMPath":
        """Fit what gives all rungs at once, for hidden fields of any size, and make the path.

        Args:
            rbm: the target.
            mean: m, the mean of the base (visible,).
            variance: s², the variance of the base (visible,).
            betas: inverse temperatures that rise from 0 to 1.
        """
        arrays = {"precisions": rbm.sigmas**-2, "base_mean": mean, "base_precisions": 1 / variance}
        return cls.for_model(rbm, betas, sums_for_any_field, **arrays)

    def fit_sums(self, betas: HostPerRung) -> SoftplusSums | None:
        return sums_for_any_field(betas)

    def log_z_visible(self) -> float:
        log_precisions = np.log(np.asarray(self.base_precisions, np.float64))
        return float((_LOG_2PI - log_precisions).sum() / 2)

    def draw_base_visible(self, key: Key) -> Float[Array, " visible"]:
        noise = jax.random.normal(straight_key(key), self.base_mean.shape, self.base_mean.dtype)
        return self.base_mean + noise * jax.lax.rsqrt(self.base_precisions)

    def log_ends(self, v: Float[Array, " visible"]) -> tuple[Scalar, Scalar]:
        at_base = -0.5 * jnp.sum(self.base_precisions * (v - self.base_mean) ** 2)
        return at_base, -0.5 * jnp.sum(self.precisions * (v - self.vbias) ** 2)

    def hidden_field(self, v: Float[Array, " visible"]) -> Float[Array, " hidden"]:
        return product(v * self.precisions, self.weights) + self.hbias

    def slopes(self, x: HiddenBitsState) -> PerRung:
        # The basis of `sums` ends at fields whose log1p(exp(−β|a|)) is constant. At β = 0 the derivatives are not.
        at_base, at_target = self.log_ends(x.v)
        return super().slopes(x).at[0].set(at_target - at_base + jnp.sum(x.field) / 2)

    def curvatures(self, x: HiddenBitsState) -> PerRung:
        return super().curvatures(x).at[0].set(jnp.sum(x.field**2) / 4)

    def draw_visible(self, key: Key, beta: Scalar, h: Float[Array, " hidden"]) -> Float[Array, " visible"]:
        from_base, from_model = (1 - beta) * self.base_precisions, beta * self.precisions
        center = self.vbias + product(h, self.weights.T)
        mean = (from_base * self.base_mean + from_model * center) / (from_base + from_model)
        return mean + jax.random.normal(key, mean.shape, mean.dtype) * jax.lax.rsqrt(from_base + from_model)
