"""Independent sites: what values a site may take, and how it is drawn in a field. The bases of discrete models."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from tempering._types import Key, Scalar
from tempering.bases import AbstractBase


class AbstractSites(AbstractBase):
    """log p(x) = Σ_i h_i · φ(x_i), unnormalised, where φ turns the value of a site into one or more numbers."""

    fields: eqx.AbstractVar[Float[Array, "site unit"]]  # h

    def encode(self, x: Num[Array, "*shape"]) -> Float[Array, "*shape unit"]:
        """φ of each value."""
        raise NotImplementedError

    def draw(self, uniforms: Float[Array, " site"], fields: Float[Array, "site unit"]) -> Num[Array, " site"]:
        """Values in other fields, from a uniform number each."""
        raise NotImplementedError

    def log_density(self, x: Num[Array, " site"]) -> Scalar:
        """Σ_i h_i · φ(x_i)."""
        return jnp.sum(self.fields * self.encode(x))

    def sample(self, key: Key) -> Num[Array, " site"]:
        """All sites at once."""
        return self.draw(jax.random.uniform(key, self.fields.shape[:1]), self.fields)


class Spins(AbstractSites):
    """Two values, +1 and `low`: −1 for spins, 0 for bits. φ(x) = x."""

    fields: Float[Array, "site 1"]
    low: int = eqx.field(static=True)

    def encode(self, x: Num[Array, "*shape"]) -> Float[Array, "*shape 1"]:
        """The value itself."""
        return jnp.asarray(x, jnp.float32)[..., None]

    def draw(self, uniforms: Float[Array, " site"], fields: Float[Array, "site 1"]) -> Float[Array, " site"]:
        """+1 with log-odds (1 − low) · field."""
        is_up = uniforms < jax.nn.sigmoid((1 - self.low) * fields[:, 0])
        return jnp.where(is_up, 1.0, float(self.low)).astype(jnp.float32)  # whatever JAX's default is

    def log_z(self) -> float:
        """Σ_i log(e^h_i + e^(low · h_i))."""
        fields = np.asarray(self.fields, np.float64)
        return float(np.logaddexp(fields, self.low * fields).sum())


class Colours(AbstractSites):
    """The values 0 … q − 1, with a field for each of them: φ(x) is 1 at x and 0 elsewhere."""

    fields: Float[Array, "site colour"]

    def encode(self, x: Num[Array, "*shape"]) -> Float[Array, "*shape colour"]:
        """One-hot."""
        return (x[..., None] == jnp.arange(self.fields.shape[1])).astype(jnp.float32)

    def draw(self, uniforms: Float[Array, " site"], fields: Float[Array, "site colour"]) -> Int[Array, " site"]:
        """Colour a with probability ∝ exp(field_a), by inverting the distribution function."""
        return draw_categories(uniforms, fields)

    def log_z(self) -> float:
        """Σ_i log Σ_a exp(h_ia)."""
        return float(np.logaddexp.reduce(np.asarray(self.fields, np.float64), axis=1).sum())


def draw_categories(uniforms: Float[Array, " site"], logits: Float[Array, "site colour"]) -> Int[Array, " site"]:
    """A category for each row of logits: one random number a row, where Gumbel noise would need one a category."""
    weights = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    until = jnp.cumsum(weights, axis=1)
    level = uniforms[:, None] * until[:, -1:]
    return jnp.sum(until[:, :-1] <= level, axis=1).astype(jnp.int32)
