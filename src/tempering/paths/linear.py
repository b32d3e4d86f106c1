"""Paths on which log f is linear in β: one evaluation of each end gives every rung."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import HostPerRung, Key, LogF, PerRung, Rung, Scalar, State
from tempering.bases import AbstractBase
from tempering.ladder import AbstractPath, checked_betas


class AbstractLinearPath(AbstractPath):
    """A path on which log f is linear in β: log f_k = log p_1 + β_k Δ_x, with one number Δ per state."""

    base: eqx.AbstractVar[AbstractBase]

    def slope(self, x: State) -> Scalar:
        """Δ_x."""
        raise NotImplementedError

    def log_z_base(self) -> float:
        """The base's own log Z."""
        return self.base.log_z()

    def sample_base(self, key: Key) -> State:
        """An exact draw of the base."""
        return self.base.sample(key)

    def slopes(self, x: State) -> PerRung:
        """Δ_x, the same at every rung."""
        return jnp.broadcast_to(self.slope(x), self.betas.shape)

    def curvatures(self, x: State) -> PerRung:
        """0: log f is linear in β."""
        return jnp.zeros_like(self.betas)

    def features(self, x: State) -> Float[Array, " feature"]:
        """Δ_x alone."""
        return self.slope(x)[None]

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """β_k, since log f_k = log p_1 + β_k Δ."""
        return np.asarray(self.betas, np.float64)[:, None]


class GeometricPath(AbstractLinearPath):
    """f_k(x) = f(x)^β_k · p_1(x)^(1 − β_k), eq. 2 of the paper, for any log f and any base."""

    log_f: LogF
    base: AbstractBase
    betas: PerRung

    @classmethod
    def create(cls, log_f: LogF, base: AbstractBase, betas: HostPerRung) -> "GeometricPath":
        """A path at the given inverse temperatures, which rise from 0 to 1."""
        check_proper(base)
        return cls(log_f=log_f, base=base, betas=jnp.asarray(checked_betas(betas), jnp.float32))

    def log_density(self, x: State, rung: Rung) -> Scalar:
        """(1 − β) log p_1 + β log f."""
        return mix(self.betas[rung], self.base.log_density(x), self.log_f(x))

    def log_densities(self, x: State) -> PerRung:
        """All rungs from the two ends: one evaluation of each."""
        return mix(self.betas, self.base.log_density(x), self.log_f(x))

    def slope(self, x: State) -> Scalar:
        """log f − log p_1."""
        return self.log_f(x) - self.base.log_density(x)

    def with_betas(self, betas: HostPerRung) -> "GeometricPath":
        """The same two ends, other steps between them."""
        return GeometricPath.create(self.log_f, self.base, betas)


class LikelihoodPath(AbstractLinearPath):
    """f_k(x) = prior(x) · likelihood(x)^β_k: from a prior to its posterior, whose log Z is the evidence."""

    log_likelihood: LogF
    base: AbstractBase  # the prior
    betas: PerRung

    @classmethod
    def create(cls, log_likelihood: LogF, prior: AbstractBase, betas: HostPerRung) -> "LikelihoodPath":
        """A path at the given powers of the likelihood, which rise from 0 to 1."""
        check_proper(prior)
        return cls(log_likelihood=log_likelihood, base=prior, betas=jnp.asarray(checked_betas(betas), jnp.float32))

    def log_density(self, x: State, rung: Rung) -> Scalar:
        """log prior + β log likelihood."""
        return self.base.log_density(x) + power(self.betas[rung], self.log_likelihood(x))

    def log_densities(self, x: State) -> PerRung:
        """All rungs from one evaluation of each."""
        return self.base.log_density(x) + power(self.betas, self.log_likelihood(x))

    def slope(self, x: State) -> Scalar:
        """The log-likelihood."""
        return self.log_likelihood(x)

    def with_betas(self, betas: HostPerRung) -> "LikelihoodPath":
        """The same prior and likelihood, other powers."""
        return LikelihoodPath.create(self.log_likelihood, self.base, betas)


def check_proper(base: AbstractBase) -> None:
    """Refuse a base without a normaliser."""
    if not np.isfinite(base.log_z()):
        raise InputError(
            f"`base` is improper: its log_z() is {base.log_z()}, and nothing can be tempered from a density "
            "without a normaliser. Choose a base that integrates, such as a wide normal density."
        )


def mix(beta, log_base, log_target):
    """log of the geometric mixture, (1 − β) log p + β log f."""
    return power(1 - beta, log_base) + power(beta, log_target)


def power(exponent, log_density):
    """log of a power, where 0⁰ = 1: a density that vanishes does not matter where its exponent is 0."""
    return jnp.where(exponent == 0, 0.0, exponent * log_density)
