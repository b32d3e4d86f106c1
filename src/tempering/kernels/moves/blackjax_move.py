"""Kernels of BlackJAX, and of anything with its interface, as moves."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from tempering._types import Key, Rung, State
from tempering.kernels.moves.move import AbstractMove, Evaluations
from tempering.kernels.moves.schedule import redrawn_at_base
from tempering.ladder import AbstractPath, MoveInfo


class BlackJAX(AbstractMove):
    """One step of a BlackJAX algorithm at the density of the rung, or an exact draw of the base at β = 0.

    ```python
    BlackJAX(lambda log_f, beta: blackjax.nuts(log_f, step_size=0.3, inverse_mass_matrix=jnp.ones(10)))
    ```

    Each new `make` function compiles again.

    Attributes:
        make: a function of log f_k (a function of x) and of β_k, which returns an object with `init(x)` and
            `step(key, state)`, whose state has a `position`. It must leave exp(log f_k) invariant and adapt nothing.
    """

    redraws_base: ClassVar[bool] = True
    make: Callable[[Callable[[State], Any], Any], Any]

    @property
    def evaluations(self) -> Evaluations:
        """One gradient; how many more the algorithm takes is not known here."""
        return Evaluations(0, 1)

    def __call__(self, key: Key, path: AbstractPath, rung: Rung, x: State) -> tuple[State, MoveInfo]:
        key_step, key_base = jax.random.split(key)
        algorithm = self.make(lambda state: path.log_density(state, rung), path.betas[rung])
        state, info = algorithm.step(key_step, algorithm.init(x))
        accept_prob = jnp.asarray(getattr(info, "acceptance_rate", 1.0), jnp.float32)
        is_divergent = jnp.asarray(getattr(info, "is_divergent", False))
        moved = redrawn_at_base(key_base, path, rung, state.position)
        return moved, MoveInfo(accept_prob, jnp.ones((), jnp.float32), is_divergent)
