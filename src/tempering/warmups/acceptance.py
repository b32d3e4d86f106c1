"""How the acceptance of a move depends on its step size and on β: the constrained logistic fit of Appendix E.

Each rung j has logit p(accept | β_j, ε) = w0_j + w1_j ε, a straight line. On [low, high] a line is known by its logits
at the two ends, a_j and b_j, and then all that the paper demands is linear: a_j and b_j do not grow with j (a colder
density accepts less), and b_j ≤ a_j (so does a longer step).
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from tempering._errors import InputError

# What is believed before any data, for each rung that has some: half an observation at each end of the interval.
_PRIOR_STEPS = np.array([0.0, 1.0])  # as a share of the way from low to high
_PRIOR_ACCEPTED = np.array([0.75, 0.25])
_PRIOR_WEIGHT = 0.5
_MAX_ITERATIONS = 200  # 15 to 40 are needed


@dataclasses.dataclass(frozen=True)
class AcceptanceFit:
    """p(accept | β_j, ε) for every rung j, as a straight line of logits in ε."""

    low: float
    high: float  # steps are chosen in [low, high]
    ends: tuple[float, float]  # the shortest and the longest step of all, there or among the data
    logits: Float[np.ndarray, "rung 2"]  # of acceptance at the two ends: a_j and b_j

    @property
    def slopes(self) -> Float[np.ndarray, " rung"]:
        """w1_j, never positive; 0 where the two ends are one."""
        width = self.ends[1] - self.ends[0]
        return (self.logits[:, 1] - self.logits[:, 0]) / width if width > 0 else np.zeros(len(self.logits))

    @property
    def intercepts(self) -> Float[np.ndarray, " rung"]:
        """w0_j."""
        return self.logits[:, 0] - self.slopes * self.ends[0]

    def logit(self, rung: ArrayLike | int, step: ArrayLike | float) -> np.ndarray:
        """w0_j + w1_j ε, broadcast; computed from the ends, so that rounding cannot change the order of the rungs."""
        share = _share(np.asarray(step, np.float64), *self.ends)
        at_ends = self.logits[np.asarray(rung)]
        return np.asarray((1 - share) * at_ends[..., 0] + share * at_ends[..., 1])

    def probability(self, rung: ArrayLike | int, step: ArrayLike | float) -> np.ndarray:
        """p(accept | β_rung, ε = step), broadcast."""
        return np.asarray(expit(self.logit(rung, step)))

    def best_steps(self, target: float) -> Float[np.ndarray, " rung"]:
        """ε̂_opt = (logit(target) − w0_j)/w1_j, projected into [low, high]; never longer at a higher rung."""
        if not 0 < target < 1:
            raise InputError(f"best_steps(target=...) must lie between 0 and 1, got {target}.")
        above, drop = self.logits[:, 0] - logit(target), self.logits[:, 0] - self.logits[:, 1]
        # A flat line never crosses the target: every step is accepted often enough, or none is.
        share = np.divide(above, drop, out=np.where(above >= 0, np.inf, -np.inf), where=drop > 0)
        share = np.minimum.accumulate(np.clip(share, 0.0, 1.0))  # they fall already, but for round-off in flat lines
        return np.clip((1 - share) * self.ends[0] + share * self.ends[1], self.low, self.high)


def fit_acceptance(
    rungs: ArrayLike,
    steps: ArrayLike,
    accepted: ArrayLike,
    *,
    num_rungs: int,
    low: float,
    high: float,
    weights: ArrayLike | None = None,
) -> AcceptanceFit:
    """The lines of greatest likelihood under the constraints, Appendix E of the paper.

    ```python
    fit = fit_acceptance(rungs, steps, accepted, num_rungs=100, low=0.1, high=2.0)
    fit.best_steps(0.651)
    ```

    Observation i is a step of size `steps[i]` at rung `rungs[i]`, with `accepted[i]` 0, 1 or the probability with which
    it was accepted; `weights[i]` says how many such steps there were. The order of the rungs is kept at all steps from
    `low` to `high`, and further where there are data. Half an observation at either end, 75 % accepted at the shortest
    step and 25 % at the longest, keeps every answer finite. A rung without data lies on the straight line between its
    neighbours with data, or repeats the nearest one; without any data all rungs are as those two halves say.
    """
    _check_interval(num_rungs, low, high)
    rung_of, step_sizes, probabilities, counts = _checked_rows(rungs, steps, accepted, weights, num_rungs)
    ends = float(np.min(step_sizes, initial=low)), float(np.max(step_sizes, initial=high))
    has_data = np.bincount(rung_of, minlength=num_rungs) > 0
    known = np.flatnonzero(has_data)
    if len(known) == 0:
        logits = np.broadcast_to(logit(_PRIOR_ACCEPTED), (num_rungs, 2))
    else:
        place = np.cumsum(has_data) - 1  # of a rung among those with data
        share = _share(step_sizes, *ends)
        lines = _maximise(_Data.with_prior(place[rung_of], share, probabilities, counts, len(known)))
        logits = np.stack([np.interp(np.arange(num_rungs), known, line) for line in lines.T], axis=1)
    if ends[1] == ends[0]:
        logits = np.repeat(logits.mean(axis=1, keepdims=True), 2, axis=1)
    # The maximiser is feasible and so is what lies between; this changes nothing but round-off.
    first = np.minimum.accumulate(logits[:, 0])
    second = np.minimum.accumulate(np.minimum(logits[:, 1], first))
    return AcceptanceFit(float(low), float(high), ends, np.stack([first, second], axis=1))


@dataclasses.dataclass(frozen=True)
class _Data:
    """Observations, and minus their log-likelihood as a function of the logits at both ends, (rung, end)."""

    rungs: Int[np.ndarray, " row"]
    ends: Float[np.ndarray, "row 2"]  # 1 − t and t, for a step a share t of the way from low to high
    accepted: Float[np.ndarray, " row"]
    weights: Float[np.ndarray, " row"]
    num_rungs: int

    @classmethod
    def with_prior(cls, rungs, share, accepted, weights, num_rungs: int) -> "_Data":
        rungs = np.concatenate([rungs, np.repeat(np.arange(num_rungs), 2)])
        share = np.concatenate([share, np.tile(_PRIOR_STEPS, num_rungs)])
        accepted = np.concatenate([accepted, np.tile(_PRIOR_ACCEPTED, num_rungs)])
        weights = np.concatenate([weights, np.full(2 * num_rungs, _PRIOR_WEIGHT)])
        return cls(rungs, np.stack([1 - share, share], axis=1), accepted, weights, num_rungs)

    def slope_and_curvature(self, logits: Float[np.ndarray, "rung 2"]) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of −Σ_j h(w_j), (rung, end), and the second derivatives aa, bb and ab, (rung, 3)."""
        probability = expit(np.sum(self.ends * logits[self.rungs], axis=1))
        pull = self.weights * (probability - self.accepted)
        bend = self.weights * probability * (1 - probability)
        first, second = self.ends.T
        slope = np.stack([self._sums(pull * first), self._sums(pull * second)], axis=1)
        parts = (first**2, second**2, first * second)
        return slope, np.stack([self._sums(bend * part) for part in parts], axis=1)

    def _sums(self, values: np.ndarray) -> Float[np.ndarray, " rung"]:
        return np.bincount(self.rungs, values, self.num_rungs)


