"""Hamiltonian Monte Carlo with a step size and masses for every rung."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from tempering._types import Key, LogF, Rung, Scalar, State
from tempering.kernels.moves.metropolis import flatten_floats, metropolis_accepts
from tempering.kernels.moves.schedule import AbstractSizedMove, StepSize, checked_count, schedule_from
from tempering.ladder import AbstractPath, MoveInfo

_DIVERGENT = 1000.0  # nats of energy error: the integrator has left the trajectory


class HMC(AbstractSizedMove):
    """Hamiltonian Monte Carlo: leapfrog trajectories through x, accepted by the Metropolis rule (Neal 2011).

    ```python
    HMC()                                # the warm-up chooses a step size and a scale per coordinate for every rung
    HMC(0.3, num_leaps=20)
    ```

    Momenta are standard normal where x is measured in the scales of the rung. Step sizes are jittered. The number of
    leaps is uniform from half of `num_leaps` to all of it. A step costs `num_leaps` + 1 gradients.
    """

    num_leaps: int = eqx.field(static=True)
    needs_gradient: ClassVar[bool] = True
    target_accept: ClassVar[float] = 0.651  # Beskos et al. 2013, as in the paper

    def __init__(self, step_size: float | None = None, *, num_leaps: int = 10):
        """Check the arguments.

        Args:
            step_size: in units of x, the same at every rung. By default the warm-up finds one per rung.
            num_leaps: the largest number of leapfrog steps in a trajectory.
        """
        self.schedule, self.is_tuned = schedule_from(step_size, "HMC", "step_size")
        self.num_leaps = checked_count(num_leaps, "HMC", "num_leaps")

    def step(self, key: Key, path: AbstractPath, rung: Rung, x: State, size: StepSize) -> tuple[State, MoveInfo]:
        """One trajectory. It is rejected where log f or its gradient is not finite, and may be marked as divergent."""
        key_momentum, key_leaps, key_accept = jax.random.split(key, 3)
        start, unflatten = flatten_floats(x, "HMC")
        num_leaps = jax.random.randint(key_leaps, (), (self.num_leaps + 1) // 2, self.num_leaps + 1)
        momentum = jax.random.normal(key_momentum, start.shape, start.dtype)
        width = (size.step_size * size.scale).astype(start.dtype)

        def log_f(flat):
            return path.log_density(unflatten(flat), rung)

        end, log_ratio = leapfrog(log_f, Phase(start, momentum), width, num_leaps, max_leaps=self.num_leaps)
        taken, accept_prob = metropolis_accepts(key_accept, log_ratio)
        moved = unflatten(jnp.where(taken, end.position, start))
        return moved, MoveInfo(accept_prob, size.step_size, _is_divergent(log_ratio, momentum, end.momentum))


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


def leapfrog(
    log_f: LogF, start: Phase, size: Float[Array, " #dim"], num_leaps: Int[Array, ""], *, max_leaps: int
) -> tuple[Phase, Scalar]:
    """The end of a trajectory, and log f − ½|p|² at its end minus that at its start.

    A leap is p += ½ε∇log f, q += εp, p += ½ε∇log f (Neal 2011, eqs. 2.28 to 2.30). Each of the three is a shear, so
    volume is preserved, and the same leaps from the end with −p lead back. `size` is ε times the scale of each
    coordinate. Where log f is −inf or NaN the force is 0: that is reversible too, and chains that start at such a state
    move out of it.
    """

    def force(position):
        value, slope = jax.value_and_grad(log_f)(position)
        return value, jnp.where(jnp.isfinite(value), slope, 0.0)

    def leap(i, carry):
        (position, momentum), _, slope = carry
        # Chains with fewer leaps stand still: all chains of a batch run to the end anyway.
        now = jnp.where(i < num_leaps, size, 0.0)
        halfway = momentum + 0.5 * now * slope
        position = position + now * halfway
        value, slope = force(position)
        return Phase(position, halfway + 0.5 * now * slope), value, slope

    first = force(start.position)
    end, last, _ = jax.lax.fori_loop(0, max_leaps, leap, (start, *first))
    before = jnp.where(jnp.isnan(first[0]), -jnp.inf, first[0])
    return end, last - before + 0.5 * (jnp.sum(start.momentum**2) - jnp.sum(end.momentum**2))
