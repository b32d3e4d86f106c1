"""What a tempered run has kept so far, for all chains, on the host."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from tempering.stats.blocked import BlockedStats
from tempering.stats.draws import KeptFeatures
from tempering.stats.moves import MoveCounts, TuningCounts
from tempering.stats.states import WeightedDraws
from tempering.stats.statistic import AbstractHostStatistic
from tempering.stats.target import HostTargetSums
from tempering.stats.tours import Tours

ON_REQUEST = ("target", "moves", "tuning", "states", "tours")  # parts with `update`, `on_host` and `then` of their own


class Recording(AbstractHostStatistic):
    """What a tempered run has kept so far, for all chains. Everything after `transition_counts` is kept on request.

    Attributes:
        stats: the sums per rung that RTS needs.
        transition_counts: moves between rungs, counted within groups of chains (see `chain_groups`).
        transition_sums: the same, Rao-Blackwellized.
        features: features of single draws, for MBAR and BAR.
        target: sums for an expectation under the target.
        moves: acceptance of moves.
        tuning: acceptance by step size, and the scale of each rung.
        states: the states themselves with their weights.
        tours: sums between exact draws of the base.
    """

    stats: BlockedStats
    transition_counts: Int[np.ndarray, "group rung rung"]
    transition_sums: Float[np.ndarray, "group rung rung"] | None
    features: KeptFeatures | None = None
    target: HostTargetSums | None = None
    moves: MoveCounts | None = None
    tuning: TuningCounts | None = None
    states: WeightedDraws | None = None
    tours: Tours | None = None

    def then(self, later: "Recording", /) -> "Recording":
        sums, new_sums = self.transition_sums, later.transition_sums
        sums = None if sums is None or new_sums is None else sums + new_sums
        pairs = {name: (getattr(self, name), getattr(later, name)) for name in ("features", *ON_REQUEST)}
        joined = {n: None if mine is None or new is None else mine.then(new) for n, (mine, new) in pairs.items()}
        counts = self.transition_counts + later.transition_counts
        return Recording(self.stats.then(later.stats), counts, sums, **joined)

    def with_tours_finished(self, rest: "Recording") -> "Recording":
        """The same run after every chain has gone on to its next exact draw of the base.

        Args:
            rest: what was kept on the way, without features and states.
        """
        stats = dataclasses.replace(self.stats.with_last_grown(rest.stats), has_whole_tours=True)
        pairs = {name: (getattr(self, name), getattr(rest, name)) for name in ("target", "moves", "tours")}
        joined = {n: None if mine is None or new is None else mine.then(new) for n, (mine, new) in pairs.items()}
        tours = joined.pop("tours")
        return dataclasses.replace(
            self, stats=stats, tours=None if tours is None else tours.with_last_counted(), **joined
        )

    def __repr__(self) -> str:
        kept = [name for name in ("transition_sums", "features", *ON_REQUEST) if getattr(self, name) is not None]
        return f"Recording({', '.join([repr(self.stats), *kept])})"
