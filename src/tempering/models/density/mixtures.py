"""Mixtures of normal densities: test targets, whose log Z is known."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._precision import HIGHEST
from tempering._types import HostPerRung, Numbers, Scalar
from tempering.bases import AbstractBase, Normal, as_base
from tempering.bases.checks import as_float_array, check_finite, cholesky
from tempering.models.density.log_density import AbstractDensity
from tempering.models.density.trial import check_same_form, state_form
from tempering.paths import GeometricPath

_REACH = 2.0  # every mean is within this many standard deviations of the default base


class MixtureDensity(eqx.Module):
    """The function log Σ_c w_c N(x; μ_c, Σ_c) of x. Other arrays of the same shapes do not compile again.

    Attributes:
        log_heights: log w_c − ½ log det 2πΣ_c.
        means: μ_c.
        whiteners: L⁻¹, where L Lᵀ = Σ_c.
    """

    log_heights: Float[Array, " component"]
    means: Float[Array, "component dim"]
    whiteners: Float[Array, "component dim dim"]

    def __call__(self, x: Float[Array, " dim"]) -> Scalar:
        z = jnp.einsum("cij,cj->ci", self.whiteners, x - self.means, precision=HIGHEST)
        return jax.nn.logsumexp(self.log_heights - 0.5 * jnp.sum(z**2, axis=1))


class GaussianMixture(AbstractDensity):
    """A mixture of normals, f(x) = Σ_c w_c N(x; μ_c, Σ_c), with log Z = log Σ_c w_c.

    ```python
    GaussianMixture([1, 3], means=[[-2.0, 0.0], [2.0, 1.0]], covariances=0.5)
    ```

    The default base is a normal with the mean and covariance that the mixture would have with equal weights, so that a
    light component far away is covered too. Its covariance is multiplied by the smallest factor, 1 or more, with which
    every μ_c is within two standard deviations and no component is wider than the base in any direction. A wider base
    would cover no more and make the ladder longer, by √(dim/2) log(factor) for normal densities.
    """

    weights: Float[np.ndarray, " component"]
    means: Float[np.ndarray, "component dim"]
    covariances: Float[np.ndarray, "component dim dim"]
    log_f: MixtureDensity
    base: AbstractBase

    def __init__(self, weights: Numbers, means: Numbers, covariances: Numbers = 1.0, *, base: Any = None):
        """Check and factor the covariances.

        Args:
            weights: w_c (component,), positive; they need not sum to 1.
            means: μ_c (component, dim).
            covariances: matrices (component, dim, dim), or one (dim, dim) for all; variances (component, dim); or one
                number for each component or for all. Where a shape could mean two of these, give all matrices.
            base: a base, by default a normal that covers all components.
        """
        self.weights, self.means = _checked_weights_and_means(weights, means)
        self.covariances = _as_matrices(covariances, *self.means.shape)
        roots = cholesky("GaussianMixture", "covariances", self.covariances)
        self.log_f = _density(self.weights, self.means, roots)
        self.base = covering_normal(self.means, self.covariances) if base is None else as_base(base)
        check_same_form(self.base, jax.ShapeDtypeStruct(self.means.shape[1:], self.log_f.means.dtype))

    def path(self, base: Any, betas: HostPerRung) -> GeometricPath:
        chosen = self.base if base is None else as_base(base)
        check_same_form(chosen, state_form(self.base))
        return GeometricPath.create(self.log_f, chosen, betas)

    def quick_log_z(self) -> float:
        return float(np.logaddexp.reduce(np.log(self.weights)))


def paper_mixture() -> GaussianMixture:
    """The example of Appendix E.1 of the paper, with log Z = 0.

    It is a mixture of two normals in 10 dimensions with covariance 0.5 I, 5 apart along the first axis, tempered from
    N(0, 30 I).

    Returns:
        The mixture.
    """
    means = np.zeros((2, 10))
    means[:, 0] = -2.5, 2.5
    return GaussianMixture([0.5, 0.5], means, 0.5, base=Normal(np.zeros(10), np.sqrt(30.0)))


def covering_normal(
    means: Float[np.ndarray, "component dim"], covariances: Float[np.ndarray, "component dim dim"]
) -> Normal:
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
    return MixtureDensity(*map(as_float_array, (log_heights, means, np.linalg.inv(roots))))


def _checked_weights_and_means(weights: Numbers, means: Numbers) -> tuple[np.ndarray, np.ndarray]:
    shares, centers = np.asarray(weights, np.float64), np.asarray(means, np.float64)
    if shares.ndim != 1 or centers.ndim != 2 or len(shares) != len(centers) or not centers.size:
        came = f"got {shares.shape} and {centers.shape}"
        raise InputError(f"GaussianMixture(weights, means) must have shapes (component,) and (component, dim); {came}.")
    if not np.all(np.isfinite(shares) & (shares > 0)):
        raise InputError("GaussianMixture(weights=...) must be positive and finite. Leave a component out instead.")
    check_finite("GaussianMixture(means=...)", centers)
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
        rule = f"must be finite and have one of the shapes {accepted}"
        raise InputError(f"GaussianMixture(covariances=...) {rule}; got {given.shape}.")
    if given.shape == each == (num_dims, num_dims) and num_dims > 1:
        doubt = "may be a matrix for all components or variances of each"
        cure = f"Write matrices of shape {(*each, num_dims)}."
        raise InputError(f"GaussianMixture(covariances=...) of shape {each} {doubt}. {cure}")
    return readings[given.shape]()
