"""An RBM on the device, with many chains at once: what training and the matching of moments are made of."""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._types import Key
from tempering.models.rbm.binary import random_bits

Chains: TypeAlias = Float[Array, "chain visible"]


class Parameters(NamedTuple):
    """W, c and b as arrays of the device; gradients and optimizer states have the same form."""

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]
    hbias: Float[Array, " hidden"]


class Moments(NamedTuple):
    """What an RBM's law is known by: the means of v, of h, and of their products."""

    v: Float[Array, " visible"]
    h: Float[Array, " hidden"]
    vh: Float[Array, "visible hidden"]


def moments_of(rbm: Parameters, v: Chains) -> Moments:
    """Over the rows of v, with h by its probabilities."""
    h = jax.nn.sigmoid(product(v, rbm.weights) + rbm.hbias)
    return Moments(jnp.mean(v, axis=0), jnp.mean(h, axis=0), product(v.T, h) / len(v))


class MomentSums(NamedTuple):
    """Moments on their way, over draws that count differently."""

    sums: Moments
    weight: Float[Array, ""]

    @classmethod
    def empty(cls, num_visible: int, num_hidden: int) -> "MomentSums":
        """Of no draws."""
        v, h = jnp.zeros(num_visible), jnp.zeros(num_hidden)
        return cls(Moments(v, h, jnp.zeros((num_visible, num_hidden))), jnp.zeros(()))

    @classmethod
    def from_chains(
        cls, v: Chains, field: Float[Array, "chain hidden"], weight: Float[Array, " chain"]
    ) -> "MomentSums":
        """Of draws whose hidden fields vW + b are known."""
        h = jax.nn.sigmoid(field)
        sums = Moments(product(weight, v), product(weight, h), product((weight[:, None] * v).T, h))
        return cls(sums, jnp.sum(weight))

    def plus(self, others: "MomentSums") -> "MomentSums":
        """These draws and others."""
        return jax.tree.map(jnp.add, self, others)

    def mean(self) -> Moments:
        """Their weighted mean."""
        return jax.tree.map(lambda total: total / self.weight, self.sums)


def weighted_moments(v: Chains, field: Float[Array, "chain hidden"], weight: Float[Array, " chain"]) -> Moments:
    """The same for draws that count differently, whose hidden fields vW + b are known."""
    return MomentSums.from_chains(v, field, weight).mean()


def largest_field(rbm: Parameters) -> Float[Array, ""]:
    """The largest |(vW)_j + b_j| that any pattern can reach."""
    highest = jnp.sum(jnp.maximum(rbm.weights, 0), axis=0) + rbm.hbias
    lowest = jnp.sum(jnp.minimum(rbm.weights, 0), axis=0) + rbm.hbias
    return jnp.maximum(jnp.max(highest), -jnp.min(lowest))


def gibbs(key: Key, rbm: Parameters, v: Chains) -> Chains:
    """h given v, then v given h, for every chain."""
    key_hidden, key_visible = jax.random.split(key)
    h = random_bits(key_hidden, product(v, rbm.weights) + rbm.hbias)
    return random_bits(key_visible, product(h, rbm.weights.T) + rbm.vbias)


def product(a: Array, b: Array) -> Array:
    """A matrix product in full precision: a GPU would otherwise round the weights to ten bits."""
    return jnp.dot(a, b, precision=jax.lax.Precision.HIGHEST)
