"""Knots: narrow stretches of the ladder that chains hardly pass, found from the transitions between rungs.

All numbers come from the flow F_jk, the share of steps that go from rung j to rung k. In equilibrium
F_jk = E[q(j|x) q(k|x)] for every move, so these are the numbers of a ladder whose moves redraw x exactly. Real moves
remember x and are slower.
"""

import dataclasses

import numpy as np
from jaxtyping import Num

from tempering._types import HostPerRung
from tempering.diagnosis import rung_flow
from tempering.diagnosis.rung_flow import ROUNDING, Counts, Cuts, Flow

MIN_EXCESS = 2.0  # a knot delays chains at least this many times more than an equally wide stretch of an even ladder
MAX_WIDTH = 0.05  # of the ladder, by prior mass; or one step where rungs are few
_UNSEEN = 3.0  # crossings: if none was seen, fewer than three were expected, with 95 % confidence
_TRIM = 0.95  # of a knot's share remains when its stretch is cut to its narrowest part

Stretch = tuple[int, int]  # its first and last rung


@dataclasses.dataclass(frozen=True)
class Knot:
    """A bottleneck: a narrow stretch of the ladder that chains rarely pass.

    Attributes:
        beta: Its inverse temperature, where the committor rises most.
        low: The inverse temperature of its lower end.
        high: The inverse temperature of its upper end.
        share: The part of the relaxation time that would remain if all other rungs mixed in one step.
        even_share: The same for an equally wide stretch of an even ladder with the same relaxation time.
        sweeps: The relaxation time through this stretch alone; infinite if no chain passed it.
        conductance: The conductance of its narrowest cut.
    """

    beta: float
    low: float
    high: float
    share: float
    even_share: float
    sweeps: float
    conductance: float


@dataclasses.dataclass(frozen=True)
class RungChain:
    """The rung as a Markov chain of its own: no run with these overlaps can mix faster.

    Attributes:
        betas: Inverse temperatures of the visited rungs, which all arrays refer to.
        visited: The share of draws at each of them.
        gap: The spectral gap, 1 − the second largest eigenvalue; 0 if some rungs cannot be reached from others.
        relaxation_sweeps: 1 / gap.
        relaxation_error: Its jackknife error over groups of chains; infinite for one group.
        conductances: The conductance of each cut between neighbouring rungs.
        committor: The probability to reach the top of the ladder before its bottom.
        crossings_per_sweep: Crossings from end to end, in either direction, of one chain whose moves redraw x exactly.
        knots: The bottlenecks, the worst first.
    """

    betas: HostPerRung
    visited: HostPerRung
    gap: float
    relaxation_sweeps: float
    relaxation_error: float
    conductances: Cuts
    committor: HostPerRung
    crossings_per_sweep: float
    knots: tuple[Knot, ...]

    @property
    def best_cut_beta(self) -> float:
        """The inverse temperature of the narrowest cut; NaN where only one rung was visited."""
        if len(self.conductances) == 0:
            return np.nan
        cut = int(self.conductances.argmin())
        return float(self.betas[cut : cut + 2].mean())

    @property
    def conductance(self) -> float:
        """The conductance of the narrowest cut; infinite where only one rung was visited."""
        return float(self.conductances.min(initial=np.inf))

    def __repr__(self) -> str:
        time = f"{self.relaxation_sweeps:.3g} ± {self.relaxation_error:.2g} sweeps"
        return f"RungChain({len(self.betas)} rungs, relaxation in {time}, {len(self.knots)} knots)"


def rung_chain(counts: Counts, betas: HostPerRung, log_prior: HostPerRung | None = None) -> RungChain:
    """Analyse the transitions between rungs: relaxation time, conductances, committor and knots.

    ```python
    chain = tp.diagnosis.rung_chain(recording.transition_counts, result.betas, recording.stats.log_prior)
    chain.relaxation_sweeps, chain.knots
    ```

    Args:
        counts: `Recording.transition_counts`, or their sum over groups.
        betas: The inverse temperatures of the rungs.
        log_prior: log r_k, by default uniform.

    Returns:
        The numbers of the chain over rungs.

    Caveats: The chain over rungs is taken to be Markovian. Moves that remember x make the run slower than this.
    """
    groups, total, betas, prior = rung_flow.validated_counts(counts, betas, log_prior)
    is_visited = (total + total.T).sum(axis=1) > 0
    prior = prior[is_visited] / prior[is_visited].sum()
    total, betas = total[np.ix_(is_visited, is_visited)], betas[is_visited]
    flow = rung_flow.flow_matrix(total)
    gap = rung_flow.spectral_gap(flow)
    potential = rung_flow.committor(flow, *rung_flow.count_ends(prior))
    return RungChain(
        betas=betas,
        visited=flow.sum(axis=1),
        gap=gap,
        relaxation_sweeps=1 / gap if gap > 0 else np.inf,
        relaxation_error=_relaxation_error(groups),
        conductances=rung_flow.conductances(flow),
        committor=potential,
        # As many up as down: E & Vanden-Eijnden (2006).
        crossings_per_sweep=2 * rung_flow.crossing_flow(flow, potential),
        knots=_knots(total, betas, prior),
    )


def find_knots(counts: Counts, betas: HostPerRung, log_prior: HostPerRung | None = None) -> tuple[Knot, ...]:
    """Find the bottlenecks of a ladder from the transitions between its rungs.

    Args:
        counts: `Recording.transition_counts`, or their sum over groups.
        betas: The inverse temperatures of the rungs.
        log_prior: log r_k, by default uniform.

    Returns:
        The knots, the worst first; none if the ladder is even.
    """
    return rung_chain(counts, betas, log_prior).knots


