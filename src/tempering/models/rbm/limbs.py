"""Products of bits with a matrix on the tensor cores of a GPU, as exact as float32 and in any order of summation.

Bits are exact in float16, so only the matrix needs digits. It is rounded to s (4096 D₁ + D₂), where s is a power of two
and the D are integers of at most 2048, which float16 holds exactly. The sums of their products with bits are integers
below 2²⁴, which float32 holds exactly, whatever the order. So the result depends on no batch, device or library.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float16

MAX_UNITS = 2**13  # sums of so many digits stay below 2²⁴

BASE = 2.0**12
_BITS = 23  # of a rounded matrix entry, beside its sign
ROOM = 128  # rows and columns are filled up to multiples of it, as tiles of tensor cores want it
_MOST_ROWS = 256  # of a tile


class Limbs(eqx.Module):
    """A matrix as two integer digits per entry.

    Attributes:
        digits: D₁ of all columns, then D₂ of all columns, filled up with zeros.
        scale: s.
        size: rows and columns of the matrix.
    """

    digits: Float16[Array, "row column"]
    scale: Float[Array, ""]
    size: tuple[int, int] = eqx.field(static=True)

    @classmethod
    def of(cls, matrix: Float[Array, "row column"]) -> "Limbs":
        """The digits of a matrix, of at most `MAX_UNITS` rows.

        Args:
            matrix: numbers of any size.
        """
        _, exponent = jnp.frexp(jnp.max(jnp.abs(matrix)))
        whole = jnp.round(jnp.ldexp(matrix, _BITS - exponent))
        high = jnp.round(whole / BASE)
        num_rows, num_columns = matrix.shape
        room = ((0, -num_rows % _MOST_ROWS), (0, -num_columns % ROOM))
        digits = [jnp.pad(part, room).astype(jnp.float16) for part in (high, whole - BASE * high)]
        scale = jnp.ldexp(jnp.float32(1), exponent - _BITS)
        return cls(jnp.concatenate(digits, axis=1), scale, (num_rows, num_columns))

    def times(self, bits: Float[Array, " row"]) -> Float[Array, " column"]:
        """bits @ matrix.

        Args:
            bits: zeros and ones.
        """
        filled = jnp.pad(bits.astype(jnp.float16), (0, len(self.digits) - len(bits)))
        sums = jax.lax.dot_general(filled, self.digits, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32)
        high, low = jnp.split(sums, 2)
        return (BASE * high[: self.size[1]] + low[: self.size[1]]) * self.scale
