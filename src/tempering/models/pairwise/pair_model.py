"""What Ising, Potts and Boltzmann machines share: a graph, fields, a base of independent sites, exact answers."""

import abc
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from tempering._device_arrays import device_array
from tempering._errors import InputError
from tempering._types import HostPerRung, Numbers
from tempering.bases.checks import check_finite
from tempering.kernels import AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath
from tempering.models.model import AbstractModel
from tempering.models.pairwise.elimination import QUICK_TERMS, elimination_order, log_z_by_elimination
from tempering.models.pairwise.graph import Graph, checked_graph
from tempering.models.pairwise.pair_path import PairPath
from tempering.models.pairwise.sites import AbstractSites, Spins
from tempering.models.rows import checked_rows, smoothed_frequencies


class AbstractPairModel(AbstractModel):
    """Discrete sites that interact in pairs: log f(x) = Σ_edges K_ij φ(x_i)·φ(x_j) + Σ_i h_i·φ(x_i).

    Attributes:
        edges: pairs of sites.
        couplings: K, one per edge, in float64.
        fields: h, in float64.
    """

    edges: Int[np.ndarray, "edge 2"]
    couplings: Float[np.ndarray, " edge"]
    fields: Float[np.ndarray, "site *unit"]
    reads_rows: ClassVar[bool] = True
    counts_states: ClassVar[bool] = True
    stuck_advice: ClassVar[str | None] = (
        'where fields differ between sites, start from them, `base="field"`; near a critical coupling chains slow down'
    )

    @property
    def num_sites(self) -> int:
        """The number of sites."""
        return self.fields.shape[0]

    @property
    def graph(self) -> Graph:
        """The edges with their couplings."""
        return Graph(self.num_sites, self.edges, self.couplings)

    @property
    @abc.abstractmethod
    def values(self) -> Num[np.ndarray, " value"]:
        """The values of a site, in rising order."""

    @property
    @abc.abstractmethod
    def codes(self) -> Float[np.ndarray, "value unit"]:
        """φ of each value."""

    @abc.abstractmethod
    def sites(self, fields: Float[Array, "site unit"]) -> AbstractSites:
        """Independent sites in other fields."""

    @abc.abstractmethod
    def base_fields(self, base: Any) -> Float[np.ndarray, "site unit"]:
        """The fields of the independent sites that a base stands for.

        Args:
            base: one of the forms that the model's docstring lists. Frequencies of rows are mixed with 2 % of equal
                odds.

        Returns:
            h of p_1.
        """

    def path(self, base: Any, betas: HostPerRung) -> PairPath:
        chosen = self.sites(device_array(self.base_fields("uniform" if base is None else base)))
        return PairPath.create(self.graph, self.fields.reshape(self.num_sites, -1), chosen, betas)

    def move(self) -> AbstractMove:
        return BlockGibbs(num_sweeps=10)  # one sweep costs less than what is computed from the state it leads to

    def exact_log_z(self) -> float:
        """The exact log Z, by summing out one site after the other; refused where the graph is too wide."""
        return log_z_by_elimination(self.graph, *self._tables())

    def quick_log_z(self) -> float | None:
        order = elimination_order(self.graph, len(self.values), QUICK_TERMS)
        return None if order is None else log_z_by_elimination(self.graph, *self._tables(), order)

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        phi = self.codes[self._value_indices(data)]  # (row, site, unit)
        bonds = np.einsum("reu,reu->re", phi[:, self.edges[:, 0]], phi[:, self.edges[:, 1]]) @ self.couplings
        return bonds + np.einsum("rsu,su->r", phi, self.fields.reshape(self.num_sites, -1))

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> Num[Array, "row site"]:
        kind = jnp.float32 if self.codes.shape[1] == 1 else jnp.int32
        return jnp.asarray(self.values[self._value_indices(rows)], kind)

    def frequencies(self, data: Any) -> Float[np.ndarray, "site value"]:
        """How often each value occurs at each site of rows of data, mixed with 2 % of equal odds."""
        return smoothed_frequencies(self._value_indices(data), np.arange(len(self.values)))

    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """The log weight of each value of a site, and φ(a)·φ(b) of each pair of values."""
        return self.fields.reshape(self.num_sites, -1) @ self.codes.T, self.codes @ self.codes.T

    def _value_indices(self, data: Any) -> Int[np.ndarray, "row site"]:
        """Rows with every value replaced by its index in `values`."""
        data = checked_rows(data, self.num_sites, type(self).__name__)
        if not np.isin(data, self.values).all():
            allowed = ", ".join(str(value) for value in self.values)
            raise InputError(f"Data for this {type(self).__name__} must hold only {allowed}.")
        return np.searchsorted(self.values, data)


class AbstractSpinModel(AbstractPairModel):
    """Sites with the two values `low` and 1, and φ(x) = x.

    Attributes:
        low: −1 for spins, 0 for bits.
    """

    low: ClassVar[int]

    @property
    def values(self) -> Num[np.ndarray, " value"]:
        return np.array([self.low, 1])

    @property
    def codes(self) -> Float[np.ndarray, "value unit"]:
        return np.array([[float(self.low)], [1.0]])

    def sites(self, fields: Float[Array, "site unit"]) -> Spins:
        return Spins(fields, low=self.low)


def pair_parameters(
    couplings: Numbers,
    fields: Numbers,
    edges: Numbers | None,
    *,
    units: tuple[int, ...] = (),
    names: tuple[str, str] = ("couplings", "fields"),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges, couplings and fields of a model, checked.

    Args:
        couplings: a symmetric matrix; or, with `edges`, one number or one per edge.
        fields: one number, or an array of shape (site, *units) or units.
        edges: pairs of sites.
        units: the number of fields of a site, where there are several.
        names: what couplings and fields are called in errors.
    """
    num_sites = np.shape(fields)[0] if np.ndim(fields) == 1 + len(units) else None
    graph = checked_graph(names[0], couplings, edges, num_sites)
    return graph.edges, graph.couplings, checked_fields(names[1], fields, (graph.num_sites, *units))


def checked_fields(name: str, fields: Numbers, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Fields of a given shape, from one number for all or an array that fits."""
    array = np.asarray(fields, np.float64)
    check_finite(f"`{name}`", array)
    if array.ndim and array.shape not in (shape, shape[1:]):
        raise InputError(f"`{name}` must be one number or have shape {shape}, got {array.shape}.")
    return np.array(np.broadcast_to(array, shape))
