"""The negative phase of training: moments of the RBM, from chains that start at the data or persist.

The gradient of the mean log-likelihood is the moments of the data minus those of the model. The moments of the data
are exact; those of the model are estimated by the negative phase. Tempered training takes them from `follow` instead.
"""

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._types import Key
from tempering.models.rbm.batch import Chains, Moments, Parameters, gibbs, moments_of
from tempering.models.rbm.binary import random_bits

Rows: TypeAlias = Float[Array, "row visible"]  # of data


class AbstractNegativePhase(eqx.Module):
    """How the moments of the RBM are estimated at each update."""

    @abc.abstractmethod
    def start(self, key: Key, rbm: Parameters, base_logits: Float[Array, " visible"]) -> Any:
        """Make the chains before the first update.

        Args:
            key: Random key.
            rbm: The first parameters.
            base_logits: log-odds of independent bits with the frequencies of the data.

        Returns:
            The chains, as any pytree of arrays; None where no chain persists.
        """

    @abc.abstractmethod
    def __call__(self, key: Key, rbm: Parameters, batch: Rows, state: Any) -> tuple[Moments, Any]:
        """Estimate the moments under the present parameters.

        Args:
            key: Random key.
            rbm: The present parameters.
            batch: The rows of data of this update.
            state: The chains.

        Returns:
            The moments, and the chains for the next update.
        """


class ContrastiveDivergence(AbstractNegativePhase):
    """CD-k (Hinton 2002): k sweeps from the rows of the batch.

    Attributes:
        num_sweeps: k.

    Caveats: after k sweeps the chains are still close to the data, so the gradient is biased.
    """

    num_sweeps: int = eqx.field(static=True, default=1)

    def start(self, key: Key, rbm: Parameters, base_logits: Float[Array, " visible"]) -> None:
        return None

    def __call__(self, key: Key, rbm: Parameters, batch: Rows, state: None) -> tuple[Moments, None]:
        return moments_of(rbm, gibbs_sweeps(key, rbm, batch, self.num_sweeps)), None


class PersistentContrastiveDivergence(AbstractNegativePhase):
    """PCD (Tieleman 2008): chains that continue from update to update.

    Attributes:
        num_chains: Chains.
        num_sweeps: Sweeps of every chain per update.

    Caveats: the gradient is biased when the parameters change faster than the chains mix.
    """

    num_chains: int = eqx.field(static=True, default=100)
    num_sweeps: int = eqx.field(static=True, default=1)

    def start(self, key: Key, rbm: Parameters, base_logits: Float[Array, " visible"]) -> Chains:
        return random_bits(key, jnp.broadcast_to(base_logits, (self.num_chains, len(base_logits))))

    def __call__(self, key: Key, rbm: Parameters, batch: Rows, state: Chains) -> tuple[Moments, Chains]:
        state = gibbs_sweeps(key, rbm, state, self.num_sweeps)
        return moments_of(rbm, state), state


def gibbs_sweeps(key: Key, rbm: Parameters, v: Chains, num_sweeps: int) -> Chains:
    """All chains after some block Gibbs sweeps at β = 1."""
    return jax.lax.fori_loop(0, num_sweeps, lambda i, v: gibbs(jax.random.fold_in(key, i), rbm, v), v)


def loss_gradient(data: Moments, model: Moments) -> Parameters:
    """The gradient of minus the mean log-likelihood, the loss that optimizers lower: moments of the model − data."""
    return Parameters(model.vh - data.vh, model.v - data.v, model.h - data.h)
