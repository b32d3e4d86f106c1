"""Σ_j softplus(β a_j) for every β of a ladder at once, at about the cost of one.

Computed directly, K inverse temperatures and J hidden units need K·J exponentials and logarithms. Instead, write

    softplus(β a) = max(β a, 0) + log1p(exp(−β |a|)).

The first part is linear in β ≥ 0. The second is, for every β in [0, 1], a smooth function of t = |a| on [0, T]. All of
these functions are within 1e-7 of one space of low dimension: polynomials in x = (t − s)/(t + s), scaled to [−1, 1]
(rational Chebyshev functions of t). It is enough to sum a basis of that space over the units, without exp or log, and
to multiply the sums by small matrices, which are computed once per ladder on the host.

The basis consists of products T_a(x)·T_{mb}(x), a < m, b < n. They span all polynomials of degree below m·n, and their
sums over the units are one small matrix product of m by n arrays instead of m·n passes over memory. The functions of β
span fewer dimensions still, so `compress` shortens the sums before every rung is formed. The same few numbers give the
first and second derivatives in β, for thermodynamic integration.
"""

from functools import cached_property, lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._device_arrays import device_array
from tempering._precision import product

TOLERANCE = 1e-7  # largest error per unit, over all β in the ladder and all |a| ≤ T
_SIZES = ((4, 4), (5, 4), (5, 5), (6, 5), (6, 6), (7, 6), (7, 7), (8, 8), (10, 10))
_SCALES = (4.0, 8.0, 12.0, 18.0, 28.0, 45.0)  # candidates for s
_DENSE_BETAS = np.linspace(0, 1, 100) ** 3  # dense near 0, the hardest
_WEIGHTS = (1.0, 1e-2, 1e-4)  # of values, slopes and curvatures when modes are chosen: their sizes are 1, t and t²


class SoftplusSums(eqx.Module):
    """Maps the fields a of all units to Σ_j log1p(exp(−β_k |a_j|)) at every rung k, within `TOLERANCE` per unit.

    Derivatives in β are coarser: about 1e-4 per unit for slopes, and 0.1 for curvatures at |a| = 300.

    Attributes:
        scale: s; an array, not a number, so that other weights do not recompile.
        bound: T, the largest |a|.
        compress: from the sums of the basis to fewer modes.
        expand, expand_slopes, expand_curvatures: from modes to the sum at every rung, and to its d/dβ and d²/dβ².
        series: the coefficients of T_0, T_1, … of x at each rung: the same sums without modes.
        num_low: m.
        num_high: n.
    """

    scale: Float[Array, ""]
    bound: Float[Array, ""]
    compress: Float[Array, "mode basis"]
    expand: Float[Array, "rung mode"]
    expand_slopes: Float[Array, "rung mode"]
    expand_curvatures: Float[Array, "rung mode"]
    series: Float[Array, "degree rung"]
    num_low: int = eqx.field(static=True)
    num_high: int = eqx.field(static=True)

    def modes(self, field: Float[Array, " unit"]) -> Float[Array, " mode"]:
        """The sums over units from which every rung follows linearly, by `expand`."""
        x = _scaled_to_unit(jnp.abs(field), self.scale, self.bound, jnp)
        low, high = _chebyshev_factors(x, self.num_low, self.num_high, jnp)
        sums = jax.lax.platform_dependent(low, high, cpu=_factor_by_factor, default=_all_at_once)
        return product(sums.ravel(), self.compress.T)


def fit_softplus_sums(betas: np.ndarray, bound: float) -> SoftplusSums | None:
    """The smallest basis within `TOLERANCE` for |a| ≤ bound; None if none of those tried is large enough."""
    bound = max(float(bound), 1.0)
    for num_low, num_high in _SIZES:
        basis = _best_basis(bound, num_low, num_high)
        if max(basis.dense_error, basis.error(betas)) < 0.7 * TOLERANCE:
            arrays = (basis.scale, bound, basis.compress, *basis.expansions(betas), basis.series(betas))
            on_device = (device_array(array) for array in arrays)
            return SoftplusSums(*on_device, num_low=num_low, num_high=num_high)
    return None


@lru_cache(maxsize=32)
def _best_basis(bound: float, num_low: int, num_high: int) -> "_Basis":
    """The basis of that size whose scale suits all β best."""
    bases = [_Basis(bound, scale, num_low, num_high) for scale in _SCALES]
    return min(bases, key=lambda basis: basis.error(_DENSE_BETAS[::4]))


