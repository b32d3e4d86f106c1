"""Stepping stones: log Z as a sum of small steps, each an importance sample from one rung to the next."""

import dataclasses
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from tempering._errors import InputError
from tempering.estimators.log_z import LogZ
from tempering.estimators.thermodynamic import check_base, finite_visits, nonfinite
from tempering.estimators.uncertainty import Uncertainty, log_summed_by_unit, summed_by_unit, uncertainty_of_mean
from tempering.stats import BlockedStats, TemperingStats
from tempering.verdicts import Finding, Verdict

PerStep: TypeAlias = Float[np.ndarray, "unit step"]

_MIN_UNITS = 4  # with fewer, one of them is most of everything by chance
_MAX_SHARE = 0.5  # of a step that one independent part of the run may decide


def stepping_stone(stats: TemperingStats | BlockedStats, direction: str = "up", *, log_z_base: float = 0.0) -> LogZ:
    """log Z_{k+1}/Z_k from the draws at one rung only, added up from the base (Xie et al. 2011).

    "up":   log Z_{k+1}/Z_k =   log of the mean of f_{k+1}/f_k over the draws at rung k, which errs low,
    "down": log Z_{k+1}/Z_k = − log of the mean of f_k/f_{k+1} over the draws at rung k + 1, which errs high,

    both by Jensen's inequality and on average: log Z lies between them, but for noise. `biases` is the second order of
    it. A step between rungs that hardly overlap is decided by a few draws and misses most of its mean, with an error
    that looks small: NO_OVERLAP says where one part of the run decides a step, and a wide gap between the two
    directions says the same. "down" also misses what the target has no density for, in runs of any length.

    ```python
    stats = TemperingStats.empty(ladder, with_steps=True)  # what a run must keep
    low, high = stepping_stone(stats, "up"), stepping_stone(stats, "down")
    ```
    """
    check_base(log_z_base, "stepping stones")
    if direction not in ("up", "down"):
        raise InputError(f'`direction` must be "up" or "down", got {direction!r}.')
    stats = stats.on_host()
    if stats.log_steps is None:
        raise InputError(
            "Stepping stones need ratios of neighbouring densities, which were not kept: make the record with "
            "`TemperingRecord.empty(ladder, keep=Keep(steps=True))`."
        )
    is_up = direction == "up"
    sign, side, origins = (1, 0, slice(None, -1)) if is_up else (-1, 1, slice(1, None))
    log_sums = log_summed_by_unit(
        np.nan_to_num(stats.log_steps[..., origins, side], nan=np.inf, posinf=np.inf, neginf=-np.inf)
    )
    counts = summed_by_unit(finite_visits(stats))[:, origins]
    log_steps = sign * _log_means(log_sums, counts)
    values = log_z_base + _from_base(log_steps)
    draws = counts / np.maximum(counts.sum(axis=0), 1)
    uncertainty = _uncertainty(sign, _shares(log_sums), draws, np.isfinite(log_steps))
    first = 0 if is_up else 1  # the rung of the first step's draws
    findings = (nonfinite(stats), _unreached(counts, first), _no_overlap(log_sums, counts, first), _infinite(log_sums))
    return LogZ.from_uncertainty(f"stepping_{direction}", values, uncertainty, findings)


def _log_means(log_sums: PerStep, counts: PerStep) -> Float[np.ndarray, " step"]:
    """log of Σ ratios over the number of draws; NaN where there are none, or where a ratio was infinite."""
    log_sum, count = np.logaddexp.reduce(log_sums, axis=0), counts.sum(axis=0)
    is_known = (count > 0) & (log_sum < np.inf)
    return np.where(is_known, log_sum, np.nan) - np.log(np.where(is_known, count, 1.0))


def _uncertainty(sign: int, ratios: PerStep, draws: PerStep, is_known: Bool[np.ndarray, " step"]) -> Uncertainty:
    """From what leaving each unit out would change, given its shares of the ratios and of the draws of each step.

    The mean of those changes is Jensen's bias. A step that only one unit has seen has no known error, nor has what
    comes after it.
    """
    is_shared = is_known & (ratios < 1).all(axis=0) & (draws < 1).all(axis=0)
    ratios, draws = np.where(is_shared, ratios, 0.0), np.where(is_shared, draws, 0.0)
    influence = _from_base(sign * (len(draws) - 1) * (np.log1p(-draws) - np.log1p(-ratios)))
    uncertainty = uncertainty_of_mean(influence, -influence.mean(axis=0))
    std_error = uncertainty.std_error + _from_base(np.where(is_shared, 0.0, np.inf))
    return dataclasses.replace(uncertainty, std_error=std_error)


def _shares(log_parts: PerStep) -> PerStep:
    """Each unit's part of its step, adding up to 1; 0 where there is nothing to share."""
    log_sum = np.logaddexp.reduce(log_parts, axis=0)
    is_known = np.isfinite(log_sum)
    return np.exp(np.where(is_known, log_parts, -np.inf) - np.where(is_known, log_sum, 0.0))


def _from_base(steps: np.ndarray) -> np.ndarray:
    """Sums of steps up to every rung, along the last axis."""
    return np.concatenate([np.zeros_like(steps[..., :1]), np.cumsum(steps, axis=-1)], axis=-1)


def _unreached(counts: PerStep, first: int) -> Finding | None:
    empty = np.flatnonzero(counts.sum(axis=0) == 0)
    if len(empty) == 0:
        return None
    return Finding(
        Verdict.UNREACHED,
        f"{len(empty)} rungs have no draws to step from, the first of them rung {empty[0] + first}; "
        "log Z is unknown from there on",
        "use a longer warm-up, more sweeps, or fewer rungs",
    )


def _no_overlap(log_sums: PerStep, counts: PerStep, first: int) -> Finding | None:
    """Steps whose mean one unit decides, or that no draw can make."""
    num_units = len(log_sums)
    largest = _shares(log_sums).max(axis=0)
    is_blind = (np.logaddexp.reduce(log_sums, axis=0) == -np.inf) & (counts.sum(axis=0) > 0)
    worst = int(np.argmax(np.where(is_blind, np.inf, largest)))
    origin = f"the step from the draws at rung {worst + first}"
    cure = "use more rungs there, longer runs, or rts, which steps with the draws of all rungs"
    if is_blind[worst]:
        seen = f"{origin} is made by none of {counts[:, worst].sum():.0f} draws: the next density is 0 at all of them"
        return Finding(Verdict.NO_OVERLAP, seen, cure)
    if num_units < _MIN_UNITS or largest[worst] <= _MAX_SHARE:
        return None
    seen = f"one of {num_units} independent parts of the run makes {largest[worst]:.0%} of {origin}"
    return Finding(Verdict.NO_OVERLAP, seen, cure)


def _infinite(log_sums: PerStep) -> Finding | None:
    if np.all(log_sums < np.inf):
        return None
    return Finding(
        Verdict.NONFINITE,
        "the ratio of two neighbouring densities was infinite at some draw",
        "check the log density for overflow",
    )
