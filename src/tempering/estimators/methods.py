"""The table of all methods: the run that each reads, what that run must keep, and the sign of its bias."""

import dataclasses
import enum
from collections.abc import Callable
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from tempering.estimators.adjusted import sams, wang_landau
from tempering.estimators.annealed import ais
from tempering.estimators.auto import auto
from tempering.estimators.bennett import bar_chain
from tempering.estimators.bridging import bridge_sampling
from tempering.estimators.equilibration import equilibrated
from tempering.estimators.log_z import LogZ
from tempering.estimators.mixed_guesses import mixed
from tempering.estimators.multistate import mbar
from tempering.estimators.reverse import raise_bound, reverse_ais
from tempering.estimators.rts_after_equilibration import equilibrated_rts
from tempering.estimators.shared_starts import with_shared_starts
from tempering.estimators.stationary import rsd, sd
from tempering.estimators.stepping import stepping_stone
from tempering.estimators.tempered import bias_corrected_rts, continuous_rts, ts
from tempering.estimators.thermodynamic import RULES, ti
from tempering.ladder import AbstractPath
from tempering.stats import JUST_RTS, BlockedStats, Keep, Recording


class RunKind(enum.Enum):
    """The kinds of runs that estimates are made from; all methods of one kind share one run."""

    TEMPERED = "simulated tempering"
    CONTINUOUS = "simulated tempering, β continuous"
    WANG_LANDAU = "Wang-Landau"
    SAMS = "self-adjusted mixture sampling"
    ANNEALED = "annealing up"
    DOWN_FROM_TARGET = "annealing down from draws"
    DOWN_FROM_DATA = "annealing down from data"


@dataclasses.dataclass(frozen=True)
class TemperedRun:
    """A finished run of simulated tempering, as its methods read it.

    Attributes:
        path: The path that was sampled.
        recording: What the run kept.
        earlier: The statistics of the warm-up's tempered stages, each with its own Ẑ.
        families: The particle that the start of each chain descends from; None where starts are independent.
    """

    path: AbstractPath
    recording: Recording
    earlier: tuple[BlockedStats, ...] = ()
    families: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Method:
    """How one estimate is made from a finished run.

    Attributes:
        name: The name of the method, as in `tempering.estimate(method=...)`.
        kind: The run that it reads.
        answer: `answer(run, log_z_base=...)` gives the estimate; `run` is a `TemperedRun`, or what its kind leaves.
        kept: The arrays that it needs of the run, to count their bytes.
        keep: What the run must keep for it.
        errs: The sign of its bias by theory: "low", "high", or "" where it is unknown.
    """

    name: str
    kind: RunKind
    answer: Callable[..., LogZ]
    kept: Callable[[Any], Any]
    keep: Keep = JUST_RTS
    errs: str = ""

    def num_bytes(self, run: Any) -> int:
        """The memory that a run must keep until its end for this method, in bytes.

        Args:
            run: What `answer` takes.
        """
        return sum(np.asarray(array).nbytes for array in self.kept(run))


def _applied(estimator: Callable[..., LogZ], read: Callable[[Any], Any]) -> Callable[..., LogZ]:
    """The estimator as a function of the run, of which it takes a part."""
    return lambda run, **base: estimator(read(run), **base)


def _tempered(estimator: Callable[..., LogZ], read: Callable[[TemperedRun], Any]) -> Callable[..., LogZ]:
    """The same for a tempered run, with the error that chains share from their starts."""
    return lambda run, **base: with_shared_starts(estimator(read(run), **base), run.families)


def _arrays(*names: str) -> Callable[[Any], list[np.ndarray]]:
    """The arrays of a run by their dotted names."""
    return lambda run: [attrgetter(name)(run) for name in names]


def _from_recording(name: str, estimator: Callable[..., LogZ], *fields: str, keep: Keep = JUST_RTS) -> Method:
    """A method that reads all that a tempered run kept."""
    answer = _tempered(estimator, attrgetter("recording"))
    return Method(name, RunKind.TEMPERED, answer, _arrays(*(f"recording.{field}" for field in fields)), keep)


def _from_stats(name: str, estimator: Callable[..., LogZ], field: str, keep: Keep = JUST_RTS, errs: str = "") -> Method:
    """A method that reads some sums of a tempered run after equilibration."""
    answer = _tempered(estimator, lambda run: equilibrated(run.recording.stats))
    return Method(name, RunKind.TEMPERED, answer, _arrays(f"recording.stats.{field}"), keep, errs)


def _from_draws(name: str, estimator: Callable[..., LogZ]) -> Method:
    """A method that reads the draws themselves."""
    answer = _applied(estimator, lambda run: run.recording.features.reduced_draws(run.path))
    kept = _arrays("recording.features.features", "recording.features.rungs")
    return Method(name, RunKind.TEMPERED, answer, kept, Keep(features=True))


def _from_weights(name: str, kind: RunKind, estimator: Callable[..., LogZ], by_rung: str, errs: str) -> Method:
    """A method that reads the log weights of annealing passes."""
    return Method(name, kind, _applied(estimator, methodcaller(by_rung)), _arrays("log_increments"), errs=errs)


_SLOPES, _STEPS, _BRIDGES = Keep(slopes=True), Keep(steps=True), Keep(bridges=True)
_ALL = (
    _from_recording("rts", equilibrated_rts, "stats.log_sums"),
    _from_recording("auto", auto, "stats.log_sums", "stats.log_bridges", keep=_BRIDGES),
    _from_stats("rts_corrected", bias_corrected_rts, "log_sums"),
    _from_stats("ts", ts, "visits"),
    _from_recording("sd", sd, "transition_counts"),
    _from_recording("rsd", rsd, "transition_sums", keep=Keep(transitions=True)),
    Method("mixed", RunKind.TEMPERED, _applied(mixed, lambda run: [*run.earlier, run.recording.stats]),
           lambda run: [stats.log_sums for stats in (*run.earlier, run.recording.stats)]),
    Method("continuous", RunKind.CONTINUOUS, continuous_rts, _arrays("log_sums")),
    *(_from_stats(f"ti_{rule}", partial(ti, rule=rule), "counted_slopes", _SLOPES) for rule in RULES),
    _from_stats("ti_rb", partial(ti, rule="trapezoid", rao_blackwell=True), "weighted_slopes", _SLOPES),
    _from_stats("stepping_up", partial(stepping_stone, direction="up"), "log_steps", _STEPS, "low"),
    _from_stats("stepping_down", partial(stepping_stone, direction="down"), "log_steps", _STEPS, "high"),
    _from_stats("bridge", bridge_sampling, "log_bridges", _BRIDGES),
    _from_draws("bar", bar_chain),
    _from_draws("mbar", mbar),
    Method("wang_landau", RunKind.WANG_LANDAU, wang_landau, _arrays("log_z", "posterior")),
    Method("sams", RunKind.SAMS, sams, _arrays("log_z", "posterior")),
    _from_weights("ais", RunKind.ANNEALED, ais, "log_weights", "low"),
    _from_weights("reverse_ais", RunKind.DOWN_FROM_TARGET, reverse_ais, "log_weights_down", "high"),
    _from_weights("raise", RunKind.DOWN_FROM_DATA, raise_bound, "log_weights_down", "high"),
)  # fmt: skip

METHODS = {method.name: method for method in _ALL}
