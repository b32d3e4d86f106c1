"""A Gaussian target, whose log Z is known at every rung, along averaged moments or geometrically."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._precision import product
from tempering._types import HostPerRung, Numbers, Scalar
from tempering.bases import Normal, as_base
from tempering.bases.checks import as_float_array, cholesky, finite_arrays
from tempering.ladder import AbstractPath
from tempering.models.density.log_density import AbstractDensity
from tempering.models.density.trial import check_same_form
from tempering.paths import GaussianMomentPath, GeometricPath

PATHS = ("moments", "geometric")


class GaussianDensity(eqx.Module):
    """The function −½ (x − μ)ᵀ Σ⁻¹ (x − μ) of x.

    Attributes:
        mean: μ.
        whitener: L⁻¹, where L Lᵀ = Σ.
    """

    mean: Float[Array, " dim"]
    whitener: Float[Array, "dim dim"]

    def __call__(self, x: Float[Array, " dim"]) -> Scalar:
        z = product(self.whitener, x - self.mean)
        return -0.5 * jnp.sum(z**2)


class Gaussian(AbstractDensity):
    """A Gaussian target f(x) = exp(−½ (x − μ)ᵀ Σ⁻¹ (x − μ)), with log Z = ½ log det 2πΣ, to compare paths on.

    ```python
    Gaussian([8.0, 0.0], covariance=[[1.0, 0.3], [0.3, 0.5]])       # along averaged moments, from N(0, 1)
    Gaussian([8.0, 0.0], path="geometric", base=Normal(np.zeros(2), 3.0))
    ```
    """

    mean: Float[np.ndarray, " dim"]
    covariance: Float[np.ndarray, "dim dim"]
    log_f: GaussianDensity
    base: Any
    path_kind: str = eqx.field(static=True)

    def __init__(self, mean: Numbers, covariance: Numbers = 1.0, *, base: Any = None, path: str = "moments"):
        """Check and factor the covariance.

        Args:
            mean: μ (dim,).
            covariance: Σ (dim, dim), a variance for each coordinate (dim,), or one for all.
            base: a base, by default a standard normal. With "moments" it must be a `Normal`.
            path: "moments" for averaged moments, or "geometric".
        """
        if path not in PATHS:
            raise InputError(f"Gaussian(path=...) must be one of {', '.join(PATHS)}; got {path!r}.")
        self.mean, self.covariance = _checked_moments(mean, covariance)
        whitener = np.linalg.inv(cholesky("Gaussian", "covariance", self.covariance))
        self.log_f = GaussianDensity(as_float_array(self.mean), as_float_array(whitener))
        self.base, self.path_kind = Normal(np.zeros_like(self.mean)) if base is None else as_base(base), path
        self._check_base(self.base)

    def path(self, base: Any, betas: HostPerRung) -> AbstractPath:
        chosen = self.base if base is None else as_base(base)
        self._check_base(chosen)
        if self.path_kind == "geometric":
            return GeometricPath.create(self.log_f, chosen, betas)
        assert isinstance(chosen, Normal)
        root = np.asarray(chosen.scale, np.float64)
        root = root if chosen.is_correlated else np.diag(root)
        base_mean = np.asarray(chosen.mean, np.float64)
        return GaussianMomentPath.create(self.mean, self.covariance, base_mean, root @ root.T, betas)

    def quick_log_z(self) -> float:
        return 0.5 * float(np.linalg.slogdet(2 * np.pi * self.covariance)[1])

    def _check_base(self, base: Any) -> None:
        check_same_form(base, jax.ShapeDtypeStruct(self.mean.shape, self.log_f.mean.dtype))
        if self.path_kind == "moments" and not isinstance(base, Normal):
            came = f'got a {type(base).__name__}. Or choose path="geometric".'
            raise InputError(f"Moments are averaged between Gaussians: `base` must be a tp.Normal, {came}")


def _checked_moments(mean: Numbers, covariance: Numbers) -> tuple[np.ndarray, np.ndarray]:
    center, spread = finite_arrays("Gaussian", mean=mean, covariance=covariance)
    dim = center.size
    if center.ndim != 1 or dim == 0 or spread.shape not in ((), (dim,), (dim, dim)):
        wanted, came = "(dim,) and (dim, dim), (dim,) or ()", f"{center.shape} and {spread.shape}"
        raise InputError(f"Gaussian(mean, covariance) must have shapes {wanted}; got {came}.")
    return center, spread if spread.ndim == 2 else spread * np.eye(dim)