def even_share(width: float, relaxation_moves: float) -> float:
    """`Knot.share` of a stretch in the middle of an even ladder: (π²/4)(width + 1/√(πτ)), τ in steps that change rung.

    A walk with diffusion constant D on [0, 1] relaxes in τ = 1/(π² D), and through a stretch alone in width/(4 D).
    Jumps past its ends add E[J²]/E|J| to the width, for normal jumps of variance 2 D.
    """
    return float(np.pi**2 / 4 * (width + 1 / np.sqrt(np.pi * relaxation_moves)))


def _knots(counts: Num[np.ndarray, "rung rung"], betas: HostPerRung, prior: HostPerRung) -> tuple[Knot, ...]:
    """Stretches with more than `MIN_EXCESS` times their even share; those that touch are joined."""
    if len(betas) < 3:  # one step is the whole ladder, and not narrow
        return ()
    seen, cautious = rung_flow.flow_matrix(counts), _with_unseen(counts)
    relaxation = 1 / rung_flow.spectral_gap(cautious)
    in_moves = relaxation * (1 - float(np.trace(cautious)))
    place = np.cumsum(prior) - prior / 2
    last = np.searchsorted(place, place + MAX_WIDTH * (1 + 1e-9), side="right") - 1
    stretches = [(low, max(low + 1, int(last[low]))) for low in range(len(betas) - 1)]
    shares = [_stretch(cautious, *stretch)[0] / relaxation for stretch in stretches]
    taken: list[Stretch] = []
    for share, (low, high) in sorted(zip(shares, stretches, strict=True), reverse=True):
        is_apart = all(high <= other_low or low >= other_high for other_low, other_high in taken)
        if is_apart and share > MIN_EXCESS * even_share(float(place[high] - place[low]), in_moves):
            taken.append((low, high))
    tight = [_trimmed(cautious, *stretch) for stretch in _joined(taken)]
    found = [_knot(seen, cautious, (betas, place), stretch, (relaxation, in_moves)) for stretch in tight]
    return tuple(sorted(found, key=lambda knot: -knot.share))


def _joined(stretches: list[Stretch]) -> list[Stretch]:
    """Stretches in the order of the ladder; those that touch are joined."""
    joined: list[Stretch] = []
    for low, high in sorted(stretches):
        if joined and joined[-1][1] == low:
            low = joined.pop()[0]
        joined.append((low, high))
    return joined


def _knot(
    seen: Flow, cautious: Flow, along: tuple[HostPerRung, HostPerRung], at: Stretch, relaxation: tuple[float, float]
) -> Knot:
    (betas, place), (low, high), (in_sweeps, in_moves) = along, at, relaxation
    sweeps, potential = _stretch(cautious, low, high)
    return Knot(
        beta=float(np.diff(potential) @ (betas[1:] + betas[:-1]) / 2),
        low=float(betas[low]),
        high=float(betas[high]),
        share=sweeps / in_sweeps,
        even_share=even_share(float(place[high] - place[low]), in_moves),
        sweeps=_stretch(seen, low, high)[0],
        conductance=float(rung_flow.conductances(seen)[low:high].min()),
    )


def _trimmed(flow: Flow, low: int, high: int) -> Stretch:
    """The shortest part of a stretch that delays chains nearly as long."""
    enough = _TRIM * _stretch(flow, low, high)[0]
    while high - low > 1:
        shorter = max([(low + 1, high), (low, high - 1)], key=lambda stretch: _stretch(flow, *stretch)[0])
        if _stretch(flow, *shorter)[0] < enough:
            break
        low, high = shorter
    return low, high


def _stretch(flow: Flow, low: int, high: int) -> tuple[float, HostPerRung]:
    """The relaxation time if the rungs up to `low`, and those from `high`, mixed in one step; and its potential h.

    The time is Var(h)/E(h, h), which by the variational principle is at most 1/gap.
    """
    visited, inner = flow.sum(axis=1), slice(low + 1, high)
    potential = (np.arange(len(flow)) >= high).astype(np.float64)
    if high - low > 1:
        held = np.diag(visited[inner]) - flow[inner, inner]
        potential[inner] = np.linalg.lstsq(held, flow[inner, high:].sum(axis=1))[0]
    current = float(flow[: low + 1].sum(axis=0) @ potential)  # the flow out of the lower side is the energy
    variance = visited @ (potential - visited @ potential) ** 2
    return (float(variance / current) if current > ROUNDING else np.inf), potential


def _with_unseen(counts: Num[np.ndarray, "rung rung"]) -> Flow:
    """The flow with a few more crossings between all neighbours, so that few counts do not make a knot."""
    between = np.full(len(counts) - 1, _UNSEEN)
    return rung_flow.flow_matrix(counts + np.diag(between, 1) + np.diag(between, -1))


def _relaxation_error(groups: Num[np.ndarray, "group rung rung"]) -> float:
    """The jackknife over groups of independent chains."""
    rest = groups.sum(axis=0) - groups
    gaps = np.array([rung_flow.spectral_gap(rung_flow.flow_matrix(one)) if one.sum() > 0 else 0.0 for one in rest])
    if len(groups) < 2 or np.any(gaps == 0):
        return np.inf
    return float(np.sqrt((len(groups) - 1) * np.var(1 / gaps)))
