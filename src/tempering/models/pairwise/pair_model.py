"""What Ising, Potts and Boltzmann machines share: a graph, fields, a base of independent sites, exact answers."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from tempering._errors import InputError
from tempering._types import HostPerRung, Numbers
from tempering.kernels import AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath
from tempering.models.model import AbstractModel
from tempering.models.pairwise.elimination import QUICK_TERMS, elimination_order, log_z_by_elimination
from tempering.models.pairwise.graph import Graph
from tempering.models.pairwise.pair_path import PairPath
from tempering.models.pairwise.sites import AbstractSites

SMOOTHING = 0.02  # of a base made of data comes from equal odds: a value that never occurs must not freeze the ladder


class AbstractPairModel(AbstractModel):
    """log f(x) = Σ_edges K_ij φ(x_i)·φ(x_j) + Σ_i h_i·φ(x_i) over discrete sites; arrays stay in float64."""

    edges: eqx.AbstractVar[Int[np.ndarray, "edge 2"]]
    couplings: eqx.AbstractVar[Float[np.ndarray, " edge"]]  # K
    fields: eqx.AbstractVar[Float[np.ndarray, "site *unit"]]  # h

    @property
    def num_sites(self) -> int:
        """N."""
        return self.fields.shape[0]

    @property
    def graph(self) -> Graph:
        """Edges and couplings."""
        return Graph(self.num_sites, self.edges, self.couplings)

    @property
    def values(self) -> Num[np.ndarray, " value"]:
        """What a site may be."""
        raise NotImplementedError

    @property
    def codes(self) -> Float[np.ndarray, "value unit"]:
        """φ of each value."""
        raise NotImplementedError

    def sites(self, fields: Float[Array, "site unit"]) -> AbstractSites:
        """Independent sites in other fields."""
        raise NotImplementedError

    def base_fields(self, base: Any) -> Float[np.ndarray, "site unit"]:
        """The fields of p_1 that a person's choice means."""
        raise NotImplementedError

    def path(self, base: Any, betas: HostPerRung) -> PairPath:
        """From independent sites to this model; see the model's own words for what `base` may be."""
        chosen = self.sites(jnp.asarray(self.base_fields("uniform" if base is None else base), jnp.float32))
        return PairPath.create(self.graph, self.fields.reshape(self.num_sites, -1), chosen, betas)

    def move(self) -> AbstractMove:
        """Ten Gibbs sweeps there and back: one costs less than all that is done with the state it leads to."""
        return BlockGibbs(num_sweeps=10)

    def exact_log_z(self) -> float:
        """By summing out site after site; refused where the graph is too wide."""
        return log_z_by_elimination(self.graph, *self._tables())

    def quick_log_z(self) -> float | None:
        """The same where it takes about two seconds at most."""
        order = elimination_order(self.graph, len(self.values), QUICK_TERMS)
        return None if order is None else log_z_by_elimination(self.graph, *self._tables(), order)

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """log f of each row."""
        phi = self.codes[self._numbers_of(data)]  # (row, site, unit)
        bonds = np.einsum("reu,reu->re", phi[:, self.edges[:, 0]], phi[:, self.edges[:, 1]]) @ self.couplings
        return bonds + np.einsum("rsu,su->r", phi, self.fields.reshape(self.num_sites, -1))

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> Num[Array, "row site"]:
        """The rows themselves."""
        kind = jnp.float32 if self.codes.shape[1] == 1 else jnp.int32
        return jnp.asarray(self.values[self._numbers_of(rows)], kind)

    def frequencies(self, data: Any) -> Float[np.ndarray, "site value"]:
        """How often each value occurs at each site, mixed with equal odds."""
        numbers, num_values = self._numbers_of(data), len(self.values)
        counted = np.stack([(numbers == value).mean(axis=0) for value in range(num_values)], axis=1)
        return (1 - SMOOTHING) * counted + SMOOTHING / num_values

    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """log weights of each value of a site, and φ(a)·φ(b) of each pair of values."""
        return self.fields.reshape(self.num_sites, -1) @ self.codes.T, self.codes @ self.codes.T

    def _numbers_of(self, data: Any) -> Int[np.ndarray, "row site"]:
        """Rows of values as numbers of values."""
        data = np.asarray(data)
        if data.ndim != 2 or data.shape[1] != self.num_sites or len(data) == 0:
            raise InputError(f"Data must have shape (rows, {self.num_sites}) for this model, got {data.shape}.")
        if not np.isin(data, self.values).all():
            allowed = ", ".join(str(value) for value in self.values)
            raise InputError(f"Data for this {type(self).__name__} must hold only {allowed}.")
        return np.searchsorted(self.values, data)


def checked_fields(name: str, fields: Numbers, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """One number for all, or an array that fits."""
    array = np.asarray(fields, np.float64)
    if not np.all(np.isfinite(array)):
        raise InputError(f"`{name}` must be finite, got {np.sum(~np.isfinite(array))} NaN or infinite values.")
    if array.ndim and array.shape not in (shape, shape[1:]):
        raise InputError(f"`{name}` must be one number or have shape {shape}, got {array.shape}.")
    return np.array(np.broadcast_to(array, shape))


def sites_in(fields: Numbers) -> int | None:
    """How many sites a person's fields speak of; None where one number stands for all."""
    return None if np.ndim(fields) == 0 else len(np.asarray(fields))


def wrong_base(words: str, base: Any) -> InputError:
    """For a base that means nothing."""
    got = f'"{base}"' if isinstance(base, str) else f"an array of shape {np.shape(base)}"
    return InputError(f"`base` must be {words}; got {got}.")
