"""How long chains were away from the base."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tempering._device_arrays import device_zeros
from tempering.ladder import Ladder
from tempering.stats.statistic import AbstractRecord


class AwayRecord(AbstractRecord):
    """Steps that one chain of `UntilBase` took before it was at rung 0.

    Attributes:
        num_steps: how many.
    """

    num_steps: Int[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "AwayRecord":
        """A record without steps.

        Args:
            ladder: not used; every record is made from a ladder.
        """
        return cls(device_zeros((), jnp.int32))

    def update(self, ladder: Ladder, is_away: Bool[Array, ""], /) -> "AwayRecord":
        return AwayRecord(self.num_steps + is_away)

    def on_host(self) -> Float[np.ndarray, " chain"]:
        return np.asarray(self.num_steps, np.float64)