def _maximise(data: _Data) -> Float[np.ndarray, "rung 2"]:
    """The most likely logits under the constraints, by a primal-dual interior-point method.

    Boyd and Vandenberghe 2004, algorithm 11.2, for min loss(x) with slacks s = Bx ≥ 0 and multipliers λ. Everything in
    it has bandwidth 2, so that an iteration costs a pass over the data and a banded solve, and its iterates satisfy the
    constraints strictly.
    """
    falling = np.linspace(0.5, 0.0, data.num_rungs)
    logits = np.stack([0.5 + falling, falling - 1.0], axis=1)
    total = data.weights.sum()
    per_rung = np.bincount(data.rungs, data.weights)[:, None]
    multipliers = total / data.num_rungs / _slacks(logits)
    for _ in range(_MAX_ITERATIONS):
        slacks = _slacks(logits)
        slope, curvature = data.slope_and_curvature(logits)
        gap, off = slacks @ multipliers, np.abs(slope - _transposed(multipliers))
        is_flat = np.all(off < 1e-9 * per_rung + 1e-14 * total)
        if is_flat and gap < 1e-8 + 1e-12 * total:
            break
        # What every s_i λ_i should become. Not less than the slope that is left: the iterates would lose the centre.
        aim = 0.1 * max(gap / len(slacks), 0.0 if is_flat else off.max())
        direction = _newton(slope, curvature, slacks, multipliers, aim)
        if direction is None:
            break
        length = _step_length(data, logits, multipliers, direction, aim)
        if length == 0:  # round-off: nothing better is to be had
            break
        logits, multipliers = logits + length * direction[0], multipliers + length * direction[1]
    return logits


