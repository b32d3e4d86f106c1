"""The table of all methods: the run that each reads, what that run must keep, and the sign of its bias."""

import dataclasses
import enum
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tempering.estimators.adjusted import sams, wang_landau
from tempering.estimators.annealed import ais
from tempering.estimators.bennett import bar_chain
from tempering.estimators.equilibration import equilibrated
from tempering.estimators.log_z import LogZ
from tempering.estimators.mixed_guesses import mixed
from tempering.estimators.multistate import mbar
from tempering.estimators.reverse import raise_bound, reverse_ais
from tempering.estimators.rts_after_equilibration import equilibrated_rts
from tempering.estimators.stationary import rsd, sd
from tempering.estimators.stepping import stepping_stone
from tempering.estimators.tempered import bias_corrected_rts, continuous_rts, ts
from tempering.estimators.thermodynamic import ti
from tempering.ladder import AbstractPath
from tempering.stats import JUST_RTS, AnnealWeights, BlockedStats, Keep, Recording


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
    """

    path: AbstractPath
    recording: Recording
    earlier: tuple[BlockedStats, ...] = ()


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


def _from_stats(name: str, estimator: Callable[..., LogZ], field: str, keep: Keep = JUST_RTS, errs: str = "") -> Method:
    """A method that reads some sums of a tempered run after equilibration."""
    return Method(
        name,
        RunKind.TEMPERED,
        lambda run, **base: estimator(equilibrated(run.recording.stats), **base),
        lambda run: [getattr(run.recording.stats, field)],
        keep,
        errs,
    )


def _from_draws(name: str, estimator: Callable[..., LogZ]) -> Method:
    """A method that reads the draws themselves."""
    return Method(
        name,
        RunKind.TEMPERED,
        lambda run, **base: estimator(run.recording.features.reduced_draws(run.path), **base),
        lambda run: [run.recording.features.features, run.recording.features.rungs],
        Keep(features=True),
    )


def _increments(weights: AnnealWeights) -> list[np.ndarray]:
    return [weights.log_increments]


_SLOPES, _STEPS = Keep(slopes=True), Keep(steps=True)
_ALL = (
    Method("rts", RunKind.TEMPERED, lambda run, **base: equilibrated_rts(run.recording, **base),
           lambda run: [run.recording.stats.log_sums]),
    _from_stats("rts_corrected", bias_corrected_rts, "log_sums"),
    _from_stats("ts", ts, "visits"),
    Method("sd", RunKind.TEMPERED, lambda run, **base: sd(run.recording, **base),
           lambda run: [run.recording.transition_counts]),
    Method("rsd", RunKind.TEMPERED, lambda run, **base: rsd(run.recording, **base),
           lambda run: [run.recording.transition_sums], Keep(transitions=True)),
    Method("mixed", RunKind.TEMPERED, lambda run, **base: mixed([*run.earlier, run.recording.stats], **base),
           lambda run: [stats.log_sums for stats in (*run.earlier, run.recording.stats)]),
    Method("continuous", RunKind.CONTINUOUS, continuous_rts, lambda stats: [stats.log_sums]),
    _from_stats("ti_riemann", partial(ti, rule="riemann"), "counted_slopes", _SLOPES),
    _from_stats("ti_trapezoid", partial(ti, rule="trapezoid"), "counted_slopes", _SLOPES),
    _from_stats("ti_simpson", partial(ti, rule="simpson"), "counted_slopes", _SLOPES),
    _from_stats("ti_corrected", partial(ti, rule="corrected"), "counted_slopes", _SLOPES),
    _from_stats("ti_rb", partial(ti, rule="trapezoid", rao_blackwell=True), "weighted_slopes", _SLOPES),
    _from_stats("stepping_up", partial(stepping_stone, direction="up"), "log_steps", _STEPS, "low"),
    _from_stats("stepping_down", partial(stepping_stone, direction="down"), "log_steps", _STEPS, "high"),
    _from_draws("bar", bar_chain),
    _from_draws("mbar", mbar),
    Method("wang_landau", RunKind.WANG_LANDAU, wang_landau, lambda adjusted: [adjusted.log_z, adjusted.posterior]),
    Method("sams", RunKind.SAMS, sams, lambda adjusted: [adjusted.log_z, adjusted.posterior]),
    Method("ais", RunKind.ANNEALED, lambda weights, **base: ais(weights.log_weights(), **base), _increments,
           errs="low"),
    Method("reverse_ais", RunKind.DOWN_FROM_TARGET,
           lambda weights, **base: reverse_ais(weights.log_weights_down(), **base), _increments, errs="high"),
    Method("raise", RunKind.DOWN_FROM_DATA,
           lambda weights, **base: raise_bound(weights.log_weights_down(), **base), _increments, errs="high"),
)  # fmt: skip

METHODS = {method.name: method for method in _ALL}
