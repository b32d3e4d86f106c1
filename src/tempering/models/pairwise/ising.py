"""The Ising model on any graph, with Kaufman's exact answer on the torus."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, Num

from tempering._types import Numbers
from tempering.models.pairwise.graph import graph_of, square_edges, torus_of
from tempering.models.pairwise.kaufman import kaufman_log_z
from tempering.models.pairwise.pair_model import AbstractPairModel, checked_fields, sites_in, wrong_base
from tempering.models.pairwise.sites import Spins


class Ising(AbstractPairModel):
    """log f(s) = Σ_edges K_ij s_i s_j + Σ_i h_i s_i over spins s_i = ±1; a positive K aligns.

    ```python
    Ising(couplings, fields)                     # a symmetric matrix K (site, site), fields (site,) or one number
    Ising(0.4, edges=[[0, 1], [1, 2], [2, 0]])   # one K for all edges, or one each
    Ising.square(16, 16, 0.44)                   # periodic in both directions
    ```

    `base` may be "uniform" (the default), "field" for the model's own h, other fields (site,), or rows of ±1.
    """

    edges: Int[np.ndarray, "edge 2"]
    couplings: Float[np.ndarray, " edge"]  # K
    fields: Float[np.ndarray, " site"]  # h

    def __init__(self, couplings: Numbers, fields: Numbers = 0.0, *, edges: Numbers | None = None):
        """A matrix, or edges with their couplings."""
        graph = graph_of("couplings", couplings, edges, sites_in(fields))
        self.edges, self.couplings = graph.edges, graph.couplings
        self.fields = checked_fields("fields", fields, (graph.num_sites,))

    @classmethod
    def square(
        cls,
        rows: int,
        columns: int,
        coupling: float,
        *,
        field: Numbers = 0.0,
        periodic: bool | tuple[bool, bool] = True,
    ) -> "Ising":
        """A square lattice with one coupling; `periodic` may be (down, across). A periodic side of 2 has two bonds."""
        edges = square_edges(rows, columns, periodic)
        return cls(coupling, checked_fields("field", field, (rows * columns,)), edges=edges)

    @property
    def values(self) -> Num[np.ndarray, " value"]:
        """Down and up."""
        return np.array([-1, 1])

    @property
    def codes(self) -> Float[np.ndarray, "value unit"]:
        """φ(s) = s."""
        return np.array([[-1.0], [1.0]])

    def sites(self, fields: Float[Array, "site unit"]) -> Spins:
        """Independent spins."""
        return Spins(fields, low=-1)

    def base_fields(self, base: Any) -> Float[np.ndarray, "site unit"]:
        """By name, fields, or rows of ±1, whose magnetisation is met."""
        if isinstance(base, str) and base in ("uniform", "field"):
            return (np.zeros(self.num_sites) if base == "uniform" else self.fields)[:, None]
        if isinstance(base, str) or np.ndim(base) not in (1, 2):
            raise wrong_base('"uniform", "field", fields (site,) or rows of -1 and 1', base)
        if np.ndim(base) == 1:
            return checked_fields("base", base, (self.num_sites,))[:, None]
        down, up = self.frequencies(base).T
        return 0.5 * np.log(up / down)[:, None]

    def quick_log_z(self) -> float | None:
        """Kaufman's formula on the torus without a field; else by summing out sites, where that is quick."""
        torus = None if np.any(self.fields) else torus_of(self.graph)
        answer = None if torus is None else kaufman_log_z(*torus)
        return super().quick_log_z() if answer is None else answer
