"""How the law of x moves with β, as a flow: what has mean 0 at every rung, and moves with the slope of log f."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._device_arrays import device_array
from tempering._precision import product
from tempering._types import Scalar

_NARROWEST = 1e-6  # of β: places nearer to the base say nothing about how the law moves


class Flow(eqx.Module):
    """A field of velocities φ_β(x) = a + B (x − m) that carries the law at β to that at β + dβ, if it is normal.

    For any field φ and any continuous density f on all of space that falls off far out, div φ + φ · ∇log f has mean 0
    under f (Stein 1972). If φ carries the laws of a path along, log f_β changes with β along it, and for normal laws
    div φ + φ · ∇log f is −(s − E[s]), where s = d log f/dβ. So it takes the noise off means of s (Oates, Papamarkou and
    Girolami 2016 take polynomials for φ).

    Between normal laws with means m_0, m and covariances S_0, S, with R = S S_0⁻¹,

        φ(x) = [R (m − m_0) − ½ (1 − R)(x − m)] / β.

    Attributes:
        betas: the places where the flow is known, in rising order. The nearest one counts.
        means: m at each of them.
        shifts: a at each of them.
        stretches: B at each of them, or its diagonal.
    """

    betas: Float[Array, " place"]
    means: Float[Array, "place dim"]
    shifts: Float[Array, "place dim"]
    stretches: Float[Array, "place dim *dim"]

    @classmethod
    def between_normals(
        cls,
        betas: Float[np.ndarray, " place"],
        means: Float[np.ndarray, "place dim"],
        covariances: Float[np.ndarray, "place dim *dim"],
    ) -> "Flow":
        """The flow through normal laws on a geometric path, or on that from a prior to a posterior.

        Args:
            betas: inverse temperatures, the first 0.
            means: of the coordinates at each of them.
            covariances: of the coordinates at each of them, or their variances.

        Returns:
            The flow. At β = 0 it is that of the next place.
        """
        is_dense = covariances.ndim == 3
        variances = np.diagonal(covariances[0]) if is_dense else covariances[0]
        ratios = covariances / variances  # R, with the base's coordinates taken as independent
        unit = np.eye(len(variances)) if is_dense else np.ones_like(variances)
        away = means - means[0]
        moved = np.einsum("pij,pj->pi", ratios, away) if is_dense else ratios * away
        scale = np.maximum(betas, _NARROWEST)
        shifts = moved / scale[:, None]
        stretches = (ratios - unit) / (2 * scale.reshape(-1, *[1] * (covariances.ndim - 1)))
        shifts[0], stretches[0] = shifts[1], stretches[1]
        return cls(*(device_array(part) for part in (betas, means, shifts, stretches)))

    def control(self, beta: Scalar, flat: Float[Array, " dim"], slope: Float[Array, " dim"]) -> Scalar:
        """div φ + φ · ∇log f at one state, with mean 0 under f.

        Args:
            beta: the inverse temperature of f.
            flat: the coordinates of the state.
            slope: ∇log f there.
        """
        middles = (self.betas[1:] + self.betas[:-1]) / 2
        place = jnp.sum(middles < beta)  # counted: a search would compile a loop
        stretch, off = self.stretches[place], flat - self.means[place]
        is_dense = stretch.ndim == 2
        velocity = self.shifts[place] + (product(stretch, off) if is_dense else stretch * off)
        return (jnp.trace(stretch) if is_dense else jnp.sum(stretch)) + product(velocity, slope)
