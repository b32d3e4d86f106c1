"""Moves with a size: how long their steps are at each inverse temperature (Appendix E of the paper)."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from tempering._errors import InputError
from tempering._types import Key, Rung, Scalar, State
from tempering.kernels.moves.move import AbstractMove
from tempering.ladder import AbstractPath, MoveInfo

_NARROW = 0.2  # steps differ by ±20 %, so that no trajectory can be periodic


class Schedule(eqx.Module):
    """The size of a step at every β, known at some knots.

    Between knots 1/ε² is linear in β, as precisions are on a geometric path between normal densities; so are the
    inverse squares of the scales. Beyond the outer knots nothing changes.
    """

    betas: Float[Array, " knot"]  # rising
    step_sizes: Float[Array, " knot"]  # ε, in units of the scales
    scales: Float[Array, "knot #dim"]  # a standard deviation per coordinate: the roots of the inverse masses
    jitter: Scalar  # a step is ε · exp(jitter · u) with u uniform on (−1, 1)

    @classmethod
    def constant(cls, step_size: ArrayLike | float, scale: ArrayLike | float = 1.0) -> "Schedule":
        """The same step everywhere."""
        betas, step_sizes, jitter = (jnp.asarray(value, jnp.float32) for value in ([0.0], [step_size], _NARROW))
        return cls(betas, step_sizes, jnp.atleast_1d(jnp.asarray(scale, jnp.float32))[None], jitter)

    def with_knots(self, betas: ArrayLike, num_dims: int) -> "Schedule":
        """The same with knots at other inverse temperatures, and a scale for each coordinate."""
        betas = jnp.asarray(betas, jnp.float32)
        step_sizes, scales = jax.vmap(self.at_beta)(betas)
        return dataclasses.replace(
            self, betas=betas, step_sizes=step_sizes, scales=jnp.broadcast_to(scales, (len(betas), num_dims))
        )

    def at_beta(self, beta: Scalar) -> tuple[Scalar, Float[Array, " #dim"]]:
        """ε and the scales at any β."""
        last = len(self.betas) - 1
        right = jnp.minimum(jnp.searchsorted(self.betas, beta), last)
        left = jnp.maximum(right - 1, 0)
        gap = jnp.where(right > left, self.betas[right] - self.betas[left], 1.0)
        share = jnp.clip((beta - self.betas[left]) / gap, 0.0, 1.0)

        def between(values):
            # (1 − s)/l² + s/r² = 1/ε², written with l/r: squares of very small steps would overflow.
            return values[left] * jax.lax.rsqrt((1 - share) + share * (values[left] / values[right]) ** 2)

        return between(self.step_sizes), between(self.scales)


class AbstractSizedMove(AbstractMove):
    """A move whose proposals have a size; the warm-up chooses it for each rung, unless it was given."""

    schedule: eqx.AbstractVar[Schedule]
    is_tuned: eqx.AbstractVar[bool]  # whether the size was given, so that no warm-up changes it
    target_accept: ClassVar[float]
    has_scale: ClassVar[bool] = True  # whether coordinates have a unit of length

    @property
    def redraws_base(self) -> bool:
        """By `redrawn_at_base`."""
        return True

    def step(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, step_size: Scalar, scale: Float[Array, " #dim"]
    ) -> tuple[State, MoveInfo]:
        """A step of that size, which leaves f_k invariant."""
        raise NotImplementedError

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        """A step of about the scheduled size; at β = 0 the base is drawn from exactly instead.

        What the step would have done there is still told, so that steps can be chosen at β = 0 too.
        """
        key_size, key_step, key_base = jax.random.split(key, 3)
        step_size, scale = self.schedule.at_beta(path.betas[rung])
        log_factor = self.schedule.jitter * jax.random.uniform(key_size, dtype=jnp.float32, minval=-1.0, maxval=1.0)
        moved, info = self.step(key_step, path, rung, x, step_size * jnp.exp(log_factor), scale)
        return redrawn_at_base(key_base, path, rung, moved), info


def redrawn_at_base(key: Key, path: AbstractPath, rung: Rung, x: State) -> State:
    """x, or an exact draw of the base where β = 0: no chain can mix faster than that."""
    is_base = path.betas[rung] == 0
    return jax.tree.map(lambda new, old: jnp.where(is_base, new.astype(old.dtype), old), path.sample_base(key), x)


def given_step_size(step_size: float | None, move: str, name: str) -> tuple[Schedule, bool]:
    """The schedule that a person's choice means, and whether there was one."""
    if step_size is None:
        return Schedule.constant(1.0), False
    try:
        size = float(step_size)
    except (TypeError, ValueError):
        size = np.nan
    if not 0 < size < np.inf:
        raise InputError(f"{move}({name}=...) must be a positive number, got {step_size!r}; or None, to have it tuned.")
    return Schedule.constant(size), True


def given_count(count: int, move: str, name: str) -> int:
    """A number of steps that a person chose."""
    if not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"{move}({name}=...) must be a whole number, 1 or more; got {count!r}.")
    return int(count)


def flat_reals(x: State, move: str):
    """The coordinates of x in a row, and the way back; refused where they are not real numbers."""
    for leaf in jax.tree.leaves(x):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise InputError(
                f"{move} moves real numbers, but the state holds {jnp.result_type(leaf)}. Make them floats, or move "
                "bits (as 0.0 and 1.0) by BitFlips."
            )
    return ravel_pytree(x)


def log_density_or_nothing(path: AbstractPath, rung: Rung, x: State) -> Scalar:
    """log f_k(x), with −inf for NaN: a state without a density is never moved to."""
    log_f = path.log_density(x, rung)
    return jnp.where(jnp.isnan(log_f), -jnp.inf, log_f)


def is_taken(key: Key, log_ratio: Scalar) -> tuple[Array, Scalar]:
    """The Metropolis rule: yes with probability min(1, ratio), and that probability; never where the ratio is NaN."""
    accept_prob = jnp.nan_to_num(jnp.exp(jnp.minimum(log_ratio, 0.0)), nan=0.0)
    return jax.random.uniform(key, dtype=accept_prob.dtype) < accept_prob, accept_prob
