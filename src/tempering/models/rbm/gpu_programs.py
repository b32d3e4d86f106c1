"""What the kernels of RBMs on a GPU share: from a function of a batch of chains to one of one chain, and its parts."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

VISIBLE_STREAM, RUNG_STREAM, HIDDEN_STREAM = 1, 2, 3  # of a step's random numbers


def over_chains(batched: Any, num_own: int, num_shared: int) -> Any:
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


def kernel_of(program: Any, shape: Any, grid: tuple[int, ...], warps: int, stages: int) -> Any:
    """A Pallas kernel; on a CPU it is interpreted, for tests."""
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


def words_of(words_ref: Any, chains: Any, is_chain: Any) -> tuple[Any, Any]:
    """The two words of each chain's key, each as a column."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    first, second = (triton.load(words_ref.at[chains, pl.ds(i, 1)], mask=is_chain, other=0) for i in (0, 1))
    return first, second


def range_from(start: Any, size: int) -> Any:
    """start, start + 1, …"""
    return start + jnp.arange(size, dtype=jnp.int32)


def is_one(level: Float[Array, "*shape"], logits: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """1.0 where a uniform number is below σ(logits), else 0.0."""
    return jnp.where(level * (1 + jnp.exp(-logits)) < 1, 1.0, 0.0)