def _newton(slope, curvature, slacks, multipliers, aim: float) -> tuple[np.ndarray, np.ndarray] | None:
    """(H + Bᵀ diag(λ/s) B) dx = −slope + Bᵀ(aim/s), and dλ = aim/s − λ − (λ/s) B dx."""
    from scipy.linalg import solveh_banded  # takes 30 ms to import, and most runs do not come here

    stiff = multipliers / slacks
    between, across = _split(stiff)
    diagonal = curvature[:, :2] + across[:, None]
    diagonal[:-1] += between
    diagonal[1:] += between
    bands = np.zeros((3, diagonal.size))
    bands[2] = diagonal.ravel()
    bands[1, 1::2] = curvature[:, 2] - across
    bands[0, 2:] = -between.ravel()
    try:
        change = solveh_banded(bands, (_transposed(aim / slacks) - slope).ravel(), check_finite=False)
    except np.linalg.LinAlgError:  # round-off has made the matrix indefinite, at the very end
        return None
    change = change.reshape(slope.shape)
    return change, aim / slacks - multipliers - stiff * _slacks(change)


def _step_length(data: _Data, logits, multipliers, direction, aim: float) -> float:
    """As far as slacks and multipliers stay positive and the residual of the optimality conditions falls."""

    def residual(logits, multipliers) -> float:
        off = data.slope_and_curvature(logits)[0] - _transposed(multipliers)
        return float(np.sqrt(np.sum(off**2) + np.sum((_slacks(logits) * multipliers - aim) ** 2)))

    change, change_multipliers = direction
    is_falling = change_multipliers < 0
    length = min(1.0, 0.99 * np.min(-multipliers[is_falling] / change_multipliers[is_falling], initial=np.inf))
    before = residual(logits, multipliers)
    while length > 1e-12:
        new, new_multipliers = logits + length * change, multipliers + length * change_multipliers
        if np.all(_slacks(new) > 0) and residual(new, new_multipliers) <= (1 - 0.01 * length) * before:
            return length
        length *= 0.5
    return 0.0


def _slacks(logits: Float[np.ndarray, "rung 2"]) -> Float[np.ndarray, " constraint"]:
    """Bx: how far logits fall from rung to rung, a₀ − a₁, b₀ − b₁, a₁ − a₂ …, and from low to high, a_j − b_j."""
    return np.concatenate([(logits[:-1] - logits[1:]).ravel(), logits[:, 0] - logits[:, 1]])


def _transposed(values: Float[np.ndarray, " constraint"]) -> Float[np.ndarray, "rung 2"]:
    """Bᵀ values."""
    between, across = _split(values)
    out = np.stack([across, -across], axis=1)
    out[:-1] += between
    out[1:] -= between
    return out


def _split(values: Float[np.ndarray, " constraint"]) -> tuple[np.ndarray, np.ndarray]:
    num_rungs = (len(values) + 2) // 3
    return values[: 2 * num_rungs - 2].reshape(-1, 2), values[2 * num_rungs - 2 :]


def _share(steps: np.ndarray, low: float, high: float) -> np.ndarray:
    """How far each step is on the way from low to high; any will do where they are the same."""
    return np.asarray((steps - low) / (high - low)) if high > low else np.full_like(steps, 0.5)


def _check_interval(num_rungs: int, low: float, high: float) -> None:
    if num_rungs < 1:
        raise InputError(f"fit_acceptance(num_rungs=...) must be 1 or more, got {num_rungs}.")
    if not 0 < low <= high < np.inf:
        raise InputError(f"fit_acceptance(low=..., high=...) must have 0 < low ≤ high < inf, got {low} and {high}.")


def _checked_rows(rungs, steps, accepted, weights, num_rungs: int) -> tuple[np.ndarray, ...]:
    """What a person gave, as arrays; rows of weight 0 are left out."""
    at = np.asarray(rungs)
    sizes, shares = (np.asarray(values, np.float64) for values in (steps, accepted))
    counts = np.ones(at.shape) if weights is None else np.asarray(weights, np.float64)
    shapes = [array.shape for array in (at, sizes, shares, counts)]
    if at.ndim != 1 or len(set(shapes)) != 1:
        raise InputError(f"fit_acceptance needs rungs, steps, accepted and weights of one length each, got {shapes}.")
    if at.size and (at.dtype.kind not in "iu" or at.min() < 0 or at.max() >= num_rungs):
        raise InputError(f"fit_acceptance(rungs=...) must hold whole numbers from 0 to {num_rungs - 1}.")
    if not np.all((shares >= 0) & (shares <= 1)):
        raise InputError("fit_acceptance(accepted=...) must hold 0, 1 or probabilities between them.")
    if not (np.all(np.isfinite(sizes)) and np.all(np.isfinite(counts)) and np.all(counts >= 0)):
        raise InputError("fit_acceptance needs finite steps, and finite weights that are not negative.")
    is_real = counts > 0
    return at[is_real].astype(np.int64), sizes[is_real], shares[is_real], counts[is_real]
