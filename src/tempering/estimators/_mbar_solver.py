"""The solution of the equations of MBAR: Newton's method on a convex function, over chunks of draws."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from tempering._logspace import log_or_minus_inf, log_sum_exp
from tempering._types import HostPerRung
from tempering.estimators._pool import Pool

TOLERANCE = 1e-12  # of |π_k − mean of p_k|, in addition to the rounding of log f
_MAX_STEPS = 200
_RIDGE = 1e-14  # keeps the equations solvable where rungs share nothing
TINY = 1e-300  # keeps logarithms and quotients finite


@dataclasses.dataclass(frozen=True)
class Point:
    """Eq. 18 and its derivatives at some log Z, over rungs that have draws."""

    log_z: HostPerRung
    shares: HostPerRung  # π_k = n_k/N
    objective: float  # L of eq. 18, which is convex in log Z
    mean: HostPerRung  # of p_k(x_i); it is π_k at the solution
    gram: Float[np.ndarray, "rung rung"]  # mean of p_k(x_i) p_l(x_i)
    rounding: float  # how much rounding of log f may change the mean

    @property
    def residual(self) -> float:
        """max_k |∂L/∂log Z_k|."""
        return float(np.abs(self.shares - self.mean).max())

    @property
    def is_solution(self) -> bool:
        """Whether the equations hold to tolerance; False where anything is NaN."""
        return bool(self.residual <= TOLERANCE + self.rounding)

    def is_better_than(self, other: "Point") -> bool:
        """Whether it is nearer to the solution. Close to it L no longer shows progress, but its derivative does."""
        return bool(self.objective < other.objective or self.residual < other.residual / 2)


def solve(pool: Pool, shares: HostPerRung, start: HostPerRung) -> Point:
    """The minimum of eq. 18, or the point from which no step makes progress; every share must be positive.

    Each step tries Newton's, then shorter ones in its direction, then log Z_k += log(mean p_k / π_k), the
    self-consistent iteration, which lowers L by at least the divergence of π from mean p.
    """
    point = _evaluate(pool, shares, start)
    for _ in range(_MAX_STEPS):
        nearer = (new for new in _candidates(pool, point) if new.is_better_than(point))
        better = None if point.is_solution else next(nearer, None)
        if better is None:
            break
        point = better
    return point


def geometric_bridges(pool: Pool) -> HostPerRung:
    """A first guess: log Z along neighbours by eq. 17 with α = 1/√(f_k f_{k+1}), in closed form and one pass.

    Every rung must have draws.
    """
    num_rungs = len(pool.matrix)
    log_sums = np.full((num_rungs, 2), -np.inf)  # of f_{k±1}/f_k to the power ½, up and down
    half_steps = np.diff(pool.matrix, axis=0) / 2
    for rung in range(num_rungs):
        here = pool.rungs == rung
        features, weights = pool.features[here], pool.weights[here]
        for side, step in enumerate((rung, rung - 1)):
            if 0 <= step < num_rungs - 1:
                exponents = (1 - 2 * side) * (features @ half_steps[step])
                peak = exponents.max()
                log_sums[rung, side] = peak + np.log(max(np.average(np.exp(exponents - peak), weights=weights), TINY))
    return np.append(0.0, np.cumsum(log_sums[:-1, 0] - log_sums[1:, 1]))


def _candidates(pool: Pool, point: Point) -> Iterator[Point]:
    newton = _newton_step(point)
    self_consistent = np.log(np.maximum(point.mean, TINY) / point.shares)
    for step in (newton, newton / 4, newton / 16, self_consistent):
        yield _evaluate(pool, point.shares, point.log_z + step)


def _newton_step(point: Point) -> HostPerRung:
    """H δ = mean p − π, with H = diag(mean p) − gram.

    Scaled by √π on both sides H has the eigenvalues 1 − λ of the overlap matrix. Its null vector, a constant added to
    every log Z, is lifted to eigenvalue 1.
    """
    root = np.sqrt(point.shares)
    scaled = (np.diag(point.mean) - point.gram) / np.outer(root, root) + np.outer(root, root)
    return np.linalg.solve(scaled + _RIDGE * np.eye(len(root)), (point.mean - point.shares) / root) / root


def _evaluate(pool: Pool, shares: HostPerRung, log_z: HostPerRung) -> Point:
    num_rungs = len(shares)
    total, largest, mean, gram = 0.0, 0.0, np.zeros(num_rungs), np.zeros((num_rungs, num_rungs))
    for part, log_f in pool.chunks():
        weights = pool.weights[part]
        log_mixture, posterior = log_mixture_and_parts(log_f, np.log(shares) - log_z)
        largest = max(largest, float(np.abs(log_mixture).max()))
        total += float(weights @ log_mixture)
        mean += weights @ posterior
        posterior *= np.sqrt(weights)[:, None]
        gram += posterior.T @ posterior
    count = pool.total
    rounding = 8 * np.finfo(np.float64).eps * largest
    return Point(log_z, shares, total / count + float(shares @ log_z), mean / count, gram / count, rounding)


def reweighted(pool: Pool, shares: HostPerRung, log_z: HostPerRung) -> HostPerRung:
    """log Z_k of every rung, Z_k the mean of f_k/mixture, with the mixture Σ_j π_j f_j/Z_j of rungs with a share."""
    log_sums = np.full(len(shares), -np.inf)
    log_factors = log_or_minus_inf(shares) - np.where(shares > 0, log_z, 0.0)
    for part, log_f in pool.chunks():
        log_mixture, _ = log_mixture_and_parts(log_f.copy(), log_factors)
        log_f += (log_or_minus_inf(pool.weights[part]) - log_mixture)[:, None]
        log_sums = np.logaddexp(log_sums, log_sum_exp(log_f, axis=0))
    return log_sums - np.log(pool.total)


def log_mixture_and_parts(
    log_f: Float[np.ndarray, "draw rung"], log_factors: HostPerRung
) -> tuple[Float[np.ndarray, " draw"], Float[np.ndarray, "draw rung"]]:
    """log Σ_k exp(log_f + log_factors)_k and the part of each term in the sum; overwrites `log_f`."""
    log_f += log_factors
    peak = log_f.max(axis=1)
    log_f -= peak[:, None]
    parts = np.exp(log_f, out=log_f)
    sums = parts @ np.ones(parts.shape[1])
    parts /= sums[:, None]
    return peak + np.log(sums), parts
