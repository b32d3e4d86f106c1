"""Kernels for binary RBMs on a GPU, each of which does what XLA would need several for.

With a hundred chains a sweep takes as long as its kernels take to start, so that few of them matter more than anything
else. With very many chains it matters that little is written to memory and read again. There are three:

- `drawn_bits`: a product of bits with a matrix on the tensor cores, see `Limbs`, and bits drawn by the result;
- `summed_field`: the same product, as the fields of the other layer;
- `drawn_rung`: log f at all rungs, q(k | v), and a draw of the rung.

A chain's numbers do not depend on the batch: sums of digits are exact, and all other sums have a fixed order.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Float16, Int

from tempering._threefry import uniform_at
from tempering.models.rbm.limbs import BASE, ROOM, Limbs

VISIBLE_STREAM, RUNG_STREAM, HIDDEN_STREAM = 1, 2, 3  # of a step's random numbers
_FEW_CHAINS = 512  # with so many or fewer, small tiles keep more of the GPU busy


class Tiles(NamedTuple):
    """How a product is cut into programs: chains, columns and rows of a tile, warps of a program, loads in advance."""

    chains: int
    columns: int
    rows: int
    warps: int
    stages: int


SMALL, LARGE = Tiles(32, 32, 128, 4, 3), Tiles(128, 128, 64, 8, 3)


class RungTables(NamedTuple):
    """What turns fields into log f at all rungs.

    Attributes:
        base_logits: log-odds of the base.
        vbias: c.
        betas: the inverse temperatures.
        series: the coefficients of T_0, T_1, … of log1p(exp(−β |a|)) at each rung, see `SoftplusSums`.
        scale: s of `SoftplusSums`.
        bound: the largest |a|.
        log_prior: log r_k.
        log_z_guess: log Ẑ_k; chains may have their own.
    """

    base_logits: Float[Array, " visible"]
    vbias: Float[Array, " visible"]
    betas: Float[Array, " rung"]
    series: Float[Array, "degree rung"]
    scale: Float[Array, ""]
    bound: Float[Array, ""]
    log_prior: Float[Array, " rung"]
    log_z_guess: Float[Array, " rung"]


class RungDraw(NamedTuple):
    """log f_k(v) and q(k | v) at every rung, and a rung drawn from q."""

    log_f: Float[Array, " rung"]
    posterior: Float[Array, " rung"]
    rung: Int[Array, ""]


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
    return _over_chains(partial(_draw_bits, size=limbs.size), 3, 5)(
        words, rung, bits, limbs.digits, limbs.scale, betas, at_base, at_target
    )


def summed_field(bits, limbs: Limbs, bias) -> Float[Array, " column"]:
    """bits @ matrix + bias.

    Args:
        bits: zeros and ones.
        limbs: the matrix.
        bias: what is added.
    """
    return _over_chains(partial(_sum_field, size=limbs.size), 1, 3)(bits, limbs.digits, limbs.scale, bias)


def drawn_rung(words, v, field, tables: RungTables) -> RungDraw:
    """log f at all rungs, q(k | v), and a rung drawn from it.

    Args:
        words: of the random key, see `key_words`.
        v: the visible units.
        field: a_j of every hidden unit.
        tables: what turns them into log f.
    """
    return RungDraw(*_over_chains(_draw_rung, 3, len(tables) - 1)(words, v, field, *tables))


def _over_chains(batched: Any, num_own: int, num_shared: int) -> Any:
    """A function of one chain, from one of a batch of chains.

    Args:
        batched: a function whose first `num_own` arguments have an axis of chains. Those after the next `num_shared`
            may have one or not.
        num_own: how many arguments each chain has of its own.
        num_shared: how many all chains share.
    """

    @custom_vmap
    def single(*arguments):
        own = [argument[None] for argument in arguments[:num_own]]
        return jax.tree.map(lambda leaf: leaf[0], batched(*own, *arguments[num_own:]))

    @single.def_vmap
    def in_batch(axis_size, is_batched, *arguments):
        if any(is_batched[num_own : num_own + num_shared]):
            raise NotImplementedError("Chains of one batch share their model.")
        own = [
            argument if has_axis else jnp.broadcast_to(argument, (axis_size, *jnp.shape(argument)))
            for argument, has_axis in zip(arguments[:num_own], is_batched[:num_own], strict=True)
        ]
        found = batched(*own, *arguments[num_own:])
        return found, jax.tree.map(lambda _: True, found)

    return single


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
    call = _kernel(partial(program, tiles=tiles, depth=depth), shapes, grid, tiles.warps, tiles.stages)
    return call(bits, digits, scale[None], *arguments)


def _kernel(program, shape, grid, warps: int, stages: int):
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    return pl.pallas_call(
        program,
        out_shape=shape,
        grid=grid,
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=jax.default_backend() == "cpu",
        name=program.func.__name__.strip("_"),
    )


def _sums(bits_ref, digits_ref, scale_ref, tiles: Tiles, depth: int):
    """The products of one tile, with the chains and columns that it consists of."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    chains, columns = pl.ds(pl.program_id(0) * tiles.chains, tiles.chains), pl.program_id(1) * tiles.columns
    (num_chains, num_bits), width = bits_ref.shape, digits_ref.shape[1] // 2
    is_chain = _range(chains.start, tiles.chains) < num_chains
    is_whole = num_chains % tiles.chains == 0 and num_bits % tiles.rows == 0

    def add(step, sums):
        rows = pl.ds(step * tiles.rows, tiles.rows)
        if is_whole:
            own = bits_ref[chains, rows]
        else:
            is_own = is_chain[:, None] & (_range(rows.start, tiles.rows) < num_bits)[None, :]
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
    is_column = _range(columns.start, tiles.columns) < out_ref.shape[1]
    at_base, at_target = (triton.load(ref.at[columns], mask=is_column, other=0.0) for ref in (base_ref, target_ref))
    words = _words(words_ref, chains, is_chain[:, None])
    rung = triton.load(rung_ref.at[chains], mask=is_chain, other=0)
    beta = triton.load(betas_ref.at[rung], mask=is_chain, other=0.0)[:, None]
    index = jax.lax.broadcasted_iota(jnp.uint32, products.shape, 1) + columns.start.astype(jnp.uint32)
    logits = (1 - beta) * at_base[None, :] + beta * (products + at_target[None, :])
    drawn = is_one(uniform_at(words, VISIBLE_STREAM, index), logits)
    triton.store(out_ref.at[chains, columns], drawn, mask=is_chain[:, None] & is_column[None, :])
    drawn = jnp.where(is_column[None, :], drawn, 0.0).astype(jnp.float16)
    is_room = is_chain[:, None] & (_range(columns.start, tiles.columns) < padded_ref.shape[1])[None, :]
    triton.store(padded_ref.at[chains, columns], drawn, mask=is_room)


