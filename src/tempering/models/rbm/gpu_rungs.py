"""log f at all rungs, q(k | v) and a draw of the rung on a GPU, in one kernel.

XLA would write the basis of `_softplus` of every unit to memory and read it again. Here each program takes one chain,
runs the recurrence of Chebyshev polynomials over its units in registers, and adds each polynomial's sum to all rungs. A
chain's numbers are summed in the same order in any batch.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tempering._threefry import uniform_at
from tempering.models.rbm.gpu_programs import RUNG_STREAM, kernel_of, over_chains, range_from, words_of


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


def drawn_rung(words, v, field, tables: RungTables) -> RungDraw:
    """log f at all rungs, q(k | v), and a rung drawn from it.

    Args:
        words: of the random key, see `key_words`.
        v: the visible units.
        field: a_j of every hidden unit.
        tables: what turns them into log f.
    """
    return RungDraw(*over_chains(_draw_rung, 3, len(tables) - 1)(words, v, field, *tables))


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
    shape = (per_rung, per_rung, jax.ShapeDtypeStruct((num_chains,), jnp.int32))
    grid = (pl.cdiv(num_chains, RUNG_TILES.chains),)
    call = kernel_of(partial(_rung_program, tiles=RUNG_TILES), shape, grid, RUNG_TILES.warps, 2)
    tables = (base_logits, vbias, betas, series, scale[None], bound[None], log_prior, guess.reshape(-1, num_rungs))
    return call(words, v, field, *tables)


def _rung_program(
    words_ref, v_ref, field_ref, base_ref, vbias_ref, betas_ref, series_ref, scale_ref, bound_ref,
    prior_ref, guess_ref, log_f_ref, posterior_ref, rung_ref, *, tiles: RungTiles,
):  # fmt: skip
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_rungs = betas_ref.shape[0]
    chains: Any = pl.ds(pl.program_id(0) * tiles.chains, tiles.chains)
    rungs = pl.next_power_of_2(num_rungs)
    is_chain = (range_from(chains.start, tiles.chains) < field_ref.shape[0])[:, None]
    is_rung = range_from(0, rungs) < num_rungs

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
    words = words_of(words_ref, chains, is_chain)
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
    units: Any = pl.ds(0, pl.next_power_of_2(num_units))
    is_unit = range_from(0, units.size) < num_units
    v = triton.load(v_ref.at[chains, units], mask=is_chain & is_unit[None, :], other=0.0)
    return [jnp.sum(v * triton.load(ref.at[units], mask=is_unit, other=0.0)[None, :], axis=1) for ref in refs]


def _softplus_terms(field_ref, series_ref, scale, bound, chains, is_chain, at_target, is_rung, unrolled: int):
    """`at_target` + Σ_j max(a_j, 0), and Σ_j log1p(exp(−β |a_j|)) at every rung, by the recurrence of T_0, T_1, …"""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_units, degree = field_ref.shape[1], series_ref.shape[0]
    units: Any = pl.ds(0, pl.next_power_of_2(num_units))
    rungs: Any = pl.ds(0, is_rung.shape[0])
    is_unit = (range_from(0, units.size) < num_units)[None, :]
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
