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

    On an accelerator runs whose stages have the same form walk in one program. Those that are ahead wait for the others
    where that lets them share one. On a CPU runs walk one after the other, to the bits of single runs.

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
        parties = _parties(stages)
        for party in parties:
            members, keys = [stages[run] for run in party], [setups[run].key for run in party]
            for reached in _walk_party(members, keys, keep, chunk_steps, len(setups)):
                for run, stage in zip(party, reached, strict=True):
                    stages[run] = stage
                    yield run, stage
            for run, key in zip(party, keys, strict=True):
                finished = stages[run].with_tours_finished(key, keep).with_tails_seen(key, keep)
                if finished is not stages[run]:
                    stages[run] = finished
                    yield run, finished
        walked = {run: stages.pop(run) for party in parties for run in party}
        later = {run: warmup.after(setups[run], stage) for run, stage in walked.items() if not stage.is_sampling}
        yield from later.items()
        stages |= later


def _parties(stages: dict[int, Stage]) -> list[list[int]]:
    """The runs that walk next, those together that may share a program; on a CPU each walks by itself.

    Runs whose stages are of an earlier sort come first: those that climb before those that are tempered, and all of the
    warm-up before sampling. So runs that take different ways through the warm-up sample together.
    """
    if jax.default_backend() == "cpu":
        return [[run] for run in stages]
    sorts = {run: (stage.is_sampling, stage.kind.is_tempered) for run, stage in stages.items()}
    parties: dict[str, list[int]] = {}
    for run, stage in stages.items():
        if sorts[run] == min(sorts.values()):
            parties.setdefault(same_form(stage), []).append(run)
    return list(parties.values())


def _walk_party(
    stages: list[Stage], keys: list[Key], keep: Keep, chunk_steps: int | None, num_runs: int
) -> Iterator[list[Stage]]:
    if num_runs == 1 or jax.default_backend() == "cpu":
        for stage in stages[0].walk(keys[0], keep, chunk_steps):
            yield [stage]
    elif not stages[0].is_finished:  # all of them are, or none
        yield walk_together(stages, keys, keep, size=num_runs)
