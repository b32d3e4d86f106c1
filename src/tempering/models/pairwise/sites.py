"""Independent sites with discrete values: the bases of pairwise models."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from tempering._threefry import straight_key
from tempering._types import Key, Scalar
from tempering.bases import AbstractBase


class AbstractSites(AbstractBase):
    """Independent sites: log p(x) = Σ_i h_i · φ(x_i), unnormalised, where φ(x_i) is a vector of one or more numbers.

    Attributes:
        fields: h.
    """

    fields: Float[Array, "site unit"]

    @abc.abstractmethod
    def encode(self, x: Num[Array, "*shape"]) -> Float[Array, "*shape unit"]:
        """φ of each value."""

    @abc.abstractmethod
    def draw(self, uniforms: Float[Array, " site"], fields: Float[Array, "site unit"]) -> Num[Array, " site"]:
        """Values in other fields, from one uniform number each."""

    def log_density(self, x: Num[Array, " site"]) -> Scalar:
        return jnp.sum(self.fields * self.encode(x))

    def sample(self, key: Key) -> Num[Array, " site"]:
        return self.draw(jax.random.uniform(straight_key(key), self.fields.shape[:1]), self.fields)


class Spins(AbstractSites):
    """Sites with the two values `low` and 1, and φ(x) = x.

    Attributes:
        fields: h.
        low: −1 for spins, 0 for bits.
    """

    low: int = eqx.field(static=True)

    def encode(self, x: Num[Array, "*shape"]) -> Float[Array, "*shape 1"]:
        return jnp.asarray(x, jnp.float32)[..., None]

    def draw(self, uniforms: Float[Array, " site"], fields: Float[Array, "site 1"]) -> Float[Array, " site"]:
        return self.valued(uniforms < self.odds(fields))

    def odds(self, fields: Float[Array, "site 1"]) -> Float[Array, " site"]:
        """The probability of the value 1 in these fields."""
        return jax.nn.sigmoid((1 - self.low) * fields[:, 0])

    def valued(self, is_up: Bool[Array, " site"]) -> Float[Array, " site"]:
        """1 where a spin is up, and `low` elsewhere."""
        return jnp.where(is_up, 1.0, float(self.low)).astype(jnp.float32)  # also where JAX's default is float64

    def log_z(self) -> float:
        fields = np.asarray(self.fields, np.float64)
        return float(np.logaddexp(fields, self.low * fields).sum())


class Colours(AbstractSites):
    """Sites with the values 0 … q − 1, and φ(x) one-hot.

    Attributes:
        fields: h, one number per site and value.
    """

    def encode(self, x: Num[Array, "*shape"]) -> Float[Array, "*shape colour"]:
        return (x[..., None] == jnp.arange(self.fields.shape[1])).astype(jnp.float32)

    def draw(self, uniforms: Float[Array, " site"], fields: Float[Array, "site colour"]) -> Int[Array, " site"]:
        return draw_categories(uniforms, fields)

    def log_z(self) -> float:
        return float(np.logaddexp.reduce(np.asarray(self.fields, np.float64), axis=1).sum())


def draw_categories(uniforms: Float[Array, " site"], logits: Float[Array, "site colour"]) -> Int[Array, " site"]:
    """A category for each row of logits, by inverting the distribution function.

    It takes one random number per row; Gumbel noise would take one per category.
    """
    weights = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    until = jnp.cumsum(weights, axis=1)
    level = uniforms[:, None] * until[:, -1:]
    return jnp.sum(until[:, :-1] <= level, axis=1).astype(jnp.int32)
