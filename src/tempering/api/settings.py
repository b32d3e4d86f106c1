"""How a run is made: the words and numbers that people give, checked before anything runs."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tempering._errors import InputError
from tempering.estimators.methods import METHODS, RunKind
from tempering.ladder import LadderRule, checked_betas
from tempering.sampling import AbstractWarmup
from tempering.warmups import AnnealedStart, InitialIterations, SelfAdjusting

_FIRST_RUNGS = 100  # of a ladder whose number of rungs is chosen later
_ADJUSTING_SWEEPS = 500  # as many as the other warm-ups take
_METHODS = [m.name for m in METHODS.values() if m.kind is RunKind.TEMPERED and m.name != "mixed"]
_WARMUPS: dict[str, Callable[[], AbstractWarmup]] = {
    "annealed": AnnealedStart,
    "iterations": InitialIterations,
    "sams": partial(SelfAdjusting, "sams", num_steps=_ADJUSTING_SWEEPS),
    "wang_landau": partial(SelfAdjusting, "wang_landau", num_steps=_ADJUSTING_SWEEPS),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a run is made; every field is an argument of `estimate`."""

    num_chains: int = 100
    num_sweeps: int = 1000  # per chain, after the warm-up
    num_rungs: int | str = 100  # or "auto": as many as the annealing pass says
    betas: Any = "auto"  # or a word of `LadderRule`, such as "adaptive" or "uniform", or numbers from 0 to 1
    rung_weights: Any = "ends"  # "ends", "ends:SHARE", "uniform", "exp:RATE" for r_k ∝ exp(RATE·β_k), or log r_k
    warmup: str | AbstractWarmup = "annealed"  # or "iterations", or an object of `tempering.warmup`
    method: str = "rts"  # or "ts", "sd", "rsd"
    seed: int = 0
    target_error: float | None = None  # go on until log Z has this standard error and the verdict is good
    max_sweeps: int | None = None  # but no further than this, by default 100 × num_sweeps
    chunk_sweeps: int = 1  # between checkpoints and calls of `watch`, rounded up to whole blocks

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is."""
        for name, least in (("num_chains", 1), ("num_sweeps", 1), ("num_rungs", 2), ("chunk_sweeps", 1)):
            value = getattr(self, name)
            if name == "num_rungs" and value == "auto":
                self._check_words_alone()
            elif not isinstance(value, int) or value < least:
                other = ', or "auto"' if name == "num_rungs" else ""
                raise InputError(f"`{name}` must be a whole number, {least} or more{other}; got {value!r}.")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise InputError(f"`seed` must be a whole number from 0 to 2³² − 1; got {self.seed!r}.")
        if self.method not in _METHODS:
            raise InputError(f"`method` must be one of {', '.join(_METHODS)}; got {self.method!r}.")
        if isinstance(self.warmup, str) and self.warmup not in _WARMUPS:
            raise InputError(f"`warmup` must be one of {', '.join(_WARMUPS)}; got {self.warmup!r}.")
        self._check_goal()

    def _check_goal(self) -> None:
        target, most = self.target_error, self.max_sweeps
        if target is not None and (isinstance(target, bool) or not isinstance(target, int | float)):
            raise InputError(f"`target_error` must be a number, such as 0.05; got {target!r}.")
        if target is not None and not 0 < target < np.inf:
            raise InputError(f"`target_error` must be positive and finite, such as 0.05; got {target!r}.")
        if most is not None and target is None:
            raise InputError("`max_sweeps` bounds a run towards a `target_error`; give one, or use `num_sweeps` alone.")
        if most is not None and (not isinstance(most, int) or most < self.num_sweeps):
            raise InputError(
                f"`max_sweeps` must be a whole number, {self.num_sweeps} (num_sweeps) or more; got {most!r}."
            )

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

    def with_spacing(self, ladder: str) -> "Settings":
        """The same with a model's own kind of ladder where none was asked for."""
        if not isinstance(self.betas, str) or self.betas != "auto":
            return self
        is_possible = not ladder.startswith("adaptive") or isinstance(self.make_warmup(), AnnealedStart)
        return dataclasses.replace(self, betas=ladder if is_possible else "power")

    def make_log_prior(self, betas: np.ndarray) -> np.ndarray:
        """log r_k."""
        if not isinstance(self.rung_weights, str):
            return np.asarray(self.rung_weights, np.float64)
        return LadderRule("uniform", self.rung_weights).log_prior_of(betas)

    def make_warmup(self) -> AbstractWarmup:
        """The warm-up itself."""
        warmup = _WARMUPS[self.warmup]() if isinstance(self.warmup, str) else self.warmup
        measure = LadderRule(self.betas, "uniform").measure if isinstance(self.betas, str) else None
        chooses_number = self.num_rungs == "auto"
        if measure is None and not chooses_number:
            return warmup
        if not isinstance(warmup, AnnealedStart):
            what = "An adaptive ladder" if measure is not None else "A number of rungs that is chosen"
            raise InputError(f"{what} needs the annealed warm-up, which looks at the path first.")
        asked: dict[str, Any] = {"chooses_number": chooses_number}
        if measure is not None:
            asked |= {"respaces": True, "measure": measure}
        if (
            isinstance(self.betas, str)
            and isinstance(self.rung_weights, str)
            and (chooses_number or "exp" in self.rung_weights)
        ):
            asked |= {"rule": LadderRule(self.betas, self.rung_weights)}  # weights follow the rungs
        return dataclasses.replace(warmup, **asked)
