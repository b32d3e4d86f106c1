"""Groups of chains, whose spread gives standard errors."""

import numpy as np
from jaxtyping import Float, Int

_MAX_GROUPS = 10


def chain_groups(num_chains: int) -> Int[np.ndarray, " chain"]:
    """The group of each chain: at most ten groups of neighbouring chains, as equal in size as possible.

    Args:
        num_chains: how many chains there are.

    Returns:
        The number of each chain's group, counted from 0, in ascending order.
    """
    return np.arange(num_chains) * min(_MAX_GROUPS, num_chains) // num_chains


def group_sums(
    per_chain: Float[np.ndarray, "chain *axes"], groups: Int[np.ndarray, " chain"], add: np.ufunc = np.add
) -> Float[np.ndarray, "group *axes"]:
    """Sums over the chains of each group.

    Args:
        per_chain: one array per chain.
        groups: the group of each chain, as `chain_groups` gives it.
        add: how two numbers are added: `np.logaddexp` for numbers given by their logarithms.

    Returns:
        One array per group.
    """
    return add.reduceat(per_chain, np.flatnonzero(np.diff(groups, prepend=-1)), axis=0)
