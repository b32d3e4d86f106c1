"""The fully visible Boltzmann machine: bits that interact in pairs."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from tempering._types import Numbers
from tempering.models.pairwise.pair_model import AbstractSpinModel, pair_parameters
from tempering.models.rows import log_odds_of_base


class BoltzmannMachine(AbstractSpinModel):
    """A Boltzmann machine without hidden units: log f(x) = ½ xᵀWx + b·x over bits x_i = 0 or 1.

    ```python
    BoltzmannMachine(weights, biases)                            # (bit, bit), (bit,)
    BoltzmannMachine([0.7, -1.2], biases, edges=[[0, 1], [1, 2]])  # W_ij = W_ji of each edge
    ```

    `base` of `tp.estimate` may be "uniform" (the default), "bias" for the model's own b, frequencies of ones (bit,), or
    rows of bits.
    """

    low: ClassVar[int] = 0
    stuck_advice: ClassVar[str | None] = "start from data, `base=data`; near a critical coupling chains slow down"

    def __init__(self, weights: Numbers, biases: Numbers = 0.0, *, edges: Numbers | None = None):
        """Check the parameters.

        Args:
            weights: W, a symmetric matrix with a zero diagonal; or, with `edges`, one number or one per edge.
            biases: b (bit,), or one number.
            edges: pairs of bits (edge, 2).
        """
        names = ("weights", "biases")
        self.edges, self.couplings, self.fields = pair_parameters(weights, biases, edges, names=names)

    def base_fields(self, base: Any) -> Float[np.ndarray, "site unit"]:
        rows = base if isinstance(base, str) else np.asarray(base, np.float64)
        return log_odds_of_base(rows, self.fields, "BoltzmannMachine")[:, None]
