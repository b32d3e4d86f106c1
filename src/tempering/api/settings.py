"""How a run is made: the words and numbers that people give, checked before anything runs."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from tempering import _defaults
from tempering._errors import InputError, check_count, check_seed
from tempering.api.memory import MOST_SWEEPS, check_rungs, check_sweeps
from tempering.estimators.methods import METHODS, RunKind
from tempering.kernels import AbstractMove
from tempering.ladder import LadderRule, checked_betas
from tempering.models import AbstractModel
from tempering.sampling import AbstractWarmup
from tempering.warmups import AnnealedStart, HysteresisStart, InitialIterations, SelfAdjusting, SequentialStart

Betas: TypeAlias = str | Sequence[float | int] | np.ndarray
RungWeights: TypeAlias = str | Sequence[float | int] | np.ndarray

_FIRST_RUNGS = 100  # of a ladder for which no number was asked for, or whose number of rungs is chosen later
_ADJUSTING_SWEEPS = 500  # as many as the other warm-ups take
_METHODS = [m.name for m in METHODS.values() if m.kind is RunKind.TEMPERED and m.name != "mixed"]
_WARMUPS: dict[str, Callable[[], AbstractWarmup]] = {
    "sequential": SequentialStart,
    "annealed": AnnealedStart,
    "hysteresis": HysteresisStart,
    "iterations": InitialIterations,
    "sams": partial(SelfAdjusting, "sams", num_steps=_ADJUSTING_SWEEPS),
    "wang_landau": partial(SelfAdjusting, "wang_landau", num_steps=_ADJUSTING_SWEEPS),
}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a run is made. Every field is an argument of `estimate`, with its default.

    Attributes:
        num_chains: Independent chains.
        num_sweeps: Sweeps per chain, after the warm-up. None: until log Z has the `target_error` and the verdict is
            good.
        num_rungs: Rungs of the ladder, or "auto": as many as the warm-up says. None: 100, and more where an adaptive
            ladder is so long that their steps would be too wide.
        betas: Where the rungs are: "auto", "adaptive", "adaptive:rejection", "uniform", "power:P",
            "geometric:SMALLEST", or numbers that rise from 0 to 1.
        rung_weights: "auto", "ends", "ends:SHARE", "uniform", "exp:RATE" for r_k ∝ exp(RATE·β_k), or log r_k.
        warmup: "sequential", "annealed", "hysteresis", "iterations", "iterations:NUMBER:SWEEPS", "sams" or
            "wang_landau", or an object of `tempering.warmups`.
        method: The estimator, by its name: "auto", "rts", "ts", "sd", "rsd", "mbar", "ti_rb" …
        seed: Of all randomness.
        target_error: Go on until log Z has this standard error and the verdict is good; 0.1 where neither this nor
            `num_sweeps` is given.
        max_sweeps: But for no more sweeps per chain than this; by default 40 times as many as the first look takes.
        chunk_sweeps: Sweeps between checkpoints and calls of `watch`, rounded up to whole blocks.
    """

    num_chains: int = _defaults.NUM_CHAINS
    num_sweeps: int | None = None
    num_rungs: int | str | None = None
    betas: Betas = _defaults.BETAS
    rung_weights: RungWeights = _defaults.RUNG_WEIGHTS
    warmup: str | AbstractWarmup = _defaults.WARMUP
    method: str = _defaults.METHOD
    seed: int = _defaults.SEED
    target_error: float | None = None
    max_sweeps: int | None = None
    chunk_sweeps: int = _defaults.CHUNK_SWEEPS

    def __post_init__(self) -> None:
        for name, least in (("num_chains", 1), ("num_sweeps", 1), ("num_rungs", 2), ("chunk_sweeps", 1)):
            if name == "num_rungs" and self.num_rungs == "auto":
                self._check_words_alone()
            elif getattr(self, name) is not None:
                check_count(f"`{name}`", getattr(self, name), least, ', or "auto"' if name == "num_rungs" else "")
        for name in ("num_sweeps", "max_sweeps", "chunk_sweeps"):
            check_sweeps(name, getattr(self, name))
        if isinstance(self.num_rungs, int):
            check_rungs(self.num_rungs)
        check_seed(self.seed)
        if self.method not in _METHODS:
            raise InputError(f"`method` must be one of {', '.join(_METHODS)}; got {self.method!r}.")
        if not isinstance(self.warmup, AbstractWarmup):
            _named_warmup(self.warmup)
        self._check_goal()

    def _check_goal(self) -> None:
        target, most = self.target_error, self.max_sweeps
        has_goal = target is not None or self.num_sweeps is None
        if target is not None and not (_is_number(target) and 0 < target < np.inf):
            raise InputError(f"`target_error` must be positive and finite, such as 0.05; got {target!r}.")
        if most is not None and not has_goal:
            raise InputError("`max_sweeps` bounds a run towards a `target_error`; give one, or use `num_sweeps` alone.")
        if most is not None:
            check_count("`max_sweeps`", most, self.num_sweeps or 1, " (`num_sweeps`)" if self.num_sweeps else "")

    def _check_words_alone(self) -> None:
        for name in ("betas", "rung_weights"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f'`{name}` gives numbers for some rungs, so `num_rungs` cannot be "auto". Give words.')

    def make_betas(self) -> np.ndarray:
        """The inverse temperatures that a run begins with."""
        if not isinstance(self.betas, str):
            return checked_betas(self.betas)
        num_rungs = self.num_rungs if isinstance(self.num_rungs, int) else _FIRST_RUNGS
        return LadderRule(self.betas, "uniform").betas_of(num_rungs)

    def with_spacing(self, spacing: str) -> "Settings":
        """The same with a model's own spacing of the rungs, where none was asked for."""
        if not isinstance(self.betas, str) or self.betas != "auto":
            return self
        is_possible = not spacing.startswith("adaptive") or self.make_warmup().can_respace
        return dataclasses.replace(self, betas=spacing if is_possible else "power")

    def make_log_prior(self, betas: np.ndarray) -> np.ndarray:
        """The log weights of the rungs, log r_k."""
        if not isinstance(self.rung_weights, str):
            return np.asarray(self.rung_weights, np.float64)
        return LadderRule("uniform", self.rung_weights).log_prior_of(betas)

    @property
    def learns_weights(self) -> bool:
        """Whether a run may learn its rung weights."""
        return isinstance(self.rung_weights, str) and self.rung_weights == "auto"

    def make_warmup(self) -> AbstractWarmup:
        """The warm-up itself, which also chooses rungs where these are asked to be chosen."""
        warmup = _named_warmup(self.warmup) if isinstance(self.warmup, str) else self.warmup
        measure = LadderRule(self.betas, "uniform").measure if isinstance(self.betas, str) else None
        chooses_number = self.num_rungs == "auto"
        if self.num_rungs is None and measure is not None and isinstance(self.rung_weights, str):
            chooses_number = warmup.can_respace
        if measure is None and not chooses_number:
            return warmup
        rule = None
        follows = isinstance(self.rung_weights, str) and (chooses_number or "exp" in self.rung_weights)
        if isinstance(self.betas, str) and isinstance(self.rung_weights, str) and follows:
            rule = LadderRule(self.betas, self.rung_weights)  # weights that follow the rungs
        return warmup.respacing(measure, chooses_number, rule, _FIRST_RUNGS if self.num_rungs is None else 2)


