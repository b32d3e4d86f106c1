"""Groups of chains, whose scatter gives errors."""

import numpy as np
from jaxtyping import Int

_MAX_GROUPS = 10  # of chains, for the errors of estimates made from transition matrices


def chain_groups(num_chains: int) -> Int[np.ndarray, " chain"]:
    """The group that each chain belongs to: at most ten, contiguous, as equal in size as can be."""
    return np.arange(num_chains) * min(_MAX_GROUPS, num_chains) // num_chains
