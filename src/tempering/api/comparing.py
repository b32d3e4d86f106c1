"""Every method on one model at matched cost, side by side."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import jax
import numpy as np

from tempering._errors import InputError
from tempering.api.runs import Plan, Runs
from tempering.api.settings import Settings
from tempering.estimators.methods import METHODS, Method, RunKind
from tempering.kernels import AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath, Ladder
from tempering.models import AbstractModel
from tempering.results import Comparison, Entry, SideBySide
from tempering.stats import Keep
from tempering.warmups import AnnealedStart, tuned_if_needed

_FULL_WARMUP_BUDGET = 1500  # with less than this in all, the default warm-up shrinks to a third of it
_MIN_BUDGET = 4  # a step of annealing, two of settling, one that counts

Watch = Callable[[int, RunKind, str, float], None]


def compare(
    model: AbstractModel,
    base: Any = None,
    *,
    data: np.ndarray | None = None,
    move: AbstractMove | None = None,
    methods: str | Iterable[str] = "all",
    budget: int | None = None,
    repeats: int = 1,
    truth: float | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> Comparison:
    """log Z by every method, each at the same number of sweeps per chain; methods that can share a run share it.

    ```python
    comparison = compare(rbm, base=training_data, methods="rts,mbar,ais", budget=1500)
    comparison.agree, comparison.lower_bound, comparison.upper_bound
    ```

    `budget` counts all sweeps of a chain, warm-up included; without it tempering takes its warm-up and `num_sweeps`,
    and the others as many as that. `data` (or `base`, where it is rows of data) gives the starts of RAISE, which "all"
    leaves out where there are none. With `repeats` other seeds follow, and with a `truth`, given or enumerated, their
    errors are counted. `watch` hears the repeat, the run under way, its stage, and how much of that is done.
    """
    asked = Settings(**settings).with_spacing(model.spacing())
    if asked.target_error is not None:
        raise InputError(
            "`target_error` is for `estimate`; methods are compared at one number of sweeps. Give `budget`."
        )
    _check_counts(budget, repeats)
    base = data if base is None else base
    rows = data if data is not None else _rows_of(base)
    chosen = _chosen(methods, has_rows=rows is not None)
    path = model.path(base, asked.make_betas())
    plan = _plan(
        path, model.move() if move is None else move, asked, budget, reduce(_both, (method.keep for method in chosen))
    )
    sides = []
    for repeat in range(repeats):
        seed = (asked.seed + repeat) % 2**32
        own = (
            plan if rows is None else dataclasses.replace(plan, rows=_starts(model, path, rows, plan.num_chains, seed))
        )
        runs = Runs(own, jax.random.key(seed), _heard(watch, repeat))
        sides.append(SideBySide(seed, tuple(_entry(method, runs, plan.ladder) for method in chosen)))
    return Comparison(tuple(sides), model.quick_log_z() if truth is None else truth, plan.num_chains)


def _plan(path: AbstractPath, move: AbstractMove, asked: Settings, budget: int | None, keep: Keep) -> Plan:
    ladder = Ladder.create(path, asked.make_log_prior(asked.make_betas()))
    warmup = asked.make_warmup()
    if isinstance(warmup, AnnealedStart):
        budget = asked.num_sweeps + warmup.num_steps if budget is None else budget
        if asked.warmup == "annealed" and budget < _FULL_WARMUP_BUDGET:
            warmup = warmup.scaled(budget / _FULL_WARMUP_BUDGET)
    keep = dataclasses.replace(keep, moves=not isinstance(move, BlockGibbs))
    return Plan(ladder, move, tuned_if_needed(warmup, move), asked.num_chains, asked.num_sweeps, budget, keep)


def _entry(method: Method, runs: Runs, ladder: Ladder) -> Entry:
    run = runs.finished(method.kind)
    started = time.perf_counter()
    answer = method.answer(run.kept, log_z_base=ladder.path.log_z_base())
    seconds = run.seconds + time.perf_counter() - started
    return Entry(method, answer, run.findings, run.num_sweeps, seconds, method.num_bytes(run.kept))


def _chosen(methods: str | Iterable[str], *, has_rows: bool) -> list[Method]:
    """The methods by name, in the order of the table."""
    names = [name.strip() for name in methods.split(",")] if isinstance(methods, str) else list(methods)
    if names == ["all"]:
        return [m for m in METHODS.values() if has_rows or m.kind is not RunKind.DOWN_FROM_DATA]
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise InputError(f"`methods` must be all, or some of {', '.join(METHODS)}; got {', '.join(unknown) or 'none'}.")
    if not has_rows and any(METHODS[name].kind is RunKind.DOWN_FROM_DATA for name in names):
        raise InputError("`raise` starts from rows of data: give them as data or base, or use reverse_ais instead.")
    return [method for name, method in METHODS.items() if name in names]


def _starts(model: AbstractModel, path: AbstractPath, rows: np.ndarray, num_chains: int, seed: int) -> Any:
    """A state for every chain from a row of its own, or from rows drawn anew where there are fewer of them."""
    picked = np.random.default_rng(seed).choice(len(rows), num_chains, replace=len(rows) < num_chains)
    return model.states_of(path, rows[picked])


def _rows_of(base: Any) -> np.ndarray | None:
    is_array = isinstance(base, np.ndarray | jax.Array | list | tuple)
    return np.asarray(base) if is_array and np.ndim(base) == 2 else None


def _both(one: Keep, other: Keep) -> Keep:
    """What either needs."""
    return Keep(**{f.name: getattr(one, f.name) or getattr(other, f.name) for f in dataclasses.fields(Keep)})


def _heard(watch: Watch | None, repeat: int) -> Callable[[RunKind, str, float], None]:
    return lambda kind, stage, share: None if watch is None else watch(repeat, kind, stage, share)


def _check_counts(budget: int | None, repeats: int) -> None:
    if not isinstance(repeats, int) or repeats < 1:
        raise InputError(f"`repeats` must be a whole number, 1 or more; got {repeats!r}.")
    if budget is not None and (not isinstance(budget, int) or budget < _MIN_BUDGET):
        raise InputError(f"`budget` must be a whole number of sweeps, {_MIN_BUDGET} or more; got {budget!r}.")
