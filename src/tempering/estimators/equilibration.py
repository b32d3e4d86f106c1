"""Where a run has forgotten its start: the transient that is cut, and the drift that is left."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._types import HostPerRung
from tempering.estimators.uncertainty import MIN_UNITS, _relative_parts
from tempering.stats import BlockedStats

_EVIDENCE = 2.0  # standard errors by which a difference must exceed nothing before it is called a bias


@dataclasses.dataclass(frozen=True)
class Equilibration:
    """Where a run is taken to have forgotten its start, and how far what is left of it still moves."""

    first_block: int  # that counts
    drift: HostPerRung  # of log Z_k, in nats, as far as it exceeds noise


def find_equilibration(stats: BlockedStats) -> Equilibration:
    """The cut that leaves the least estimated mean squared error: variance of what is left, and its bias squared.

    The bias is the difference to the second half of the run, as far as it exceeds twice its own error: without that
    margin the noise of the difference picks the cut, and the error grows. Chains forget within about a
    round trip, so that no more than that is ever cut, and at most half of the run.
    """
    middle = stats.num_blocks // 2
    if stats.num_chains < MIN_UNITS or middle == 0:
        return Equilibration(0, np.zeros(len(stats.log_prior)))
    trips = stats.travel.num_crossings.mean() / 2
    latest = min(middle, int(stats.num_blocks / max(trips, 1.0)))
    ends = _Tails.from_blocks(stats.log_sums[:, :, [0, -1]])
    cuts = range(latest + 1)
    variances = np.maximum.accumulate([ends.variance(cut)[1] for cut in cuts])  # fewer draws never have less noise
    errors = variances + np.square([ends.bias(cut, middle)[1] for cut in cuts])
    cut = int(np.argmax(errors <= 1.001 * errors.min()))  # the first that does as well as any
    return Equilibration(cut, _Tails.from_blocks(stats.log_sums).bias(cut, middle))


def equilibrated(stats: BlockedStats) -> BlockedStats:
    """The part of a run that counts."""
    return stats.without_first(find_equilibration(stats).first_block)


@dataclasses.dataclass(frozen=True)
class _Tails:
    """Sums of each chain from any block on to the end."""

    log_sums: Float[np.ndarray, "chain block rung"]

    @classmethod
    def from_blocks(cls, log_sums: Float[np.ndarray, "chain block rung"]) -> "_Tails":
        return cls(np.logaddexp.accumulate(log_sums[:, ::-1], axis=1)[:, ::-1])

    def influence(self, cut: int) -> tuple[HostPerRung, Float[np.ndarray, "chain rung"]]:
        """log ĉ_k − log ĉ_0 without the blocks before the cut, NaN where unknown, and what each chain adds to it."""
        log_sum, relative = _relative_parts(self.log_sums[:, cut])
        known = np.where(np.isfinite(log_sum), log_sum, np.nan)
        return known - known[0], relative - relative[:, :1]

    def variance(self, cut: int) -> HostPerRung:
        """Of the estimate without the blocks before the cut."""
        return self.influence(cut)[1].var(axis=0, ddof=1) / len(self.log_sums)

    def bias(self, cut: int, middle: int) -> HostPerRung:
        """How far that estimate is from the second half's, as far as it exceeds noise."""
        (value, influence), (later, later_influence) = self.influence(cut), self.influence(middle)
        noise = (influence - later_influence).var(axis=0, ddof=1) / len(self.log_sums)
        excess = (value - later) ** 2 - _EVIDENCE**2 * noise
        return np.sqrt(np.clip(np.nan_to_num(excess, nan=0.0), 0.0, None))


def drift_between_halves(stats: BlockedStats) -> float:
    """How far log Z of the target moved from the first half of a run to the second, in standard errors.

    Each chain's own change is one observation, so what chains share cancels and their correlation in time counts.
    0 where there are too few chains or blocks to tell.
    """
    middle = stats.num_blocks // 2
    if stats.num_chains < MIN_UNITS or middle == 0:
        return 0.0
    changes, log_ratios = [], []
    for half in (stats.log_sums[:, :middle], stats.log_sums[:, middle:]):
        log_sum, relative = _relative_parts(np.logaddexp.reduce(half, axis=1)[:, [0, -1]])
        if not np.all(np.isfinite(log_sum)):
            return 0.0
        changes.append(relative[:, 1] - relative[:, 0])
        log_ratios.append(log_sum[1] - log_sum[0])
    std_error = np.std(changes[1] - changes[0], ddof=1) / np.sqrt(stats.num_chains)
    return float((log_ratios[1] - log_ratios[0]) / std_error) if std_error > 0 else 0.0
