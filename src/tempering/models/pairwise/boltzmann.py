"""The fully visible Boltzmann machine: bits that interact in pairs."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, Num

from tempering._types import Numbers
from tempering.models.pairwise.graph import graph_of
from tempering.models.pairwise.pair_model import SMOOTHING, AbstractPairModel, checked_fields, sites_in, wrong_base
from tempering.models.pairwise.sites import Spins


class BoltzmannMachine(AbstractPairModel):
    """log f(x) = ½ xᵀWx + b·x over bits x_i = 0 or 1, W being symmetric with a zero diagonal.

    ```python
    BoltzmannMachine(weights, biases)                            # (bit, bit), (bit,)
    BoltzmannMachine([0.7, -1.2], biases, edges=[[0, 1], [1, 2]])  # W_ij = W_ji of each edge
    ```

    `base` may be "uniform" (the default), "bias" for the model's own b, frequencies of ones (bit,), or rows of bits.
    """

    edges: Int[np.ndarray, "edge 2"]
    couplings: Float[np.ndarray, " edge"]  # W_ij
    fields: Float[np.ndarray, " site"]  # b

    def __init__(self, weights: Numbers, biases: Numbers = 0.0, *, edges: Numbers | None = None):
        """A matrix, or edges with their weights."""
        graph = graph_of("weights", weights, edges, sites_in(biases))
        self.edges, self.couplings = graph.edges, graph.couplings
        self.fields = checked_fields("biases", biases, (graph.num_sites,))

    @property
    def values(self) -> Num[np.ndarray, " value"]:
        """Off and on."""
        return np.array([0, 1])

    @property
    def codes(self) -> Float[np.ndarray, "value unit"]:
        """φ(x) = x."""
        return np.array([[0.0], [1.0]])

    def sites(self, fields: Float[Array, "site unit"]) -> Spins:
        """Independent bits."""
        return Spins(fields, low=0)

    def base_fields(self, base: Any) -> Float[np.ndarray, "site unit"]:
        """By name, or log-odds of the frequencies."""
        if isinstance(base, str) and base in ("uniform", "bias"):
            return (np.zeros(self.num_sites) if base == "uniform" else self.fields)[:, None]
        if isinstance(base, str) or np.ndim(base) not in (1, 2):
            raise wrong_base('"uniform", "bias", frequencies (bit,) or rows of 0 and 1', base)
        if np.ndim(base) == 2:
            on = self.frequencies(base)[:, 1]
        else:
            given = np.asarray(base, np.float64)
            if given.shape != (self.num_sites,) or not np.all((given >= 0) & (given <= 1)):
                raise wrong_base(f"frequencies, {self.num_sites} numbers in [0, 1]", base)
            on = (1 - SMOOTHING) * given + SMOOTHING / 2
        return (np.log(on) - np.log1p(-on))[:, None]
