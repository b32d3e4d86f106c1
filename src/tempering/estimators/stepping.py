"""Stepping stones: log Z as a sum of small steps, each by importance sampling from one rung to the next."""

import dataclasses
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from tempering._errors import InputError
from tempering.estimators.inputs import check_base, draws_made, nonfinite_draws, not_kept
from tempering.estimators.log_z import LogZ
from tempering.estimators.thermodynamic import summed_from_base
from tempering.estimators.uncertainty import Uncertainty, summed_by_unit, uncertainty_of_mean
from tempering.findings import unreached
from tempering.stats import BlockedStats, TemperingStats
from tempering.verdicts import Finding, Verdict

PerStep: TypeAlias = Float[np.ndarray, "unit step"]

_MIN_PARTS = 4  # independent parts of a run; with fewer, one of them makes most of a step by chance
_MAX_SHARE = 0.5  # of a step that one independent part of the run may make


def stepping_stone(stats: TemperingStats | BlockedStats, direction: str = "up", *, log_z_base: float = 0.0) -> LogZ:
    """Stepping stones: log Z_{k+1}/Z_k from the draws at one rung, added up from the base (Xie et al. 2011).

    "up":   log Z_{k+1}/Z_k =   log of the mean of f_{k+1}/f_k over the draws at rung k, too low on average;
    "down": log Z_{k+1}/Z_k = − log of the mean of f_k/f_{k+1} over the draws at rung k + 1, too high on average.

    Both follow from Jensen's inequality: up to noise, log Z lies between the two. `biases` is the second order of it.

    ```python
    stats = TemperingStats.empty(ladder, with_steps=True)  # what a run must keep
    low, high = stepping_stone(stats, "up"), stepping_stone(stats, "down")
    ```

    Args:
        stats: The statistics of a tempered run, with `tp.stats.Keep(steps=True)`.
        direction: "up" or "down".
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: A step between rungs that hardly overlap is decided by a few draws, and its error looks small. NO_OVERLAP
    is reported if one part of the run decides a step; a wide gap between the directions shows the same. "down" cannot
    see regions where the target has no density; NONFINITE is reported if the run met one.
    """
    check_base(log_z_base, "stepping stones")
    if direction not in ("up", "down"):
        raise InputError(f'`direction` must be "up" or "down", got {direction!r}.')
    stats = stats.on_host()
    if stats.log_steps is None:
        raise not_kept(f"stepping_{direction}", "steps", "ratios of neighbouring densities")
    sign, first, origins = (1, 0, slice(None, -1)) if direction == "up" else (-1, 1, slice(1, None))
    from_origins = stats.log_steps[..., origins, first]  # `first` is the rung of the first step's draws, and their side
    log_sums = summed_by_unit(np.where(np.isnan(from_origins), np.inf, from_origins), np.logaddexp)
    counts = summed_by_unit(draws_made(stats))[:, origins]
    log_steps = sign * _log_means(log_sums, counts)
    values = log_z_base + summed_from_base(log_steps)
    draws = counts / np.maximum(counts.sum(axis=0), 1)
    uncertainty = _uncertainty(sign, _shares(log_sums), draws, np.isfinite(log_steps))
    steps = _unreached(counts, first), _no_overlap(log_sums, counts, first), _infinite(log_sums)
    findings = (nonfinite_draws(stats), *steps, _unseen_from_above(stats) if direction == "down" else None)
    return LogZ.from_uncertainty(f"stepping_{direction}", values, uncertainty, findings, keep_influences=True)


def _log_means(log_sums: PerStep, counts: PerStep) -> Float[np.ndarray, " step"]:
    """log of the mean ratio; NaN where there are no draws, or where a ratio was infinite."""
    log_sum, count = np.logaddexp.reduce(log_sums, axis=0), counts.sum(axis=0)
    is_known = (count > 0) & (log_sum < np.inf)
    return np.where(is_known, log_sum, np.nan) - np.log(np.where(is_known, count, 1.0))


def _uncertainty(sign: int, ratios: PerStep, draws: PerStep, is_known: Bool[np.ndarray, " step"]) -> Uncertainty:
    """The error by the jackknife over units, given their shares of the ratios and of the draws of each step.

    The mean change is Jensen's bias. A step that only one unit has made, and all after it, have no known error.
    """
    is_shared = is_known & (ratios < 1).all(axis=0) & (draws < 1).all(axis=0)
    ratios, draws = np.where(is_shared, ratios, 0.0), np.where(is_shared, draws, 0.0)
    influence = summed_from_base(sign * (len(draws) - 1) * (np.log1p(-draws) - np.log1p(-ratios)))
    uncertainty = uncertainty_of_mean(influence, -influence.mean(axis=0))
    std_error = uncertainty.std_error + summed_from_base(np.where(is_shared, 0.0, np.inf))
    return dataclasses.replace(uncertainty, std_error=std_error)


def _shares(log_parts: PerStep) -> PerStep:
    """The share of each unit in a step, adding up to 1; 0 where the step is unknown."""
    log_sum = np.logaddexp.reduce(log_parts, axis=0)
    is_known = np.isfinite(log_sum)
    return np.exp(np.where(is_known, log_parts, -np.inf) - np.where(is_known, log_sum, 0.0))


def _unreached(counts: PerStep, first: int) -> Finding | None:
    empty = np.flatnonzero(counts.sum(axis=0) == 0) + first
    found = unreached(empty, counts.shape[1] + 1, "have no draws to step from", "use more sweeps, or fewer rungs")
    return found and dataclasses.replace(found, seen=f"{found.seen}; log Z is unknown from there on")


def _no_overlap(log_sums: PerStep, counts: PerStep, first: int) -> Finding | None:
    """Steps that one unit decides, or that no draw can make."""
    num_units = len(log_sums)
    largest = _shares(log_sums).max(axis=0)
    is_blind = (np.logaddexp.reduce(log_sums, axis=0) == -np.inf) & (counts.sum(axis=0) > 0)
    worst = int(np.argmax(np.where(is_blind, np.inf, largest)))
    origin = f"the step from the draws at rung {worst + first}"
    if is_blind[worst]:
        seen = f"{origin} is made by none of {counts[:, worst].sum():.0f} draws: the next density is 0 at all of them"
    elif num_units >= _MIN_PARTS and largest[worst] > _MAX_SHARE:
        seen = f"one of {num_units} independent parts of the run makes {largest[worst]:.0%} of {origin}"
    else:
        return None
    cure = 'put more rungs there, run longer, or use `method="rts"`, which steps with the draws of all rungs'
    return Finding(Verdict.NO_OVERLAP, seen, cure)


def _unseen_from_above(stats: BlockedStats) -> Finding | None:
    """Draws at which the density of the next rung is 0: no draw of that rung can step down to them."""
    num_unseen = 0 if stats.num_vanished is None else int(stats.num_vanished.sum())
    if num_unseen == 0:
        return None
    seen = f"at {num_unseen} draws the density of the next rung is 0, and no step down from there leads to them"
    return Finding(Verdict.NONFINITE, seen, 'use `method="rts"`, or `method="stepping_up"`')


def _infinite(log_sums: PerStep) -> Finding | None:
    if np.all(log_sums < np.inf):
        return None
    seen = "the ratio of two neighbouring densities was infinite at some draw"
    return Finding(Verdict.NONFINITE, seen, "check the log density for overflow")
