"""Replicates as one more axis of chains: stages of the same form, each with a key of its own, in one program."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._types import Key
from tempering.sampling.chains import walk_chain
from tempering.sampling.side_by_side import one_ahead
from tempering.sampling.stage import Stage
from tempering.stats import JUST_RTS, Keep


def same_form(stage: Stage) -> str:
    """Equal for stages that may share a program: the same kind and length of stage, the same shapes."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves((stage.ladder, stage.kernel, stage.states))]
    return str((type(stage.kind), stage.done, stage.num_steps, stage.block_steps, shapes))


def walk_together(
    stages: Sequence[Stage], keys: Sequence[Key], keep: Keep = JUST_RTS, *, size: int = 1, platform: str | None = None
) -> list[Stage]:
    """Stages of one form, each walked to its end with a key of its own.

    Args:
        stages: Where they stand.
        keys: The random key of each run.
        keep: What sampling keeps.
        size: Of the program. Fewer stages are filled up, because each number of them would be compiled anew.
        platform: The kind of device; by default that of the first.

    Returns:
        The stages at their ends.
    """
    platform = jax.local_devices()[0].platform if platform is None else platform
    number, first = max(size, len(stages)), stages[0]
    members = [stages[min(i, len(stages) - 1)] for i in range(number)]
    stage_keys = jnp.stack([jax.random.fold_in(keys[min(i, len(keys) - 1)], s.number) for i, s in enumerate(members)])
    stack, axes = _stacked([(stage.ladder, stage.kernel, stage.empty_record(keep)) for stage in members])
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[stage.states for stage in members])

    def blocks() -> Iterator[tuple[int, Any, Any]]:
        nonlocal states
        for start in range(first.done, first.num_steps, first.block_steps):
            stop = min(start + first.block_steps, first.num_steps)
            states, filled = _walk(platform, stage_keys, stack, axes, states, jnp.asarray([start, stop], jnp.int32))
            yield stop, states, filled

    reached = list(stages)
    for stop, new_states, filled in one_ahead(blocks()):
        filled = jax.device_get(filled)
        new_states = jax.device_get(new_states) if stop == first.num_steps else None  # much to copy, and not looked at
        reached = [
            stage.after_block(stop, None if new_states is None else _row(new_states, i), _row(filled, i).on_host())
            for i, stage in enumerate(reached)
        ]
    return reached


@eqx.filter_jit
def _walk(platform: str, keys, stack, axes, states, bounds):
    def one_run(key, parts, states):
        ladder, kernel, record = parts
        path = ladder.path.on_cpu() if platform == "cpu" else ladder.path.on_gpu()
        ladder = dataclasses.replace(ladder, path=path)

        def one_chain(chain, state):
            return walk_chain(jax.random.fold_in(key, chain), ladder, kernel, record, state, bounds)

        return jax.vmap(one_chain)(jnp.arange(jax.tree.leaves(states)[0].shape[0]), states)

    return eqx.filter_vmap(one_run, in_axes=(0, axes, 0))(keys, stack, states)


def _stacked(trees: list[Any]) -> tuple[Any, Any]:
    """Arrays of several trees on a new first axis, and that axis; what all of them share stays as it is, once."""
    leaves = [jax.tree.leaves(tree) for tree in trees]
    structure = jax.tree.structure(trees[0])
    stack, axes = [], []
    for column in zip(*leaves, strict=True):
        is_shared = not eqx.is_array(column[0]) or all(leaf is column[0] for leaf in column)
        stack.append(column[0] if is_shared else jnp.stack(column))
        axes.append(None if is_shared else 0)
    return jax.tree.unflatten(structure, stack), jax.tree.unflatten(structure, axes)


def _row(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[i], tree)
