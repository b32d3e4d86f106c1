"""Every method on one model at matched cost, side by side."""

import dataclasses
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import reduce
from typing import Any

import jax
import numpy as np

from tempering import _defaults
from tempering._errors import InputError, check_count
from tempering._signatures import suggests
from tempering.api.estimation import Interrupted
from tempering.api.job import keeps_states
from tempering.api.memory import check_chains, check_sweeps
from tempering.api.runs import Plan, Runs, Stopped
from tempering.api.settings import Betas, RungWeights, Settings, check_model, check_move
from tempering.estimators.methods import METHODS, Method, RunKind
from tempering.kernels import AbstractMove
from tempering.ladder import AbstractPath, Ladder
from tempering.models import AbstractModel
from tempering.progress import Progress, Watch, check_progress, shown
from tempering.results import Comparison, Entry, SideBySide
from tempering.sampling import AbstractWarmup, Setup
from tempering.stats import Keep
from tempering.warmups import tuned_if_needed

_FULL_WARMUP_BUDGET = 1500  # with less than this in all, the default warm-up shrinks to a third of it
_MIN_BUDGET = 4  # a step of annealing, two of equilibration, one that counts
_LEFT_OUT = {"raise": "it starts from rows of data, give them as `data`"}  # where there are none
_NOT_REACHED = "the comparison was stopped before it was done"
_ONE_LENGTH = "Methods are compared at one number of sweeps: give `budget`, or `num_sweeps`."


