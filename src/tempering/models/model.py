"""What a model must be able to do, so that `estimate`, `compare` and the command line can take it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import HostPerRung, State
from tempering.kernels import AbstractMove
from tempering.ladder import AbstractPath


class AbstractModel(eqx.Module):
    """A target whose log Z is wanted, with a way to temper it and a way to move in it."""

    def path(self, base: Any, betas: HostPerRung) -> AbstractPath:
        """From `base`, or where it is None from the model's own choice, to this target."""
        raise NotImplementedError

    def move(self) -> AbstractMove:
        """How x moves; a move that can be tuned is, during the warm-up."""
        raise NotImplementedError

    def spacing(self) -> str:
        """How rungs are best spaced, in the words of `Settings.betas`."""
        return "uniform"

    def quick_log_z(self) -> float | None:
        """The exact log Z, where it exists and takes a few seconds at most."""
        return None

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """log f of each row of data, where the model is one of data."""
        raise InputError(f"A {type(self).__name__} is not a model of rows of data, so it gives them no likelihood.")

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> State:
        """States made of rows of data, from which annealing may go down."""
        raise InputError(f"A {type(self).__name__} is not a model of rows of data, so nothing can start from them.")

    @property
    def reads_rows(self) -> bool:
        """Whether it is a model of rows of data: `log_density(rows)` and `states_of` work."""
        return type(self).log_density is not AbstractModel.log_density

    def keeps_draws(self) -> bool:
        """Whether people will want the draws of the target, and not only log Z."""
        return False

    def named(self, x: State) -> dict[str, Array]:
        """The parameters in a state by name, as people know them; here the leaves of x."""
        leaves = jax.tree_util.tree_flatten_with_path(x)[0]
        names = [jax.tree_util.keystr(where, simple=True, separator=".") or "x" for where, _ in leaves]
        return dict(zip(names, (jnp.asarray(leaf) for _, leaf in leaves), strict=True))
