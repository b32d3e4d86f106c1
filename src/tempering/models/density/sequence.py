"""Targets that are reached through densities of the user's choice."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._errors import InputError
from tempering._types import HostPerRung, State
from tempering.bases import AbstractBase, as_base
from tempering.kernels import AbstractMove
from tempering.models.density import trial
from tempering.models.density.log_density import AbstractUserDensity
from tempering.paths import SequencePath
from tempering.paths.piecewise import LogFs, all_log_fs, checked_sequence


class Sequence(AbstractUserDensity):
    """A target f_M with densities f_1 … f_{M−1} on the way to it, such as coarser models, or fewer constraints.

    ```python
    Sequence([log_f1, log_f2, log_f3], base=Normal(np.zeros(3)))
    Sequence(lambda x, m: -jnp.sum(x**2) * 2.0**m, base=Normal(np.zeros(3)), num_densities=10)     # m = 1 … 10
    ```

    Rungs are spaced along the whole path, with geometric mixtures of neighbours between the densities. With
    `betas=model.knots` the rungs are the densities themselves.
    """

    log_fs: LogFs
    base: AbstractBase
    own_move: AbstractMove
    num_densities: int = eqx.field(static=True)

    def __init__(self, log_fs: Any, base: Any, *, num_densities: Any = None, move: AbstractMove | None = None):
        """Check each density at draws of the base; the first one must overlap with it.

        Args:
            log_fs: log densities as functions of x, the target last; or one function of (x, m), m = 1 … M.
            base: a base, or a distribution with `log_prob` and `sample`.
            num_densities: M, for a function of (x, m).
            move: how x is moved; by default `BitFlips` for bits and `HMC` for numbers.
        """
        self.log_fs, self.num_densities = checked_sequence(log_fs, num_densities)
        self.base = as_base(base)
        self.own_move = self._checked_move(self.base, move)
        self.path(None, self.knots)  # refuses an improper base

    @property
    def knots(self) -> HostPerRung:
        """The β of the base and of each density."""
        return np.linspace(0.0, 1.0, self.num_densities + 1)

    def path(self, base: Any, betas: HostPerRung) -> SequencePath:
        chosen = self.base if base is None else as_base(base)
        if base is not None:
            trial.check_same_form(chosen, trial.state_form(self.base))
            self._checked_move(chosen, self.own_move)
        return SequencePath.create(self.log_fs, chosen, betas, num_densities=self.num_densities)

    def _checked_move(self, base: AbstractBase, move: AbstractMove | None) -> AbstractMove:
        """The move, once every density has been checked at draws of the base."""
        log_fs = self.log_fs
        if not isinstance(log_fs, tuple):
            # Neither the shape nor an error in the function depends on m.
            chosen = trial.checked_move("log_fs", lambda x: log_fs(x, np.int32(1)), base, move)
        else:
            for m, log_f in enumerate(log_fs):
                trial.check_shape(f"log_fs[{m}]", log_f, trial.state_form(base))
            chosen = trial.checked_move("log_fs[0]", log_fs[0], base, move)
        _check_all(log_fs, self.num_densities, base, with_gradients=chosen.needs_gradient)
        return chosen


def _check_all(log_fs: LogFs, num_densities: int, base: AbstractBase, *, with_gradients: bool) -> None:
    """Refuse NaN and +inf. A later density may vanish at every draw of the base, since others are in between."""
    draws = trial.trial_draws(base)
    values = np.asarray(jax.jit(jax.vmap(lambda x: all_log_fs(log_fs, num_densities, x)))(draws))
    is_wrong = np.isposinf(values).any(axis=0) | np.isnan(values).all(axis=0)
    if is_wrong.any():
        which = f"{_first(is_wrong)} of {num_densities}"
        raise InputError(f"Density {which} is +inf or NaN at draws of the base. Look for log(0), 0/0 or overflow.")
    if not with_gradients:
        return
    try:
        slopes = jax.jit(jax.vmap(lambda x: _slopes(log_fs, num_densities, x)))(draws)
    except Exception as error:  # a user's functions may raise anything
        cure = "Give move=tp.RandomWalk(), which needs none."
        raise InputError(f"`log_fs` have values but no gradients: {trial.describe_error(error)}. {cure}") from error
    is_finite = [np.isfinite(leaf).reshape(*values.shape, -1).all(axis=2) for leaf in jax.tree.leaves(slopes)]
    is_wrong = (np.isfinite(values) & ~np.all(is_finite, axis=0)).any(axis=0)
    if is_wrong.any():
        where = f"density {_first(is_wrong)} of {num_densities} is not finite at draws of the base where its value is"
        cure = "Guard the argument of sqrt, log or a norm; or give move=tp.RandomWalk(), which needs none."
        raise InputError(f"The gradient of {where}. {cure}")


def _slopes(log_fs: LogFs, num_densities: int, x: State) -> State:
    """The gradient of each density on its own: in the gradient of their sum one NaN would hide the others."""
    if not isinstance(log_fs, tuple):
        return jax.vmap(jax.grad(log_fs), in_axes=(None, 0))(x, jnp.arange(1, num_densities + 1))
    return jax.tree.map(lambda *rows: jnp.stack(rows), *(jax.grad(log_f)(x) for log_f in log_fs))


def _first(is_wrong: Any) -> int:
    """The first m with an error, counted from 1."""
    return int(np.argmax(is_wrong)) + 1
