"""What kernels pass to statistics: a draw, and how its move went."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tempering._types import PerRung, Rung, Rungs, State


class MoveInfo(eqx.Module):
    """How a move of x went. Later steps never read it.

    Attributes:
        accept_prob: the probability with which the proposal was accepted.
        step_size: of the proposal: a step size, a width or a number of flips; 1 for a move that has none.
        is_divergent: whether the energy error was so large that the integrator must have failed.
    """

    accept_prob: Float[Array, "*chain"]
    step_size: Float[Array, "*chain"]
    is_divergent: Bool[Array, "*chain"]

    @classmethod
    def accepted(cls) -> "MoveInfo":
        """The information of a move that is always accepted, such as a Gibbs sweep."""
        return cls(jnp.ones(()), jnp.ones(()), jnp.zeros((), bool))


class Draw(eqx.Module):
    """One step of simulated tempering: x was drawn at rung `origin`, then `rung` was drawn given x.

    A draw is all that statistics learn from a kernel. A statistic of your own reads it in `update`:

    ```python
    log_posterior = ladder.log_rung_posterior(draw.log_f)  # log q(k | x) for every rung k
    ```

    Attributes:
        x: the new state, a pytree of arrays.
        origin: the rung at which x was drawn.
        rung: the rung drawn from q(k | x), at which the next step begins.
        log_f: log f_k(x) at every rung.
        info: how the move of x went; None where a kernel does not say.
        log_ends: on a path with two ends, the two numbers from which `log_f` was made; None elsewhere.
        control: a number with mean 0 over draws made at rung `origin`, which moves with d log f/dβ; None where moves
            give none.
        posterior: q(k | x) at every rung, where the kernel has computed it; None elsewhere.
    """

    x: State
    origin: Rungs
    rung: Rungs
    log_f: Float[Array, "*chain rung"]
    info: MoveInfo | None = None
    log_ends: Float[Array, "*chain 2"] | None = None
    control: Float[Array, "*chain"] | None = None
    posterior: Float[Array, "*chain rung"] | None = None


class HeldDraw(eqx.Module):
    """One move at a rung that stays the same.

    Attributes:
        origin: the rung.
        info: how the move went.
    """

    origin: Rungs
    info: MoveInfo


class ClimbDraw(eqx.Module):
    """One step of a particle up the ladder.

    Attributes:
        log_increment: what the step adds to the log weight of the particle.
        info: how the move went.
    """

    log_increment: Float[Array, "*chain"]
    info: MoveInfo


class GuidedDraw(eqx.Module):
    """The rung that a chain drew under its own guess of log Z.

    Attributes:
        rung: the rung.
        posterior: q(k | x) under the chain's guess, the law from which `rung` was drawn.
        has_nan: whether log f was NaN at some rung.
    """

    rung: Rung
    posterior: PerRung
    has_nan: Bool[Array, ""]
