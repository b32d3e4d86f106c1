"""Hamiltonian Monte Carlo with a step size and masses for every rung."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tempering._device_arrays import device_array
from tempering._threefry import plain_key, straight_key
from tempering._types import Key, LogF, Rung, Scalar, State
from tempering.kernels.moves.carried import Carried, Ends, ends_at, force_from_ends, pick_carried
from tempering.kernels.moves.metropolis import flatten_floats, metropolis_accepts
from tempering.kernels.moves.move import Evaluations
from tempering.kernels.moves.schedule import AbstractSizedMove, Schedule, StepSize, checked_count, schedule_from
from tempering.ladder import AbstractPath, AbstractTwoEndedPath, MoveInfo

MOST_LEAPS = 10  # that a warm-up chooses
_DIVERGENT = 1000.0  # nats of energy error: the integrator has left the trajectory


class HMC(AbstractSizedMove):
    """Hamiltonian Monte Carlo: leapfrog trajectories through x, accepted by the Metropolis rule (Neal 2011).

    ```python
    HMC()                                # the warm-up chooses step size, scales and leaps
    HMC(0.3, num_leaps=20)
    ```

    Momenta are standard normal where x is measured in the scales of the rung. Step sizes are jittered. The number of
    leaps is uniform from three quarters of `max_leaps` to all of it. A step costs `max_leaps` + 1 gradients.

    Attributes:
        max_leaps: the largest number of leapfrog steps in a trajectory.
        chooses_leaps: whether the warm-up may choose it.
    """

    max_leaps: Int[Array, ""]
    chooses_leaps: bool = eqx.field(static=True)
    needs_gradient: ClassVar[bool] = True
    target_accept: ClassVar[float] = 0.651  # Beskos et al. 2013, as in the paper

    def __init__(self, step_size: float | None = None, *, num_leaps: int | None = None):
        """Check the arguments.

        Args:
            step_size: in units of x, the same at every rung. By default the warm-up finds one per rung.
            num_leaps: the largest number of leapfrog steps in a trajectory. By default the warm-up chooses it such that
                a trajectory is about a quarter of a period long, at most 10; with a given `step_size` it is 10.
        """
        self.schedule, self.is_tuned = schedule_from(step_size, "HMC", "step_size")
        self.chooses_leaps = num_leaps is None and not self.is_tuned
        leaps = MOST_LEAPS if num_leaps is None else checked_count(num_leaps, "HMC", "num_leaps")
        self.max_leaps = device_array(leaps, np.int32)

    @property
    def evaluations(self) -> Evaluations:
        return Evaluations(0, int(self.max_leaps) + 1)

    def first_step_size(self, num_dims: int) -> float:
        return 1.35 * num_dims**-0.25  # 9 of 10 trajectories through a normal density are then accepted

    def with_schedule(self, schedule: Schedule) -> "HMC":
        """The same move with other step sizes, and with as many leaps as fit into a quarter of a period.

        The typical step counts, which is the median over the knots.

        Args:
            schedule: step sizes and scales at every β.
        """
        moved = eqx.tree_at(lambda move: move.schedule, self, schedule)
        if not self.chooses_leaps:
            return moved
        # Through a standard normal a quarter of a period, after which energies are forgotten, is π/2 long.
        leaps = np.clip(np.floor(np.pi / 2 / np.median(schedule.step_sizes)), 1, MOST_LEAPS)
        return eqx.tree_at(lambda move: move.max_leaps, moved, device_array(leaps, np.int32))

    def step(self, key: Key, path: AbstractPath, rung: Rung, x: State, size: StepSize) -> tuple[State, MoveInfo]:
        """One trajectory. It is rejected where log f or its gradient is not finite, and may be marked as divergent."""
        key_momentum, key_leaps, key_accept = jax.random.split(straight_key(key), 3)
        start, unflatten = flatten_floats(x, "HMC")
        num_leaps = self._num_leaps(key_leaps)
        momentum = jax.random.normal(key_momentum, start.shape, start.dtype)
        size = size.with_dtype(start.dtype)

        def log_f(flat):
            return path.log_density(unflatten(flat), rung)

        end, log_ratio = leapfrog(log_f, Phase(start, momentum), size, num_leaps, max_leaps=self.max_leaps)
        taken, accept_prob = metropolis_accepts(key_accept, log_ratio)
        moved = unflatten(jnp.where(taken, end.position, start))
        return moved, MoveInfo(accept_prob, size.step_size, _is_divergent(log_ratio, momentum, end.momentum))

    def _num_leaps(self, key: Key) -> Int[Array, ""]:
        """Uniform from three quarters of `max_leaps` to all of it; `jax.random.randint` would hash four times."""
        fewest = (3 * self.max_leaps + 3) // 4
        level = jax.random.uniform(key, dtype=jnp.float32)
        return fewest + (level * (self.max_leaps + 1 - fewest)).astype(jnp.int32)

    def carries(self, path: AbstractPath) -> bool:
        return isinstance(path, AbstractTwoEndedPath)

    def carried_call(
        self, key: Key, path: AbstractPath, rung: Rung, x: State, carried: Carried, *, may_be_base: bool = True
    ) -> tuple[State, Carried, MoveInfo]:
        """One trajectory from the force that the last one ended with: as many gradients as leaps.

        At β = 0 the state is replaced by a draw of the base before the trajectory, whose steps then have size 0. So the
        last gradient is that at the new state there, too.
        """
        assert isinstance(path, AbstractTwoEndedPath)
        key_step, key_momentum, key_leaps, key_accept, key_base = jax.random.split(straight_key(key), 5)
        beta = path.betas[rung]
        start, unflatten = flatten_floats(x, "HMC")
        is_base = jnp.array(False)
        if may_be_base:
            is_base = beta == 0
            drawn = flatten_floats(path.sample_base(plain_key(key_base)), "HMC")[0]
            start = jnp.where(is_base, drawn.astype(start.dtype), start)
        size = self.jittered(key_step, beta).with_dtype(start.dtype)
        moving = size._replace(step_size=jnp.where(is_base, 0.0, size.step_size))
        num_leaps = self._num_leaps(key_leaps)
        momentum = jax.random.normal(key_momentum, start.shape, start.dtype)

        def force_from(ends):
            value, slope = force_from_ends(path, beta, *ends)
            return Force(value, jnp.where(is_base, 0.0, slope), ends)  # 0 times a slope that is NaN would be NaN

        def force(position):
            return force_from(ends_at(path, unflatten, position))

        first = force_from(Ends(carried.log_ends, (carried.slopes[0], carried.slopes[1])))
        end, log_ratio, last = trajectory(force, Phase(start, momentum), first, moving, num_leaps, self.max_leaps)
        taken, accept_prob = metropolis_accepts(key_accept, log_ratio)
        taken, accept_prob = taken | is_base, jnp.where(is_base, 1.0, accept_prob)
        moved = unflatten(jnp.where(taken, end.position, start))
        assert last.ends is not None
        is_divergent = _is_divergent(log_ratio, momentum, end.momentum) & ~is_base
        info = MoveInfo(accept_prob, size.step_size, is_divergent)
        return moved, pick_carried(taken, last.ends.carried(), carried), info

    def gives_control(self, path: AbstractPath) -> bool:
        return self.schedule.flow is not None and self.carries(path)

    def control(self, path: AbstractPath, rung: Rung, x: State, carried: Carried) -> Scalar:
        assert isinstance(path, AbstractTwoEndedPath)
        assert self.schedule.flow is not None
        beta = path.betas[rung]
        return self.schedule.flow.control(beta, flatten_floats(x, "HMC")[0], carried.force(path, beta)[1])


def _is_divergent(log_ratio: Scalar, before: Float[Array, " dim"], after: Float[Array, " dim"]) -> Bool[Array, ""]:
    """Whether the integrator failed: an energy error of 1000 nats, or a gradient that is NaN.

    A trajectory that starts or ends where f is 0 or NaN has an infinite energy error, or none. It has not failed,
    unless it came there with far too much kinetic energy.
    """
    kinetic = 0.5 * (jnp.sum(after**2) - jnp.sum(before**2))
    error = jnp.where(jnp.isnan(log_ratio) | (log_ratio == -jnp.inf), kinetic, -log_ratio)
    return ~(error < _DIVERGENT)


class Phase(NamedTuple):
    """Position and momentum, with the coordinates of x flattened."""

    position: Float[Array, " dim"]
    momentum: Float[Array, " dim"]


class Force(NamedTuple):
    """What is evaluated at a position.

    Attributes:
        value: log f.
        slope: its gradient; 0 where log f is not finite.
        ends: what the next move starts from; None where nothing is passed on.
    """

    value: Scalar
    slope: Float[Array, " dim"]
    ends: Ends | None = None


def leapfrog(
    log_f: LogF, start: Phase, size: StepSize, num_leaps: Int[Array, ""], *, max_leaps: int | Int[Array, ""]
) -> tuple[Phase, Scalar]:
    """The end of a trajectory, and log f − ½|p|² at its end minus that at its start; see `trajectory`."""

    def force(position):
        value, slope = jax.value_and_grad(log_f)(position)
        return Force(value, jnp.where(jnp.isfinite(value), slope, 0.0))

    return trajectory(force, start, force(start.position), size, num_leaps, max_leaps)[:2]


def trajectory(
    force: Callable[[Array], Force],
    start: Phase,
    first: Force,
    size: StepSize,
    num_leaps: Int[Array, ""],
    max_leaps: int | Int[Array, ""],
) -> tuple[Phase, Scalar, Force]:
    """The end of a trajectory, the change of log f − ½|p|² along it, and what was evaluated at the end.

    A leap is p += ½ε∇log f, q += εp, p += ½ε∇log f (Neal 2011, eqs. 2.28 to 2.30). Each of the three is a shear, so
    volume is preserved, and the same leaps from the end with −p lead back. ε has a scale for each coordinate, and a
    factor where coordinates are correlated: both steps use one linear map and its transpose. Where log f is −inf or NaN
    the force is 0: that is reversible too, and chains that start at such a state move out of it.
    """

    def leap(i, carry):
        (position, momentum), last = carry
        # Chains with fewer leaps stand still: all chains of a batch run to the end anyway.
        now = size._replace(step_size=jnp.where(i < num_leaps, size.step_size, 0.0))
        halfway = momentum + 0.5 * now.gathered(last.slope)
        position = position + now.spread(halfway)
        last = force(position)
        return Phase(position, halfway + 0.5 * now.gathered(last.slope)), last

    end, last = jax.lax.fori_loop(0, max_leaps, leap, (start, first))
    before = jnp.where(jnp.isnan(first.value), -jnp.inf, first.value)
    change = last.value - before + 0.5 * (jnp.sum(start.momentum**2) - jnp.sum(end.momentum**2))
    return end, change, last
