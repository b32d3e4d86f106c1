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

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

TOLERANCE = 1e-7  # largest error per unit, over all β in the ladder and all |a| ≤ T
_SIZES = ((4, 4), (5, 4), (5, 5), (6, 5), (6, 6), (7, 6), (7, 7), (8, 8), (10, 10))
_SCALES = (4.0, 8.0, 12.0, 18.0, 28.0, 45.0)  # candidates for s
_DENSE_BETAS = np.linspace(0, 1, 40) ** 3  # dense near 0, the hardest; a coarse ladder's derivatives need them too
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
        # Highest precision: a GPU would otherwise round to ten bits.
        sums = jnp.matmul(low, high.T, precision=jax.lax.Precision.HIGHEST)
        return jnp.matmul(sums.ravel(), self.compress.T, precision=jax.lax.Precision.HIGHEST)


def fit_softplus_sums(betas: np.ndarray, bound: float) -> SoftplusSums | None:
    """The smallest basis within `TOLERANCE` for |a| ≤ bound; None if none of those tried is large enough."""
    bound = max(float(bound), 1.0)
    for num_low, num_high in _SIZES:
        errors = [_Fit(_DENSE_BETAS, bound, scale, num_low, num_high).error() for scale in _SCALES]
        scale = _SCALES[int(np.argmin(errors))]
        fit = _Fit(betas, bound, scale, num_low, num_high)
        if max(fit.error(), min(errors)) < 0.7 * TOLERANCE:
            compress, expansions = fit.truncated()
            ends = (jnp.float32(scale), jnp.float32(bound))
            return SoftplusSums(*ends, compress, *expansions, fit.series(), num_low=num_low, num_high=num_high)
    return None


class _Fit:
    """A least-squares fit of log1p(exp(−β t)) for all β of a ladder, at Chebyshev points of x, in float64."""

    def __init__(self, betas: np.ndarray, bound: float, scale: float, num_low: int, num_high: int):
        self.angles = np.pi * (np.arange(300) + 0.5) / 300
        x = np.cos(self.angles)
        low, high = _chebyshev_factors(x, num_low, num_high, np)
        basis = (low[:, None, :] * high[None, :, :]).reshape(num_low * num_high, -1).T
        self.betas = betas
        self.points = _from_unit(x, scale, bound)  # t
        self.orthogonal, self.triangle = np.linalg.qr(basis)  # (point, basis), (basis, basis)
        self.wanted = np.log1p(np.exp(-np.outer(self.points, betas)))  # (point, rung)

    def error(self) -> float:
        return self._error_within(self.orthogonal)

    def truncated(self) -> tuple[Float[Array, "mode basis"], list[Float[Array, "rung mode"]]]:
        """The fit as a product of two thin matrices, with no more modes than the tolerance needs."""
        functions = (self.wanted, *self._derivatives())
        weighted = np.hstack([weight * f for weight, f in zip(_WEIGHTS, functions, strict=True)])
        left, size, _ = np.linalg.svd(self.orthogonal.T @ weighted, full_matrices=False)
        shapes = self.orthogonal @ left  # of each mode at each point
        errors = (self._error_within(shapes[:, :n]) for n in range(4, len(size), 4))
        # Multiples of four, so that a small change of the weights does not change a shape.
        num_modes = next((4 * (i + 1) for i, error in enumerate(errors) if error < 0.9 * TOLERANCE), len(size))
        per_unit = np.sqrt(len(self.points))  # makes each mode of order one for one unit
        compress = (np.linalg.solve(self.triangle, left[:, :num_modes]) * per_unit).T
        expansions = [(shapes[:, :num_modes].T @ f).T / per_unit for f in functions]
        return jnp.asarray(compress, jnp.float32), [jnp.asarray(e, jnp.float32) for e in expansions]

    def series(self) -> Float[Array, "degree rung"]:
        """Coefficients of Chebyshev polynomials in x. On Chebyshev points they are orthogonal, so the fit is the same."""
        degrees = np.arange(self.orthogonal.shape[1])
        coefficients = 2 / len(self.angles) * np.cos(np.outer(degrees, self.angles)) @ self.wanted
        coefficients[0] /= 2
        return jnp.asarray(coefficients, jnp.float32)

    def _derivatives(self) -> tuple[np.ndarray, np.ndarray]:
        """d/dβ = −t σ(−βt) and d²/dβ² = t² σ(βt) σ(−βt)."""
        t = self.points[:, None]
        falling = np.exp(-np.logaddexp(0, t * self.betas))  # σ(−βt)
        return -t * falling, t**2 * falling * (1 - falling)

    def _error_within(self, shapes: np.ndarray) -> float:
        return float(np.abs(shapes @ (shapes.T @ self.wanted) - self.wanted).max())


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


def _scaled_to_unit(t, scale, bound, xp):
    """From t in [0, bound] to x in [−1, 1], fine near t = 0 and coarse far away."""
    widest = 2 * bound / (bound + scale)
    return xp.minimum(2 * (2 * t / (t + scale)) / widest - 1, 1.0)


def _from_unit(x: np.ndarray, scale: float, bound: float) -> np.ndarray:
    """From x in [−1, 1] back to t."""
    widest = 2 * bound / (bound + scale)
    part = (x + 1) * widest / 4  # t / (t + scale)
    return scale * part / (1 - part)