@suggests({
    "target_error": f"That is for `estimate`. {_ONE_LENGTH}",
    "max_sweeps": _ONE_LENGTH, "max_seconds": _ONE_LENGTH,
    "witnesses": "That is for `estimate`, whose run it asks; methods that read the same run miss the same mass.",
    "out": "Save what it returns: `comparison.to_json()`.",
})  # fmt: skip
def compare(
    model: AbstractModel,
    base: Any = None,
    *,
    data: np.ndarray | None = None,
    methods: str | Iterable[str] = "all",
    budget: int | None = None,
    num_rungs: int | str | None = Settings.num_rungs,
    betas: Betas = Settings.betas,
    rung_weights: RungWeights = Settings.rung_weights,
    num_chains: int = Settings.num_chains,
    num_sweeps: int = _defaults.LENGTH,
    move: AbstractMove | None = None,
    warmup: str | AbstractWarmup = Settings.warmup,
    repeats: int = 1,
    truth: float | None = None,
    seed: int = Settings.seed,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Estimate log Z by every method, each at the same number of sweeps per chain.

    ```python
    comparison = tp.compare(rbm, base=training_data, methods="rts,mbar,ais", budget=1500)
    print(comparison)  # a table
    comparison.agree, comparison.lower_bound, comparison.upper_bound
    ```

    Methods that can read the same run share it.

    Args:
        model: What log Z is wanted of.
        base: What tempering starts from; see `estimate`.
        data: Rows from which RAISE starts. Without them, rows of data given as `base` serve; without either "all"
            leaves RAISE out, and `comparison.left_out` says so.
        methods: "all", or names with commas between them, or a list of names.
        budget: Sweeps per chain in all, the warm-up included. Without it tempering takes its warm-up and `num_sweeps`,
            and the others as many as that.
        num_chains: Independent chains.
        num_sweeps: Sweeps per chain after the warm-up, where no `budget` is given.
        num_rungs: Inverse temperatures, or "auto".
        betas: Where the rungs are; see `estimate`.
        rung_weights: How much of the tempered run each rung gets; see `estimate`.
        move: How x moves, where the model's own way is not wanted.
        warmup: Its name, or an object of `tp.warmups`.
        repeats: How many seeds, from `seed` on.
        truth: The true log Z, from which errors are counted; enumerated where that is quick.
        seed: The first seed.
        watch: Called with a `Progress` of the run under way, after every chunk. If it returns True the comparison
            stops, with the methods and the seeds that are done.
        progress: Whether a bar on standard error shows the run and the stage under way. By default where that is a
            terminal, and in a notebook, unless `watch` is given.

    Returns:
        Every method's answer, verdict and cost, and whether any two disagree.

    Raises:
        InputError: An argument cannot be used as asked.
        Interrupted: `watch` stopped the comparison before any method was done.
    """
    settings = Settings(num_chains, num_sweeps, num_rungs, betas, rung_weights, warmup, seed=seed)
    check_model(model)
    check_move(move)
    settings = settings.with_spacing(model.spacing())
    check_count("`repeats`", repeats, 1)
    check_progress(progress)
    truth = None if truth is None else _checked_truth(truth)
    if budget is not None:
        check_count("`budget`", budget, _MIN_BUDGET, " sweeps")
        check_sweeps("budget", budget)
    base = data if base is None else base
    rows = data if data is not None else _rows_of(base)
    chosen = _chosen(methods, has_rows=rows is not None)
    left_out = {name: why for name, why in _LEFT_OUT.items() if methods == "all" and rows is None}
    path = model.path(base, settings.make_betas())
    keep = reduce(_both, (method.keep for method in chosen))
    keep = dataclasses.replace(keep, states=keeps_states(model, path))  # their tails are looked at
    plan = _plan(path, model.move() if move is None else move, settings, budget, keep)
    found: dict[int, list[Entry]] = {}  # by seed
    with shown(progress, watch, names_runs=True) as told, suppress(Stopped):
        for repeat in range(repeats):
            number = (seed + repeat) % 2**32
            starts = None if rows is None else _starts(model, path, rows, num_chains, number)
            setup = dataclasses.replace(plan.setup, key=jax.random.key(number))
            watched = _heard(told, repeat=repeat, num_repeats=repeats)
            runs = Runs(dataclasses.replace(plan, setup=setup, rows=starts), watched)
            found[number] = []
            for method in chosen:
                found[number].append(_entry(method, runs))
    sides = _done(found, len(chosen))
    left_out |= {method.name: _NOT_REACHED for method in chosen[len(sides[0].entries) :]}
    is_complete = len(sides) == repeats and len(sides[0].entries) == len(chosen)
    truth = model.quick_log_z() if truth is None else truth
    return Comparison(sides, truth, num_chains, left_out, is_complete)


def _plan(path: AbstractPath, move: AbstractMove, asked: Settings, budget: int | None, keep: Keep) -> Plan:
    ladder = Ladder.create(path, asked.make_log_prior(asked.make_betas()))
    warmup = asked.make_warmup()
    if asked.warmup == Settings.warmup and budget is not None and budget < _FULL_WARMUP_BUDGET:
        warmup = warmup.scaled(budget / _FULL_WARMUP_BUDGET)
    keep = dataclasses.replace(keep, moves=not move.always_accepts)
    check_chains(ladder, keep, asked.num_chains)
    setup = Setup(jax.random.key(asked.seed), ladder, move, asked.num_chains, asked.num_sweeps, budget)
    return Plan(setup, tuned_if_needed(warmup, move), keep)


def _entry(method: Method, runs: Runs) -> Entry:
    run = runs.finished(method.kind)
    started = time.perf_counter()
    answer = method.answer(run.kept, log_z_base=runs.plan.setup.ladder.path.log_z_base())
    seconds = run.seconds + time.perf_counter() - started
    return Entry(method, answer, run.findings, run.num_sweeps, seconds, method.num_bytes(run.kept))


def _done(found: dict[int, list[Entry]], num_methods: int) -> tuple[SideBySide, ...]:
    """The seeds with all methods; if there are none, the first seed with those methods that were done."""
    whole = {seed: entries for seed, entries in found.items() if len(entries) == num_methods}
    sides = whole or dict(list(found.items())[:1])
    if not any(sides.values()):
        raise Interrupted("The comparison was stopped before any method was done; there is no estimate yet.")
    return tuple(SideBySide(seed, tuple(entries)) for seed, entries in sides.items())


def _chosen(methods: str | Iterable[str], *, has_rows: bool) -> list[Method]:
    """The methods by name, in the order of the table."""
    names = [name.strip() for name in methods.split(",") if name.strip()] if isinstance(methods, str) else list(methods)
    if names == ["all"]:
        return [m for m in METHODS.values() if has_rows or m.kind is not RunKind.DOWN_FROM_DATA]
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise InputError(f"`methods` must be all, or some of {', '.join(METHODS)}; got {', '.join(unknown) or 'none'}.")
    if not has_rows and any(METHODS[name].kind is RunKind.DOWN_FROM_DATA for name in names):
        raise InputError("RAISE starts from rows of data: give them as `data` or `base`, or use reverse_ais instead.")
    return [method for name, method in METHODS.items() if name in names]


def _checked_truth(truth: Any) -> float:
    if not isinstance(truth, int | float | np.number) or not np.isfinite(truth):
        raise InputError(f"`truth` must be a finite number, the true log Z; got {truth!r}. Leave it out if unknown.")
    return float(truth)


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


def _heard(watch: Watch | None, **about: int) -> Watch:
    def heard(progress: Progress) -> bool | None:
        return None if watch is None else watch(dataclasses.replace(progress, **about))

    return heard
