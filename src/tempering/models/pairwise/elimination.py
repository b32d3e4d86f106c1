"""Exact log Z of a pairwise model that is small or narrow: its sites are summed out one after the other.

The sum is kept as a table over the sites that still have a neighbour to come (the frontier). A site enters with its
field and with its bonds to the frontier, and is summed out once all its neighbours have entered. Along a strip that is
a transfer matrix applied site by site; on a graph where everything is connected it is enumeration.
"""

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering.models.pairwise.graph import Graph

QUICK_TERMS = 2 * 10**7  # entries of all tables together: below that it takes about two seconds
_MAX_TABLE = 2**22  # entries of the largest table, 32 MiB


def elimination_order(graph: Graph, num_values: int, max_terms: int) -> list[int] | None:
    """An order in which sites enter, or None where the tables of all orders tried have more than `max_terms` entries.

    The greedy order takes next the site after which the frontier is smallest; on a strip it goes along it. The plain
    order of the sites is tried too, which is better where a lattice was numbered with its short side last.
    """
    neighbours = graph.neighbours()
    orders = [_greedy(neighbours), list(range(graph.num_sites))]
    costs = [_cost(neighbours, order, num_values) for order in orders]
    return orders[np.argmin(costs)] if min(costs) <= max_terms else None


def log_z_by_elimination(
    graph: Graph,
    fields: Float[np.ndarray, "site value"],
    pair: Float[np.ndarray, "value value"],
    order: list[int] | None = None,
) -> float:
    """log Σ_x exp(Σ_edges K_ij pair[x_i, x_j] + Σ_i fields[i, x_i]), x_i being the number of a value."""
    num_values = fields.shape[1]
    order = elimination_order(graph, num_values, max_terms=64 * _MAX_TABLE) if order is None else order
    if order is None:
        why = f"too wide for an exact answer: it would take tables of more than {_MAX_TABLE} numbers"
        raise InputError(f"This graph of {graph.num_sites} sites is {why}. Estimate log Z by sampling.")
    neighbours = graph.neighbours()
    log_table, frontier = np.zeros(()), []
    missing = [len(others) for others in neighbours]
    for site in order:
        log_table = log_table[..., None] + fields[site]
        for axis, other in enumerate(frontier):
            if other in neighbours[site]:
                shape = np.ones(log_table.ndim, int)
                shape[[axis, -1]] = num_values
                log_table = log_table + neighbours[site][other] * pair.reshape(shape)
        frontier.append(site)
        for other in neighbours[site]:
            missing[other] -= 1
        for done in [other for other in frontier if missing[other] == 0]:
            log_table = np.logaddexp.reduce(log_table, axis=frontier.index(done))
            frontier.remove(done)
    return float(log_table)


def _greedy(neighbours: list[dict[int, float]]) -> list[int]:
    """Next is the site that lets most sites go; of those the one whose neighbours entered first."""
    missing = [len(others) for others in neighbours]
    entered: dict[int, int] = {}
    waiting = set(range(len(neighbours)))
    reachable: set[int] = set()
    while waiting:

        def worth(site):
            freed = sum(missing[other] == 1 for other in neighbours[site] if other in entered)
            oldest = min((entered[other] for other in neighbours[site] if other in entered), default=len(entered))
            return (-freed - (missing[site] == 0), oldest, site)

        site = min(reachable or waiting, key=worth)
        entered[site] = len(entered)
        waiting.remove(site)
        reachable = (reachable | neighbours[site].keys()) & waiting
        for other in neighbours[site]:
            missing[other] -= 1
    return list(entered)


def _cost(neighbours: list[dict[int, float]], order: list[int], num_values: int) -> float:
    """Entries of all tables; infinite where one would be too large."""
    missing = [len(others) for others in neighbours]
    frontier: set[int] = set()
    total = 0.0
    for site in order:
        frontier.add(site)
        if len(frontier) * np.log(num_values) > np.log(_MAX_TABLE) + 1e-9:
            return np.inf
        total += float(num_values) ** len(frontier)
        for other in neighbours[site]:
            missing[other] -= 1
        frontier = {other for other in frontier if missing[other] > 0}
    return total
