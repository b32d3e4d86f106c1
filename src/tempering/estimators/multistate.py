"""The multistate Bennett acceptance ratio: log Z of every rung from draws at any of them."""

import dataclasses
import functools

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.estimators._mbar_solver import TOLERANCE, geometric_bridges, log_mixture_and_parts, reweighted, solve
from tempering.estimators._pool import Pool, add_by_unit, nonfinite_in_pool
from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import Uncertainty, uncertainty_of_mean
from tempering.findings import MIN_EFFECTIVE, unconverged
from tempering.stats import ReducedDraws
from tempering.verdicts import Finding, Verdict

MAX_CUT_ERROR = 0.5  # nats between two groups of rungs; every error here is an expansion in it
_SMALLEST_GAP = np.finfo(np.float64).eps  # of 1 − λ; less is only rounding


def mbar(draws: ReducedDraws, *, log_z_base: float = 0.0, counts: HostPerRung | None = None) -> LogZ:
    """Multistate Bennett acceptance ratio: log Z at every rung from the likelihood of the draws' rungs, eq. 18.

    At its solution π_k = n_k/N is the mean of p_k(x_i) = (π_k f_k/Z_k) / Σ_l (π_l f_l/Z_l) over all draws. Errors come
    from the scatter of chains (of stretches if there are fewer than 16), or from `asymptotic_covariance` if every
    chain has one draw. Second-order biases are not estimated and given as 0.

    ```python
    answer = mbar(ReducedDraws.on_geometric_path(delta, betas, rungs), log_z_base=path.log_z_base())
    answer.log_z, answer.std_error, answer.findings
    ```

    Args:
        draws: Kept draws with their rungs.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.
        counts: n_k, where they are not the numbers of draws at each rung; the rungs of the draws then do not matter.

    Returns:
        log Z at every rung, also at rungs without draws.

    Caveats: As every average over chains, it is biased while they remember their start. If groups of rungs share no
    draws their ratio is unknown, which NO_OVERLAP reports.
    """
    pool = Pool.from_draws(draws)
    if pool.total == 0:
        return LogZ.unknown("mbar", draws.num_rungs, (nonfinite_in_pool(pool),))
    solution = _solution(pool, counts)
    uncertainty, cut = _uncertainty(pool, solution, counts)
    findings = (nonfinite_in_pool(pool), _unconverged(solution), no_overlap(cut), _heavy_tails(solution))
    return LogZ.from_uncertainty("mbar", log_z_base + solution.log_z, uncertainty, findings)


@dataclasses.dataclass(frozen=True)
class MBARSolution:
    """The draws of all rungs as one sample of the mixture Σ_k π_k f_k/Z_k, from which every rung is reweighted.

    ω_k(x) = (f_k/Z_k) / mixture is the weight of a draw at rung k; its mean over draws is 1.

    Attributes:
        log_z: log(Z_k / Z_0).
        shares: π_k, the share of rung k in the draws.
        num_draws: N.
        moments: The mean of ω_k ω_l.
        unit_weights: Σ ω_k over the draws of each independent unit.
        residual: max_k |π_k − mean p_k| at the end of the iteration.
        converged: Whether that is within the tolerance.
    """

    log_z: HostPerRung
    shares: HostPerRung
    num_draws: float
    moments: Float[np.ndarray, "rung rung"]
    unit_weights: Float[np.ndarray, "unit rung"]
    residual: float
    converged: bool

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return f"MBARSolution({len(self.shares)} rungs, {self.num_draws:.6g} draws, {state})"

    @property
    def overlap(self) -> Float[np.ndarray, "rung rung"]:
        """O_kl, the probability that a draw of rung k is attributed to rung l by its x alone. Rows add up to 1."""
        return self.moments * self.shares

    @property
    def effective_draws(self) -> HostPerRung:
        """The effective sample size (Σω)²/Σω² of each rung."""
        return self.num_draws / np.diag(self.moments)

    @functools.cached_property
    def overlap_modes(self) -> tuple[Float[np.ndarray, " mode"], Float[np.ndarray, "rung mode"]]:
        """1 − λ and eigenvectors of √π A √π, A = mean ω ωᵀ, the symmetric form of the overlap matrix.

        The trivial eigenvector √π, at λ = 1, is moved to λ = 0. Entries of rungs without draws are 0.
        """
        used = np.flatnonzero(self.shares > 0)
        root = np.sqrt(self.shares[used])
        symmetric = self.moments[np.ix_(used, used)] * np.outer(root, root)
        eigenvalues, vectors = np.linalg.eigh(symmetric - np.outer(root, root))
        modes = np.zeros((len(self.shares), len(used)))
        modes[used] = vectors
        return np.maximum(1 - eigenvalues, _SMALLEST_GAP), modes


