"""Mixtures of normal densities, whose log Z is known: targets to try things on."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import HostPerRung, Numbers, Scalar
from tempering.bases import AbstractBase, Normal, as_base, cholesky
from tempering.kernels import HMC, AbstractMove
from tempering.models.density.trial import check_same_form
from tempering.models.model import AbstractModel
from tempering.paths import GeometricPath

_REACH = 2.0  # standard deviations of the default base within which every mean lies


class MixtureDensity(eqx.Module):
    """log Σ_c w_c N(x; μ_c, Σ_c), with arrays as fields: new ones of the same shapes compile nothing anew."""

    log_heights: Float[Array, " component"]  # log w_c − ½ log det 2πΣ_c
    means: Float[Array, "component dim"]
    whiteners: Float[Array, "component dim dim"]  # L⁻¹, where L Lᵀ = Σ_c

    def __call__(self, x: Float[Array, " dim"]) -> Scalar:
        """By the log-sum-exp over components."""
        z = jnp.einsum("cij,cj->ci", self.whiteners, x - self.means, precision=jax.lax.Precision.HIGHEST)
        return jax.nn.logsumexp(self.log_heights - 0.5 * jnp.sum(z**2, axis=1))


class GaussianMixture(AbstractModel):
    """f(x) = Σ_c w_c N(x; μ_c, Σ_c) with any positive weights, so that log Z = log Σ_c w_c.

    ```python
    GaussianMixture([1, 3], means=[[-2.0, 0.0], [2.0, 1.0]], covariances=0.5)
    ```

    Covariances are matrices (component, dim, dim), or one (dim, dim) for all; variances (component, dim); or one number
    for each component or for all. Where shapes could be read in two ways, write the matrices out.

    Without a `base` it is a normal with the mean and covariance that the mixture would have if its weights were equal,
    so that a light component far away is covered too. The covariance is widened by the smallest factor, 1 or more, with
    which every μ_c lies within two standard deviations and no component is wider than the base in any direction:
    a wider one would cover no more and make the ladder longer, by √(dim/2) log(factor) for normal densities.
    """

    weights: Float[np.ndarray, " component"]
    means: Float[np.ndarray, "component dim"]
    covariances: Float[np.ndarray, "component dim dim"]
    log_f: MixtureDensity
    base: AbstractBase

    def __init__(self, weights: Numbers, means: Numbers, covariances: Numbers = 1.0, *, base: Any = None):
        """Kept in float64 on the host, where the Cholesky factors are made too."""
        self.weights, self.means = _checked_weights_and_means(weights, means)
        self.covariances = _as_matrices(covariances, *self.means.shape)
        roots = cholesky("GaussianMixture", "covariances", self.covariances)
        self.log_f = _density(self.weights, self.means, roots)
        self.base = covering(self.means, self.covariances) if base is None else as_base(base)
        check_same_form(self.base, jax.ShapeDtypeStruct(self.means.shape[1:], self.log_f.means.dtype))

    def path(self, base: Any, betas: HostPerRung) -> GeometricPath:
        """The geometric path from `base`, or from the mixture's own."""
        chosen = self.base if base is None else as_base(base)
        check_same_form(chosen, jax.eval_shape(self.base.sample, jax.random.key(0)))
        return GeometricPath.create(self.log_f, chosen, betas)

    def move(self) -> AbstractMove:
        """HMC."""
        return HMC()

    def spacing(self) -> str:
        """As for any density."""
        return "adaptive"

    def quick_log_z(self) -> float:
        """log Σ_c w_c."""
        return float(np.logaddexp.reduce(np.log(self.weights)))

    def keeps_draws(self) -> bool:
        """Yes: whether both modes are there is the question."""
        return True


def paper_mixture() -> GaussianMixture:
    """The example of Appendix E.1: two normals in 10 dimensions, covariance 0.5 I, 5 apart in the first; log Z = 0.

    Tempered from N(0, 30 I), as in the paper.
    """
    means = np.zeros((2, 10))
    means[:, 0] = -2.5, 2.5
    return GaussianMixture([0.5, 0.5], means, 0.5, base=Normal(np.zeros(10), np.sqrt(30.0)))


def covering(means: Float[np.ndarray, "component dim"], covariances: Float[np.ndarray, "component dim dim"]) -> Normal:
    """The default base of a mixture, see `GaussianMixture`."""
    center = means.mean(axis=0)
    off = means - center
    spread = covariances.mean(axis=0) + off.T @ off / len(means)
    whitener = np.linalg.inv(np.linalg.cholesky(spread))
    distances = np.linalg.norm(off @ whitener.T, axis=1)
    widths = np.linalg.eigvalsh(whitener @ covariances @ whitener.T)
    factor = max(1.0, widths.max(), (distances.max() / _REACH) ** 2)
    return Normal(center, covariance=factor * spread)


def _density(weights: np.ndarray, means: np.ndarray, roots: np.ndarray) -> MixtureDensity:
    diagonals = np.diagonal(roots, axis1=1, axis2=2)
    log_heights = np.log(weights) - np.log(diagonals).sum(axis=1) - 0.5 * np.log(2 * np.pi) * means.shape[1]
    dtype = jnp.result_type(float)
    return MixtureDensity(*(jnp.asarray(a, dtype) for a in (log_heights, means, np.linalg.inv(roots))))


def _checked_weights_and_means(weights: Numbers, means: Numbers) -> tuple[np.ndarray, np.ndarray]:
    shares, centers = np.asarray(weights, np.float64), np.asarray(means, np.float64)
    if shares.ndim != 1 or centers.ndim != 2 or len(shares) != len(centers) or not centers.size:
        raise InputError(
            "GaussianMixture(weights, means) must have shapes (component,) and (component, dim); "
            f"got {shares.shape} and {centers.shape}."
        )
    if not np.all(np.isfinite(shares) & (shares > 0)):
        raise InputError("GaussianMixture(weights=...) must be positive and finite. Leave a component out instead.")
    if not np.isfinite(centers).all():
        raise InputError("GaussianMixture(means=...) must be finite.")
    return shares, centers


def _as_matrices(covariances: Numbers, num_components: int, num_dims: int) -> np.ndarray:
    """Covariances in any of their forms as one matrix a component."""
    given = np.asarray(covariances, np.float64)
    each, eye = (num_components, num_dims), np.eye(num_dims)
    readings = {
        (*each, num_dims): lambda: given,
        (num_dims, num_dims): lambda: np.broadcast_to(given, (*each, num_dims)).copy(),
        each: lambda: given[:, :, None] * eye,
        (num_components,): lambda: given[:, None, None] * eye,
        (): lambda: np.tile(given * eye, (num_components, 1, 1)),
    }
    if given.shape not in readings or not np.isfinite(given).all():
        accepted = ", ".join(str(shape) for shape in readings)
        raise InputError(
            f"GaussianMixture(covariances=...) must be finite and have one of the shapes {accepted}; got {given.shape}."
        )
    if given.shape == each == (num_dims, num_dims) and num_dims > 1:
        raise InputError(
            f"GaussianMixture(covariances=...) of shape {each} may be a matrix for all components or variances of "
            f"each. Write matrices of shape {(*each, num_dims)}."
        )
    return readings[given.shape]()
