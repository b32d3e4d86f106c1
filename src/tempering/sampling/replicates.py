"""Replicates as one more axis of chains: stages of the same form, each with a key of its own, in one program."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._types import Key
from tempering.sampling.chains import walk_chain
from tempering.sampling.stage import Stage
from tempering.stats import JUST_RTS, Keep


def same_form(stage: Stage) -> str:
    """Equal for stages that may share a program: the same kind and length of stage, the same shapes."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves((stage.ladder, stage.kernel, stage.states))]
    return str((type(stage.kind), stage.done, stage.num_steps, stage.block_steps, shapes))


def walk_together(stages: Sequence[Stage], keys: Sequence[Key], keep: Keep = JUST_RTS) -> list[Stage]:
    """Stages of one form, each walked to its end with a key of its own."""
    stage_keys = jnp.stack([jax.random.fold_in(key, stage.number) for key, stage in zip(keys, stages, strict=True)])
    stack, axes = _stacked([(s.ladder, s.kernel, s.empty_record(keep)) for s in stages])
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[stage.states for stage in stages])
    first = stages[0]
    for start in range(first.done, first.num_steps, first.block_steps):
        stop = min(start + first.block_steps, first.num_steps)
        states, filled = _walk(stage_keys, stack, axes, states, jnp.asarray([start, stop], jnp.int32))
        states, filled = jax.device_get((states, filled))
        stages = [stage.after_block(stop, _row(states, i), _row(filled, i).on_host()) for i, stage in enumerate(stages)]
    return list(stages)


@eqx.filter_jit
def _walk(keys, stack, axes, states, bounds):
    def one_run(key, parts, states):
        ladder, kernel, record = parts

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