def solve_mbar(draws: ReducedDraws, *, counts: HostPerRung | None = None) -> MBARSolution:
    """Solve the equations of MBAR: what `mbar` answers from, with the matrices behind its errors and findings.

    Args:
        draws: Kept draws with their rungs.
        counts: n_k, where they are not the numbers of draws at each rung.

    Returns:
        log Z relative to rung 0, and the overlap of the rungs.
    """
    pool = Pool.from_draws(draws)
    if pool.total == 0:
        raise InputError("`draws` must hold at least one finite draw; all were NaN or infinite. Check the log density.")
    return _solution(pool, counts)


def asymptotic_covariance(solution: MBARSolution) -> Float[np.ndarray, "rung rung"]:
    """Covariance of log(Z_k/Z_0) for independent draws (Shirts and Chodera 2008, eq. 8; Kong et al. 2003).

    It is (A + A √π (1 − √π A √π)⁺ √π A)/N with A = mean ω ωᵀ. The direction √π, which ratios do not depend on, is
    removed exactly. Any other 1 − λ near 0 means rungs without overlap, and must make the error large.

    Args:
        solution: A solution by `solve_mbar`.

    Returns:
        The covariance matrix, 0 in the row and column of rung 0.

    Caveats: It is too small for draws of a Markov chain, which are correlated.
    """
    relative = solution.moments - solution.moments[0]
    relative = relative - relative[:, :1]
    gaps, modes = solution.overlap_modes
    influence = solution.moments @ (np.sqrt(solution.shares)[:, None] * modes)
    influence = (influence - influence[0]) / np.sqrt(gaps)
    return (relative + influence @ influence.T) / solution.num_draws


@dataclasses.dataclass(frozen=True)
class Cut:
    """A division of the rungs in two, and how well the ratio across it is known."""

    below: int  # the two rungs nearest to each other across the cut
    above: int
    std_error: float  # of the log ratio, of independent draws or of chains where their scatter is larger
    gap: float  # 1 − λ₂ of the overlap matrix

    def seen_by(self, influences: Float[np.ndarray, " unit"]) -> "Cut":
        """The same cut with the error of correlated draws, from the units' contributions to the ratio across it."""
        scatter = float(uncertainty_of_mean(influences[:, None]).std_error[0])
        return dataclasses.replace(self, std_error=max(self.std_error, scatter))


def weakest_cut(solution: MBARSolution) -> Cut | None:
    """The division of the rungs with the least overlap; None for a single rung.

    Rungs are ordered by the second eigenvector of the overlap matrix, and each cut of that order is tried: two groups
    A and B with S = Σ_i p_A(x_i) p_B(x_i) have Bennett's variance 1/S − 1/n_A − 1/n_B.
    """
    used = np.flatnonzero(solution.shares > 0)
    if len(used) < 2:
        return None
    gaps, modes = solution.overlap_modes
    order = used[np.argsort(modes[used, np.argmin(gaps)] / np.sqrt(solution.shares[used]))]
    shares = solution.shares[order]
    joint = solution.moments[np.ix_(order, order)] * np.outer(shares, shares)
    below = np.cumsum(shares)[:-1]
    shared = below - joint.cumsum(axis=0).cumsum(axis=1).diagonal()[:-1]
    variances = bennett_variance(solution.num_draws * shared, solution.num_draws * below, solution.num_draws)
    weakest = int(np.argmax(variances))
    distance = np.abs(order[: weakest + 1, None] - order[weakest + 1 :])
    one, other = np.unravel_index(np.argmin(distance), distance.shape)
    first, second = sorted((int(order[one]), int(order[weakest + 1 + other])))
    return Cut(first, second, float(np.sqrt(variances[weakest])), float(gaps.min()))


def bennett_variance(shared: np.ndarray, below: np.ndarray, total: float) -> np.ndarray:
    """1/S − 1/n_A − 1/n_B of two groups of independent draws (Bennett 1976)."""
    shared = np.maximum(shared, _SMALLEST_GAP * total)
    return np.maximum(1 / shared - 1 / below - 1 / (total - below), 0.0)


def no_overlap(cut: Cut | None) -> Finding | None:
    """The finding for two groups of rungs that share too few draws."""
    if cut is None or cut.std_error <= MAX_CUT_ERROR:
        return None
    error = f"{cut.std_error:.2g} nats, more than {MAX_CUT_ERROR:g}, between rungs {cut.below} and {cut.above}"
    seen = f"log Z is uncertain by {error}; the overlap matrix has 1 − λ₂ = {cut.gap:.1e}"
    return Finding(Verdict.NO_OVERLAP, seen, "put more rungs between them, or draw more")


def _solution(pool: Pool, counts: HostPerRung | None) -> MBARSolution:
    """Solve from a first guess, and gather what the errors need in one more pass."""
    counted = pool.counts
    shares = counted / pool.total if counts is None else _valid_shares(counts, len(pool.matrix))
    log_z = np.zeros(len(shares))
    here = np.flatnonzero(counted > 0)
    log_z[here] = geometric_bridges(pool.restricted_to(here))
    if np.any(shares[counted == 0] > 0):
        log_z = reweighted(pool, counted / pool.total, log_z)
    used = shares > 0
    point = solve(dataclasses.replace(pool, matrix=pool.matrix[used]), shares[used], log_z[used])
    log_z[used] = point.log_z
    if not used.all():
        log_z = np.where(used, log_z, reweighted(pool, shares, log_z))
    sums = _weight_moments(pool, shares, log_z)
    return MBARSolution(log_z - log_z[0], shares, pool.total, *sums, point.residual, point.is_solution)


