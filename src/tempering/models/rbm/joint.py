"""The RBM's path that keeps the hidden units in its state: there to be compared with, not to be used."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar, State
from tempering.kernels import AbstractGibbsPath, AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath, checked_betas
from tempering.models.model import AbstractModel
from tempering.models.rbm.binary import RBM, Base, random_bits

_HIGHEST = jax.lax.Precision.HIGHEST


class JointRBM(AbstractModel):
    """An RBM tempered over x = (v, h). It gets stuck: use `RBM`, whose path sums h out.

    Rungs are drawn from q(k | v, h), far narrower than q(k | v), so chains hardly move over the ladder. On an RBM of
    784 × 500 units, warmed up as in the paper, it was 41 nats off with a claimed error of 0.3. It is here to show that.
    """

    rbm: RBM

    def path(self, base: Base, betas: HostPerRung) -> "JointRBMPath":
        """From the same bases as an RBM's own path."""
        logits = self.rbm.base_logits("bias" if base is None else base)
        values = (self.rbm.weights, self.rbm.vbias, self.rbm.hbias, logits, checked_betas(betas))
        return JointRBMPath(*(jnp.asarray(value, jnp.float32) for value in values))

    def move(self) -> AbstractMove:
        """A sweep of block Gibbs."""
        return BlockGibbs()

    def quick_log_z(self) -> float | None:
        """The RBM's: Z is the same sum over v and h."""
        return self.rbm.quick_log_z()

    def exact_log_z(self, max_units: int = 25) -> float:
        """The RBM's, by enumeration."""
        return self.rbm.exact_log_z(max_units)

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """log Σ_h f(v, h) of each row, as the RBM has it."""
        return self.rbm.log_density(data)

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> State:
        """Rows of data have no h."""
        raise InputError("A JointRBM's states hold h, which rows of data have not. Use the RBM itself.")


class JointState(eqx.Module):
    """Both layers, and log f(v, h) of the target, which a sweep knows anyway."""

    v: Float[Array, " visible"]
    h: Float[Array, " hidden"]
    log_target: Scalar


class JointRBMPath(AbstractGibbsPath):
    """f_β(v, h) = exp((1 − β) v·c_A + β (v·c + vᵀWh + h·b)): log f is linear in β."""

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]  # c
    hbias: Float[Array, " hidden"]  # b
    base_logits: Float[Array, " visible"]  # c_A
    betas: PerRung

    def log_z_base(self) -> float:
        """Σ_i softplus(c_A,i) + J log 2: at β = 0 the hidden units are fair coins."""
        logits = np.asarray(self.base_logits, np.float64)
        return float(np.logaddexp(0, logits).sum() + self.hbias.shape[0] * np.log(2))

    def sample_base(self, key: Key) -> JointState:
        """Independent bits with log-odds c_A, and fair coins."""
        key_hidden, key_visible = jax.random.split(key)
        h = random_bits(key_hidden, jnp.zeros_like(self.hbias))
        return self.state_of(random_bits(key_visible, self.base_logits), h)

    def state_of(self, v: Float[Array, " visible"], h: Float[Array, " hidden"]) -> JointState:
        """Two layers with log f of the target."""
        return self._state(v, h, self._visible_field(h))

    def log_density(self, x: JointState, rung: Rung) -> Scalar:
        """The exponent above at one β."""
        beta = self.betas[rung]
        return (1 - beta) * self._log_base(x) + beta * x.log_target

    def log_densities(self, x: JointState) -> PerRung:
        """All rungs from the two ends."""
        return (1 - self.betas) * self._log_base(x) + self.betas * x.log_target

    def slopes(self, x: JointState) -> PerRung:
        """v·(c − c_A) + vᵀWh + h·b, the same at every rung."""
        return jnp.broadcast_to(self.features(x), self.betas.shape)

    def curvatures(self, x: JointState) -> PerRung:
        """0: log f is linear in β."""
        return jnp.zeros_like(self.betas)

    def features(self, x: JointState) -> Float[Array, " feature"]:
        """The slope alone."""
        return (x.log_target - self._log_base(x))[None]

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """β_k, since log f_k = v·c_A + β_k · slope."""
        return np.asarray(self.betas, np.float64)[:, None]

    def with_betas(self, betas: HostPerRung) -> "JointRBMPath":
        """The same RBM and base, other rungs."""
        return dataclasses.replace(self, betas=jnp.asarray(checked_betas(betas), jnp.float32))

    def gibbs_sweep(self, key: Key, rung: Rung, x: JointState) -> JointState:
        """h ~ p(h | v, β), then v ~ p(v | h, β): two matrix products, and the second gives log f as well."""
        key_hidden, key_visible = jax.random.split(key)
        beta = self.betas[rung]
        h = random_bits(key_hidden, beta * (jnp.dot(x.v, self.weights, precision=_HIGHEST) + self.hbias))
        field = self._visible_field(h)
        return self._state(random_bits(key_visible, (1 - beta) * self.base_logits + beta * field), h, field)

    def _visible_field(self, h: Float[Array, " hidden"]) -> Float[Array, " visible"]:
        return jnp.dot(h, self.weights.T, precision=_HIGHEST) + self.vbias

    def _state(self, v: Array, h: Array, field: Array) -> JointState:
        return JointState(v, h, _dot(v, field) + _dot(h, self.hbias))

    def _log_base(self, x: JointState) -> Scalar:
        return _dot(x.v, self.base_logits)


def _dot(bits: Float[Array, " unit"], numbers: Float[Array, " unit"]) -> Scalar:
    return jnp.dot(bits, numbers, precision=_HIGHEST)