def _named_warmup(name: object) -> AbstractWarmup:
    """A warm-up from its name; "iterations:40:200" are at most 40 iterations of 200 sweeps each."""
    kind, *numbers = name.split(":") if isinstance(name, str) else ("",)
    if kind not in _WARMUPS or (numbers and kind != "iterations"):
        raise InputError(
            f"`warmup` must be one of {', '.join(_WARMUPS)}, or an object such as tp.SequentialStart(); got {name!r}."
        )
    if not numbers:
        return _WARMUPS[kind]()
    if len(numbers) > 2 or not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise InputError(
            "`warmup` names the initial iterations, and may say how many there are at most and the sweeps of each, "
            f'such as "iterations:{_defaults.ITERATIONS}:{_defaults.ITERATION_SWEEPS}"; got {name!r}.'
        )
    most, sweeps = (*map(int, numbers), _defaults.ITERATION_SWEEPS)[:2]
    if max(most, sweeps) > MOST_SWEEPS:
        raise InputError(f"`warmup` asks for more than {MOST_SWEEPS} iterations or sweeps of one; got {name!r}.")
    return InitialIterations(max_iterations=most, steps=sweeps)


def check_model(model: object) -> None:
    """Refuse what is not a model, in the words of what it seems to be."""
    if isinstance(model, AbstractModel):
        return
    if callable(model):
        cure = "For a function that returns log f(x), write tp.LogDensity(function, base=tp.Normal(mean, std))."
    elif isinstance(model, str):
        cure = f"For a file or a name, write tp.load({model!r})."
    else:
        cure = "Make one with tp.RBM, tp.LogDensity, tp.Posterior, tp.Ising or another class of tempering.models."
    raise InputError(f"`model` must be a model, got a {type(model).__name__}. {cure}")


def check_move(move: object) -> None:
    """Refuse what is not a move."""
    if move is not None and not isinstance(move, AbstractMove):
        raise InputError(f"`move` must be a move such as tp.HMC() or tp.RandomWalk(), got {move!r}.")


def read_seconds(max_seconds: float | int | str | None) -> float | None:
    """600, "600s", "10m" and "0.5h" as seconds; None stays None."""
    if max_seconds is None:
        return None
    text = str(max_seconds)
    number, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS else (text, "s")
    try:
        seconds = np.nan if isinstance(max_seconds, bool) else float(number) * _SECONDS[unit]
    except ValueError:
        seconds = np.nan
    if not 0 < seconds < np.inf:
        raise InputError(
            f'`max_seconds` must be a positive time such as 90, "90s", "10m" or "1.5h"; got {max_seconds!r}.'
        )
    return seconds


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
