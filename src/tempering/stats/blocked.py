"""The statistics of a run on the host: blocks joined in float64, in the order of time."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int, Shaped

from tempering._types import HostPerRung
from tempering.stats.statistic import AbstractHostStatistic

# How each field of two blocks is joined to that of both together.
_COUNTS = ("visits", "origins", "num_draws", "num_nonfinite", "num_left_out", "num_vanished")
_ADDED = (*_COUNTS, "counted_slopes", "weighted_slopes", "controls")
_LOG_ADDED = ("log_sums", "log_steps", "log_bridges")
_MAX_BLOCKS = 40  # per chain; then neighbours are joined


class Travel(AbstractHostStatistic):
    """How chains crossed the ladder from one end to the other.

    Attributes:
        first_end: the end (BOTTOM or TOP) that each chain reached first; 0 if it reached none.
        last_end: the end that each chain reached last; 0 if it reached none.
        num_crossings: from one end to the other.
    """

    first_end: Int[np.ndarray, " chain"]
    last_end: Int[np.ndarray, " chain"]
    num_crossings: Int[np.ndarray, " chain"]

    def then(self, later: "Travel", /) -> "Travel":
        between = (self.last_end != 0) & (later.first_end != 0) & (self.last_end != later.first_end)
        return Travel(
            np.where(self.first_end == 0, later.first_end, self.first_end),
            np.where(later.last_end == 0, self.last_end, later.last_end),
            self.num_crossings + later.num_crossings + between,
        )


class Fault(AbstractHostStatistic):
    """The first draw of a run whose density was not finite; all −1 where there is none.

    Attributes:
        chain: its chain.
        rung: the rung at which it was made.
        step: how many draws its chain had made before.
    """

    chain: int = -1
    rung: int = -1
    step: int = -1

    @classmethod
    def first_of(cls, faults: Int[np.ndarray, "chain block 2"], num_draws: Int[np.ndarray, "team block"]) -> "Fault":
        """The earliest of the faults of all chains and blocks, each given by its step in the block and its rung."""
        sweeps = num_draws.sum(axis=0) // max(len(faults), 1)
        before = np.cumsum(sweeps) - sweeps
        steps = np.where(faults[..., 0] >= 0, faults[..., 0] + before, np.iinfo(np.int64).max)
        if np.all(faults[..., 0] < 0):
            return cls()
        chain, block = np.unravel_index(steps.argmin(), steps.shape)
        return cls(int(chain), int(faults[chain, block, 1]), int(steps[chain, block]))

    def then(self, later: "Fault", num_steps: int = 0, /) -> "Fault":
        """This one, or else the later one, which came `num_steps` draws after the first."""
        if self.step >= 0 or later.step < 0:
            return self
        return Fault(later.chain, later.rung, later.step + num_steps)


class BlockedStats(AbstractHostStatistic):
    """The statistics of a run on the host, in float64: the input of estimators, error bars and diagnostics.

    Each chain is cut into blocks, whose differences show a drift. The law under which the draws were made travels with
    them, and statistics of two laws cannot be joined.

    Attributes:
        betas: the inverse temperatures.
        log_prior: log r_k; with a continuous β the log of the density r(β) at each rung, 0 (see `log_rung_mass`).
        log_z_guess: log Ẑ_k − log Ẑ_0.
        log_sums: log Σ_i q(k | x_i), the numerator of ĉ_k in eq. 9.
        visits: the number of draws of each rung.
        num_draws: the number of draws in each block.
        num_nonfinite: draws whose density was NaN at some rung, where it counts as 0, and draws left out.
        travel: crossings of the ladder.
        block_size: draws in a full block, of a chain or of a team; the last block may have fewer.
        slope_reference: a value near the mean slope of each rung, about which moments are taken; None, as are the
            next three, unless kept on request (see `Keep`).
        counted_slopes: Σ(s − reference), Σ(s − reference)² and Σ ds/dβ of the slope s, over the draws made at rung k.
        weighted_slopes: the same over all draws, weighted by q(k | x).
        log_steps: log Σ f_{k+1}(x)/f_k(x) and log Σ f_{k−1}(x)/f_k(x) over the draws made at rung k; −inf past an end.
        num_left_out: draws left out because their density was infinite at some rung, or 0 at every rung; by default
            all of `num_nonfinite`.
        num_vanished: the number of draws made at rung k where f_{k+1}(x) is 0; kept with `log_steps`.
        log_bridges: log Σ b_k(x) and log Σ b_{k−1}'(x) over the draws made at rung k, where b_k is the share of
            f_{k+1}/Ẑ_{k+1} in its sum with f_k/Ẑ_k, and b_{k−1}' that of f_{k−1}/Ẑ_{k−1}; −inf past an end.
        controls: Σ c, Σ c², Σ c b_k and Σ c b_{k−1}' over the draws made at rung k, of a control variate c with mean 0;
            NaN where one was infinite; None where moves give no control.
        has_whole_tours: whether every chain began with an exact draw of the base and ended just before another one.
            Its sums are then free of the start, however short the run, so that no transient is to be cut.
        origins: the number of draws of x made at each rung, without those that were left out. Given the rung at which
            it was made, a draw depends on the past only through the move, so that means over these draws are free of
            the noise of the walk over rungs. By default as many as there are visits.
        first_fault: where the density was first not finite in the whole run.
    """

    betas: HostPerRung
    log_prior: HostPerRung
    log_z_guess: HostPerRung
    log_sums: Float[np.ndarray, "chain block rung"]
    visits: Int[np.ndarray, "chain block rung"]
    num_draws: Int[np.ndarray, "chain block"]
    num_nonfinite: Int[np.ndarray, "chain block"]
    travel: Travel
    block_size: int
    slope_reference: HostPerRung | None = None
    counted_slopes: Float[np.ndarray, "chain block rung moment"] | None = None
    weighted_slopes: Float[np.ndarray, "chain block rung moment"] | None = None
    log_steps: Float[np.ndarray, "chain block rung side"] | None = None
    num_left_out: Int[np.ndarray, "chain block"] | None = None
    num_vanished: Int[np.ndarray, "chain block rung"] | None = None
    origins: Int[np.ndarray, "chain block rung"] | None = None
    log_bridges: Float[np.ndarray, "chain block rung side"] | None = None
    controls: Float[np.ndarray, "chain block rung control"] | None = None
    first_fault: Fault = Fault()
    has_whole_tours: bool = False

    @property
    def num_chains(self) -> int:
        """The number of independent sums: of chains, or of teams of chains where there are very many."""
        return self.log_sums.shape[0]

    @property
    def sweeps_by_block(self) -> Int[np.ndarray, " block"]:
        """The number of draws of each chain in each block."""
        return self.num_draws.sum(axis=0) // max(len(self.travel.num_crossings), 1)

    @property
    def num_sweeps(self) -> int:
        """The number of draws of each chain."""
        return int(self.sweeps_by_block.sum())

    @property
    def block_sweeps(self) -> int:
        """The number of draws of each chain in a full block."""
        team = -(-len(self.travel.num_crossings) // max(self.num_chains, 1))  # chains of a full one
        return self.block_size // max(team, 1)

    @property
    def num_blocks(self) -> int:
        """The number of blocks of each chain."""
        return self.log_sums.shape[1]

    @property
    def num_unused(self) -> Int[np.ndarray, "chain block"]:
        """Draws that are in no sum over q(k | x)."""
        return self.num_nonfinite if self.num_left_out is None else self.num_left_out

    @property
    def log_rung_mass(self) -> HostPerRung:
        """The log of the share of draws that each rung is meant to have, which add up to 1: log r_k.

        With a continuous β, r is a uniform density, and a draw belongs to the rung nearest to its β.
        """
        if len(self.betas) == 1 or np.any(self.log_prior != 0):  # probabilities of several rungs are not all 1
            return self.log_prior
        middles = (self.betas[1:] + self.betas[:-1]) / 2
        return np.log(np.diff(middles, prepend=self.betas[0], append=self.betas[-1]))

    def then(self, later: "BlockedStats", /) -> "BlockedStats":
        """These blocks followed by one later block of the same chains, gathered under the same law.

        Args:
            later: statistics with one block. It joins the last block of these while that is not full.
        """
        for name in ("betas", "log_prior", "log_z_guess"):
            if not np.array_equal(getattr(self, name), getattr(later, name)):
                raise ValueError(
                    f"Statistics gathered under two ladders cannot be merged: their `{name}` differ. "
                    "Estimate from each, use `mixed`, or keep the ladder frozen within a run."
                )
        fault = self.first_fault.then(later.first_fault, self.num_sweeps)
        if self.num_draws[0, -1] < self.block_size:
            return dataclasses.replace(self.with_last_grown(later), first_fault=fault)
        joined = {name: np.concatenate([array, getattr(later, name)], axis=1) for name, array in self._arrays().items()}
        longer = dataclasses.replace(self, travel=self.travel.then(later.travel), first_fault=fault, **joined)
        return longer.coarsened() if longer.num_blocks == _MAX_BLOCKS else longer

    def without_first(self, num_blocks: int) -> "BlockedStats":
        """The same run without its first blocks. Crossings stay those of the whole run.

        Args:
            num_blocks: how many blocks to leave out.
        """
        return dataclasses.replace(self, **{name: array[:, num_blocks:] for name, array in self._arrays().items()})

    def only_first(self, num_blocks: int) -> "BlockedStats":
        """The first blocks of the same run. Crossings stay those of the whole run.

        Args:
            num_blocks: how many blocks to keep.
        """
        return dataclasses.replace(self, **{name: array[:, :num_blocks] for name, array in self._arrays().items()})

    def of_chains(self, chains: Shaped[np.ndarray, " part"]) -> "BlockedStats":
        """The same run with some of its chains only.

        Args:
            chains: their numbers, or a mask.
        """
        ends = (self.travel.first_end, self.travel.last_end, self.travel.num_crossings)
        size = -(-len(ends[0]) // max(self.num_chains, 1))  # of a team
        of_teams = (np.arange(self.num_chains)[chains][:, None] * size + np.arange(size)).ravel()
        travel = Travel(*(np.asarray(each)[of_teams[of_teams < len(each)]] for each in ends))
        return dataclasses.replace(self, travel=travel, **{name: part[chains] for name, part in self._arrays().items()})

    def coarsened(self) -> "BlockedStats":
        """The same run with blocks twice as long, so that memory does not grow with a run; an odd last one stays."""
        starts = np.arange(0, self.num_blocks, 2)
        joined = {name: _addition(name).reduceat(array, starts, axis=1) for name, array in self._arrays().items()}
        return dataclasses.replace(self, block_size=2 * self.block_size, **joined)

    def coarsened_for(self, num_sweeps: int) -> "BlockedStats":
        """The same run with blocks as long as they will be once it has so many sweeps.

        Args:
            num_sweeps: sweeps per chain of the longer run.
        """
        stats = self
        while num_sweeps >= _MAX_BLOCKS * stats.block_sweeps:
            stats = stats.coarsened()
        return stats

    def in_one_block(self) -> "BlockedStats":
        """The same run with all blocks of a chain joined, for estimates that need no more than that."""
        sums = {n: _addition(n).reduce(array, axis=1, keepdims=True) for n, array in self._arrays().items()}
        return dataclasses.replace(self, block_size=max(self.num_blocks, 1) * self.block_size, **sums)

    def with_last_grown(self, later: "BlockedStats") -> "BlockedStats":
        """The same run with its last block longer.

        Args:
            later: statistics with one block, whose chains may have different numbers of draws.
        """
        grown = {name: array.copy() for name, array in self._arrays().items()}
        for name, array in grown.items():
            array[:, -1] = _addition(name)(array[:, -1], getattr(later, name)[:, 0])
        return dataclasses.replace(self, travel=self.travel.then(later.travel), **grown)

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays with a block axis that this run keeps, by name."""
        arrays = {name: getattr(self, name) for name in (*_ADDED, *_LOG_ADDED)}
        return {name: array for name, array in arrays.items() if array is not None}

    def __repr__(self) -> str:
        num_chains, _, num_rungs = np.shape(self.log_sums)
        return f"BlockedStats({num_chains} chains × {np.sum(self.num_draws[0])} draws, {num_rungs} rungs)"


def _addition(name: str) -> np.ufunc:
    return np.add if name in _ADDED else np.logaddexp
