"""The Potts model on any graph."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Num

from tempering._errors import check_count
from tempering._types import Numbers
from tempering.models.pairwise.graph import Periodic, square_edges
from tempering.models.pairwise.pair_model import AbstractPairModel, checked_fields, pair_parameters
from tempering.models.pairwise.sites import Colours
from tempering.models.rows import wrong_base


class Potts(AbstractPairModel):
    """A Potts model: log f(s) = Σ_edges K_ij δ(s_i, s_j) + Σ_i h_i(s_i) over colours s_i = 0 … q − 1.

    ```python
    Potts(3, couplings, fields)                     # K (site, site); h (site, colour), (colour,) or one number
    Potts(3, 0.9, edges=[[0, 1], [1, 2], [2, 0]])   # one K for all edges, or one each
    Potts.square(3, 16, 16, 0.9)                    # periodic in both directions
    ```

    A positive K aligns neighbours. `base` of `tp.estimate` may be "uniform" (the default), "field" for the model's own
    h, other fields (site, colour) as floats, or rows of colours as integers.
    """

    def __init__(self, num_colours: int, couplings: Numbers, fields: Numbers = 0.0, *, edges: Numbers | None = None):
        """Check the parameters.

        Args:
            num_colours: q, 2 or more.
            couplings: K, a symmetric matrix with a zero diagonal; or, with `edges`, one number or one per edge.
            fields: h (site, colour), (colour,) or one number.
            edges: pairs of sites (edge, 2).
        """
        check_count("Potts(num_colours, ...)", num_colours, 2)
        self.edges, self.couplings, self.fields = pair_parameters(couplings, fields, edges, units=(num_colours,))

    @classmethod
    def square(
        cls,
        num_colours: int,
        rows: int,
        columns: int,
        coupling: float,
        *,
        field: Numbers = 0.0,
        periodic: Periodic = True,
    ) -> "Potts":
        """A square lattice with one coupling.

        Args:
            num_colours: q, 2 or more.
            rows: sites from top to bottom.
            columns: sites from left to right.
            coupling: K.
            field: h (site, colour), (colour,) or one number.
            periodic: see `Ising.square`.
        """
        edges = square_edges(rows, columns, periodic)
        return cls(num_colours, coupling, checked_fields("field", field, (rows * columns, num_colours)), edges=edges)

    @property
    def num_colours(self) -> int:
        """The number q of colours."""
        return self.fields.shape[1]

    @property
    def values(self) -> Num[np.ndarray, " value"]:
        return np.arange(self.num_colours)

    @property
    def codes(self) -> Float[np.ndarray, "value unit"]:
        return np.eye(self.num_colours)  # so that φ(a)·φ(b) = δ(a, b)

    def sites(self, fields: Float[Array, "site unit"]) -> Colours:
        return Colours(fields)

    def base_fields(self, base: Any) -> Float[np.ndarray, "site unit"]:
        if isinstance(base, str) and base in ("uniform", "field"):
            return np.zeros_like(self.fields) if base == "uniform" else self.fields
        if isinstance(base, str) or np.ndim(base) != 2:
            raise wrong_base('"uniform", "field", fields (site, colour) or rows of colours', base)
        if np.issubdtype(np.asarray(base).dtype, np.integer):
            return np.log(self.frequencies(base))
        return checked_fields("base", base, self.fields.shape)
