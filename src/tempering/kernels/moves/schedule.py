"""Moves with a step size, which depends on the inverse temperature (Appendix E of the paper)."""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from tempering._device_arrays import device_array
from tempering._errors import InputError, check_count
from tempering._threefry import plain_key, straight_key
from tempering._types import Key, Rung, Scalar, State
from tempering.kernels.moves.flow import Flow
from tempering.kernels.moves.move import AbstractMove
from tempering.ladder import AbstractPath, MoveInfo

_JITTER = 0.2  # step sizes vary by ±20 %, so that no trajectory is periodic


class StepSize(NamedTuple):
    """The size of one step.

    Attributes:
        step_size: ε, in units of the scales.
        scale: a standard deviation per coordinate, or one for all.
        factor: a lower triangular factor C of the correlations C Cᵀ of the coordinates; None where they have none.
    """

    step_size: Scalar
    scale: Float[Array, " #dim"]
    factor: Float[Array, "dim dim"] | None = None

    def with_dtype(self, dtype: Any) -> "StepSize":
        """The same numbers in the precision of the states."""
        factor = None if self.factor is None else self.factor.astype(dtype)
        return StepSize(self.step_size.astype(dtype), self.scale.astype(dtype), factor)

    def spread(self, noise: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """ε s C n: independent numbers n of unit scale, with the scales and correlations of the coordinates."""
        return self.step_size * self.scale * (noise if self.factor is None else self.factor @ noise)

    def gathered(self, slope: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """ε Cᵀ s ∇: a gradient in the coordinates of the noise; the transpose of `spread`."""
        scaled = self.step_size * self.scale * slope
        return scaled if self.factor is None else scaled @ self.factor


class Schedule(eqx.Module):
    """The step size at every β, interpolated between knots.

    Between knots 1/ε² is linear in β, as precisions are on a geometric path between normal densities. So are the
    inverse squares of the scales. Beyond the outer knots both are constant.

    Attributes:
        betas: the knots, in rising order.
        step_sizes: ε at the knots, in units of the scales.
        scales: a standard deviation per coordinate at the knots: the square roots of the inverse masses.
        jitter: a step is ε · exp(jitter · u) with u uniform on (−1, 1).
        factor_betas: the places of `factors`, in rising order; None without them.
        factors: lower triangular factors of the correlations of the coordinates. The one with the next higher β counts.
        flow: how the law of x moves with β; None where that is not known, or where densities may jump.
    """

    betas: Float[Array, " knot"]
    step_sizes: Float[Array, " knot"]
    scales: Float[Array, "knot #dim"]
    jitter: Scalar
    factor_betas: Float[Array, " factor"] | None = None
    factors: Float[Array, "factor dim dim"] | None = None
    flow: Flow | None = None

    @classmethod
    def constant(cls, step_size: ArrayLike | float, scale: ArrayLike | float = 1.0) -> "Schedule":
        """The same step size at every β.

        Args:
            step_size: ε.
            scale: a standard deviation per coordinate, or one for all.

        Returns:
            A schedule with one knot.
        """
        betas, step_sizes, jitter = (device_array(value) for value in ([0.0], np.reshape(step_size, 1), _JITTER))
        return cls(betas, step_sizes, device_array(np.atleast_1d(scale)[None]), jitter)

    def with_knots(self, betas: ArrayLike, num_dims: int) -> "Schedule":
        """The same schedule with knots at other inverse temperatures, and a scale for each coordinate.

        Args:
            betas: the new knots.
            num_dims: the number of coordinates.

        Returns:
            The new schedule.
        """
        known, wanted = np.asarray(self.betas), np.asarray(betas, np.float32)
        parts = (np.asarray(values) for values in (self.step_sizes, self.scales))
        step_sizes, scales = (np.stack([_between(known, values, beta, np) for beta in wanted]) for values in parts)
        scales = np.broadcast_to(scales, (len(wanted), num_dims))
        return dataclasses.replace(self, **_on_device(betas=wanted, step_sizes=step_sizes, scales=scales))

    def at_beta(self, beta: Scalar) -> StepSize:
        """ε and the scales at one β.

        Args:
            beta: an inverse temperature.

        Returns:
            The step size there.
        """
        step_size, scale = (_between(self.betas, values, beta, jnp) for values in (self.step_sizes, self.scales))
        factor = None
        if self.factors is not None and self.factor_betas is not None:
            place = _num_below(self.factor_betas, beta, jnp)
            factor = self.factors[jnp.minimum(place, len(self.factor_betas) - 1)]
        return StepSize(step_size, scale, factor)


def _between(knots: Any, values: Any, beta: Any, xp: Any) -> Any:
    """Values at β, whose inverse squares are linear between knots, by NumPy or by JAX (xp)."""
    right = xp.minimum(_num_below(knots, beta, xp), len(knots) - 1)
    left = xp.maximum(right - 1, 0)
    gap = xp.where(right > left, knots[right] - knots[left], 1.0)
    share = xp.clip((beta - knots[left]) / gap, 0.0, 1.0)
    # (1 − s)/l² + s/r² = 1/ε², written with l/r: the inverse squares of very small steps would overflow.
    return values[left] / xp.sqrt((1 - share) + share * (values[left] / values[right]) ** 2)


def _num_below(knots: Any, beta: Any, xp: Any) -> Any:
    """How many knots are below β. With so few, counting is quicker than a search, and compiles without a loop."""
    return xp.sum(knots < beta)


def _on_device(**arrays: np.ndarray) -> dict[str, Array]:
    return {name: device_array(array) for name, array in arrays.items()}


class AbstractSizedMove(AbstractMove):
    """A move whose proposals have a step size; the warm-up chooses it for each rung, unless it was given.

    At β = 0 the base is drawn from exactly instead. The acceptance of the step is still reported there, so that step
    sizes can be tuned at β = 0 too.

    Attributes:
        schedule: step sizes and scales at every β.
        is_tuned: whether the step size was given, so that no warm-up changes it.
        target_accept: the mean acceptance that tuning aims at.
        has_scale: whether coordinates have a unit of length, so that a scale per coordinate makes sense.
    """

    schedule: Schedule
    is_tuned: bool = eqx.field(static=True)
    target_accept: ClassVar[float]
    redraws_base: ClassVar[bool] = True
    has_scale: ClassVar[bool] = True

    def first_step_size(self, num_dims: int) -> float:
        """A step size in units of the scales with which tuning begins.

        Args:
            num_dims: the number of coordinates.
        """
        return 1.0

    def with_schedule(self, schedule: Schedule) -> "AbstractSizedMove":
        """The same move with other step sizes and scales.

        Args:
            schedule: step sizes and scales at every β.
        """
        return eqx.tree_at(lambda move: move.schedule, self, schedule)

    def with_steps_varied(self, jitter: float) -> "AbstractSizedMove":
        return eqx.tree_at(lambda move: move.schedule.jitter, self, device_array(jitter))

    @abc.abstractmethod
    def step(self, key: Key, path: AbstractPath, rung: Rung, x: State, size: StepSize) -> tuple[State, MoveInfo]:
        """One step of a given size, which leaves f_k invariant.

        Args:
            key: a JAX random key.
            path: the densities.
            rung: the k of f_k.
            x: the present state.
            size: the step size, already jittered, and the scales.

        Returns:
            The new state, and the acceptance and step size.
        """

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        key_size, key_step, key_base = jax.random.split(straight_key(key), 3)
        moved, info = self.step(plain_key(key_step), path, rung, x, self.jittered(key_size, path.betas[rung]))
        return redrawn_at_base(key_base, path, rung, moved), info

    def jittered(self, key: Key, beta: Scalar) -> StepSize:
        """The step size at β, varied at random.

        Args:
            key: a JAX random key.
            beta: an inverse temperature.
        """
        size = self.schedule.at_beta(beta)
        log_factor = self.schedule.jitter * jax.random.uniform(key, dtype=jnp.float32, minval=-1.0, maxval=1.0)
        return size._replace(step_size=size.step_size * jnp.exp(log_factor))


def redrawn_at_base(key: Key, path: AbstractPath, rung: Rung, x: State) -> State:
    """x, or an exact draw of the base where β = 0."""
    is_base, drawn = path.betas[rung] == 0, path.sample_base(plain_key(key))
    return jax.tree.map(lambda new, old: jnp.where(is_base, new.astype(old.dtype), old), drawn, x)


def schedule_from(step_size: float | None, move: str, name: str) -> tuple[Schedule, bool]:
    """The schedule for the step size that a user gave, and whether one was given."""
    if step_size is None:
        return Schedule.constant(1.0), False
    try:
        size = float(step_size)
    except (TypeError, ValueError):
        size = np.nan
    if not 0 < size < np.inf:
        raise InputError(f"{move}({name}=...) must be a positive number, got {step_size!r}; or None, to have it tuned.")
    return Schedule.constant(size), True


def checked_count(count: int, move: str, name: str) -> int:
    """A number of steps, refused unless it is 1 or more."""
    count = int(count) if isinstance(count, np.integer) else count
    check_count(f"{move}({name}=...)", count, 1)
    return count
