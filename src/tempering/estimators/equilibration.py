"""Equilibration: the transient at the start of a run that is cut, and the drift that remains."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._logspace import rounding_of
from tempering._types import HostPerRung
from tempering.estimators.uncertainty import MIN_UNITS, as_normal, relative_parts
from tempering.stats import BlockedStats

_EVIDENCE = 2.0  # standard errors; only what exceeds them counts as a bias


@dataclasses.dataclass(frozen=True)
class Equilibration:
    """Where a run has equilibrated.

    Attributes:
        first_block: The first block that counts.
        drift: How far log Z_k still moves after it, in nats, as far as that exceeds noise.
    """

    first_block: int
    drift: HostPerRung

    def __repr__(self) -> str:
        return f"Equilibration(first_block={self.first_block}, drift={self.drift[-1]:.2g} at the target)"


def find_equilibration(stats: BlockedStats) -> Equilibration:
    """Find where a run has equilibrated: the cut with the least estimated mean squared error of what follows it.

    That error is the variance plus the squared bias. The bias is the difference to the second half of the run, as far
    as it exceeds twice its own error: without this margin, noise would choose the cut. Chains forget their start
    within about a round trip, so no more than that is cut, and at most half of the run.

    Args:
        stats: The statistics of a run, with at least 16 chains; otherwise nothing is cut, nor where tours are whole.

    Returns:
        The first block that counts, and the drift that remains.
    """
    middle = stats.num_blocks // 2
    if stats.num_chains < MIN_UNITS or middle == 0 or stats.has_whole_tours:
        return Equilibration(0, np.zeros(len(stats.log_prior)))
    trips = stats.travel.num_crossings.mean() / 2
    latest = min(middle, int(stats.num_blocks / max(trips, 1.0)))
    ends, cuts = _tails(stats.log_sums[:, :, [0, -1]]), range(latest + 1)
    variances = np.maximum.accumulate([_variance(_influence(ends[:, cut])[1])[1] for cut in cuts])
    # The running maximum, because fewer draws cannot have less noise.
    errors = variances + np.square([_bias(ends[:, cut], ends[:, middle])[1] for cut in cuts])
    cut = int(np.argmax(errors <= 1.001 * errors.min()))  # the first that is as good as any
    return Equilibration(cut, _bias(_tail(stats.log_sums, cut), _tail(stats.log_sums, middle)))


def equilibrated(stats: BlockedStats) -> BlockedStats:
    """Cut the transient that `find_equilibration` finds.

    Args:
        stats: The statistics of a run.

    Returns:
        The statistics of the part after equilibration.
    """
    return stats.without_first(find_equilibration(stats).first_block)


def _tails(log_sums: Float[np.ndarray, "chain block rung"]) -> Float[np.ndarray, "chain block rung"]:
    """Sums of each chain from every block to the end."""
    return np.logaddexp.accumulate(log_sums[:, ::-1], axis=1)[:, ::-1]


def _tail(log_sums: Float[np.ndarray, "chain block rung"], first: int) -> Float[np.ndarray, "chain rung"]:
    """Sums of each chain from one block to the end: all of `_tails` at every rung would take three times as long."""
    return np.logaddexp.reduce(log_sums[:, first:], axis=1)


def _influence(log_sums: Float[np.ndarray, "chain rung"]) -> tuple[HostPerRung, Float[np.ndarray, "chain rung"]]:
    """log ĉ_k − log ĉ_0, NaN where unknown, and what each chain adds to it."""
    log_sum, relative = relative_parts(log_sums)
    known = np.where(np.isfinite(log_sum), log_sum, np.nan)
    return known - known[0], relative - relative[:, :1]


def _variance(influence: Float[np.ndarray, "chain rung"]) -> HostPerRung:
    """The variance of an estimate from the contributions of chains."""
    return influence.var(axis=0, ddof=1) / len(influence)


def _bias(all_sums: Float[np.ndarray, "chain rung"], later_sums: Float[np.ndarray, "chain rung"]) -> HostPerRung:
    """How far the estimate from the blocks after a cut differs from that of the second half, beyond noise."""
    (value, influence), (later, later_influence) = _influence(all_sums), _influence(later_sums)
    return beyond_noise(value - later, influence - later_influence)


def beyond_noise(change: HostPerRung, influence: Float[np.ndarray, "chain rung"]) -> HostPerRung:
    """How large a change is beyond twice its own error, given what each chain adds to it; 0 where it is unknown."""
    excess = change**2 - _EVIDENCE**2 * _variance(influence)
    return np.sqrt(np.clip(np.nan_to_num(excess, nan=0.0), 0.0, None))


def drift_between_halves(stats: BlockedStats) -> float:
    """The change of log Z of the target from the first half of a run to the second, in normal standard errors.

    The change of each chain is one observation, so correlation in time counts; few chains know their own scatter
    poorly, which Student's law allows for. It is 0 for too few chains or blocks,
    and for whole tours, whose sums have no bias for all that their first draws are near the base.
    """
    middle = stats.num_blocks // 2
    if stats.num_chains < MIN_UNITS or middle == 0 or stats.has_whole_tours:
        return 0.0
    halves = (stats.log_sums[:, :middle], stats.log_sums[:, middle:])
    before, after = (_influence(np.logaddexp.reduce(half, axis=1)[:, [0, -1]]) for half in halves)
    change = after[0][1] - before[0][1]
    if abs(change) <= rounding_of(stats.log_z_guess[-1]):
        return 0.0
    std_error = np.std(after[1][:, 1] - before[1][:, 1], ddof=1) / np.sqrt(stats.num_chains)
    is_known = std_error > 0 and np.isfinite(change)
    return as_normal(float(change / std_error), stats.num_chains - 1) if is_known else 0.0
