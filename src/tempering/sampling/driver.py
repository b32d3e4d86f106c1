"""The driver of a run: walk a stage to its end, then ask the warm-up for the next, until sampling is done."""

from collections.abc import Iterator, Sequence

import jax

from tempering._types import Key
from tempering.sampling.replicates import same_form, walk_together
from tempering.sampling.stage import Stage
from tempering.sampling.warmup import AbstractWarmup, Setup
from tempering.stats import JUST_RTS, Keep


def walk_stages(
    warmup: AbstractWarmup,
    setup: Setup,
    keep: Keep = JUST_RTS,
    *,
    chunk_steps: int | None = None,
    start: Stage | None = None,
) -> Iterator[Stage]:
    """One run, from its warm-up to the end of sampling.

    ```python
    for stage in walk_stages(AnnealedStart(), setup):
        print(stage.kind.label, stage.done, stage.num_steps)
    rts(stage.recording.stats)
    ```

    Args:
        warmup: Makes the stages before sampling.
        setup: What the run is made of.
        keep: What sampling keeps beyond the sums for RTS.
        chunk_steps: A stage is also yielded after at least so many steps; None: only at its end.
        start: A stage to go on from, such as one from a checkpoint; None: the warm-up's first.

    Yields:
        Each stage when it begins (with `done` 0), after every chunk, and at its end.
    """
    for _, stage in drive(warmup, [setup], keep, chunk_steps=chunk_steps, start=start):
        yield stage


def drive(
    warmup: AbstractWarmup,
    setups: Sequence[Setup],
    keep: Keep = JUST_RTS,
    *,
    chunk_steps: int | None = None,
    start: Stage | None = None,
) -> Iterator[tuple[int, Stage]]:
    """Runs that differ in their keys alone, each from a warm-up of its own to the end of sampling.

    On an accelerator the runs walk in one program while all their stages have the same form; else, and on a CPU, one
    after the other, to the bits of single runs.

    Args:
        warmup: Makes the stages before sampling.
        setups: What each run is made of.
        keep: What sampling keeps beyond the sums for RTS.
        chunk_steps: A stage is also yielded after at least so many steps; None: only at its end.
        start: A stage that every run goes on from; None: the warm-up's first.

    Yields:
        The number of a run, and its stage as far as it has come.
    """
    stages: dict[int, Stage] = {}
    for run, setup in enumerate(setups):
        stages[run] = warmup.first(setup) if start is None else start
        if start is None:
            yield run, stages[run]
    while stages:
        for party in _parties(stages):
            members, keys = [stages[run] for run in party], [setups[run].key for run in party]
            for reached in _walk_party(members, keys, keep, chunk_steps):
                for run, stage in zip(party, reached, strict=True):
                    stages[run] = stage
                    yield run, stage
            for run, key in zip(party, keys, strict=True):
                finished = stages[run].with_tours_finished(key, keep)
                if finished is not stages[run]:
                    stages[run] = finished
                    yield run, finished
        stages = {run: warmup.after(setups[run], stage) for run, stage in stages.items() if not stage.is_sampling}
        yield from stages.items()


def _parties(stages: dict[int, Stage]) -> list[list[int]]:
    """All runs together where they may share a program; else, and on a CPU, each walks by itself.

    A program is compiled for a number of runs. Parties of many sizes would compile more than they save.
    """
    is_together = jax.default_backend() != "cpu" and len({same_form(stage) for stage in stages.values()}) == 1
    return [list(stages)] if is_together else [[run] for run in stages]


def _walk_party(stages: list[Stage], keys: list[Key], keep: Keep, chunk_steps: int | None) -> Iterator[list[Stage]]:
    if len(stages) == 1:
        for stage in stages[0].walk(keys[0], keep, chunk_steps):
            yield [stage]
    else:
        yield walk_together(stages, keys, keep)
