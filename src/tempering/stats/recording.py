"""What a tempered run has kept so far, for all chains, on the host."""

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from tempering.stats.blocked import BlockedStats
from tempering.stats.draws import KeptFeatures
from tempering.stats.moves import MoveCounts, TuningCounts
from tempering.stats.states import WeightedDraws
from tempering.stats.target import HostTargetSums
from tempering.stats.tours import Tours

_JOINED = ("target", "moves", "tuning", "states", "tours")  # each by its own `then`


class Recording(eqx.Module):
    """What a tempered run has kept so far. Transition matrices are added up within groups of chains."""

    stats: BlockedStats
    transition_counts: Int[np.ndarray, "group rung rung"]
    transition_sums: Float[np.ndarray, "group rung rung"] | None
    features: KeptFeatures | None = None
    target: HostTargetSums | None = None
    moves: MoveCounts | None = None
    tuning: TuningCounts | None = None
    states: WeightedDraws | None = None
    tours: Tours | None = None

    def then(self, later: "Recording") -> "Recording":
        """This recording followed by one later block of the same chains."""
        sums = None
        if self.transition_sums is not None and later.transition_sums is not None:
            sums = self.transition_sums + later.transition_sums
        pairs = {n: (getattr(self, n), getattr(later, n)) for n in ("features", *_JOINED)}
        joined = {n: None if mine is None or new is None else mine.then(new) for n, (mine, new) in pairs.items()}
        counts = self.transition_counts + later.transition_counts
        return Recording(self.stats.then(later.stats), counts, sums, **joined)
