"""The flow of chains between rungs: its spectral gap, conductances, committor and resistance."""

import numpy as np
from jaxtyping import Bool, Float, Num

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.ladder import END_MASS

ROUNDING = 1e-15  # a smaller flow counts as 0: one crossing in 10⁹ draws is far above
_MAX_BALANCING = 10_000

Flow = Float[np.ndarray, "rung rung"]  # symmetric, adds up to 1
Cuts = Float[np.ndarray, " cut"]  # entry k lies between rungs k and k + 1
Counts = Num[np.ndarray, "*group rung rung"]


def merge_rungs(
    counts: Counts, betas: HostPerRung, log_prior: HostPerRung, most: int = 125
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transitions, inverse temperatures and log prior of groups of neighbouring rungs, at most `most` of them."""
    size = -(-len(betas) // most)
    if size == 1:
        return counts, betas, log_prior
    starts = np.arange(0, len(betas), size)
    joined = np.add.reduceat(np.add.reduceat(counts, starts, axis=-2), starts, axis=-1)
    num_each = np.diff(starts, append=len(betas))
    return joined, np.add.reduceat(betas, starts) / num_each, np.logaddexp.reduceat(log_prior, starts)


def rung_weight_cost(counts: Counts, log_prior: HostPerRung) -> float:
    """The variance of log Z with these rung weights over that with uniform ones: below 1, the weights help.

    Args:
        counts: `Recording.transition_counts`, or their sum over groups.
        log_prior: log r_k of the run that they come from.

    Returns:
        The ratio of variances; NaN if an end of the ladder was not visited, or its two ends are not connected.

    Caveats: It holds for moves that redraw x exactly. A move that remembers x changes the two variances differently.
    """
    num_rungs = np.shape(counts)[-1]
    _, total, _, prior = validated_counts(counts, np.linspace(0.0, 1.0, num_rungs), log_prior)
    flow = flow_matrix(total)
    is_visited = flow.sum(axis=1) > 0
    if not (is_visited[0] and is_visited[-1]):
        return np.nan
    flow, prior = flow[np.ix_(is_visited, is_visited)], prior[is_visited]
    even = flow.sum(axis=1) / prior
    with_prior, with_uniform = log_ratio_variance(flow), log_ratio_variance(balanced(flow, even / even.sum()))
    return with_prior / with_uniform if np.isfinite(with_prior) else np.nan


def flow_matrix(counts: Num[np.ndarray, "rung rung"]) -> Flow:
    """F = (C + Cᵀ)/2N: the chains are reversible, so both directions of a transition count alike."""
    return (counts + counts.T) / 2 / np.sum(counts)


def spectral_gap(flow: Flow) -> float:
    """1 − λ₂ of P = F/π; exactly 0 if some visited rungs cannot be reached from others."""
    visited = flow.sum(axis=1)
    is_visited = visited > 0
    flow, root = flow[np.ix_(is_visited, is_visited)], np.sqrt(visited[is_visited])
    if len(root) < 2 or not _reached_from_first(flow).all():
        return 0.0
    similar = flow / root[:, None] / root  # symmetric, with the eigenvalues of P
    return max(float(1 - np.linalg.eigvalsh(similar)[-2]), 0.0)


def conductances(flow: Flow) -> Cuts:
    """φ of the cut above each rung: the flow through it over the mass of its lighter side, which must not be empty.

    By Cheeger's inequality gap/2 ≤ φ for every cut. φ ≤ √(2 gap) holds for the narrowest of all sets of rungs, which
    need not be a cut of the ladder (Lawler and Sokal 1988).
    """
    visited = flow.sum(axis=1)
    below, above = np.cumsum(visited)[:-1], np.cumsum(visited[::-1])[::-1][1:]
    # Each cut's flow is summed by itself so that none is exactly 0.
    through = np.array([flow[:above_cut, above_cut:].sum() for above_cut in range(1, len(flow))])
    return through / np.minimum(below, above)


def committor(flow: Flow, num_bottom: int = 1, num_top: int = 1) -> HostPerRung:
    """The probability to reach the top rungs before the bottom ones: h = P h between h = 0 and h = 1.

    It is 0 on rungs from which neither can be reached.
    """
    rung = np.arange(len(flow))
    is_bottom, is_top = rung < num_bottom, rung >= len(flow) - num_top
    is_inner = ~(is_bottom | is_top)
    laplacian = np.diag(flow.sum(axis=1)) - flow
    to_top = flow[np.ix_(is_inner, is_top)].sum(axis=1)
    potential = is_top.astype(np.float64)
    potential[is_inner] = np.linalg.lstsq(laplacian[np.ix_(is_inner, is_inner)], to_top)[0] if is_inner.any() else 0.0
    return potential


def resistance(flow: Flow) -> float:
    """The resistance between first and last rung of a network with conductances F_jk; infinite if not connected."""
    is_tied = _reached_from_first(flow)
    if not is_tied[-1]:
        return np.inf
    tied = flow[np.ix_(is_tied, is_tied)]
    return 1 / crossing_flow(tied, committor(tied))


def _reached_from_first(flow: Flow) -> Bool[np.ndarray, " rung"]:
    """The rungs that are connected with the first one."""
    is_reached, waiting = np.arange(len(flow)) == 0, [0]
    while waiting:
        found = np.flatnonzero((flow[waiting.pop()] > 0) & ~is_reached)
        is_reached[found] = True
        waiting.extend(found)
    return is_reached


def log_ratio_variance(flow: Flow, *, averaged: bool = True) -> float:
    """N times the variance of log(ĉ_{K−1}/ĉ_0) after N draws, if moves redraw x exactly.

    For counted visits it is 2R − ⟨f, f⟩, with R the resistance and f = 1/π at the last rung, −1/π at the first. For
    averages of q(k|x), as in RTS, it is less by ⟨f, f⟩ + ⟨f, P f⟩.
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
    """D F D with row sums `visited`: the flow if rungs were visited in these shares.

    Under weights w_k the posterior w_k q(k|x)/Σ_j w_j q(j|x) turns F_jk into E[w_j w_k q_j q_k / Σ_i w_i q_i]. Here the
    sum is approximated by a product d_j d_k, which the row sums determine (Sinkhorn 1964).
    """
    start = flow.sum(axis=1)
    flow = flow + np.diag(1e-9 * start)  # without a diagonal there may be no solution
    scale = np.sqrt(visited / start)
    for _ in range(_MAX_BALANCING):
        rows = scale * (flow @ scale)
        if np.abs(rows / visited - 1).max() < 1e-10:
            break
        scale = scale * np.sqrt(visited / rows)
    return scale[:, None] * flow * scale


def count_ends(prior: HostPerRung) -> tuple[int, int]:
    """The number of rungs at the bottom and at the top of the ladder between which `Ladder` counts crossings."""
    bottom, top = (max(1, int(np.sum(np.cumsum(side) <= END_MASS + 1e-9))) for side in (prior, prior[::-1]))
    return bottom, top


def crossing_flow(flow: Flow, potential: HostPerRung) -> float:
    """½ Σ F_jk (h_j − h_k)², the flow from one end to the other; 0 where it is only rounding."""
    energy = float(np.sum(flow * np.subtract.outer(potential, potential) ** 2)) / 2
    return energy if energy > ROUNDING else 0.0


def validated_counts(
    counts: Counts, betas: HostPerRung, log_prior: HostPerRung | None
) -> tuple[Float[np.ndarray, "group rung rung"], Flow, HostPerRung, HostPerRung]:
    """Counts by group and in total, betas and prior probabilities; an error if they cannot belong to one run."""
    counts, betas = np.asarray(counts, np.float64), np.asarray(betas, np.float64)
    num_rungs = len(betas)
    if counts.ndim not in (2, 3) or counts.shape[-2:] != (num_rungs, num_rungs):
        shape = f"(rung, rung) or (group, rung, rung) with {num_rungs} rungs as `betas` has"
        raise InputError(f"`counts` must be {shape}, got {counts.shape}.")
    if not (np.isfinite(counts).all() and np.all(counts >= 0) and counts.sum() > 0):
        raise InputError("`counts` must be how often chains went from rung to rung: finite, not negative, not all 0.")
    if not np.all(np.diff(betas) > 0):
        raise InputError("`betas` must rise strictly, one for each rung.")
    prior = np.full(num_rungs, 1 / num_rungs) if log_prior is None else np.exp(np.asarray(log_prior, np.float64))
    if prior.shape != betas.shape or not np.all(prior > 0) or abs(prior.sum() - 1) > 1e-4:
        raise InputError("`log_prior` must be log r_k of every rung, with r_k > 0 adding up to 1.")
    groups = counts.reshape(-1, num_rungs, num_rungs)
    return groups, groups.sum(axis=0), betas, prior
