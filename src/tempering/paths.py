"""Paths of densities from a base to a target."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import HostPerRung, Key, LogDensity, PerRung, Rung, Scalar, State
from tempering.ladder import AbstractPath, checked_betas


class AbstractBase(eqx.Module):
    """p_1: a density that can be drawn from exactly. Its normaliser is known, or 0 by convention (see `log_z`)."""

    def log_density(self, x: State) -> Scalar:
        """log of the base at x, normalised or not."""
        raise NotImplementedError

    def sample(self, key: Key) -> State:
        """An exact draw."""
        raise NotImplementedError

    def log_z(self) -> float:
        """log of the base's integral; 0 makes every answer a ratio to it."""
        raise NotImplementedError


class Bernoulli(AbstractBase):
    """Independent bits with the given log-odds, unnormalised: log p(x) = x · logits, Z = Π (1 + exp(logits))."""

    logits: Float[Array, " bit"]

    def log_density(self, x: Float[Array, " bit"]) -> Scalar:
        """x · logits."""
        return jnp.dot(x, self.logits, precision=jax.lax.Precision.HIGHEST)

    def sample(self, key: Key) -> Float[Array, " bit"]:
        """Bits as 0.0 and 1.0."""
        return jax.random.bernoulli(key, jax.nn.sigmoid(self.logits)).astype(jnp.float32)

    def log_z(self) -> float:
        """Σ_i log(1 + exp(logits_i))."""
        return float(np.logaddexp(0.0, np.asarray(self.logits, np.float64)).sum())


class Unnormalised(AbstractBase):
    """A base known only up to its constant: the answer is then log(Z_target / Z_base)."""

    log_f: LogDensity
    draw: Callable[[Key], State]  # exact, or as near to it as a long chain gives

    def log_density(self, x: State) -> Scalar:
        """log f at the base, up to a constant."""
        return self.log_f(x)

    def sample(self, key: Key) -> State:
        """The draw that was given."""
        return self.draw(key)

    def log_z(self) -> float:
        """0: unknown, so answers are ratios."""
        return 0.0


class GeometricPath(AbstractPath):
    """f_k(x) = f(x)^β_k · p_1(x)^(1 − β_k), eq. 2 of the paper, for any log f and any base."""

    log_f: LogDensity
    base: AbstractBase
    betas: PerRung

    @classmethod
    def create(cls, log_f: LogDensity, base: AbstractBase, betas: HostPerRung) -> "GeometricPath":
        """A path at the given inverse temperatures, which rise from 0 to 1."""
        if not np.isfinite(base.log_z()):
            raise InputError(
                f"`base` is improper: its log_z() is {base.log_z()}, and nothing can be tempered from a density "
                "without a normaliser. Choose a base that integrates, such as a wide normal density."
            )
        return cls(log_f=log_f, base=base, betas=jnp.asarray(checked_betas(betas), jnp.float32))

    def log_z_base(self) -> float:
        """The base's own log Z."""
        return self.base.log_z()

    def sample_base(self, key: Key) -> State:
        """An exact draw of the base."""
        return self.base.sample(key)

    def log_density(self, x: State, rung: Rung) -> Scalar:
        """(1 − β) log p_1 + β log f."""
        return _mix(self.betas[rung], self.base.log_density(x), self.log_f(x))

    def log_densities(self, x: State) -> PerRung:
        """All rungs from the two ends: one evaluation of each."""
        return _mix(self.betas, self.base.log_density(x), self.log_f(x))

    def slopes(self, x: State) -> PerRung:
        """Δ_x = log f − log p_1, the same at every rung."""
        return jnp.broadcast_to(self.log_f(x) - self.base.log_density(x), self.betas.shape)

    def curvatures(self, x: State) -> PerRung:
        """0: log f is linear in β."""
        return jnp.zeros_like(self.betas)

    def features(self, x: State) -> Float[Array, " feature"]:
        """Δ_x alone."""
        return self.slopes(x)[:1]

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """β_k, since log f_k = log p_1 + β_k Δ."""
        return np.asarray(self.betas, np.float64)[:, None]

    def at(self, betas: HostPerRung) -> "GeometricPath":
        """The same two ends, other steps between them."""
        return GeometricPath.create(self.log_f, self.base, betas)


def _mix(beta, log_base, log_target):
    # 0 · (−inf) is NaN, but a density that vanishes does not matter where its exponent is 0.
    from_base = jnp.where(beta == 1, 0.0, (1 - beta) * log_base)
    from_target = jnp.where(beta == 0, 0.0, beta * log_target)
    return from_base + from_target
