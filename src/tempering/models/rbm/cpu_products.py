"""Products of bits with a matrix on a CPU: in float32, or in integers where it has units for products of bytes.

Bits are exact in bytes, so only the matrix needs digits. It is rounded to s (65536 D₁ + 256 D₂ + D₃), where s is a
power of two and the D are bytes. Sums of their products with bits are integers below 2³¹, whatever the order, and what
they stand for is rounded twice. So the result is as exact as that of float32, in half of the time.
"""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from tempering._precision import product

_BASE = 256
_BITS = 22  # of a rounded matrix entry, beside its sign: D₁ is then at most 64
_MOST_ROWS = 2**15  # so that sums of 256 D₂ + D₃ stay below 2³¹
_FEWEST_ENTRIES = 2**17  # of a matrix: with smaller ones it takes longer to make bytes of bits than is saved


class InFloats(NamedTuple):
    """A matrix whose products are made in float32."""

    matrix: Float[Array, "row column"]

    def times(self, bits: Float[Array, " row"]) -> Float[Array, " column"]:
        """bits @ matrix, without rounding the factors.

        Args:
            bits: zeros and ones.
        """
        return product(bits, self.matrix)


class InBytes(eqx.Module):
    """A matrix as three digits per entry.

    Attributes:
        digits: D₁ of all columns, then D₂, then D₃.
        scale: s; NaN where an entry is not finite.
    """

    digits: Int8[Array, "row digit_column"]
    scale: Float[Array, ""]

    @classmethod
    def of(cls, matrix: Float[Array, "row column"]) -> "InBytes":
        """The digits of a matrix.

        Args:
            matrix: numbers of any size, in at most `_MOST_ROWS` rows.
        """
        largest = jnp.max(jnp.abs(matrix))
        _, exponent = jnp.frexp(largest)
        whole = jnp.round(jnp.ldexp(matrix, _BITS - exponent)).astype(jnp.int32)
        digits = []
        for _ in range(2):
            digits.append((whole + _BASE // 2) % _BASE - _BASE // 2)
            whole = (whole - digits[-1]) // _BASE
        joined = jnp.concatenate([whole, digits[1], digits[0]], axis=1).astype(jnp.int8)
        scale = jnp.where(jnp.isfinite(largest), jnp.ldexp(jnp.float32(1), exponent - _BITS), jnp.nan)
        return cls(joined, scale)

    def times(self, bits: Float[Array, " row"]) -> Float[Array, " column"]:
        """bits @ matrix.

        Args:
            bits: zeros and ones.
        """
        over_rows = (((0,), (0,)), ((), ()))
        sums = jax.lax.dot_general(bits.astype(jnp.int8), self.digits, over_rows, preferred_element_type=jnp.int32)
        high, middle, low = jnp.split(sums, 3)
        lower = (_BASE * middle + low).astype(jnp.float32)
        return (float(_BASE**2) * high.astype(jnp.float32) + lower) * self.scale


def fastest(matrix: Float[Array, "row column"]) -> InFloats | InBytes:
    """The form of a matrix whose products with bits are fastest on this CPU; for use inside jit.

    Args:
        matrix: numbers of any size.
    """
    if has_byte_units() and len(matrix) <= _MOST_ROWS and matrix.size >= _FEWEST_ENTRIES:
        return InBytes.of(matrix)
    # Products with rows of an array are faster than with its columns; the barrier keeps XLA from transposing it back.
    return InFloats(jax.lax.optimization_barrier(matrix))


@lru_cache(maxsize=1)
def has_byte_units() -> bool:
    """Whether this CPU has units for products of bytes (AMX), which XLA uses."""
    told = Path("/proc/cpuinfo")
    return told.exists() and "amx_int8" in told.read_text()
