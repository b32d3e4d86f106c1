"""The contract of a model, which `estimate`, `compare` and the command line rely on."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import HostPerRung, State
from tempering.kernels import AbstractMove
from tempering.ladder import AbstractPath
from tempering.verdicts import Verdict

_STUCK = (Verdict.STUCK, Verdict.KNOT, Verdict.UNREACHED)


class AbstractModel(eqx.Module):
    """A target whose log Z is wanted, with a path of densities that leads to it and a move through its states.

    A subclass defines `path` and `move`. The other methods have defaults.

    Attributes:
        stuck_advice: what to do where chains do not travel along the ladder, see `advice`.
        reads_rows: whether the model describes rows of data: then `log_density` takes them, and chains can start from
            them.
        counts_states: whether Z is a sum over rows, as for bits: then some of them give a lower bound.
    """

    stuck_advice: ClassVar[str | None] = None
    reads_rows: ClassVar[bool] = False
    counts_states: ClassVar[bool] = False

    @abc.abstractmethod
    def path(self, base: Any, betas: HostPerRung) -> AbstractPath:
        """The path of densities from a base to this target.

        Args:
            base: where the path starts, in one of the forms that the model's docstring lists; None for its default.
            betas: inverse temperatures that rise from 0 to 1.
        """

    @abc.abstractmethod
    def move(self) -> AbstractMove:
        """The move that `estimate` uses. Its step size is tuned in the warm-up if it has one that was not given.

        Returns:
            The move.
        """

    def spacing(self) -> str:
        """How to space the rungs where the user leaves that open.

        Returns:
            A word that `betas` of `estimate` accepts, such as "uniform" or "adaptive".
        """
        return "uniform"

    def quick_log_z(self) -> float | None:
        """The exact log Z, if it can be computed within a few seconds.

        Returns:
            The number, or None.
        """
        return None

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """log f of each row of data, for a model with `reads_rows`.

        Args:
            data: rows of data.

        Returns:
            One unnormalised log density per row.
        """
        raise InputError(f"A {type(self).__name__} is not a model of rows of data, so it gives them no likelihood.")

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> State:
        """States made of rows, from which chains can start: rows of data, or of the coordinates of a density.

        Args:
            path: a path of this model.
            rows: one row for each state.

        Returns:
            States with a leading axis of rows.
        """
        raise InputError(f"A {type(self).__name__} has no states that rows stand for, so nothing can start from them.")

    def rows_of(self, x: State) -> np.ndarray:
        """The rows that states stand for: `states_of` makes the same states of them.

        Args:
            x: states with a leading axis.

        Returns:
            One row for each state.
        """
        return np.asarray(next(iter(jax.vmap(self.named)(x).values())))

    def based_at(self, path: AbstractPath, rows: np.ndarray, others: np.ndarray) -> "tuple[AbstractModel, Any]":
        """The same target from a base around some of its states, for a second run: see `witnesses` of `estimate`.

        Args:
            path: a path of this model.
            rows: where the base is to be, as `rows_of` gives them.
            others: draws of the target elsewhere, which tell the scale of its coordinates.

        Returns:
            A model with the same log f, and a base for it; by default the model itself, with the rows as data.
        """
        return self, rows

    def keeps_draws(self) -> bool:
        """Whether draws of the target are kept by default, since they are of interest besides log Z.

        Returns:
            True for densities and posteriors.
        """
        return False

    def named(self, x: State) -> dict[str, Array]:
        """The parameters in a state by name.

        Args:
            x: one state.

        Returns:
            Arrays by name; by default the leaves of x, see `named_leaves`.
        """
        return named_leaves(x)

    def advice(self, verdict: Verdict) -> str | None:
        """What to do about a verdict that is not good, for this kind of model.

        Args:
            verdict: the verdict.

        Returns:
            One or two short sentences, in lower case and without a final full stop; arguments of `tp.estimate` are in
            backticks. None where the general advice is enough.
        """
        return self.stuck_advice if verdict in _STUCK else None


def named_leaves(x: State) -> dict[str, Array]:
    """The leaves of a state, named by their place in it.

    Args:
        x: one state, a pytree of arrays.

    Returns:
        Arrays by name, such as "a" and "b.0" for {"a": …, "b": [ … ]}; "x" for a plain array.
    """
    leaves = jax.tree_util.tree_flatten_with_path(x)[0]
    names = [jax.tree_util.keystr(where, simple=True, separator=".") or "x" for where, _ in leaves]
    return dict(zip(names, (jnp.asarray(leaf) for _, leaf in leaves), strict=True))
