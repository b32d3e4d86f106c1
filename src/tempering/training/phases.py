"""The negative phase of training an RBM: its own moments, from chains that begin at data, persist, or are tempered.

The gradient of the mean log-likelihood is the data's moments less the model's. The data's are easy; these are the
model's. A phase keeps its chains in a state that travels from update to update.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._types import Key
from tempering.models.rbm.batch import Chains, Moments, Parameters, gibbs, moments_of
from tempering.models.rbm.binary import random_bits


class AbstractPhase(eqx.Module):
    """How the model's moments are estimated between two updates of its parameters."""

    def start(self, key: Key, rbm: Parameters, base_logits: Float[Array, " visible"]) -> Any:
        """Chains before the first update."""
        raise NotImplementedError

    def __call__(self, key: Key, rbm: Parameters, batch: Chains, state: Any) -> tuple[Moments, Any]:
        """The moments under the parameters as they are, and the chains for the next update."""
        raise NotImplementedError


class ContrastiveDivergence(AbstractPhase):
    """CD-k (Hinton 2002): k sweeps from the batch itself. Cheap, and biased towards the data."""

    num_sweeps: int = eqx.field(static=True, default=1)

    def start(self, key: Key, rbm: Parameters, base_logits: Float[Array, " visible"]) -> None:
        """Nothing is kept."""
        return None

    def __call__(self, key: Key, rbm: Parameters, batch: Chains, state: None) -> tuple[Moments, None]:
        """From the batch, k sweeps on."""
        return moments_of(rbm, swept(key, rbm, batch, self.num_sweeps)), None


class Persistent(AbstractPhase):
    """PCD (Tieleman 2008): chains that go on from update to update. Unbiased only while they keep up."""

    num_chains: int = eqx.field(static=True, default=100)
    num_sweeps: int = eqx.field(static=True, default=1)

    def start(self, key: Key, rbm: Parameters, base_logits: Float[Array, " visible"]) -> Chains:
        """Independent bits."""
        return random_bits(key, jnp.broadcast_to(base_logits, (self.num_chains, len(base_logits))))

    def __call__(self, key: Key, rbm: Parameters, batch: Chains, state: Chains) -> tuple[Moments, Chains]:
        """From where the chains were."""
        state = swept(key, rbm, state, self.num_sweeps)
        return moments_of(rbm, state), state


def swept(key: Key, rbm: Parameters, v: Chains, num_sweeps: int) -> Chains:
    """Some plain Gibbs sweeps of all chains."""
    return jax.lax.fori_loop(0, num_sweeps, lambda i, v: gibbs(jax.random.fold_in(key, i), rbm, v), v)


def gradient(data: Moments, model: Moments) -> Parameters:
    """Of minus the mean log-likelihood, as optimizers want it: the model's moments less the data's."""
    return Parameters(model.vh - data.vh, model.v - data.v, model.h - data.h)
