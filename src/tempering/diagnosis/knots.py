"""Knots: narrow stretches of the ladder that chains hardly pass, found from transitions between rungs.

All numbers come from the flow F_jk, how often a step goes from rung j to rung k. In equilibrium F_jk = E[q(j|x) q(k|x)]
for every move (docs/methods/knots.md). So these are the numbers of a ladder whose moves redraw x exactly. Real moves
remember x and are slower.
"""

import dataclasses

import numpy as np
from jaxtyping import Num

from tempering._types import HostPerRung
from tempering.diagnosis.rung_flow import (
    _ROUNDING,
    Counts,
    Cuts,
    Flow,
    _checked,
    _ends,
    _energy,
    _symmetric,
    committor,
    conductances,
    flow_matrix,
    spectral_gap,
)

MIN_EXCESS = 2.0  # a knot holds up chains this many times more than as narrow a stretch of an even ladder would


MAX_WIDTH = 0.05  # of the ladder, by prior mass, or one step where rungs are fewer


_UNSEEN = 3.0  # crossings: none seen, and with 95 % confidence fewer than three were to be expected


_TRIM = 0.95  # of a knot's share is left when its stretch is cut to where it is tightest


@dataclasses.dataclass(frozen=True)
class Knot:
    """A narrow stretch of the ladder that chains pass far less often than their steps elsewhere let expect."""

    beta: float  # where the potential rises most
    low: float  # the inverse temperatures between which it lies
    high: float
    share: float  # of the relaxation time that this stretch alone accounts for, if all else were mixed at once
    even_share: float  # what as narrow a stretch accounts for on a ladder of even steps that relaxes as slowly
    sweeps: float  # the relaxation time through this stretch alone; infinite where no chain passed it
    conductance: float  # of its narrowest cut


@dataclasses.dataclass(frozen=True)
class RungChain:
    """The rung as a Markov chain of its own: the fastest that a run with these overlaps can be.

    Arrays speak of the rungs that were visited, whose inverse temperatures are `betas`.
    """

    betas: HostPerRung
    visited: HostPerRung  # the share of draws at each of them
    gap: float  # 1 − the second largest eigenvalue; 0 where the rungs fall apart
    relaxation_sweeps: float  # 1 / gap
    relaxation_error: float  # by leaving out one group of chains at a time; infinite where there is one group
    conductances: Cuts
    committor: HostPerRung  # the chance to see the top of the ladder before its bottom
    crossings_per_sweep: float  # from end to end, either way, that one chain makes if moves redraw x exactly
    knots: tuple[Knot, ...]  # the gravest first

    @property
    def conductance(self) -> float:
        """Of the narrowest cut; infinite where only one rung was visited."""
        return float(self.conductances.min(initial=np.inf))

    @property
    def best_cut_beta(self) -> float:
        """Where the narrowest cut is; NaN where only one rung was visited."""
        if len(self.conductances) == 0:
            return np.nan
        cut = int(self.conductances.argmin())
        return float(self.betas[cut : cut + 2].mean())


def rung_chain(counts: Counts, betas: HostPerRung, log_prior: HostPerRung | None = None) -> RungChain:
    """All that the transitions between rungs say, from `Recording.transition_counts` or their sum over groups.

    `log_prior` says how much of the ladder each rung is, the same for all unless given.
    """
    groups, total, betas, prior = _checked(counts, betas, log_prior)
    is_visited = _symmetric(total).sum(axis=1) > 0
    prior = prior[is_visited] / prior[is_visited].sum()
    total, betas = total[np.ix_(is_visited, is_visited)], betas[is_visited]
    flow = flow_matrix(total)
    gap = spectral_gap(flow)
    potential = committor(flow, *_ends(prior))
    return RungChain(
        betas=betas,
        visited=flow.sum(axis=1),
        gap=gap,
        relaxation_sweeps=1 / gap if gap > 0 else np.inf,
        relaxation_error=_relaxation_error(groups),
        conductances=conductances(flow),
        committor=potential,
        crossings_per_sweep=2 * _energy(flow, potential),  # as many up as down: E & Vanden-Eijnden (2006)
        knots=_knots(total, betas, prior),
    )


def find_knots(counts: Counts, betas: HostPerRung, log_prior: HostPerRung | None = None) -> tuple[Knot, ...]:
    """The stretches where chains are held up, the gravest first; none where the ladder is even."""
    return rung_chain(counts, betas, log_prior).knots


def even_share(width: float, relaxation_moves: float) -> float:
    """The share of a stretch in the middle of an even ladder: (π²/4)(width + 1/√(πτ)), τ in steps that change the rung.

    A walk with diffusion constant D on [0, 1] relaxes in τ = 1/(π² D), and through a stretch alone in width/(4 D). What
    jumps past its ends adds is E[J²]/E|J| to the width, for normal jumps of variance 2 D.
    """
    return float(np.pi**2 / 4 * (width + 1 / np.sqrt(np.pi * relaxation_moves)))


