"""log f at all rungs on a GPU, by one kernel that keeps the basis of `_softplus` in registers.

XLA would write the basis of every unit to memory and read it again. Here each program takes a few chains, runs the
recurrence of Chebyshev polynomials over their units, and adds each polynomial's sum to all rungs. A chain's numbers are
summed in the same order in any batch.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

_CHAINS = 4  # per program


def log_f_at_all_rungs(
    field: Float[Array, " unit"],
    log_ends: Float[Array, "2"],
    betas: Float[Array, " rung"],
    series: Float[Array, "degree rung"],
    scale: Float[Array, ""],
    bound: Float[Array, ""],
) -> Float[Array, " rung"]:
    """(1 − β) log p_1 + β log g + Σ_j softplus(β a_j) at every rung.

    Args:
        field: a_j of every hidden unit.
        log_ends: log p_1 and log g of the visible units.
        betas: the inverse temperatures.
        series: the coefficients of T_0, T_1, … of log1p(exp(−β |a|)) at each rung, see `SoftplusSums`.
        scale: s of `SoftplusSums`.
        bound: the largest |a|.
    """
    widest = 2 * bound / (bound + scale)
    return _at_all_rungs(field, log_ends, betas, series, jnp.stack([scale, 4 / widest]))


@custom_vmap
def _at_all_rungs(field, log_ends, betas, series, constants):
    batch = jnp.broadcast_to(field, (_CHAINS, *field.shape)), jnp.broadcast_to(log_ends, (_CHAINS, 2))
    return _batched(*batch, betas, series, constants)[0]


@_at_all_rungs.def_vmap
def _in_batch(axis_size, is_batched, field, log_ends, betas, series, constants):
    if is_batched != [True, True, False, False, False]:
        raise NotImplementedError("Chains of one batch share their ladder.")
    room = ((0, -axis_size % _CHAINS), (0, 0))
    return _batched(jnp.pad(field, room), jnp.pad(log_ends, room), betas, series, constants)[:axis_size], True


def _batched(field, log_ends, betas, series, constants):
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_chains, num_units = field.shape
    num_rungs, degree = len(betas), len(series)
    units, rungs = pl.next_power_of_2(num_units), pl.next_power_of_2(num_rungs)
    call = pl.pallas_call(
        partial(_program, num_units=num_units, degree=degree),
        out_shape=jax.ShapeDtypeStruct((num_chains, rungs), jnp.float32),
        grid=(num_chains // _CHAINS,),
        in_specs=[
            pl.BlockSpec((_CHAINS, units), lambda i: (i, 0)),
            pl.BlockSpec((_CHAINS, 2), lambda i: (i, 0)),
            pl.BlockSpec((rungs,), lambda i: (0,)),
            pl.BlockSpec((degree, rungs), lambda i: (0, 0)),
            pl.BlockSpec((2,), lambda i: (0,)),
        ],
        out_specs=pl.BlockSpec((_CHAINS, rungs), lambda i: (i, 0)),
        compiler_params=triton.CompilerParams(num_warps=4),
        interpret=jax.default_backend() == "cpu",
        name="log_f_at_all_rungs",
    )
    wide = jnp.pad(field, ((0, 0), (0, units - num_units)))
    return call(wide, log_ends, jnp.pad(betas, (0, rungs - num_rungs)),
                jnp.pad(series, ((0, 0), (0, rungs - num_rungs))), constants)[:, :num_rungs]  # fmt: skip


def _program(field_ref, ends_ref, betas_ref, series_ref, constants_ref, out_ref, *, num_units: int, degree: int):
    field = field_ref[...]
    is_unit = jax.lax.broadcasted_iota(jnp.int32, field.shape, 1) < num_units
    size = jnp.abs(field)
    x = jnp.minimum(constants_ref[1] * (size / (size + constants_ref[0])) - 1, 1.0)

    def add_polynomial(k, carry):
        before, current, total = carry
        total += jnp.sum(current, axis=1)[:, None] * series_ref[k, :][None, :]
        return current, 2 * x * current - before, total

    positive = jnp.sum(jnp.maximum(field, 0.0), axis=1)
    betas = betas_ref[...][None, :]
    at_ends = (1 - betas) * ends_ref[:, 0][:, None] + betas * (ends_ref[:, 1] + positive)[:, None]
    first = jnp.where(is_unit, 1.0, 0.0)
    second = jnp.where(is_unit, x, 0.0)
    _, _, total = jax.lax.fori_loop(0, degree, add_polynomial, (second, first, at_ends))
    out_ref[...] = total
