"""All that one chain keeps of one block in a tempered run, on the device."""

import equinox as eqx
import numpy as np

from tempering.ladder import Draw, Ladder
from tempering.stats.draws import KeptFeatures
from tempering.stats.groups import chain_groups
from tempering.stats.keep import JUST_RTS, MAX_BLOCK_STEPS, Keep
from tempering.stats.moves import MoveSums, TuningSums
from tempering.stats.recording import _JOINED, Recording
from tempering.stats.states import StateTrace
from tempering.stats.sums import TemperingStats
from tempering.stats.target import TargetSums
from tempering.stats.tours import TourSums
from tempering.stats.trace import Trace
from tempering.stats.transitions import TransitionSums, _group_sums, _transition_counts

_OPTIONAL = ("transitions", "target", "moves", "tuning", "states", "tours")


class TemperingRecord(eqx.Module):
    """All that one chain keeps of one block in a tempered run."""

    stats: TemperingStats
    trace: Trace
    transitions: TransitionSums | None
    target: TargetSums | None = None
    moves: MoveSums | None = None
    tuning: TuningSums | None = None
    states: StateTrace | None = None
    tours: TourSums | None = None

    @classmethod
    def empty(
        cls, ladder: Ladder, *, any_range: bool = True, keep: Keep = JUST_RTS, tuning: TuningSums | None = None
    ) -> "TemperingRecord":
        """An empty record; what is kept beyond the sums for RTS is kept on request."""
        stats = TemperingStats.empty(ladder, any_range=any_range, with_slopes=keep.slopes, with_steps=keep.steps)
        transitions = TransitionSums.empty(ladder) if keep.transitions else None
        target = None if keep.expect is None else TargetSums.empty(ladder, keep.expect)
        moves = MoveSums.empty(ladder) if keep.moves else None
        states = StateTrace.empty(ladder, MAX_BLOCK_STEPS) if keep.states else None
        trace, tours = Trace.empty(ladder, with_features=keep.features), TourSums.empty() if keep.tours else None
        return cls(stats, trace, transitions, target, moves, tuning, states, tours)

    def update(self, ladder: Ladder, draw: Draw) -> "TemperingRecord":
        """Fold one draw into each part."""
        parts = {name: getattr(self, name) for name in _OPTIONAL}
        updated = {name: None if part is None else part.update(ladder, draw) for name, part in parts.items()}
        return TemperingRecord(self.stats.update(ladder, draw), self.trace.update(ladder, draw), **updated)

    def on_host(self) -> "Recording":
        """What all chains kept of this block, in float64."""
        stats = self.stats.on_host()
        groups = chain_groups(stats.num_chains)
        sums = None if self.transitions is None else _group_sums(np.asarray(self.transitions.sums), groups)
        counts = _transition_counts(self.trace, groups, len(stats.log_prior))
        others = {name: getattr(self, name) for name in _JOINED}
        on_host = {name: None if part is None else part.on_host() for name, part in others.items()}
        return Recording(stats, counts, sums, self._features(), **on_host)

    def _features(self) -> KeptFeatures | None:
        trace = self.trace
        if trace.features is None:
            return None
        num_steps = int(np.max(trace.num_steps))
        return KeptFeatures(
            np.asarray(trace.features)[:, :num_steps], np.asarray(trace.rungs)[:, :num_steps], num_steps
        )
