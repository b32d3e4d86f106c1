"""What transitions between rungs say of the ladder: how fast chains could forget a rung, and where they are held up.

All is computed from the flow F_jk, how often a step goes from rung j to rung k. In equilibrium F_jk = E[q(j|x) q(k|x)],
whatever move is used (docs/knots.md): the numbers here are those of a ladder whose moves redraw x exactly, and real
moves, which remember x, are slower.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Num
from scipy.sparse.csgraph import connected_components

from tempering._errors import InputError
from tempering._types import HostPerRung

MIN_EXCESS = 2.0  # a knot holds up chains this many times more than as narrow a stretch of an even ladder would
MAX_WIDTH = 0.05  # of the ladder, by prior mass, or one step where rungs are fewer
_UNSEEN = 3.0  # crossings: none seen, and with 95 % confidence fewer than three were to be expected
_END_MASS = 0.05  # of the prior: the ends between which crossings are counted, as `Ladder` does
_TRIM = 0.95  # of a knot's share is left when its stretch is cut to where it is tightest
_ROUNDING = 1e-15  # a flow below is none: one crossing in 10⁹ draws is far above
_MAX_BALANCING = 10_000

Flow = Float[np.ndarray, "rung rung"]  # symmetric, adds up to 1
Cuts = Float[np.ndarray, " cut"]  # entry k lies between rungs k and k + 1
Counts = Num[np.ndarray, "*group rung rung"]


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


def merged(
    counts: Counts, betas: HostPerRung, log_prior: HostPerRung, most: int = 125
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same transitions with neighbouring rungs taken as one, so that at most so many are left to work on."""
    size = -(-len(betas) // most)
    if size == 1:
        return counts, betas, log_prior
    starts = np.arange(0, len(betas), size)
    joined = np.add.reduceat(np.add.reduceat(counts, starts, axis=-2), starts, axis=-1)
    num_each = np.diff(starts, append=len(betas))
    return joined, np.add.reduceat(betas, starts) / num_each, np.logaddexp.reduceat(log_prior, starts)


def prior_cost(counts: Counts, log_prior: HostPerRung) -> float:
    """The variance of log Z under this prior over that under the uniform one: below 1, the prior helps.

    For moves that redraw x exactly; a move that remembers x changes both variances, and not by one factor. NaN where
    an end of the ladder was not visited, or its two ends are not tied together.
    """
    num_rungs = np.shape(counts)[-1]
    _, total, _, prior = _checked(counts, np.linspace(0.0, 1.0, num_rungs), log_prior)
    flow = flow_matrix(total)
    is_visited = flow.sum(axis=1) > 0
    if not (is_visited[0] and is_visited[-1]):
        return np.nan
    flow, prior = flow[np.ix_(is_visited, is_visited)], prior[is_visited]
    even = flow.sum(axis=1) / prior
    with_prior, with_uniform = log_ratio_variance(flow), log_ratio_variance(balanced(flow, even / even.sum()))
    return with_prior / with_uniform if np.isfinite(with_prior) else np.nan


def flow_matrix(counts: Num[np.ndarray, "rung rung"]) -> Flow:
    """F = (C + Cᵀ)/2N: the chains are reversible, so that there and back are seen as one."""
    return _symmetric(counts) / np.sum(counts)


def spectral_gap(flow: Flow) -> float:
    """1 − λ₂ of P = F/π; exactly 0 where some visited rungs cannot be reached from others."""
    visited = flow.sum(axis=1)
    is_visited = visited > 0
    flow, root = flow[np.ix_(is_visited, is_visited)], np.sqrt(visited[is_visited])
    if len(root) < 2 or connected_components(flow, directed=False, return_labels=False) > 1:
        return 0.0
    similar = flow / root[:, None] / root  # symmetric, with the eigenvalues of P
    return max(float(1 - np.linalg.eigvalsh(similar)[-2]), 0.0)


def conductances(flow: Flow) -> Cuts:
    """Of the cut above each rung: the flow through it over the mass of its lighter side, which must not be empty.

    By Cheeger's inequality gap/2 ≤ φ for every cut; φ ≤ √(2 gap) holds for the narrowest of all sets of rungs, which
    need not be a cut of the ladder (Lawler and Sokal 1988).
    """
    visited = flow.sum(axis=1)
    below, above = np.cumsum(visited)[:-1], np.cumsum(visited[::-1])[::-1][1:]
    return _cut_flows(flow) / np.minimum(below, above)


def committor(flow: Flow, num_bottom: int = 1, num_top: int = 1) -> HostPerRung:
    """The chance to see the top rungs before the bottom ones: h = P h between h = 0 and h = 1.

    0 on rungs from which neither can be reached.
    """
    rung = np.arange(len(flow))
    is_bottom, is_top = rung < num_bottom, rung >= len(flow) - num_top
    is_inner = ~(is_bottom | is_top)
    inner = _laplacian(flow)[np.ix_(is_inner, is_inner)]
    to_top = flow[np.ix_(is_inner, is_top)].sum(axis=1)
    potential = is_top.astype(np.float64)
    potential[is_inner] = np.linalg.lstsq(inner, to_top)[0] if is_inner.any() else 0.0
    return potential


def resistance(flow: Flow) -> float:
    """Between the first rung and the last, of a network whose wires conduct F_jk; infinite where they are not tied."""
    _, labels = connected_components(flow, directed=False)
    if labels[0] != labels[-1]:
        return np.inf
    tied = flow[np.ix_(labels == labels[0], labels == labels[0])]
    return 1 / _energy(tied, committor(tied))


def log_ratio_variance(flow: Flow, *, averaged: bool = True) -> float:
    """N times the variance of log(ĉ_{K−1}/ĉ_0) after N draws, if moves redraw x exactly.

    Of counted visits 2R − ⟨f, f⟩, with R the resistance and f = 1/π at the last rung, −1/π at the first; of averaged
    q(k|x), as RTS has them, less by ⟨f, f⟩ + ⟨f, P f⟩ (docs/knots.md).
    """
    visited = flow.sum(axis=1)
    at_ends = 1 / visited[0] + 1 / visited[-1]
    counted = 2 * resistance(flow) - at_ends
    if not averaged:
        return counted
    per_visit = np.zeros(len(flow))
    per_visit[0], per_visit[-1] = -1 / visited[0], 1 / visited[-1]
    return counted - at_ends - float(per_visit @ flow @ per_visit)


def balanced(flow: Flow, visited: HostPerRung) -> Flow:
    """D F D with row sums `visited`: the flow if rungs were visited otherwise.

    Under weights w_k the posterior w_k q(k|x)/Σ_j w_j q(j|x) turns F_jk into E[w_j w_k q_j q_k / Σ_i w_i q_i]; here the
    sum is taken as a product d_j d_k, which rows that add up determine (Sinkhorn 1964).
    """
    start = flow.sum(axis=1)
    flow = flow + np.diag(1e-9 * start)  # without any diagonal there may be no answer
    scale = np.sqrt(visited / start)
    for _ in range(_MAX_BALANCING):
        rows = scale * (flow @ scale)
        if np.abs(rows / visited - 1).max() < 1e-10:
            break
        scale = scale * np.sqrt(visited / rows)
    return scale[:, None] * flow * scale


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


def _ends(prior: HostPerRung) -> tuple[int, int]:
    """How many rungs are the bottom of the ladder, and how many its top."""
    few = [int(np.sum(np.cumsum(side) <= _END_MASS + 1e-9)) for side in (prior, prior[::-1])]
    return max(1, few[0]), max(1, few[1])


def _energy(flow: Flow, potential: HostPerRung) -> float:
    """½ Σ F_jk (h_j − h_k)², the flow that goes all the way; 0 where it is rounding."""
    energy = float(np.sum(flow * np.subtract.outer(potential, potential) ** 2)) / 2
    return energy if energy > _ROUNDING else 0.0


def _laplacian(flow: Flow) -> Flow:
    return np.diag(flow.sum(axis=1)) - flow


def _cut_flows(flow: Flow) -> Cuts:
    """Σ F_jk over j ≤ cut < k: added up one by one, so that no flow is exactly 0."""
    return np.array([flow[: cut + 1, cut + 1 :].sum() for cut in range(len(flow) - 1)])


def _symmetric(counts: Num[np.ndarray, "rung rung"]) -> Flow:
    return (counts + counts.T) / 2


def _checked(
    counts: Counts, betas: HostPerRung, log_prior: HostPerRung | None
) -> tuple[Float[np.ndarray, "group rung rung"], Flow, HostPerRung, HostPerRung]:
    """Counts by group and in all, betas and prior masses; refused where they cannot belong to one run."""
    counts, betas = np.asarray(counts, np.float64), np.asarray(betas, np.float64)
    num_rungs = len(betas)
    if counts.ndim not in (2, 3) or counts.shape[-2:] != (num_rungs, num_rungs):
        raise InputError(
            f"`counts` must be (rung, rung) or (group, rung, rung) with {num_rungs} rungs as `betas` has, "
            f"got {counts.shape}."
        )
    if not (np.isfinite(counts).all() and np.all(counts >= 0) and counts.sum() > 0):
        raise InputError("`counts` must be how often chains went from rung to rung: finite, not negative, not all 0.")
    if not np.all(np.diff(betas) > 0):
        raise InputError("`betas` must rise strictly, one for each rung.")
    prior = np.full(num_rungs, 1 / num_rungs) if log_prior is None else np.exp(np.asarray(log_prior, np.float64))
    if prior.shape != betas.shape or not np.all(prior > 0) or abs(prior.sum() - 1) > 1e-4:
        raise InputError("`log_prior` must be log r_k of every rung, with r_k > 0 adding up to 1.")
    groups = counts.reshape(-1, num_rungs, num_rungs)
    return groups, groups.sum(axis=0), betas, prior
