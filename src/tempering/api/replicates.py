"""Many runs of one kind at once: replicates as one more axis of chains, for studies of error bars."""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._errors import InputError
from tempering._types import Key
from tempering.api.estimation import Ending, Job
from tempering.api.settings import Settings
from tempering.models import AbstractModel
from tempering.results import Result
from tempering.sampling import AbstractWarmup, Setup, Stage, walk_chain
from tempering.stats import JUST_RTS, Keep

_AT_ONCE = 50  # replicates in one program; their records are all on the host at the end


def estimate_many(
    model: AbstractModel, base: Any = None, *, seeds: Iterable[int], draws: bool = False, **settings: Any
) -> Iterator[Result]:
    """`estimate` for many seeds, to see how its answers scatter and how often its intervals hold.

    ```python
    results = list(estimate_many(rbm, base=frequencies, seeds=range(100), num_sweeps=300))
    ```

    On an accelerator the runs share their programs' steps; on a CPU they come one by one, each with the bits of
    `estimate`. The settings are those of `estimate`, but for a target error: all runs are of one length.
    """
    asked = Settings(**settings).with_spacing(model.spacing())
    if asked.target_error is not None:
        raise InputError(
            "`estimate_many` makes runs of one length; use `estimate` with a `target_error` for each seed."
        )
    job, numbers = Job(model, base, None, asked, None, draws), list(seeds)
    at_once = 1 if jax.default_backend() == "cpu" else _AT_ONCE
    for start in range(0, len(numbers), at_once):
        some, started = numbers[start : start + at_once], time.perf_counter()
        setups = [
            Setup(jax.random.key(seed), job.ladder, job.move, asked.num_chains, asked.num_sweeps) for seed in some
        ]
        stages = sampled_together(job.warmup, setups, job.keep)
        seconds = (time.perf_counter() - started) / len(some)
        for seed, stage in zip(some, stages, strict=True):
            yield dataclasses.replace(job.result(Ending(stage, seconds)), seed=seed)


def sampled_together(warmup: AbstractWarmup, setups: Sequence[Setup], keep: Keep = JUST_RTS) -> list[Stage]:
    """The finished sampling stages of runs that differ in their keys alone, each from a warm-up of its own.

    On an accelerator all replicates walk in one program; on a CPU one after the other, to the bits of single runs.
    Stages that differ in form, such as warm-ups that end at different times, walk in parties of the same form.
    """
    stages = [warmup.first(setup) for setup in setups]
    walking = list(range(len(stages)))
    while walking:
        for party in _parties(stages, walking):
            walked = walk_together([stages[i] for i in party], [setups[i].key for i in party], keep)
            for i, stage in zip(party, walked, strict=True):
                stages[i] = stage
        walking = [i for i in walking if not stages[i].is_last]
        for i in walking:
            stages[i] = warmup.after(setups[i], stages[i])
    return stages


def walk_together(stages: Sequence[Stage], keys: Sequence[Key], keep: Keep = JUST_RTS) -> list[Stage]:
    """Stages of one form, each walked to its end with a key of its own."""
    if jax.default_backend() == "cpu":
        return [_walked(stage, key, keep) for stage, key in zip(stages, keys, strict=True)]
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


def _walked(stage: Stage, key: Key, keep: Keep) -> Stage:
    for reached in stage.walk(key, keep, stage.num_steps):
        stage = reached
    return stage


def _parties(stages: list[Stage], walking: list[int]) -> list[list[int]]:
    """Those that may share a program: the same kind and length of stage, the same shapes."""
    parties: dict[Any, list[int]] = {}
    for i in walking:
        stage = stages[i]
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves((stage.ladder, stage.kernel, stage.states))]
        form = (stage.name, stage.done, stage.num_steps, stage.block_steps, str(shapes))
        parties.setdefault(form, []).append(i)
    return list(parties.values())


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
