"""The moment-averaged path between two Gaussians, exact at every β (Grosse, Maddison and Salakhutdinov 2013)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._precision import product
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.bases.checks import as_float_array, check_finite, cholesky
from tempering.paths.linear import AbstractRespacedPath, float32_betas


class GaussianMomentPath(AbstractRespacedPath):
    """Gaussians f_β(x) = exp(−½ (x − μ_β)ᵀ Σ_β⁻¹ (x − μ_β)), whose first two moments are averages of the two ends':

        μ_β = (1 − β) μ_0 + β μ_1,    Σ_β = (1 − β) Σ_0 + β Σ_1 + β(1 − β) (μ_1 − μ_0)(μ_1 − μ_0)ᵀ.

    They are unnormalised, so that log Z_β = ½ log det 2πΣ_β. In coordinates z = W(x − μ_0), in which Σ_0 is the
    identity and Σ_1 is diagonal, every Σ_β is a diagonal plus one outer product. All rungs then cost a few operations
    per coordinate.

    Attributes:
        mean: μ_0.
        root: W⁻¹, a root of Σ_0.
        whitener: W.
        ratios: variances of the target in z, where those of the base are 1.
        shift: δ, the mean of the target in z.
        betas: inverse temperatures, from 0 to 1.
    """

    mean: Float[Array, " dim"]
    root: Float[Array, "dim dim"]
    whitener: Float[Array, "dim dim"]
    betas: PerRung
    ratios: Float[Array, " dim"]
    shift: Float[Array, " dim"]

    @classmethod
    def create(
        cls,
        mean: np.ndarray,
        covariance: np.ndarray,
        base_mean: np.ndarray,
        base_covariance: np.ndarray,
        betas: HostPerRung,
    ) -> "GaussianMomentPath":
        """Factor the covariances, in float64, and make the path.

        Args:
            mean: the target's mean (dim,).
            covariance: the target's covariance (dim, dim).
            base_mean: the base's mean (dim,).
            base_covariance: the base's covariance (dim, dim).
            betas: inverse temperatures that rise from 0 to 1.
        """
        _check_moments(mean, covariance, base_mean, base_covariance)
        lower = cholesky("GaussianMomentPath", "base_covariance", base_covariance)
        cholesky("GaussianMomentPath", "covariance", covariance)  # refuses what is not positive definite
        half = np.linalg.solve(lower, covariance)
        ratios, rotation = np.linalg.eigh(np.linalg.solve(lower, half.T))
        root = lower @ rotation
        whitener = rotation.T @ np.linalg.inv(lower)
        shift = whitener @ (mean - base_mean)
        arrays = {"mean": base_mean, "root": root, "whitener": whitener, "ratios": ratios, "shift": shift}
        return cls(**jax.tree.map(as_float_array, arrays), betas=float32_betas(betas))

    def log_z_base(self) -> float:
        return float(self.exact_log_z()[0])

    def exact_log_z(self) -> HostPerRung:
        """The exact log Z_k = ½ log det 2πΣ_k at every rung."""
        fields = (self.root, self.ratios, self.shift, self.betas)
        root, ratios, shift, betas = (np.asarray(a, np.float64) for a in fields)
        variances = 1 - betas[:, None] + betas[:, None] * ratios
        outer = betas * (1 - betas) * np.sum(shift**2 / variances, axis=1)
        # The determinant of a diagonal plus an outer product, by the matrix determinant lemma.
        log_det = 2 * np.linalg.slogdet(root)[1] + np.log(variances).sum(axis=1) + np.log1p(outer)
        return 0.5 * (len(shift) * np.log(2 * np.pi) + log_det)

    def sample_base(self, key: Key) -> Float[Array, " dim"]:
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.mean + product(self.root, noise)

    def log_density(self, x: Float[Array, " dim"], rung: Rung) -> Scalar:
        return -0.5 * self._solved(self._whitened(x), self.betas[rung]).quadratic

    def log_densities(self, x: Float[Array, " dim"]) -> PerRung:
        z = self._whitened(x)
        return jax.vmap(lambda beta: -0.5 * self._solved(z, beta).quadratic)(self.betas)

    def slopes(self, x: Float[Array, " dim"]) -> PerRung:
        z = self._whitened(x)

        def slope(beta):  # δ·y + ½ yᵀ Σ′ y, where y = Σ⁻¹(z − βδ) and Σ′ = dΣ/dβ
            solved = self._solved(z, beta)
            return solved.along + 0.5 * (jnp.sum((self.ratios - 1) * solved.y**2) + (1 - 2 * beta) * solved.along**2)

        return jax.vmap(slope)(self.betas)

    def curvatures(self, x: Float[Array, " dim"]) -> PerRung:
        z = self._whitened(x)

        def curvature(beta):  # −gᵀ Σ⁻¹ g − (δ·y)², where g = δ + Σ′ y; the last term comes from Σ″ = −2δδᵀ
            solved = self._solved(z, beta)
            g = (1 + (1 - 2 * beta) * solved.along) * self.shift + (self.ratios - 1) * solved.y
            return -self._solved(g + beta * self.shift, beta).quadratic - solved.along**2

        return jax.vmap(curvature)(self.betas)

    def _whitened(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return product(self.whitener, x - self.mean)

    def _solved(self, z: Float[Array, " dim"], beta: Scalar) -> "_Solved":
        """Σ_β⁻¹ (z − βδ), with Σ_β = A + c δδᵀ, A diagonal and c = β(1 − β).

        The Sherman-Morrison formula subtracts two large numbers where |δ| is large. Subtracting c (δ·y) δ from z first
        leaves a sum of squares instead.
        """
        variances, outer = 1 - beta + beta * self.ratios, beta * (1 - beta)
        along = jnp.sum((z - beta * self.shift) * self.shift / variances)
        along = along / (1 + outer * jnp.sum(self.shift**2 / variances))
        rest = z - (beta + outer * along) * self.shift
        return _Solved(rest / variances, along, jnp.sum(rest**2 / variances) + outer * along**2)


class _Solved(NamedTuple):
    y: Float[Array, " dim"]  # Σ⁻¹ (z − βδ)
    along: Scalar  # δ·y
    quadratic: Scalar  # (z − βδ)·y


def _check_moments(*moments: np.ndarray) -> None:
    shapes = [np.shape(a) for a in moments]
    dim = shapes[0][0] if len(shapes[0]) == 1 else 0
    if dim == 0 or shapes != [(dim,), (dim, dim)] * 2:
        came = ", ".join(map(str, shapes))
        raise InputError(f"GaussianMomentPath needs means (dim,) and covariances (dim, dim) at both ends; got {came}.")
    for moment in moments:
        check_finite("Every mean and covariance of a GaussianMomentPath", moment)
