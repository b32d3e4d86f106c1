"""An RBM on the device with many chains at once, for training and for the matching of moments."""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._precision import product
from tempering._types import Key
from tempering.models.rbm.arrays import random_bits

Chains: TypeAlias = Float[Array, "chain visible"]


class Parameters(NamedTuple):
    """W, c and b on the device; gradients and optimizer states have the same form."""

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]
    hbias: Float[Array, " hidden"]


class Moments(NamedTuple):
    """The moments E[v], E[h] and E[vhᵀ], which determine an RBM."""

    v: Float[Array, " visible"]
    h: Float[Array, " hidden"]
    vh: Float[Array, "visible hidden"]


def moments_of(rbm: Parameters, v: Chains) -> Moments:
    """Means over the rows of v, with the probabilities of h in place of h."""
    h = jax.nn.sigmoid(product(v, rbm.weights) + rbm.hbias)
    return Moments(jnp.mean(v, axis=0), jnp.mean(h, axis=0), product(v.T, h) / len(v))


class MomentSums(NamedTuple):
    """Running sums for the moments of weighted draws."""

    sums: Moments
    weight: Float[Array, ""]

    @classmethod
    def empty(cls, num_visible: int, num_hidden: int) -> "MomentSums":
        """The sums of no draws."""
        v, h = jnp.zeros(num_visible), jnp.zeros(num_hidden)
        return cls(Moments(v, h, jnp.zeros((num_visible, num_hidden))), jnp.zeros(()))

    @classmethod
    def from_chains(
        cls, v: Chains, field: Float[Array, "chain hidden"], weight: Float[Array, " chain"]
    ) -> "MomentSums":
        """The sums of one weighted draw per chain, whose hidden fields vW + b are known."""
        h = jax.nn.sigmoid(field)
        sums = Moments(product(weight, v), product(weight, h), product((weight[:, None] * v).T, h))
        return cls(sums, jnp.sum(weight))

    def plus(self, others: "MomentSums") -> "MomentSums":
        """The sums of these draws and others."""
        return jax.tree.map(jnp.add, self, others)

    def mean(self) -> Moments:
        """The weighted mean."""
        return jax.tree.map(lambda total: total / self.weight, self.sums)


def weighted_moments(v: Chains, field: Float[Array, "chain hidden"], weight: Float[Array, " chain"]) -> Moments:
    """The moments of weighted draws, whose hidden fields vW + b are known."""
    return MomentSums.from_chains(v, field, weight).mean()


def largest_field(rbm: Parameters) -> Float[Array, ""]:
    """The largest hidden field |(vW)_j + b_j| of any pattern."""
    highest = jnp.sum(jnp.maximum(rbm.weights, 0), axis=0) + rbm.hbias
    lowest = jnp.sum(jnp.minimum(rbm.weights, 0), axis=0) + rbm.hbias
    return jnp.maximum(jnp.max(highest), -jnp.min(lowest))


def gibbs(key: Key, rbm: Parameters, v: Chains) -> Chains:
    """One Gibbs sweep of every chain: h given v, then v given h."""
    key_hidden, key_visible = jax.random.split(key)
    h = random_bits(key_hidden, product(v, rbm.weights) + rbm.hbias)
    return random_bits(key_visible, product(h, rbm.weights.T) + rbm.vbias)
