"""How a run is made: the words and numbers that people give, checked before anything runs."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tempering._errors import InputError
from tempering.adjusting import SelfAdjusting
from tempering.ladder import (
    checked_betas,
    ends_log_prior,
    exponential_log_prior,
    geometric_betas,
    power_betas,
    uniform_betas,
    uniform_log_prior,
)
from tempering.methods import METHODS, RunKind
from tempering.warmup import AbstractWarmup, AnnealedStart, InitialIterations

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
    num_rungs: int = 100
    betas: Any = "auto"  # "auto", "adaptive", "uniform", "power:P", "geometric:SMALLEST" or numbers from 0 to 1
    prior: Any = "ends"  # "ends", "ends:SHARE", "uniform", "exp:RATE" for r_k ∝ exp(RATE·β_k), or log r_k
    warmup: str | AbstractWarmup = "annealed"  # or "iterations", or an object of `tempering.warmup`
    method: str = "rts"  # or "ts", "sd", "rsd"
    seed: int = 0
    chunk_sweeps: int = 1  # between checkpoints and calls of `watch`, rounded up to whole blocks

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is."""
        for name, least in (("num_chains", 1), ("num_sweeps", 1), ("num_rungs", 2), ("chunk_sweeps", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise InputError(f"`{name}` must be a whole number, {least} or more; got {value!r}.")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise InputError(f"`seed` must be a whole number from 0 to 2³² − 1; got {self.seed!r}.")
        if self.method not in _METHODS:
            raise InputError(f"`method` must be one of {', '.join(_METHODS)}; got {self.method!r}.")
        if isinstance(self.warmup, str) and self.warmup not in _WARMUPS:
            raise InputError(f"`warmup` must be one of {', '.join(_WARMUPS)}; got {self.warmup!r}.")

    def make_betas(self) -> np.ndarray:
        """The inverse temperatures."""
        if not isinstance(self.betas, str):
            return checked_betas(self.betas)
        kind, _, number = self.betas.partition(":")
        given = [_number(number, "betas")] if number else []
        if kind == "uniform" and not number:
            return uniform_betas(self.num_rungs)
        if kind == "power" or (kind == "adaptive" and not number):  # adaptive ones begin so
            return power_betas(self.num_rungs, *given)
        if kind == "geometric":
            return geometric_betas(self.num_rungs, *given)
        raise InputError(
            '`betas` must be "auto", "adaptive", "uniform", "power", "power:4", "geometric", "geometric:0.01", '
            f'or numbers from 0 to 1; got "{self.betas}".'
        )

    def on(self, ladder: str) -> "Settings":
        """The same with a model's own kind of ladder where none was asked for."""
        if not isinstance(self.betas, str) or self.betas != "auto":
            return self
        is_possible = ladder != "adaptive" or isinstance(self.make_warmup(), AnnealedStart)
        return dataclasses.replace(self, betas=ladder if is_possible else "power")

    def make_log_prior(self, betas: np.ndarray) -> np.ndarray:
        """log r_k."""
        if not isinstance(self.prior, str):
            return np.asarray(self.prior, np.float64)
        kind, _, number = self.prior.partition(":")
        if kind == "uniform" and not number:
            return uniform_log_prior(len(betas))
        if kind == "ends":
            return ends_log_prior(len(betas), *([_number(number, "prior")] if number else []))
        if kind == "exp" and number:
            return exponential_log_prior(betas, _number(number, "prior"))
        raise InputError(
            f'`prior` must be "ends", "ends:0.1", "uniform", "exp:RATE" such as exp:2, or log r_k; got "{self.prior}".'
        )

    def make_warmup(self) -> AbstractWarmup:
        """The warm-up itself."""
        warmup = _WARMUPS[self.warmup]() if isinstance(self.warmup, str) else self.warmup
        if not isinstance(self.betas, str) or self.betas != "adaptive":
            return warmup
        if not isinstance(warmup, AnnealedStart):
            raise InputError("An adaptive ladder needs the annealed warm-up, which looks at the path first.")
        return dataclasses.replace(warmup, respaces=True)


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"`{name}` needs a number after the colon, got {text!r}.")
    return number