def _knots(counts: Num[np.ndarray, "rung rung"], betas: HostPerRung, prior: HostPerRung) -> tuple[Knot, ...]:
    """Stretches with more than `MIN_EXCESS` times their share; those that touch are one."""
    if len(betas) < 3:  # one step is the whole ladder, and not narrow
        return ()
    seen, cautious = flow_matrix(counts), _with_unseen(counts)
    relaxation = 1 / spectral_gap(cautious)
    in_moves = relaxation * (1 - float(np.trace(cautious)))
    place = np.cumsum(prior) - prior / 2
    last = np.searchsorted(place, place + MAX_WIDTH * (1 + 1e-9), side="right") - 1
    stretches = [(low, max(low + 1, int(last[low]))) for low in range(len(betas) - 1)]
    shares = [_stretch(cautious, *stretch)[0] / relaxation for stretch in stretches]
    taken: list[tuple[int, int]] = []
    for share, (low, high) in sorted(zip(shares, stretches, strict=True), reverse=True):
        is_apart = all(high <= other_low or low >= other_high for other_low, other_high in taken)
        if is_apart and share > MIN_EXCESS * even_share(float(place[high] - place[low]), in_moves):
            taken.append((low, high))
    tight = [_trimmed(cautious, *stretch) for stretch in _joined(taken)]
    found = [_knot(seen, cautious, (betas, place), stretch, (relaxation, in_moves)) for stretch in tight]
    return tuple(sorted(found, key=lambda knot: -knot.share))


def _joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches in the order of the ladder, with those that touch made one."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(stretches):
        if joined and joined[-1][1] == low:
            low = joined.pop()[0]
        joined.append((low, high))
    return joined


def _knot(
    seen: Flow,
    cautious: Flow,
    along: tuple[HostPerRung, HostPerRung],
    stretch: tuple[int, int],
    relaxation: tuple[float, float],
) -> Knot:
    (betas, place), (low, high), (in_sweeps, in_moves) = along, stretch, relaxation
    sweeps, potential = _stretch(cautious, low, high)
    return Knot(
        beta=float(np.diff(potential) @ (betas[1:] + betas[:-1]) / 2),
        low=float(betas[low]),
        high=float(betas[high]),
        share=sweeps / in_sweeps,
        even_share=even_share(float(place[high] - place[low]), in_moves),
        sweeps=_stretch(seen, low, high)[0],
        conductance=float(conductances(seen)[low:high].min()),
    )


def _trimmed(flow: Flow, low: int, high: int) -> tuple[int, int]:
    """The shortest stretch within that holds chains up nearly as long."""
    enough = _TRIM * _stretch(flow, low, high)[0]
    while high - low > 1:
        shorter = max([(low + 1, high), (low, high - 1)], key=lambda stretch: _stretch(flow, *stretch)[0])
        if _stretch(flow, *shorter)[0] < enough:
            break
        low, high = shorter
    return low, high


def _stretch(flow: Flow, low: int, high: int) -> tuple[float, HostPerRung]:
    """The relaxation time if rungs up to `low`, and those from `high`, were mixed at once; and its potential.

    Var(h)/E(h, h) of the potential h between them, which by the variational principle is never above 1/gap.
    """
    visited, inner = flow.sum(axis=1), slice(low + 1, high)
    potential = (np.arange(len(flow)) >= high).astype(np.float64)
    if high - low > 1:
        held = np.diag(visited[inner]) - flow[inner, inner]
        potential[inner] = np.linalg.lstsq(held, flow[inner, high:].sum(axis=1))[0]
    current = float(flow[: low + 1].sum(axis=0) @ potential)  # what leaves the lower side is the energy
    variance = visited @ (potential - visited @ potential) ** 2
    return (float(variance / current) if current > _ROUNDING else np.inf), potential


def _with_unseen(counts: Num[np.ndarray, "rung rung"]) -> Flow:
    """The flow if every two neighbours had been crossed a few times more: few counts must not make a knot."""
    between = np.full(len(counts) - 1, _UNSEEN)
    return flow_matrix(counts + np.diag(between, 1) + np.diag(between, -1))


def _relaxation_error(groups: Num[np.ndarray, "group rung rung"]) -> float:
    """The jackknife over groups of independent chains."""
    num_groups, total = len(groups), groups.sum(axis=0)
    rest = [total - group for group in groups]
    gaps = np.array([spectral_gap(flow_matrix(one)) if one.sum() > 0 else 0.0 for one in rest])
    if num_groups < 2 or np.any(gaps == 0):
        return np.inf
    return float(np.sqrt((num_groups - 1) * np.var(1 / gaps)))
