"""The statistics of a run on the host: blocks joined in float64, in the order of time."""

import dataclasses

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from tempering._types import HostPerRung

# How the statistic of two blocks together follows from those of each.
_ADDED = ("visits", "num_draws", "num_nonfinite", "counted_slopes", "weighted_slopes")
_LOG_ADDED = ("log_sums", "log_steps")
_MAX_BLOCKS = 40  # per chain; then neighbours are joined


class Travel(eqx.Module):
    """How chains crossed the ladder: an associative summary, joined in the order of time."""

    first_end: Int[np.ndarray, " chain"]
    last_end: Int[np.ndarray, " chain"]
    num_crossings: Int[np.ndarray, " chain"]

    def then(self, later: "Travel") -> "Travel":
        """This stretch followed by a later one of the same chains."""
        between = (self.last_end != 0) & (later.first_end != 0) & (self.last_end != later.first_end)
        return Travel(
            np.where(self.first_end == 0, later.first_end, self.first_end),
            np.where(later.last_end == 0, self.last_end, later.last_end),
            self.num_crossings + later.num_crossings + between,
        )


class BlockedStats(eqx.Module):
    """The statistics of a run on the host, in float64: what estimators, errors and verdicts are made from."""

    betas: HostPerRung
    log_prior: HostPerRung  # log r_k
    log_z_guess: HostPerRung  # log Ẑ_k − log Ẑ_0
    log_sums: Float[np.ndarray, "chain block rung"]  # log Σ_i q(k | x_i)
    visits: Int[np.ndarray, "chain block rung"]
    num_draws: Int[np.ndarray, "chain block"]
    num_nonfinite: Int[np.ndarray, "chain block"]
    travel: Travel
    block_size: int  # draws in a full block; the last one may have fewer
    # On request, see `Keep`. Moments of the slope s at each rung: Σ(s − reference), Σ(s − reference)², Σ ds/dβ,
    slope_reference: HostPerRung | None = None
    counted_slopes: Float[np.ndarray, "chain block rung moment"] | None = None  # over the draws that stand there,
    weighted_slopes: Float[np.ndarray, "chain block rung moment"] | None = None  # and over all, weighted by q(k | x).
    # log Σ f_{k+1}(x)/f_k(x) and log Σ f_{k−1}(x)/f_k(x) over the draws that stand at rung k; −inf past an end.
    log_steps: Float[np.ndarray, "chain block rung side"] | None = None

    def on_host(self) -> "BlockedStats":
        """Itself."""
        return self

    @property
    def num_chains(self) -> int:
        """Independent chains."""
        return self.log_sums.shape[0]

    @property
    def num_blocks(self) -> int:
        """Blocks that each chain was cut into."""
        return self.log_sums.shape[1]

    def then(self, later: "BlockedStats") -> "BlockedStats":
        """These blocks followed by one later block of the same chains, gathered under the same law."""
        for name in ("betas", "log_prior", "log_z_guess"):
            if not np.array_equal(getattr(self, name), getattr(later, name)):
                raise ValueError(
                    f"Statistics gathered under two ladders cannot be merged: their `{name}` differ. "
                    "Estimate from each, use `mixed`, or keep the ladder frozen within a run."
                )
        if self.num_draws[0, -1] < self.block_size:
            return self._with_last_grown(later)
        joined = {n: np.concatenate([self._get(n), later._get(n)], axis=1) for n in self._kept()}
        longer = dataclasses.replace(self, travel=self.travel.then(later.travel), **joined)
        return longer.coarsened() if longer.num_blocks == _MAX_BLOCKS else longer

    def without_first(self, num_blocks: int) -> "BlockedStats":
        """The same run with its first blocks left out; crossings stay those of the whole run."""
        return dataclasses.replace(self, **{n: self._get(n)[:, num_blocks:] for n in self._kept()})

    def coarsened(self) -> "BlockedStats":
        """Neighbouring blocks joined in pairs, an odd last one alone, so that memory does not grow with a run."""
        starts = np.arange(0, self.num_blocks, 2)
        joined = {n: _sum_of(n).reduceat(self._get(n), starts, axis=1) for n in self._kept()}
        return dataclasses.replace(self, block_size=2 * self.block_size, **joined)

    def _with_last_grown(self, later: "BlockedStats") -> "BlockedStats":
        grown = {n: self._get(n).copy() for n in self._kept()}
        for name, array in grown.items():
            array[:, -1] = _sum_of(name)(array[:, -1], later._get(name)[:, 0])
        return dataclasses.replace(self, travel=self.travel.then(later.travel), **grown)

    def _kept(self) -> list[str]:
        """The arrays per block that this run keeps."""
        return [name for name in (*_ADDED, *_LOG_ADDED) if getattr(self, name) is not None]

    def _get(self, name: str) -> np.ndarray:
        return getattr(self, name)


def _sum_of(name: str) -> np.ufunc:
    return np.add if name in _ADDED else np.logaddexp
