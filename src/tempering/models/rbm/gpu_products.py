"""Products of bits with a matrix on the tensor cores of a GPU, each with what follows it in one kernel.

With a hundred chains a sweep takes as long as its kernels take to start, so that few of them matter more than anything
else. With very many chains it matters that little is written to memory and read again. `drawn_bits` draws bits by the
result of a product, see `Limbs`; `summed_field` gives the fields of the other layer. Sums of digits are exact, so that
a chain's numbers do not depend on the batch.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float16

from tempering._threefry import uniform_at
from tempering.models.rbm.gpu_programs import VISIBLE_STREAM, is_one, kernel_of, over_chains, range_from, words_of
from tempering.models.rbm.limbs import BASE, ROOM, Limbs

_FEW_CHAINS = 512  # with so many or fewer, small tiles keep more of the GPU busy


class Tiles(NamedTuple):
    """How a product is cut into programs: chains, columns and rows of a tile, warps of a program, loads in advance."""

    chains: int
    columns: int
    rows: int
    warps: int
    stages: int


SMALL, LARGE = Tiles(32, 32, 128, 4, 3), Tiles(128, 128, 64, 8, 3)


def drawn_bits(words, rung, bits, limbs: Limbs, betas, at_base, at_target) -> tuple[Array, Array]:
    """Bits with log-odds (1 − β) at_base + β (bits @ matrix + at_target), and the same as a product takes them.

    Args:
        words: of the random key, see `key_words`.
        rung: the rung.
        bits: zeros and ones.
        limbs: the matrix.
        betas: the inverse temperature of each rung.
        at_base: log-odds at β = 0.
        at_target: what is added to the products.
    """
    return over_chains(partial(_draw_bits, size=limbs.size), 3, 5)(
        words, rung, bits, limbs.digits, limbs.scale, betas, at_base, at_target
    )


def summed_field(bits, limbs: Limbs, bias) -> Float[Array, " column"]:
    """bits @ matrix + bias.

    Args:
        bits: zeros and ones.
        limbs: the matrix.
        bias: what is added.
    """
    return over_chains(partial(_sum_field, size=limbs.size), 1, 3)(bits, limbs.digits, limbs.scale, bias)


def padded_bits(bits: Float[Array, " unit"]) -> Float16[Array, " more"]:
    """Bits as a product takes them quickest: in float16, filled up with zeros.

    Args:
        bits: zeros and ones.
    """
    return jnp.pad(bits.astype(jnp.float16), (0, -len(bits) % ROOM))


def _draw_bits(words, rung, bits, digits, scale, betas, at_base, at_target, *, size: tuple[int, int]):
    columns = size[1]
    shapes = [
        jax.ShapeDtypeStruct((len(bits), columns), jnp.float32),
        jax.ShapeDtypeStruct((len(bits), columns + -columns % ROOM), jnp.float16),
    ]
    return tuple(_product(_bits_program, shapes, size[0], bits, digits, scale, words, rung, betas, at_base, at_target))


def _sum_field(bits, digits, scale, bias, *, size: tuple[int, int]):
    shape = jax.ShapeDtypeStruct((len(bits), size[1]), jnp.float32)
    return _product(_field_program, [shape], size[0], bits, digits, scale, bias)[0]


def _product(program, shapes, depth: int, bits, digits, scale, *arguments):
    from jax.experimental import pallas as pl

    tiles = SMALL if len(bits) <= _FEW_CHAINS else LARGE
    grid = (pl.cdiv(len(bits), tiles.chains), pl.cdiv(shapes[-1].shape[1], tiles.columns))
    call = kernel_of(partial(program, tiles=tiles, depth=depth), shapes, grid, tiles.warps, tiles.stages)
    return call(bits, digits, scale[None], *arguments)


def _sums(bits_ref, digits_ref, scale_ref, tiles: Tiles, depth: int) -> tuple[Any, Any, Any]:
    """The products of one tile, with the chains and columns that it consists of."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    chains: Any = pl.ds(pl.program_id(0) * tiles.chains, tiles.chains)
    columns = pl.program_id(1) * tiles.columns
    (num_chains, num_bits), width = bits_ref.shape, digits_ref.shape[1] // 2
    is_chain = range_from(chains.start, tiles.chains) < num_chains
    is_whole = num_chains % tiles.chains == 0 and num_bits % tiles.rows == 0

    def add(step, sums):
        rows: Any = pl.ds(step * tiles.rows, tiles.rows)
        if is_whole:
            own = bits_ref[chains, rows]
        else:
            is_own = is_chain[:, None] & (range_from(rows.start, tiles.rows) < num_bits)[None, :]
            own = triton.load(bits_ref.at[chains, rows], mask=is_own, other=0.0)
        high, low = (digits_ref[rows, pl.ds(columns + start, tiles.columns)] for start in (0, width))
        return tuple(
            total + jnp.dot(own.astype(jnp.float16), part, preferred_element_type=jnp.float32)
            for total, part in zip(sums, (high, low), strict=True)
        )

    none = jnp.zeros((tiles.chains, tiles.columns), jnp.float32)
    high, low = jax.lax.fori_loop(0, pl.cdiv(depth, tiles.rows), add, (none, none))
    return (BASE * high + low) * scale_ref[0], is_chain, pl.ds(columns, tiles.columns)


def _bits_program(
    bits_ref, digits_ref, scale_ref, words_ref, rung_ref, betas_ref, base_ref, target_ref,
    out_ref, padded_ref, *, tiles, depth,
):  # fmt: skip
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    products, is_chain, columns = _sums(bits_ref, digits_ref, scale_ref, tiles, depth)
    chains = pl.ds(pl.program_id(0) * tiles.chains, tiles.chains)
    is_column = range_from(columns.start, tiles.columns) < out_ref.shape[1]
    at_base, at_target = (triton.load(ref.at[columns], mask=is_column, other=0.0) for ref in (base_ref, target_ref))
    words = words_of(words_ref, chains, is_chain[:, None])
    rung = triton.load(rung_ref.at[chains], mask=is_chain, other=0)
    beta = triton.load(betas_ref.at[rung], mask=is_chain, other=0.0)[:, None]
    index = jax.lax.broadcasted_iota(jnp.uint32, products.shape, 1) + columns.start.astype(jnp.uint32)
    logits = (1 - beta) * at_base[None, :] + beta * (products + at_target[None, :])
    drawn = is_one(uniform_at(words, VISIBLE_STREAM, index), logits)
    triton.store(out_ref.at[chains, columns], drawn, mask=is_chain[:, None] & is_column[None, :])
    drawn = jnp.where(is_column[None, :], drawn, 0.0).astype(jnp.float16)
    is_room = is_chain[:, None] & (range_from(columns.start, tiles.columns) < padded_ref.shape[1])[None, :]
    triton.store(padded_ref.at[chains, columns], drawn, mask=is_room)


def _field_program(bits_ref, digits_ref, scale_ref, bias_ref, out_ref, *, tiles, depth):
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    products, is_chain, columns = _sums(bits_ref, digits_ref, scale_ref, tiles, depth)
    chains = pl.ds(pl.program_id(0) * tiles.chains, tiles.chains)
    is_column = range_from(columns.start, tiles.columns) < out_ref.shape[1]
    bias = triton.load(bias_ref.at[columns], mask=is_column, other=0.0)
    mask = is_chain[:, None] & is_column[None, :]
    triton.store(out_ref.at[chains, columns], products + bias[None, :], mask=mask)
