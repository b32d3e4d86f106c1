"""Findings that several estimators and checks share: each with its threshold and its words."""

import math

import numpy as np
from jaxtyping import Bool, Int, Num

from tempering._types import HostPerRung
from tempering.verdicts import Finding, Verdict

MIN_OCCUPANCY = 0.2  # of a rung's prior probability
MAX_DRIFT = 3.0  # normal standard errors between the halves of a run: by chance once in 370 runs
MIN_EFFECTIVE = 10.0  # weights or draws: a mean of fewer has a relative error ε > 1/3, where log(1 + ε) is not ε
FALSE_ALARM = 0.01  # the probability that a test reports a difference where there is none
NAN_IS_ZERO = "draws had a log density of NaN, which counts as f = 0 there"
_MANY_DRAWS = 20  # expected at a rung; it then stays empty by chance once in e^20


def nonfinite(
    num_bad: int, num_all: int, what: str = "draws had an infinite density, or none at any rung, and were left out"
) -> Finding | None:
    """Draws or passes whose density was not finite, if there are any."""
    cure = "check the log density for overflow, the log of zero, or weights that are too large"
    return Finding(Verdict.NONFINITE, f"{num_bad} of {num_all} {what}", cure) if num_bad > 0 else None


def unexpectedly_empty(
    is_empty: Bool[np.ndarray, " rung"], log_prior: HostPerRung, num_draws: float
) -> Int[np.ndarray, " empty"]:
    """Rungs that are empty although their prior probability gives them many draws."""
    return np.flatnonzero(is_empty & (np.exp(log_prior) * num_draws >= _MANY_DRAWS))


def unreached(empty: Int[np.ndarray, " empty"], num_rungs: int, what: str, cure: str) -> Finding | None:
    """Rungs without draws, if there are any; `what` completes the sentence "5 of 100 rungs …"."""
    if len(empty) == 0:
        return None
    seen = f"{len(empty)} of {num_rungs} rungs {what}, the first of them rung {empty[0]}"
    return Finding(Verdict.UNREACHED, seen, cure)


def unvisited(visits: Num[np.ndarray, " rung"], log_prior: HostPerRung, what: str, cure: str) -> Finding | None:
    """Rungs without visits that should have had many, if there are any; `what` as for `unreached`."""
    return unreached(unexpectedly_empty(visits == 0, log_prior, float(visits.sum())), len(visits), what, cure)


def uneven(occupancy: HostPerRung, cure: str, over: str = "") -> Finding | None:
    """A rung that has too little of its prior probability; `occupancy` is 1 where it has all of it."""
    rung = int(occupancy.argmin())
    if occupancy[rung] >= MIN_OCCUPANCY:
        return None
    seen = f"rung {rung} of {len(occupancy) - 1} has {occupancy[rung]:.2g} of the probability it should have{over}"
    return Finding(Verdict.UNEVEN, seen, cure)


def relaxing(drift: float, cure: str, run: str = "") -> Finding | None:
    """A drift of log Z, in standard errors, between the halves of a run."""
    if abs(drift) <= MAX_DRIFT:
        return None
    seen = f"the second half{run} differs from the first by {drift:+.1f} standard errors"
    return Finding(Verdict.RELAXING, seen, cure)


def unconverged(what: str, residual: float, tolerance: float, cure: str) -> Finding:
    """Equations that were not solved."""
    return Finding(Verdict.UNCONVERGED, f"{what} is {residual:.1e}; {tolerance:.0e} is needed", cure)


def twice_as_many(num_sweeps: int) -> str:
    """The advice to double the length of a run."""
    return f"run about twice as many sweeps, `num_sweeps={whole_rounded_up(2 * num_sweeps)}`"


def whole_rounded_up(number: float | int) -> int:
    """The number rounded up to two digits and to an integer."""
    return math.ceil(rounded_up(number))


def rounded_up(number: float | int) -> float | int:
    """The number rounded up to two digits; an integer from 100 on."""
    unit = 10.0 ** (np.floor(np.log10(number)) - 1)
    rounded = np.ceil(number / unit - 1e-9) * unit
    return round(rounded) if rounded >= 100 else float(f"{rounded:.2g}")
