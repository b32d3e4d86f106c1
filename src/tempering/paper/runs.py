"""Repeats of runs that several figures make."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tempering.api import compare, estimate_many
from tempering.kernels import AbstractMove
from tempering.ladder import Ladder
from tempering.models import AbstractModel
from tempering.sampling import AbstractWarmup, Setup, Stage, walk_stages
from tempering.stats import JUST_RTS, Keep
from tempering.warmups import InitialIterations

REFERENCE_500 = 451.25
"""log Z of Salakhutdinov's RBM: the mean of many long runs, ± 0.01 (experiments/reference.py). Published: 451.28."""

PAPERS_WARMUP = InitialIterations(steps=50, max_iterations=10, min_iterations=10)
"""10 initial iterations of 50 sweeps each, as in Section 4.2."""

PAPERS_SETTINGS = {"warmup": PAPERS_WARMUP, "betas": "uniform", "num_rungs": 100, "rung_weights": "uniform"}
"""A run as the paper made it, as arguments of `estimate_many`: its warm-up, 100 linear rungs, equal rung weights."""


def rts_errors(
    model: AbstractModel, base: Any, truth: float, num_sweeps: int, seeds: Sequence[int], **settings: Any
) -> list[float]:
    """Errors of RTS over seeds.

    Args:
        model: What is estimated.
        base: What tempering starts from.
        truth: Its log Z.
        num_sweeps: After the warm-up.
        seeds: One for each run.
        settings: Of `estimate_many`.

    Returns:
        Estimates less the truth.
    """
    options = {"method": "rts", **settings}
    return [r.log_z - truth for r in estimate_many(model, base, seeds=seeds, num_sweeps=num_sweeps, **options)]


def compared_errors(
    model: AbstractModel, base: Any, truth: float, seeds: Sequence[int], methods: str, **settings: Any
) -> dict[str, list[float]]:
    """Errors of several methods over seeds, by name.

    Args:
        model: What is estimated.
        base: What tempering starts from.
        truth: Its log Z.
        seeds: They follow one another.
        methods: Names with commas between them.
        settings: Of `compare`.

    Returns:
        Estimates less the truth, by method.
    """
    found = compare(
        model, base, methods=methods, seed=seeds[0], repeats=len(seeds), truth=truth, progress=False, **settings
    )
    errors: dict[str, list[float]] = {}
    for side in found.repeats:
        for entry in side.entries:
            errors.setdefault(entry.method.name, []).append(entry.answer.log_z - truth)
    return errors


def one_chain(
    model: AbstractModel, seed: int, betas: np.ndarray, warmup: AbstractWarmup, move: AbstractMove | None = None
) -> Stage:
    """A warm-up with 100 chains under equal rung weights; one of them, about to begin.

    Args:
        model: What is sampled.
        seed: Of the run.
        betas: The inverse temperatures.
        warmup: What comes before.
        move: How x moves, where not in the model's own way.

    Returns:
        The stage of sampling, with one chain.
    """
    ladder = Ladder.create(model.path(None, betas))
    setup = Setup(jax.random.key(seed), ladder, model.move() if move is None else move, 100, num_steps=1)
    stage = next(stage for stage in walk_stages(warmup, setup) if stage.is_sampling)
    return dataclasses.replace(stage, states=jax.tree.map(lambda leaf: leaf[:1], stage.states), block_steps=250)


def walked(stage: Stage, seed: int, keep: Keep = JUST_RTS) -> Stage:
    """A stage at its end.

    Args:
        stage: Where it begins.
        seed: Of the run.
        keep: What the run keeps.

    Returns:
        The same stage, walked.
    """
    return [stage, *stage.walk(jax.random.key(seed), keep)][-1]