class _Basis:
    """Least-squares fits of log1p(exp(−β t)) by polynomials of x, at Chebyshev points, in float64.

    The modes serve every β in [0, 1], not only those of one ladder, so that all ladders of a model have the same
    shapes, and share compiled programs.
    """

    def __init__(self, bound: float, scale: float, num_low: int, num_high: int):
        self.scale = scale
        self.angles = np.pi * (np.arange(300) + 0.5) / 300
        x = np.cos(self.angles)
        low, high = _chebyshev_factors(x, num_low, num_high, np)
        basis = (low[:, None, :] * high[None, :, :]).reshape(num_low * num_high, -1).T
        self.points = _from_unit(x, scale, bound)  # t
        self.orthogonal, self.triangle = np.linalg.qr(basis)  # (point, basis), (basis, basis)

    def error(self, betas: np.ndarray) -> float:
        """The largest error of a fit."""
        return _error_within(self.orthogonal, self._wanted(betas))

    @cached_property
    def dense_error(self) -> float:
        """The largest error over all β."""
        return self.error(_DENSE_BETAS)

    @cached_property
    def modes(self) -> Float[np.ndarray, "basis mode"]:
        """Combinations of the basis, no more of them than the tolerance needs at all β."""
        functions = (self._wanted(_DENSE_BETAS), *self._derivatives(_DENSE_BETAS))
        weighted = np.hstack([weight * f for weight, f in zip(_WEIGHTS, functions, strict=True)])
        left, size, _ = np.linalg.svd(self.orthogonal.T @ weighted, full_matrices=False)
        shapes = self.orthogonal @ left  # of each mode at each point
        errors = (_error_within(shapes[:, :n], functions[0]) for n in range(4, len(size), 4))
        # Multiples of four, so that a small change of the weights does not change a shape; four more for derivatives.
        num_modes = next((4 * (i + 1) for i, error in enumerate(errors) if error < 0.9 * TOLERANCE), len(size))
        return left[:, : num_modes + 4] * np.sqrt(len(self.points))  # each of order one for one unit

    @cached_property
    def compress(self) -> Float[np.ndarray, "mode basis"]:
        """From the sums of the basis to those of the modes."""
        return np.linalg.solve(self.triangle, self.modes).T

    def expansions(self, betas: np.ndarray) -> list[Float[np.ndarray, "rung mode"]]:
        """From modes to the sum at every rung, and to its d/dβ and d²/dβ²."""
        shapes = self.orthogonal @ self.modes / len(self.points)
        return [(shapes.T @ f).T for f in (self._wanted(betas), *self._derivatives(betas))]

    def series(self, betas: np.ndarray) -> Float[np.ndarray, "degree rung"]:
        """Coefficients of T_0, T_1, … in x, which are orthogonal on these points: the same fit."""
        degrees = np.arange(self.orthogonal.shape[1])
        coefficients = 2 / len(self.angles) * np.cos(np.outer(degrees, self.angles)) @ self._wanted(betas)
        coefficients[0] /= 2
        return coefficients

    def _wanted(self, betas: np.ndarray) -> Float[np.ndarray, "point rung"]:
        return np.log1p(np.exp(-np.outer(self.points, betas)))

    def _derivatives(self, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """d/dβ = −t σ(−βt) and d²/dβ² = t² σ(βt) σ(−βt)."""
        t = self.points[:, None]
        falling = np.exp(-np.logaddexp(0, t * betas))  # σ(−βt)
        return -t * falling, t**2 * falling * (1 - falling)


def _error_within(shapes: Float[np.ndarray, "point shape"], wanted: Float[np.ndarray, "point rung"]) -> float:
    return float(np.abs(shapes @ (shapes.T @ wanted) - wanted).max())


def _chebyshev_factors(x, num_low: int, num_high: int, xp):
    """T_0, …, T_{m−1} and T_0, T_m, T_{2m}, … at x; their products are the basis."""
    low = [xp.ones_like(x), x]
    while len(low) <= num_low:
        low.append(2 * x * low[-1] - low[-2])
    stride = low.pop()  # T_m
    high = [xp.ones_like(x), stride]
    while len(high) < num_high:
        high.append(2 * stride * high[-1] - high[-2])
    return xp.stack(low), xp.stack(high)


def _all_at_once(low: Float[Array, "low unit"], high: Float[Array, "high unit"]) -> Float[Array, "low high"]:
    return product(low, high.T)


def _factor_by_factor(low: Float[Array, "low unit"], high: Float[Array, "high unit"]) -> Float[Array, "low high"]:
    """The same by products with vectors, which take less time on a CPU than those of many small matrices."""
    return jnp.stack([product(low, factor) for factor in high], axis=1)


def _scaled_to_unit(t, scale, bound, xp):
    """From t in [0, bound] to x in [−1, 1], fine near t = 0 and coarse far away."""
    widest = 2 * bound / (bound + scale)
    return xp.minimum(2 * (2 * t / (t + scale)) / widest - 1, 1.0)


def _from_unit(x: np.ndarray, scale: float, bound: float) -> np.ndarray:
    """From x in [−1, 1] back to t."""
    widest = 2 * bound / (bound + scale)
    part = (x + 1) * widest / 4  # t / (t + scale)
    return scale * part / (1 - part)