def _field_program(bits_ref, digits_ref, scale_ref, bias_ref, out_ref, *, tiles, depth):
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    products, is_chain, columns = _sums(bits_ref, digits_ref, scale_ref, tiles, depth)
    chains = pl.ds(pl.program_id(0) * tiles.chains, tiles.chains)
    is_column = _range(columns.start, tiles.columns) < out_ref.shape[1]
    bias = triton.load(bias_ref.at[columns], mask=is_column, other=0.0)
    mask = is_chain[:, None] & is_column[None, :]
    triton.store(out_ref.at[chains, columns], products + bias[None, :], mask=mask)


def is_one(level: Float[Array, "*shape"], logits: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """1.0 where a uniform number is below σ(logits), else 0.0."""
    return jnp.where(level * (1 + jnp.exp(-logits)) < 1, 1.0, 0.0)


def _words(words_ref, chains, is_chain):
    """The two words of each chain's key, each as a column."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    return tuple(triton.load(words_ref.at[chains, pl.ds(i, 1)], mask=is_chain, other=0) for i in (0, 1))


def _range(start, size: int):
    return start + jnp.arange(size, dtype=jnp.int32)


class RungTiles(NamedTuple):
    """Chains and warps of a program, and polynomials that are added in one turn of its loop."""

    chains: int
    warps: int
    unrolled: int


RUNG_TILES = RungTiles(1, 1, 20)


def _draw_rung(words, v, field, base_logits, vbias, betas, series, scale, bound, log_prior, guess):
    from jax.experimental import pallas as pl

    (num_chains, _), num_rungs = field.shape, len(betas)
    per_rung = jax.ShapeDtypeStruct((num_chains, num_rungs), jnp.float32)
    shape = RungDraw(per_rung, per_rung, jax.ShapeDtypeStruct((num_chains,), jnp.int32))
    grid = (pl.cdiv(num_chains, RUNG_TILES.chains),)
    call = _kernel(partial(_rung_program, tiles=RUNG_TILES), tuple(shape), grid, RUNG_TILES.warps, 2)
    tables = (base_logits, vbias, betas, series, scale[None], bound[None], log_prior, guess.reshape(-1, num_rungs))
    return call(words, v, field, *tables)


def _rung_program(
    words_ref, v_ref, field_ref, base_ref, vbias_ref, betas_ref, series_ref, scale_ref, bound_ref,
    prior_ref, guess_ref, log_f_ref, posterior_ref, rung_ref, *, tiles: RungTiles,
):  # fmt: skip
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_rungs = betas_ref.shape[0]
    chains, rungs = pl.ds(pl.program_id(0) * tiles.chains, tiles.chains), pl.next_power_of_2(num_rungs)
    is_chain = (_range(chains.start, tiles.chains) < field_ref.shape[0])[:, None]
    is_rung = _range(0, rungs) < num_rungs

    def per_rung(ref):
        return triton.load(ref.at[pl.ds(0, rungs)], mask=is_rung, other=0.0)[None, :]

    at_base, at_target = _ends(v_ref, (base_ref, vbias_ref), chains, is_chain)
    at_target, log_terms = _softplus_terms(
        field_ref, series_ref, scale_ref[0], bound_ref[0], chains, is_chain, at_target, is_rung, tiles.unrolled
    )
    betas = per_rung(betas_ref)
    guesses = chains if guess_ref.shape[0] > 1 else pl.ds(0, 1)
    is_guess = is_rung[None, :] & (is_chain if guess_ref.shape[0] > 1 else True)
    guess = triton.load(guess_ref.at[guesses, pl.ds(0, rungs)], mask=is_guess, other=0.0)
    log_f = (1 - betas) * at_base[:, None] + betas * at_target[:, None] + log_terms
    log_joint = jnp.where(log_f == log_f, log_f, -jnp.inf) + (per_rung(prior_ref) - guess)
    log_joint = jnp.where(is_rung[None, :], log_joint, -jnp.inf)
    weights = jnp.exp(log_joint - jnp.max(log_joint, axis=1)[:, None])
    total = jnp.sum(weights, axis=1)
    words = _words(words_ref, chains, is_chain)
    level = jnp.sum(uniform_at(words, RUNG_STREAM, jnp.zeros((tiles.chains, 1), jnp.uint32)), axis=1) * total
    rung = jnp.sum((jnp.cumsum(weights, axis=1) <= level[:, None]).astype(jnp.int32), axis=1)
    mask = is_chain & is_rung[None, :]
    triton.store(log_f_ref.at[chains, pl.ds(0, rungs)], log_f, mask=mask)
    triton.store(posterior_ref.at[chains, pl.ds(0, rungs)], weights / total[:, None], mask=mask)
    triton.store(rung_ref.at[chains], jnp.minimum(rung, num_rungs - 1), mask=is_chain[:, 0])


def _ends(v_ref, refs, chains, is_chain):
    """v·c_A and v·c."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_units = v_ref.shape[1]
    units = pl.ds(0, pl.next_power_of_2(num_units))
    is_unit = _range(0, units.size) < num_units
    v = triton.load(v_ref.at[chains, units], mask=is_chain & is_unit[None, :], other=0.0)
    return [jnp.sum(v * triton.load(ref.at[units], mask=is_unit, other=0.0)[None, :], axis=1) for ref in refs]


def _softplus_terms(field_ref, series_ref, scale, bound, chains, is_chain, at_target, is_rung, unrolled: int):
    """`at_target` + Σ_j max(a_j, 0), and Σ_j log1p(exp(−β |a_j|)) at every rung, by the recurrence of T_0, T_1, …"""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_units, degree = field_ref.shape[1], series_ref.shape[0]
    units, rungs = pl.ds(0, pl.next_power_of_2(num_units)), pl.ds(0, is_rung.shape[0])
    is_unit = (_range(0, units.size) < num_units)[None, :]
    field = triton.load(field_ref.at[chains, units], mask=is_chain & is_unit, other=0.0)
    size = jnp.abs(field)
    x = jnp.minimum(2 * (bound + scale) / bound * (size / (size + scale)) - 1, 1.0)

    def add_polynomials(turn, carry):
        before, current, total = carry
        for one in range(unrolled):
            k = turn * unrolled + one
            row = triton.load(series_ref.at[k, rungs], mask=is_rung & (k < degree), other=0.0)
            total += jnp.sum(current, axis=1)[:, None] * row[None, :]
            before, current = current, 2 * x * current - before
        return before, current, total

    first, second = jnp.where(is_unit, 1.0, 0.0) + 0 * x, jnp.where(is_unit, x, 0.0)
    none = jnp.zeros((field.shape[0], rungs.size), jnp.float32)
    _, _, total = jax.lax.fori_loop(0, pl.cdiv(degree, unrolled), add_polynomials, (second, first, none))
    return at_target + jnp.sum(jnp.maximum(field, 0.0), axis=1), total