def _weight_moments(pool: Pool, shares: HostPerRung, log_z: HostPerRung) -> tuple[np.ndarray, np.ndarray]:
    """Mean of ω ωᵀ, and Σ ω by unit, including rungs without draws."""
    num_rungs = len(shares)
    moments, by_unit = np.zeros((num_rungs, num_rungs)), np.zeros((pool.num_units, num_rungs))
    used = shares > 0
    for part, log_f in pool.chunks():
        weights, omega = pool.weights[part, None], np.empty_like(log_f)
        log_f -= log_z
        log_mixture, posterior = log_mixture_and_parts(log_f[:, used], np.log(shares[used]))
        omega[:, used] = posterior / shares[used]
        omega[:, ~used] = np.exp(log_f[:, ~used] - log_mixture[:, None])
        add_by_unit(by_unit, pool.units[part], weights * omega)
        omega *= np.sqrt(weights)
        moments += omega.T @ omega
    return moments / pool.total, by_unit


def _uncertainty(pool: Pool, solution: MBARSolution, counts: HostPerRung | None) -> tuple[Uncertainty, Cut | None]:
    """The errors of log Z and of the weakest cut, from the covariance of independent draws or the scatter of chains."""
    cut = weakest_cut(solution)
    independent = np.sqrt(np.maximum(np.diag(asymptotic_covariance(solution)), 0.0))
    if pool.is_independent and counts is None:
        none = np.zeros_like(independent)
        return Uncertainty(independent, none, none, max(len(pool.rungs) - 1, 0)), cut
    influences = _influences(pool, solution, counts)
    uncertainty = uncertainty_of_mean(influences)
    if cut is not None and uncertainty.dof > 0:
        cut = cut.seen_by(influences[:, cut.above] - influences[:, cut.below])
    if no_overlap(cut) is None:
        return uncertainty, cut
    # Without overlap the chains hardly differ: their scatter becomes small where the error is large.
    return dataclasses.replace(uncertainty, std_error=np.maximum(uncertainty.std_error, independent)), cut


def _influences(pool: Pool, solution: MBARSolution, counts: HostPerRung | None) -> Float[np.ndarray, "unit rung"]:
    """The contribution of each unit to log(Z_k/Z_0): ω − O H⁺ψ summed over its draws.

    ψ = 1{k_i = k} − p_k(x_i), with π_k for the indicator where counts were given, and H = diag(π) − π A π. It is the
    derivative with respect to a draw's weight, which also adds to n_k. Its expectation is 0 at every rung, so it
    holds for n_k that were fixed as well as for random ones.
    """
    num_units, num_rungs = solution.unit_weights.shape
    if counts is None:
        cells = pool.units * num_rungs + pool.rungs
        labels = np.bincount(cells, pool.weights, minlength=num_units * num_rungs).reshape(num_units, num_rungs)
    else:
        labels = np.bincount(pool.units, pool.weights, minlength=num_units)[:, None] * solution.shares
    score = labels - solution.unit_weights * solution.shares
    gaps, modes = solution.overlap_modes
    root = np.sqrt(solution.shares)
    scaled = np.divide(score, root, out=np.zeros_like(score), where=root > 0)
    response = ((scaled @ modes) / gaps) @ modes.T * root  # π H⁺ψ
    influence = solution.unit_weights - response @ solution.moments
    return (influence - influence[:, :1]) * (num_units / solution.num_draws)


def _valid_shares(counts: HostPerRung, num_rungs: int) -> HostPerRung:
    counts = np.asarray(counts, np.float64)
    if counts.shape != (num_rungs,) or not (np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() > 0):
        raise InputError(f"`counts` must be {num_rungs} finite numbers n_k ≥ 0, not all 0; got {counts}.")
    return counts / counts.sum()


def _unconverged(solution: MBARSolution) -> Finding | None:
    what, cure = "max |n_k/N − mean p_k|", "look for log densities that are huge, or for rungs that share no draws"
    return None if solution.converged else unconverged(what, solution.residual, TOLERANCE, cure)


def _heavy_tails(solution: MBARSolution) -> Finding | None:
    effective = solution.effective_draws
    rung = int(np.argmin(effective))
    if effective[rung] >= MIN_EFFECTIVE:
        return None
    rests = f"rung {rung} rests on {effective[rung]:.2g} effective draws of {solution.num_draws:.6g}"
    seen = f"{rests}; at least {MIN_EFFECTIVE:g} are needed"
    return Finding(Verdict.HEAVY_TAILS, seen, "draw at that rung, or leave it out")
