"""The RBM's path that keeps the hidden units in its state: for comparison, not for use."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._precision import product
from tempering._threefry import straight_key
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar, State
from tempering.bases.densities import log_z_of_bits
from tempering.kernels import AbstractGibbsPath
from tempering.ladder import AbstractPath, checked_betas
from tempering.models.rbm.arrays import float32_arrays, random_bits
from tempering.models.rbm.binary import AbstractRBMVariant, Base
from tempering.paths import AbstractLinearPath


class JointRBM(AbstractRBMVariant):
    """An RBM tempered over x = (v, h). It gets stuck: use `RBM`, whose path sums h out.

    Rungs are drawn from q(k | v, h), which is far narrower than q(k | v), so that chains hardly move over the ladder.
    On an RBM of 784 × 500 units, warmed up as in the paper, it was 25 nats off with a claimed error of 0.2. This class
    exists to show that. Rows of data have no h, so no chain can start from them.
    """

    stuck_advice: ClassVar[str | None] = "use the RBM itself, whose path sums the hidden units out"

    def path(self, base: Base, betas: HostPerRung) -> "JointRBMPath":
        logits = self.rbm.base_logits("bias" if base is None else base)
        arrays = {"weights": self.rbm.weights, "vbias": self.rbm.vbias, "hbias": self.rbm.hbias}
        return JointRBMPath(**float32_arrays(**arrays, base_logits=logits, betas=checked_betas(betas)))

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> State:
        raise InputError("A JointRBM's states hold h, which rows of data have not. Use the RBM itself.")


class JointState(eqx.Module):
    """Both layers, and log f(v, h) of the target, which a sweep computes anyway.

    Attributes:
        v, h: the visible and the hidden units.
        log_target: v·c + vᵀWh + h·b.
    """

    v: Float[Array, " visible"]
    h: Float[Array, " hidden"]
    log_target: Scalar


class JointRBMPath(AbstractLinearPath, AbstractGibbsPath):
    """The path f_β(v, h) = exp((1 − β) v·c_A + β (v·c + vᵀWh + h·b)): log f is linear in β.

    Attributes:
        weights, vbias, hbias: W, c and b.
        base_logits: c_A, the log-odds of the base.
        betas: inverse temperatures, from 0 to 1.
    """

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]
    hbias: Float[Array, " hidden"]
    base_logits: Float[Array, " visible"]
    betas: PerRung

    def log_z_base(self) -> float:
        return log_z_of_bits(self.base_logits) + self.hbias.shape[0] * float(np.log(2))  # hidden bits are fair coins

    def sample_base(self, key: Key) -> JointState:
        key_hidden, key_visible = jax.random.split(straight_key(key))
        h = random_bits(key_hidden, jnp.zeros_like(self.hbias))
        return self.state_of(random_bits(key_visible, self.base_logits), h)

    def state_of(self, v: Float[Array, " visible"], h: Float[Array, " hidden"]) -> JointState:
        """The state with these two layers."""
        return self._state(v, h, self._visible_field(h))

    def log_density(self, x: JointState, rung: Rung) -> Scalar:
        beta = self.betas[rung]
        return (1 - beta) * self._log_base(x) + beta * x.log_target

    def log_densities(self, x: JointState) -> PerRung:
        return (1 - self.betas) * self._log_base(x) + self.betas * x.log_target

    def slope(self, x: JointState) -> Scalar:
        """v·(c − c_A) + vᵀWh + h·b."""
        return x.log_target - self._log_base(x)

    def gibbs_sweep(self, key: Key, rung: Rung, x: JointState) -> JointState:
        """h ~ p(h | v, β), then v ~ p(v | h, β): two matrix products, and the second gives log f as well."""
        key_hidden, key_visible = jax.random.split(straight_key(key))
        beta = self.betas[rung]
        h = random_bits(key_hidden, beta * (product(x.v, self.weights) + self.hbias))
        field = self._visible_field(h)
        return self._state(random_bits(key_visible, (1 - beta) * self.base_logits + beta * field), h, field)

    def _visible_field(self, h: Float[Array, " hidden"]) -> Float[Array, " visible"]:
        return product(h, self.weights.T) + self.vbias

    def _state(self, v: Array, h: Array, field: Array) -> JointState:
        return JointState(v, h, product(v, field) + product(h, self.hbias))

    def _log_base(self, x: JointState) -> Scalar:
        return product(x.v, self.base_logits)
