"""Repeats of runs that several figures make."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tempering._logspace import log_mean_exp
from tempering._types import Key
from tempering.api.job import Job
from tempering.api.replicates import num_at_once
from tempering.api.settings import Settings
from tempering.estimators.methods import METHODS, TemperedRun
from tempering.kernels import AbstractMove, AnnealDown, positions_at_target
from tempering.ladder import Ladder, uniform_betas
from tempering.models import AbstractModel
from tempering.sampling import AbstractWarmup, Setup, Stage, drive, run_chains, walk_stages
from tempering.stats import JUST_RTS, Keep
from tempering.warmups import AnnealedStart, Annealing, InitialIterations

REFERENCE_500 = 451.25
"""log Z of Salakhutdinov's RBM: the mean of 40 runs of 100 chains and 40,000 sweeps, ± 0.01. Published: 451.28.

`experiments/reference.py` makes it again, and a test compares it with benchmarks/results/reference.json where that is
there. Everything that needs this number takes it from here.
"""

NUM_PASSES = 100  # of annealing in one repeat, as many as RTS has chains
_BLOCK = 1000  # steps of annealing whose weights are on the device at a time

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
    return read_errors(model, base, truth, seeds, ["rts"], num_sweeps=num_sweeps, **settings)["rts"]


def read_errors(
    model: AbstractModel, base: Any, truth: float, seeds: Sequence[int], methods: Sequence[str], **settings: Any
) -> dict[str, list[float]]:
    """Errors of several methods over seeds, by name. All read the same tempered runs.

    Args:
        model: What is estimated.
        base: What tempering starts from.
        truth: Its log Z.
        seeds: One for each run.
        methods: Their names.
        settings: Of `estimate_many`.

    Returns:
        Estimates less the truth, by method.
    """
    job = Job(model, base, Settings(method="rts", **settings), keep_draws=False)
    wanted = [METHODS[method] for method in methods]
    flags = ("slopes", "steps", "transitions", "features")
    keep = dataclasses.replace(job.keep, **{flag: any(getattr(m.keep, flag) for m in wanted) for flag in flags})
    errors: dict[str, list[float]] = {method: [] for method in methods}
    size, log_z_base = num_at_once(job), job.ladder.path.log_z_base()
    for party in (seeds[start : start + size] for start in range(0, len(seeds), size)):
        ended = dict(drive(job.warmup, [job.setup(seed) for seed in party], keep))  # the last stage of each run
        for stage in ended.values():
            run = TemperedRun(stage.ladder.path, stage.complete_recording)
            for method in wanted:
                errors[method.name].append(method.answer(run, log_z_base=log_z_base).log_z - truth)
    return errors


def ais_errors(model: AbstractModel, base: Any, truth: float, num_steps: int, seeds: Sequence[int]) -> list[float]:
    """Errors of AIS: 100 passes for each seed, all of them walked together; steps in β are equal.

    Args:
        model: What is estimated.
        base: What annealing starts from.
        truth: Its log Z.
        num_steps: Of each pass.
        seeds: As many repeats as there are.

    Returns:
        Estimates less the truth.
    """
    key, ladder = jax.random.key(seeds[0]), Ladder.create(model.path(base, uniform_betas(100)))
    setup = Setup(key, ladder, model.move(), len(seeds) * NUM_PASSES, num_steps=1)
    weights = _total_log_weights(key, AnnealedStart(anneal_steps=num_steps).first(setup), len(seeds))
    return (ladder.path.log_z_base() + log_mean_exp(weights, axis=1) - truth).tolist()


def raise_errors(
    model: AbstractModel, base: Any, truth: float, num_steps: int, seeds: Sequence[int], data: np.ndarray
) -> list[float]:
    """Errors of RAISE: passes down from 100 rows of data for each seed, all of them walked together.

    Args:
        model: What is estimated.
        base: Where annealing ends.
        truth: Its log Z.
        num_steps: Of each pass.
        seeds: As many repeats as there are.
        data: Rows, of which each repeat has its own.

    Returns:
        Estimates less the truth.
    """
    key, ladder = jax.random.key(seeds[0]), Ladder.create(model.path(base, uniform_betas(num_steps + 1)))
    rows = np.random.default_rng(seeds[0]).choice(len(data), len(seeds) * NUM_PASSES, replace=False)
    positions = positions_at_target(ladder.path, model.states_of(ladder.path, data[rows]))
    stage = Stage.first(Annealing(), ladder, AnnealDown(model.move()), positions, num_steps)
    return (ladder.path.log_z_base() - _total_log_weights(key, stage, len(seeds)).mean(axis=1) - truth).tolist()


def _total_log_weights(key: Key, stage: Stage, num_repeats: int) -> np.ndarray:
    """The log weights of whole passes, as (repeat, pass)."""
    blocks = run_chains(
        key, stage.ladder, stage.kernel, stage.empty_record(), stage.states, num_steps=stage.num_steps,
        block_steps=min(stage.block_steps, _BLOCK), wants_states=lambda done: False,
    )  # fmt: skip
    total = sum(block.record.on_host().log_increments.sum(axis=1) for block in blocks)
    return np.reshape(total, (num_repeats, NUM_PASSES))


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
