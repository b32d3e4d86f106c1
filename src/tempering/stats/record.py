"""All that a tempered run may keep: on the device per chain and block, on the host for all chains so far."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering.ladder import Draw, Ladder
from tempering.stats.blocked import BlockedStats
from tempering.stats.draws import KeptDraws
from tempering.stats.moves import MoveCounts, MoveSums, TuningCounts, TuningSums
from tempering.stats.states import StateTrace, WeightedDraws
from tempering.stats.sums import TemperingStats
from tempering.stats.target import HostTargetSums, TargetSums
from tempering.stats.tours import Tours, TourSums

MAX_BLOCK_STEPS = 250  # keeps float32 sums exact enough and a lost block short
_OPTIONAL = ("transitions", "target", "moves", "tuning", "states", "tours")
_JOINED = ("target", "moves", "tuning", "states", "tours")  # each by its own `then`
_MAX_GROUPS = 10  # of chains, for the errors of estimates made from transition matrices


@dataclasses.dataclass(frozen=True)
class Keep:
    """What a run keeps beyond the few numbers per rung that RTS needs."""

    slopes: bool = False  # for thermodynamic integration
    steps: bool = False  # for stepping stones
    transitions: bool = False  # Rao-Blackwellized, for RSD: K × K numbers a chain
    draws: bool = False  # for MBAR and BAR: features of every draw, up to `MAX_KEPT_DRAWS`
    expect: Callable[[Any], Any] | None = None  # g(x), whose mean under the target is wanted
    moves: bool = False  # how often moves are accepted, for those that may be refused
    states: bool = False  # x itself, for draws of the target
    tours: bool = False  # sums between exact draws of the base, where the move makes them


JUST_RTS = Keep()


class Trace(eqx.Module):
    """Where one chain stood, step by step, within one block; with `features`, also what x was there."""

    origin: Int[Array, ""]  # where the block began
    rungs: Int[Array, " step"]
    num_steps: Int[Array, ""]
    features: Float[Array, "step feature"] | None = None

    @classmethod
    def empty(cls, ladder: Ladder, *, with_features: bool = False) -> "Trace":
        """Room for the longest block: one length for all, so that runs of any length share what was compiled."""
        zero = jnp.zeros((), jnp.int32)
        features = None
        if with_features:
            features = jnp.zeros((MAX_BLOCK_STEPS, ladder.path.feature_matrix().shape[1]))
        return cls(zero, jnp.zeros(MAX_BLOCK_STEPS, jnp.int32), zero, features)

    def update(self, ladder: Ladder, draw: Draw) -> "Trace":
        """Note where the chain went."""
        origin = jnp.where(self.num_steps == 0, draw.origin, self.origin)
        features = self.features
        if features is not None:
            features = features.at[self.num_steps].set(ladder.path.features(draw.x))
        return Trace(origin, self.rungs.at[self.num_steps].set(draw.rung), self.num_steps + 1, features)


class TransitionSums(eqx.Module):
    """Σ_n q(k | x_n) 1{k_n = j}: the Rao-Blackwellized transition sums of Appendix G, K × K numbers a chain."""

    sums: Float[Array, "rung rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "TransitionSums":
        """Nothing seen yet."""
        return cls(jnp.zeros((ladder.path.num_rungs, ladder.path.num_rungs)))

    def update(self, ladder: Ladder, draw: Draw) -> "TransitionSums":
        """Add q(· | x) to the row of the rung at which x was drawn; a draw that is not finite adds nothing."""
        posterior = ladder.rung_posterior(draw.log_f)
        return TransitionSums(self.sums.at[draw.origin].add(jnp.nan_to_num(posterior)))


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
        trace, tours = Trace.empty(ladder, with_features=keep.draws), TourSums.empty() if keep.tours else None
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
        return Recording(stats, counts, sums, self._draws(), **on_host)

    def _draws(self) -> KeptDraws | None:
        trace = self.trace
        if trace.features is None:
            return None
        num_steps = int(np.max(trace.num_steps))
        return KeptDraws(np.asarray(trace.features)[:, :num_steps], np.asarray(trace.rungs)[:, :num_steps], num_steps)


class Recording(eqx.Module):
    """What a tempered run has kept so far. Transition matrices are added up within groups of chains."""

    stats: BlockedStats
    transition_counts: Int[np.ndarray, "group rung rung"]
    transition_sums: Float[np.ndarray, "group rung rung"] | None
    draws: KeptDraws | None = None
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
        pairs = {n: (getattr(self, n), getattr(later, n)) for n in ("draws", *_JOINED)}
        joined = {n: None if mine is None or new is None else mine.then(new) for n, (mine, new) in pairs.items()}
        counts = self.transition_counts + later.transition_counts
        return Recording(self.stats.then(later.stats), counts, sums, **joined)


def chain_groups(num_chains: int) -> Int[np.ndarray, " chain"]:
    """The group that each chain belongs to: at most ten, contiguous, as equal in size as can be."""
    return np.arange(num_chains) * min(_MAX_GROUPS, num_chains) // num_chains


def _transition_counts(trace: Trace, groups: np.ndarray, num_rungs: int) -> Int[np.ndarray, "group rung rung"]:
    num_steps = int(np.max(trace.num_steps))
    to = np.asarray(trace.rungs)[:, :num_steps].astype(np.int64)
    came_from = np.concatenate([np.asarray(trace.origin)[:, None], to[:, :-1]], axis=1)
    flat = ((groups[:, None] * num_rungs + came_from) * num_rungs + to).ravel()
    shape = (groups.max() + 1, num_rungs, num_rungs)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def _group_sums(per_chain: np.ndarray, groups: np.ndarray) -> Float[np.ndarray, "group rung rung"]:
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.add.reduceat(per_chain.astype(np.float64), starts, axis=0)
