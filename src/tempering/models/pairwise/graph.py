"""Graphs of sites that interact in pairs: their edges, and classes of sites that can be redrawn together."""

import itertools
from collections import deque
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from tempering._errors import InputError, check_count
from tempering._types import Numbers
from tempering.bases.checks import check_finite

Periodic: TypeAlias = bool | tuple[bool, bool]  # in both directions, or (down, across)


class Graph(NamedTuple):
    """Pairs of sites with couplings.

    Attributes:
        num_sites: the number of sites.
        edges: pairs i < j, each at most once.
        couplings: one per edge.
    """

    num_sites: int
    edges: Int[np.ndarray, "edge 2"]
    couplings: Float[np.ndarray, " edge"]

    def neighbours(self) -> list[dict[int, float]]:
        """The neighbours of each site, with their couplings."""
        found: list[dict[int, float]] = [{} for _ in range(self.num_sites)]
        for (i, j), coupling in zip(self.edges.tolist(), self.couplings.tolist(), strict=True):
            found[i][j] = found[j][i] = coupling
        return found


def checked_graph(name: str, couplings: Numbers, edges: Numbers | None, num_sites: int | None) -> Graph:
    """The graph of a symmetric matrix, or of edges with one coupling for all or one each.

    Args:
        name: what couplings are called in errors.
        couplings: the matrix, or the couplings of the edges.
        edges: pairs of sites, or None.
        num_sites: the number of sites, if it is known; otherwise the largest number in `edges` plus 1.
    """
    values = np.asarray(couplings, np.float64)
    check_finite(f"`{name}`", values)
    if edges is None:
        return _from_matrix(name, values, num_sites)
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"`edges` must be whole numbers of shape (edges, 2), got {pairs.dtype}{list(pairs.shape)}.")
    num_sites = int(pairs.max(initial=0)) + 1 if num_sites is None else num_sites
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < num_sites:
        raise InputError(f"`edges` must name sites from 0 to {num_sites - 1}, got {pairs.min()} to {pairs.max()}.")
    loops = pairs[pairs[:, 0] == pairs[:, 1], 0]
    if loops.size:
        raise InputError(f"`edges` must join two different sites, but one joins {loops[0]} to itself; leave it out.")
    if values.shape not in ((), (len(pairs),)):
        raise InputError(f"`{name}` must be one number or one for each of {len(pairs)} edges, got {values.shape}.")
    return merge_edges(num_sites, pairs, np.broadcast_to(values, len(pairs)))


def _from_matrix(name: str, matrix: np.ndarray, num_sites: int | None) -> Graph:
    size = matrix.shape[0] if num_sites is None and matrix.ndim else num_sites
    if matrix.ndim != 2 or matrix.shape != (size, size):
        wanted = "(sites, sites)" if size is None else f"({size}, {size})"
        raise InputError(f"`{name}` must be a matrix of shape {wanted}, or come with `edges`; got {matrix.shape}.")
    largest = np.abs(matrix).max(initial=0.0)
    if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-6 * largest:
        raise InputError(f"`{name}` must be symmetric. Pass (matrix + matrix.T) / 2, which has the same log f.")
    if np.any(np.diagonal(matrix) != 0):
        raise InputError(f"`{name}` must have a zero diagonal: a site does not interact with itself.")
    pairs = np.argwhere(np.triu(matrix, 1) != 0)
    return Graph(matrix.shape[0], pairs, (matrix[pairs[:, 0], pairs[:, 1]] + matrix[pairs[:, 1], pairs[:, 0]]) / 2)


def merge_edges(num_sites: int, edges: Int[np.ndarray, "edge 2"], couplings: Float[np.ndarray, " edge"]) -> Graph:
    """The graph with each pair once: the couplings of a pair that is listed several times are added."""
    ordered = np.sort(edges, axis=1).astype(np.int64)
    pairs, which = np.unique(ordered, axis=0, return_inverse=True)
    return Graph(num_sites, pairs, np.bincount(which.ravel(), couplings, minlength=len(pairs)))


def square_edges(rows: int, columns: int, periodic: Periodic) -> Int[np.ndarray, "edge 2"]:
    """The bonds of a square lattice, in which site (r, c) has the number r · columns + c.

    `periodic` is for both directions or (down, across). A periodic side of 2 has two bonds between the same sites, as
    in the formulas for the torus.
    """
    wraps = (periodic, periodic) if isinstance(periodic, bool) else periodic
    for side, wrap, name in ((rows, wraps[0], "rows"), (columns, wraps[1], "columns")):
        check_count(f"`{name}`", side, 1)
        if wrap and side < 2:
            raise InputError(f"A periodic lattice needs 2 {name} or more; pass periodic=False for a chain.")
    sites = np.arange(rows * columns).reshape(rows, columns)
    bonds = []
    for axis, wrap in enumerate(wraps):
        pairs = np.stack([sites, np.roll(sites, -1, axis)], axis=2)
        bonds.append((pairs if wrap else np.delete(pairs, -1, axis)).reshape(-1, 2))
    return np.concatenate(bonds)


def find_torus(graph: Graph) -> tuple[int, int, float] | None:
    """Rows, columns and coupling of a graph that is a periodic square lattice with one coupling; otherwise None."""
    for rows in range(2, graph.num_sites // 2 + 1):
        columns, rest = divmod(graph.num_sites, rows)
        if rest:
            continue
        edges = square_edges(rows, columns, periodic=True)
        bonds = merge_edges(graph.num_sites, edges, np.ones(len(edges)))  # a side of 2 has two bonds in one edge
        if np.array_equal(bonds.edges, graph.edges):
            each = graph.couplings / bonds.couplings
            return (rows, columns, float(each[0])) if np.all(each == each[0]) else None
    return None


def colour_classes(graph: Graph) -> list[list[int]]:
    """Classes of sites without an edge inside a class, found greedily: a site joins the first class that it can.

    Sites are visited in breadth-first order, so that a graph which needs only two classes, such as a lattice with even
    sides, gets two.
    """
    neighbours = graph.neighbours()
    colours = [-1] * graph.num_sites
    for site in _breadth_first(neighbours):
        taken = {colours[other] for other in neighbours[site]}
        colours[site] = next(colour for colour in itertools.count() if colour not in taken)
    numbers = np.asarray(colours)
    return [np.flatnonzero(numbers == colour).tolist() for colour in range(max(colours) + 1)]


def _breadth_first(neighbours: list[dict[int, float]]) -> list[int]:
    seen: dict[int, None] = {}  # in the order in which they were reached
    for start in range(len(neighbours)):
        waiting = deque([start])
        while waiting:
            site = waiting.popleft()
            if site not in seen:
                seen[site] = None
                waiting.extend(sorted(neighbours[site]))
    return list(seen)
