"""What one chain keeps of one block of a tempered run, on the device."""

import dataclasses

import numpy as np

from tempering.ladder import Draw, Ladder
from tempering.stats.groups import chain_groups, group_sums
from tempering.stats.keep import JUST_RTS, Keep
from tempering.stats.moves import MoveSums, TuningSums
from tempering.stats.recording import ON_REQUEST, Recording
from tempering.stats.states import StateTrace
from tempering.stats.statistic import AbstractRecord
from tempering.stats.sums import TemperingStats
from tempering.stats.target import TargetSums
from tempering.stats.teams import Teams
from tempering.stats.tours import TourSums
from tempering.stats.trace import Trace, TransitionCounts, TransitionSums


class TemperingRecord(AbstractRecord):
    """What one chain keeps of one block of a tempered run; on the host it becomes a `Recording`.

    ```python
    record = TemperingRecord.empty(ladder, keep=Keep(features=True))
    for block in run_chains(key, ladder, kernel, record, states, num_steps=1000):
        block.record.on_host()                      # a Recording; join them by `then`
    ```

    Attributes:
        stats: the sums per rung that RTS needs.
        trace: the rung at each step; None where steps may be more than a trace has room for.
        transitions, target, moves, tuning, states, tours: on request, see `Keep`; None otherwise.
    """

    stats: TemperingStats
    trace: Trace | TransitionCounts | None
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
        """A record without draws.

        Args:
            ladder: the law that is sampled.
            any_range: whether posteriors are summed in log space, see `TemperingStats.empty`.
            keep: what to keep in addition to the sums for RTS.
            tuning: empty sums for a move whose step sizes are being tuned.
        """
        stats = TemperingStats.empty(
            ladder, any_range=any_range, with_slopes=keep.slopes, with_steps=keep.steps, with_bridges=keep.bridges,
            with_controls=keep.controls,
        )  # fmt: skip
        return cls(
            stats,
            Trace.empty(ladder, with_features=keep.features),
            TransitionSums.empty(ladder) if keep.transitions else None,
            None if keep.expect is None else TargetSums.empty(ladder, keep.expect),
            MoveSums.empty(ladder) if keep.moves else None,
            tuning,
            StateTrace.empty(ladder) if keep.states else None,
            TourSums.empty() if keep.tours else None,
        )

    def without_steps(self) -> "TemperingRecord":
        """The same without what has room for the steps of one block only: for a walk of unknown length."""
        return dataclasses.replace(self, trace=None, transitions=None, tuning=None, states=None)

    def update(self, ladder: Ladder, draw: Draw, /) -> "TemperingRecord":
        parts = {name: getattr(self, name) for name in ("trace", "transitions", *ON_REQUEST)}
        assert not isinstance(self.trace, TransitionCounts)  # which are made when a block is done
        updated = {name: None if part is None else part.update(ladder, draw) for name, part in parts.items()}
        return TemperingRecord(self.stats.update(ladder, draw), **updated)

    def gathered(self, teams: Teams) -> "TemperingRecord":
        assert not isinstance(self.trace, TransitionCounts)
        num_rungs = self.stats.visits.shape[-1]
        parts = {name: getattr(self, name) for name in ON_REQUEST}
        return TemperingRecord(
            self.stats.gathered(teams),
            None if self.trace is None else self.trace.gathered(teams, num_rungs),
            teams.sums(self.transitions),
            **{name: None if part is None else part.gathered(teams) for name, part in parts.items()},
        )

    def on_host(self) -> Recording:
        stats = self.stats.on_host()
        groups = chain_groups(stats.num_chains)
        sums = None if self.transitions is None else group_sums(np.asarray(self.transitions.sums, np.float64), groups)
        num_rungs, trace = len(stats.log_prior), self.trace
        none = np.zeros((groups.max() + 1, num_rungs, num_rungs), np.int64)
        counts = none if trace is None else trace.transition_counts(groups, num_rungs)
        parts = {name: getattr(self, name) for name in ON_REQUEST}
        on_host = {name: None if part is None else part.on_host() for name, part in parts.items()}
        return Recording(stats, counts, sums, None if trace is None else trace.kept_features(), **on_host)
