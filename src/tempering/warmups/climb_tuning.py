"""Step sizes, scales and correlations for a move, learned from the particles on their way up the ladder."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from tempering._device_arrays import device_array
from tempering.kernels import AbstractSizedMove, Schedule
from tempering.kernels.moves.flow import Flow

MAX_DENSE = 64  # coordinates; beyond it correlations are not learned: a product with their factor costs too much
_NUM_FACTORS = 16  # places along the path with a factor of their own, fixed so that programs are shared
_NUM_FLOWS = 64  # places with a flow of their own, likewise
_MEMORY = 0.6  # share of the correlations that comes from earlier places
_WORTHWHILE = 4.0  # condition number of the correlations below which no factor is used
_GAIN = 1.0  # of log ε per acceptance probability, after each stretch
_SHORTEST = 1e-6  # step in units of the scales: a shorter one hardly moves x in single precision
_NARROWEST = 1e-6  # scale in units of the one before: a narrower one is of weights that one particle has alone
_FAR_OUT = 6.0  # standard deviations, as the quartiles have them; normal states are never so far from their median
_MOST_ROWS = 10_000  # states that scales and correlations are learned from, where there are more
_QUARTILES_APART = 1.349  # standard deviations of a normal law


class Tuning(eqx.Module):
    """What was learned at each place on the way up.

    Attributes:
        betas: The places.
        step_sizes: ε at each of them.
        scales: The standard deviations of the coordinates there.
        factors: Lower triangular factors of the correlations there; no coordinates where they are not learned.
        means: The means of the coordinates there.
        correlation: The correlations at the last place, averaged with those before it.
    """

    betas: Float[np.ndarray, " place"]
    step_sizes: Float[np.ndarray, " place"]
    scales: Float[np.ndarray, "place dim"]
    factors: Float[np.ndarray, "place dense dense"]
    means: Float[np.ndarray, "place dim"]
    correlation: Float[np.ndarray, "dense dense"]

    @classmethod
    def at_base(cls, move: AbstractSizedMove, x: Any) -> "Tuning":
        """The scales of draws of the base.

        Args:
            move: The move that is tuned.
            x: The draws; leading axis: particle.
        """
        rows = coordinates(x)
        num_dims = rows.shape[1]
        dense = num_dims if move.has_scale and 1 < num_dims <= MAX_DENSE else 0
        nowhere = np.zeros((0, num_dims))
        none = cls(np.zeros(0), np.zeros(0), nowhere, np.zeros((0, dense, dense)), nowhere, np.eye(dense))
        weights = np.full(len(rows), 1 / len(rows))
        return none._learned(0.0, move.first_step_size(num_dims), rows, weights, has_scale=move.has_scale)

    def after(self, move: AbstractSizedMove, beta: float, acceptance: float, x: Any, weights: np.ndarray) -> "Tuning":
        """With what the particles say at the next place.

        Args:
            move: The move that is tuned.
            beta: The place.
            acceptance: The mean acceptance on the way there.
            x: The states there.
            weights: Their weights.
        """
        step_size = max(self.step_sizes[-1] * np.exp(_GAIN * (acceptance - aimed_acceptance(move))), _SHORTEST)
        return self._learned(beta, step_size, coordinates(x), weights, has_scale=move.has_scale)

    def local_schedule(self) -> Schedule:
        """A schedule for moves near the last place, always of the same form."""
        schedule = Schedule.constant(self.step_sizes[-1], self.scales[-1])
        if self.factors.shape[1] == 0:
            return schedule
        factor = device_array(self.factors[-1:])
        return dataclasses.replace(schedule, factor_betas=device_array([0.0]), factors=factor)

    def schedule(self, betas: Float[np.ndarray, " rung"]) -> Schedule:
        """A schedule for all rungs.

        Args:
            betas: The inverse temperatures of the rungs.
        """
        places, step_sizes, scales = (device_array(part) for part in (self.betas, self.step_sizes, self.scales))
        schedule = Schedule(places, step_sizes, scales, Schedule.constant(1.0).jitter)
        schedule = schedule.with_knots(betas, scales.shape[1])
        if self.factors.shape[1] == 0 or not any(np.linalg.cond(factor) ** 2 > _WORTHWHILE for factor in self.factors):
            return schedule
        chosen = np.round(np.linspace(0, len(self.betas) - 1, _NUM_FACTORS)).astype(int)
        factors = device_array(self.factors[chosen])
        return dataclasses.replace(schedule, factor_betas=device_array(self.betas[chosen]), factors=factors)

    def flow(self) -> Flow:
        """How the law of x moves with β, from what was learned at each place and in between."""
        covariances = self.scales**2
        if self.factors.shape[1] > 0:
            correlations = self.factors @ np.swapaxes(self.factors, 1, 2)
            covariances = self.scales[:, :, None] * correlations * self.scales[:, None, :]
        where = np.linspace(0, len(self.betas) - 1, _NUM_FLOWS)
        left = np.minimum(where.astype(int), max(len(self.betas) - 2, 0))
        right = np.minimum(left + 1, len(self.betas) - 1)

        def spread(values: np.ndarray) -> np.ndarray:
            share = (where - left).reshape(-1, *[1] * (values.ndim - 1))
            return (1 - share) * values[left] + share * values[right]

        return Flow.between_normals(*map(spread, (self.betas, self.means, covariances)))

    def _learned(self, beta, step_size, rows, weights, *, has_scale: bool) -> "Tuning":
        rows, weights = _thinned(rows, weights)
        drawn_in = _drawn_in(np.where(np.isfinite(rows), rows, 0.0), weights)
        mean = weights @ drawn_in
        centred = drawn_in - mean
        scale = np.sqrt(weights @ centred**2)
        previous, least = np.ones_like(scale), 0.0  # at the base any scale is right, however small
        if len(self.scales):
            previous, least = self.scales[-1], _NARROWEST * self.scales[-1]
        scale = np.where(scale > least, scale, previous) if has_scale else np.ones_like(scale)
        correlation, factor = self.correlation, np.zeros((0, 0))
        if len(correlation):
            standard = centred / scale
            memory = _MEMORY if len(self.betas) else 0.0
            now = standard.T @ (weights[:, None] * standard)
            correlation = memory * correlation + (1 - memory) * now
            num_effective = (1 + memory) / (1 - memory) / np.sum(weights**2)
            factor = np.linalg.cholesky(shrunk(correlation, num_effective))
        return Tuning(
            np.append(self.betas, beta),
            np.append(self.step_sizes, step_size),
            np.concatenate([self.scales, scale[None]]),
            np.concatenate([self.factors, factor[None]]),
            np.concatenate([self.means, mean[None]]),
            correlation,
        )


def _thinned(rows: Float[np.ndarray, "particle dim"], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most `_MOST_ROWS` of them, from all over: copies of one particle stand side by side."""
    if len(rows) <= _MOST_ROWS:
        return rows, weights
    stride = -(-len(rows) // _MOST_ROWS)
    return rows[::stride], weights[::stride] / weights[::stride].sum()


def _drawn_in(rows: Float[np.ndarray, "particle dim"], weights: np.ndarray) -> Float[np.ndarray, "particle dim"]:
    """The same with coordinates that are far out drawn in: of heavy tails they alone would decide the scale."""
    order = np.argsort(rows, axis=0)
    reached = np.cumsum(weights[order], axis=0)
    quartiles = [np.argmax(reached >= share * reached[-1], axis=0) for share in (0.25, 0.5, 0.75)]
    ordered = np.take_along_axis(rows, order, axis=0)
    low, middle, high = (np.take_along_axis(ordered, place[None], axis=0)[0] for place in quartiles)
    reach = _FAR_OUT / _QUARTILES_APART * (high - low)
    return np.where(reach > 0, np.clip(rows, middle - reach, middle + reach), rows)


def aimed_acceptance(move: AbstractSizedMove) -> float:
    """The acceptance that steps aim at: 0.9 for trajectories, whose energy is forgotten only if they are accepted."""
    return 0.9 if move.needs_gradient else move.target_accept


def with_acceptance(schedule: Schedule, acceptance: Float[np.ndarray, " rung"], target: float) -> Schedule:
    """Longer steps where more than the target was accepted, shorter ones where less was; unknown rungs stay.

    Args:
        schedule: A schedule with a knot at every rung.
        acceptance: The mean acceptance at each rung, NaN where unknown.
        target: The acceptance that is aimed at.
    """
    off = np.nan_to_num(acceptance - target)
    off[0] = off[1]  # at the base x is drawn exactly, which says nothing about steps
    off = np.convolve(np.pad(off, 2, mode="edge"), np.full(5, 0.2), mode="valid")  # neighbours share their noise
    step_sizes = np.asarray(schedule.step_sizes, np.float64) * np.exp(_GAIN * off)
    return dataclasses.replace(schedule, step_sizes=device_array(step_sizes))


def shrunk(correlation: Float[np.ndarray, "dim dim"], num_rows: float | int) -> Float[np.ndarray, "dim dim"]:
    """Correlations shrunk towards none, as far as so few rows demand (Chen, Wiesel, Eldar and Hero 2010, eq. 23).

    Args:
        correlation: As estimated.
        num_rows: The number of independent rows it was estimated from.
    """
    num_dims = len(correlation)
    square, trace = np.sum(correlation**2), np.trace(correlation)
    excess = square - trace**2 / num_dims
    if excess <= 0:
        return np.eye(num_dims)
    wanted = ((1 - 2 / num_dims) * square + trace**2) / ((num_rows + 1 - 2 / num_dims) * excess)
    share = min(1.0, max(wanted, 1e-3))  # a little, so that it stays positive definite
    return (1 - share) * correlation + share * np.eye(num_dims)


def coordinates(x: Any) -> Float[np.ndarray, "particle dim"]:
    """The states of all particles, each in a row.

    Args:
        x: States; leading axis: particle.
    """
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(x)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)
