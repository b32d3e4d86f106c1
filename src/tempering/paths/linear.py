"""Paths on which log f is linear in β: one evaluation of each end gives every rung."""

import abc
import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._device_arrays import device_array
from tempering._errors import InputError
from tempering._logspace import LOG_ZERO, power
from tempering._precision import InFullPrecision
from tempering._types import HostPerRung, Key, LogF, PerRung, Rung, Scalar, State
from tempering.bases import AbstractBase
from tempering.ladder import AbstractPath, AbstractTwoEndedPath, checked_betas


class AbstractRespacedPath(AbstractPath):
    """A path of which nothing but the field `betas` depends on the inverse temperatures."""

    def with_betas(self, betas: HostPerRung) -> AbstractPath:
        return dataclasses.replace(self, betas=float32_betas(betas))


class AbstractBasedPath(AbstractRespacedPath):
    """A path that starts at a distribution of `tempering.bases`.

    Attributes:
        base: the distribution at rung 0.
    """

    base: eqx.AbstractVar[AbstractBase]

    def log_z_base(self) -> float:
        return self.base.log_z()

    def sample_base(self, key: Key) -> State:
        return self.base.sample(key)


class AbstractLinearPath(AbstractRespacedPath):
    """A path on which log f is linear in β: log f_k(x) = log p_1(x) + β_k Δ_x, with one number Δ_x per state."""

    @abc.abstractmethod
    def slope(self, x: State) -> Scalar:
        """Δ_x = d log f / dβ, the same at every rung: log f(x) − log p_1(x), or the log likelihood."""

    def slopes(self, x: State) -> PerRung:
        return jnp.broadcast_to(self.slope(x), self.betas.shape)

    def curvatures(self, x: State) -> PerRung:
        return jnp.zeros_like(self.betas)

    def features(self, x: State) -> Float[Array, " feature"]:
        slope = self.slope(x)
        return jnp.where(slope > -jnp.inf, slope, LOG_ZERO)[None]  # also for NaN, where f counts as 0

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        return np.asarray(self.betas, np.float64)[:, None]  # log f_k = log p_1 + β_k Δ


class GeometricPath(AbstractTwoEndedPath, AbstractLinearPath, AbstractBasedPath):
    """The geometric path f_k(x) = f(x)^β_k · p_1(x)^(1 − β_k), eq. 2 of the paper, for any log f and any base.

    ```python
    GeometricPath.create(lambda x: -jnp.sum(x**4), Normal(jnp.zeros(3)), np.linspace(0, 1, 20))
    ```

    Attributes:
        log_f: the log density of the target, unnormalised.
        base: the distribution at rung 0.
        betas: inverse temperatures, from 0 to 1.
    """

    log_f: LogF
    base: AbstractBase
    betas: PerRung

    @classmethod
    def create(cls, log_f: LogF, base: AbstractBase, betas: HostPerRung) -> "GeometricPath":
        """Check the base and the inverse temperatures, and make the path.

        Args:
            log_f: the log density of the target as a function of one state, unnormalised.
            base: the distribution at rung 0.
            betas: inverse temperatures that rise from 0 to 1.
        """
        return cls(log_f=InFullPrecision(log_f), base=checked_base(base), betas=float32_betas(betas))

    def log_density(self, x: State, rung: Rung) -> Scalar:
        return mix(self.betas[rung], self.base.log_density(x), self.log_f(x))

    def log_densities(self, x: State) -> PerRung:
        return mix(self.betas, self.base.log_density(x), self.log_f(x))

    def slope(self, x: State) -> Scalar:
        return self.log_f(x) - self.base.log_density(x)

    def log_ends(self, x: State) -> tuple[Scalar, Scalar]:
        return self.base.log_density(x), self.log_f(x)

    def shares(self, beta: Float[Array, "*rung"]) -> tuple[Array, Array]:
        return 1 - beta, beta


class LikelihoodPath(AbstractTwoEndedPath, AbstractLinearPath, AbstractBasedPath):
    """The path f_k(x) = prior(x) · likelihood(x)^β_k from a prior to its posterior. Its log Z is the log evidence.

    ```python
    LikelihoodPath.create(log_likelihood, Normal(jnp.zeros(3), 10.0), np.linspace(0, 1, 20) ** 4)
    ```

    Attributes:
        log_likelihood: the log likelihood as a function of one state.
        base: the prior.
        betas: powers of the likelihood, from 0 to 1.
    """

    log_likelihood: LogF
    base: AbstractBase
    betas: PerRung

    @classmethod
    def create(cls, log_likelihood: LogF, prior: AbstractBase, betas: HostPerRung) -> "LikelihoodPath":
        """Check the prior and the powers, and make the path.

        Args:
            log_likelihood: the log likelihood as a function of one state.
            prior: the distribution at rung 0.
            betas: powers of the likelihood that rise from 0 to 1.
        """
        likelihood = InFullPrecision(log_likelihood)
        return cls(log_likelihood=likelihood, base=checked_base(prior), betas=float32_betas(betas))

    def log_density(self, x: State, rung: Rung) -> Scalar:
        return self.base.log_density(x) + power(self.betas[rung], self.log_likelihood(x))

    def log_densities(self, x: State) -> PerRung:
        return self.base.log_density(x) + power(self.betas, self.log_likelihood(x))

    def slope(self, x: State) -> Scalar:
        return self.log_likelihood(x)

    def log_ends(self, x: State) -> tuple[Scalar, Scalar]:
        return self.base.log_density(x), self.log_likelihood(x)

    def shares(self, beta: Float[Array, "*rung"]) -> tuple[Array, Array]:
        return jnp.ones_like(beta), beta


def float32_betas(betas: HostPerRung) -> PerRung:
    """Inverse temperatures as a path keeps them, once they are checked."""
    return device_array(checked_betas(betas))


def checked_base(base: AbstractBase) -> AbstractBase:
    """The base, refused if it is improper."""
    if not np.isfinite(base.log_z()):
        why = f"its log_z() is {base.log_z()}, and nothing can be tempered from a density without a normaliser"
        raise InputError(f"`base` is improper: {why}. Choose a base that integrates, such as a wide normal density.")
    return base


def mix(beta, log_base, log_target):
    """The log of a geometric mixture, (1 − β) log p + β log f."""
    return power(1 - beta, log_base) + power(beta, log_target)
