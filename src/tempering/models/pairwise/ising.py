"""The Ising model on any graph, with Kaufman's exact answer on the torus."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from tempering._types import Numbers
from tempering.models.pairwise.graph import Periodic, find_torus, square_edges
from tempering.models.pairwise.kaufman import kaufman_log_z
from tempering.models.pairwise.pair_model import AbstractSpinModel, checked_fields, pair_parameters
from tempering.models.rows import wrong_base


class Ising(AbstractSpinModel):
    """An Ising model: log f(s) = Σ_edges K_ij s_i s_j + Σ_i h_i s_i over spins s_i = ±1; a positive K aligns them.

    ```python
    Ising(couplings, fields)                     # a symmetric matrix K (site, site), fields (site,) or one number
    Ising(0.4, edges=[[0, 1], [1, 2], [2, 0]])   # one K for all edges, or one each
    Ising.square(16, 16, 0.44)                   # periodic in both directions
    ```

    `base` of `tp.estimate` may be "uniform" (the default), "field" for the model's own h, other fields (site,), or rows
    of ±1.
    """

    low: ClassVar[int] = -1

    def __init__(self, couplings: Numbers, fields: Numbers = 0.0, *, edges: Numbers | None = None):
        """Check the parameters.

        Args:
            couplings: K, a symmetric matrix with a zero diagonal; or, with `edges`, one number or one per edge.
            fields: h (site,), or one number.
            edges: pairs of sites (edge, 2).
        """
        self.edges, self.couplings, self.fields = pair_parameters(couplings, fields, edges)

    @classmethod
    def square(
        cls, rows: int, columns: int, coupling: float, *, field: Numbers = 0.0, periodic: Periodic = True
    ) -> "Ising":
        """A square lattice with one coupling.

        Args:
            rows: sites from top to bottom.
            columns: sites from left to right.
            coupling: K.
            field: h, one number or one per site.
            periodic: whether opposite sides are joined, for both directions or as (down, across). A periodic side of 2
                has two bonds between the same sites.
        """
        edges = square_edges(rows, columns, periodic)
        return cls(coupling, checked_fields("field", field, (rows * columns,)), edges=edges)

    def base_fields(self, base: Any) -> Float[np.ndarray, "site unit"]:
        if isinstance(base, str) and base in ("uniform", "field"):
            return (np.zeros(self.num_sites) if base == "uniform" else self.fields)[:, None]
        if isinstance(base, str) or np.ndim(base) not in (1, 2):
            raise wrong_base('"uniform", "field", fields (site,) or rows of -1 and 1', base)
        if np.ndim(base) == 1:
            return checked_fields("base", base, (self.num_sites,))[:, None]
        down, up = self.frequencies(base).T
        return 0.5 * np.log(up / down)[:, None]

    def quick_log_z(self) -> float | None:
        """Kaufman's formula on a torus without a field, otherwise elimination where that is quick."""
        torus = None if np.any(self.fields) else find_torus(self.graph)
        answer = None if torus is None else kaufman_log_z(*torus)
        return super().quick_log_z() if answer is None else answer
