"""`estimate` for many seeds, for studies of error bars."""

import dataclasses
import time
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from tempering import _defaults
from tempering._signatures import suggests
from tempering.api.job import Job
from tempering.api.settings import Betas, RungWeights, Settings
from tempering.kernels import AbstractMove
from tempering.models import AbstractModel
from tempering.results import Result
from tempering.sampling import AbstractWarmup, drive
from tempering.stats import MOST_ALONE

_AT_ONCE = 10**6  # chains times rungs of the runs in one program: their records are all on the host at the end
_MOST_AT_ONCE = 100  # of these runs


@suggests({
    "target_error": "All its runs have one length; use `estimate` with a `target_error` for each seed.",
    "progress": "Its results come one by one: count them, or give them to a bar of your own.",
    "witnesses": "Witnesses are asked after a single run; use `estimate` with `witnesses` for each seed.",
    "seed": "Give `seeds`, one for each run.",
})  # fmt: skip
def estimate_many(
    model: AbstractModel,
    base: Any = None,
    *,
    seeds: Iterable[int],
    method: str = Settings.method,
    num_chains: int = Settings.num_chains,
    num_sweeps: int = _defaults.LENGTH,
    num_rungs: int | str | None = Settings.num_rungs,
    betas: Betas = Settings.betas,
    rung_weights: RungWeights = Settings.rung_weights,
    warmup: str | AbstractWarmup = Settings.warmup,
    move: AbstractMove | None = None,
    keep_draws: bool | None = None,
) -> Iterator[Result]:
    """`estimate` for many seeds, to see how its answers scatter and how often its intervals hold.

    ```python
    results = list(tp.estimate_many(rbm, base=frequencies, seeds=range(100), num_sweeps=300))
    ```

    On an accelerator many runs walk in one program, and come when all of them are done; an RBM's have the bits of
    `estimate`. On a CPU they come one by one, each with these bits.

    Args:
        model: As for `estimate`, and so are all arguments but `seeds`.
        base: What tempering starts from.
        seeds: One for each run.
        num_chains: Independent chains of each run.
        num_sweeps: Sweeps per chain, after the warm-up.
        num_rungs: Inverse temperatures, or "auto".
        betas: Where the rungs are.
        rung_weights: How much of a run each rung gets.
        move: How x moves, where the model's own way is not wanted.
        warmup: Its name, or an object of `tp.warmups`.
        method: The estimator.
        keep_draws: Whether states are kept, as draws of the target; by default for densities and posteriors.

    Returns:
        An iterator over results, in the order of the seeds.
    """
    settings = Settings(num_chains, num_sweeps, num_rungs, betas, rung_weights, warmup, method)
    job, numbers = Job(model, base, settings, move=move, keep_draws=keep_draws), list(seeds)
    at_once = num_at_once(job)
    return _results(job, [numbers[start : start + at_once] for start in range(0, len(numbers), at_once)])


def num_at_once(job: Job) -> int:
    """How many runs share a program: one on a CPU, and where a run has so many chains that it joins their records."""
    num_chains = job.settings.num_chains
    if jax.default_backend() == "cpu" or num_chains > MOST_ALONE:
        return 1
    return max(1, min(_AT_ONCE // (num_chains * job.ladder.path.num_rungs), _MOST_AT_ONCE))


def _results(job: Job, parties: list[list[int]]) -> Iterator[Result]:
    for seeds in parties:
        started = time.perf_counter()
        stages = dict(drive(job.warmup, [job.setup(seed) for seed in seeds], job.keep))  # the last of each run
        seconds = (time.perf_counter() - started) / len(seeds)
        for run, seed in enumerate(seeds):
            yield dataclasses.replace(job.result(stages[run], seconds), seed=seed)
