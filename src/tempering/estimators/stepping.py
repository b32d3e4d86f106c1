"""Stepping stones: log Z as a sum of small steps, each by importance sampling from one rung to the next."""

import dataclasses
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from tempering._errors import InputError
from tempering._types import HostPerRung
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
    side = Side.from_sums(stats, stats.log_steps, direction)
    steps = (side if direction == "up" else -side).added_up()
    findings = (*side.findings, _unseen_from_above(stats) if direction == "down" else None)
    return LogZ.from_uncertainty(
        f"stepping_{direction}", log_z_base + steps.values, steps.uncertainty, findings, keep_influences=True
    )


class Added(NamedTuple):
    """Steps added up from the base.

    Attributes:
        values: Their sum up to each rung.
        uncertainty: Its error. The mean change when a unit is left out is the bias of the logarithms.
    """

    values: HostPerRung
    uncertainty: Uncertainty


@dataclasses.dataclass(frozen=True)
class Side:
    """The log of a mean over the draws of one rung, for each step to the next rung, or to the one before.

    Attributes:
        log_means: One number for each step; NaN where there are no draws, or where a term was infinite.
        influences: What each unit contributes, by the jackknife.
        is_shared: Whether more than one unit has made a step; only then its error is known.
        findings: What is wrong with the draws, or with a step.
    """

    log_means: Float[np.ndarray, " step"]
    influences: PerStep
    is_shared: Bool[np.ndarray, " step"]
    findings: tuple[Finding | None, ...] = ()

    @classmethod
    def from_sums(cls, stats: BlockedStats, sums: Float[np.ndarray, "chain block rung side"], direction: str) -> "Side":
        """One side of sums over the draws made at each rung, which are kept as logarithms.

        Args:
            stats: The statistics of the run, for its numbers of draws.
            sums: `log_steps` or `log_bridges`.
            direction: "up" or "down".
        """
        first, origins = (0, slice(None, -1)) if direction == "up" else (1, slice(1, None))
        from_origins = sums[..., origins, first]  # `first` is the rung of the first step's draws, and their side
        log_sums = summed_by_unit(np.where(np.isnan(from_origins), np.inf, from_origins), np.logaddexp)
        counts = summed_by_unit(draws_made(stats))[:, origins]
        log_means, shares = _log_means(log_sums, counts), _shares(log_sums)
        draws = counts / np.maximum(counts.sum(axis=0), 1)
        is_shared = np.isfinite(log_means) & (shares < 1).all(axis=0) & (draws < 1).all(axis=0)
        shares, draws = np.where(is_shared, shares, 0.0), np.where(is_shared, draws, 0.0)
        influences = (len(draws) - 1) * (np.log1p(-draws) - np.log1p(-shares))
        steps = _unreached(counts, first), _no_overlap(log_sums, counts, first), _infinite(log_sums)
        return cls(log_means, influences, is_shared, (nonfinite_draws(stats), *steps))

    def __neg__(self) -> "Side":
        return dataclasses.replace(self, log_means=-self.log_means, influences=-self.influences)

    def __sub__(self, other: "Side") -> "Side":
        is_known = np.isfinite(self.log_means) & np.isfinite(other.log_means)
        log_means = (np.where(is_known, side.log_means, np.nan) for side in (self, other))
        return Side(
            np.subtract(*log_means), self.influences - other.influences, self.is_shared & other.is_shared,
            (*self.findings, *other.findings),
        )  # fmt: skip

    def added_up(self) -> Added:
        """log Z at every rung, less that of the base. After a step of one unit alone the error is unknown."""
        influences = summed_from_base(self.influences)
        uncertainty = uncertainty_of_mean(influences, -influences.mean(axis=0))
        std_error = uncertainty.std_error + summed_from_base(np.where(self.is_shared, 0.0, np.inf))
        return Added(summed_from_base(self.log_means), dataclasses.replace(uncertainty, std_error=std_error))


def _log_means(log_sums: PerStep, counts: PerStep) -> Float[np.ndarray, " step"]:
    """log of the mean; NaN where there are no draws, or where a term was infinite."""
    log_sum, count = np.logaddexp.reduce(log_sums, axis=0), counts.sum(axis=0)
    is_known = (count > 0) & (log_sum < np.inf)
    return np.where(is_known, log_sum, np.nan) - np.log(np.where(is_known, count, 1.0))


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
