"""Tempered models of sites that interact in pairs, and their Gibbs sampler: one path for spins, bits and colours."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from tempering._device_arrays import device_array
from tempering._precision import HIGHEST
from tempering._threefry import straight_key
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.kernels import AbstractGibbsPath
from tempering.models.pairwise.graph import Graph, colour_classes, find_torus
from tempering.models.pairwise.sites import AbstractSites, Spins
from tempering.paths import AbstractBasedPath, AbstractLinearPath
from tempering.paths.linear import float32_betas

Encode = Callable[[Array], Array]  # φ of `AbstractSites`
Draw = Callable[[Array, Array, Array], Array]  # of a class: its number, Σ_j K_ij φ(y_j) and uniforms to new values

_DENSE_BELOW = 32  # on a CPU a gathered number costs about as much as this many multiply-adds of a matrix product


class Places(NamedTuple):
    """Where sites are in the order of their classes.

    Attributes:
        site_at: the site at each place; classes are padded with copies of site 0.
        place_of: the place of each site.
    """

    site_at: Int[Array, "class width"]
    place_of: Int[Array, " site"]


class AbstractBonds(eqx.Module):
    """All couplings K_ij, with the sites in the order of their classes: place c · width + i is site i of class c."""

    @abc.abstractmethod
    def pull(self, colour: Int[Array, ""], y: Num[Array, " place"], encode: Encode) -> Float[Array, "width unit"]:
        """Σ_j K_ij φ(y_j) for the sites i of one class."""

    @abc.abstractmethod
    def energy(self, x: Num[Array, " site"], site_at: Int[Array, "class width"], encode: Encode) -> Scalar:
        """Σ_edges K_ij φ(x_i) · φ(x_j)."""

    def by_class(self, by_site: Num[Array, "site ..."], places: Places) -> Num[Array, "class ..."]:
        """What belongs to the sites, in the order of places."""
        return by_site[places.site_at]

    def swept(
        self, x: Num[Array, " site"], places: Places, encode: Encode, uniforms: Float[Array, "update width"], draw: Draw
    ) -> Num[Array, " site"]:
        """x after an update of one class after the other, up to the last one and back to the first."""
        num_classes, width = places.site_at.shape
        tour = jnp.asarray([*range(num_classes), *reversed(range(num_classes - 1))], jnp.int32)

        def redraw(y, step):
            colour, uniforms = step
            new = draw(colour, self.pull(colour, y, encode), uniforms)
            return jax.lax.dynamic_update_slice(y, new, (colour * width,)), None

        y, _ = jax.lax.scan(redraw, x[places.site_at.ravel()], (tour, uniforms))
        return y[places.place_of]


class SparseBonds(AbstractBonds):
    """Couplings of lattices and other graphs with few neighbours per site, which are gathered one by one.

    Attributes:
        neighbours: the places of the neighbours of each site, padded with place 0.
        couplings: their couplings, padded with 0.
        edges: pairs of sites, not places, so that the energy needs no reordering.
        edge_couplings: their couplings.
    """

    neighbours: Int[Array, "class width degree"]
    couplings: Float[Array, "class width degree"]
    edges: Int[Array, "2 edge"]
    edge_couplings: Float[Array, " edge"]

    def pull(self, colour: Int[Array, ""], y: Num[Array, " place"], encode: Encode) -> Float[Array, "width unit"]:
        return jnp.sum(self.couplings[colour][..., None] * encode(y[self.neighbours[colour]]), axis=1)

    def energy(self, x: Num[Array, " site"], site_at: Int[Array, "class width"], encode: Encode) -> Scalar:
        # Edge by edge: a sum over all neighbours would gather twice as many numbers.
        ends = encode(x[self.edges[0]]) * encode(x[self.edges[1]])
        return jnp.sum(self.edge_couplings * jnp.sum(ends, axis=1))


class DenseBonds(AbstractBonds):
    """Couplings of small or dense graphs, as a matrix."""

    matrix: Float[Array, "class width place"]

    def pull(self, colour: Int[Array, ""], y: Num[Array, " place"], encode: Encode) -> Float[Array, "width unit"]:
        return jnp.matmul(self.matrix[colour], encode(y), precision=HIGHEST)

    def energy(self, x: Num[Array, " site"], site_at: Int[Array, "class width"], encode: Encode) -> Scalar:
        phi = encode(x[site_at.ravel()])  # padded places have no bonds, so their values do not matter
        pulls = jnp.matmul(self.matrix.reshape(-1, self.matrix.shape[-1]), phi, precision=HIGHEST)
        return 0.5 * jnp.sum(phi * pulls)


class TorusBonds(AbstractBonds):
    """One coupling on a periodic square lattice with even sides, whose neighbours are found by shifts.

    The classes are the two colours of a checkerboard. Half a row of one colour lies between two of the other: of the
    neighbours left and right, one has the same place in its half row, and the other is one further.

    Attributes:
        coupling: K.
        rows: the number of rows.
    """

    coupling: Float[Array, ""]
    rows: int = eqx.field(static=True)

    def pull(self, colour: Int[Array, ""], y: Num[Array, " place"], encode: Encode) -> Float[Array, "width unit"]:
        return self._pull_of(colour, y.reshape(2, -1)[1 - colour], encode)

    def energy(self, x: Num[Array, " site"], site_at: Int[Array, "class width"], encode: Encode) -> Scalar:
        board = x.reshape(self.rows, -1)
        right, below = (encode(jnp.roll(board, -1, axis)) for axis in (1, 0))
        return self.coupling * jnp.sum(encode(board) * (right + below))

    def by_class(self, by_site: Num[Array, "site ..."], places: Places) -> Num[Array, "class ..."]:
        pairs = by_site.reshape(self.rows, -1, 2, *by_site.shape[1:])
        is_odd = self._is_odd(0).reshape(-1, *[1] * (pairs.ndim - 2))
        classes = [jnp.where(is_odd == flipped, pairs[:, :, 0], pairs[:, :, 1]) for flipped in (False, True)]
        return jnp.stack(classes).reshape(2, -1, *by_site.shape[1:])

    def swept(
        self, x: Num[Array, " site"], places: Places, encode: Encode, uniforms: Float[Array, "update width"], draw: Draw
    ) -> Num[Array, " site"]:
        # The two classes change places after each update: one that is picked by its number is not read as fast.
        def redraw(classes, step):
            colour, uniforms = step
            return (classes[1], draw(colour, self._pull_of(colour, classes[1], encode), uniforms)), None

        tour = jnp.arange(len(uniforms)) % 2
        (second, first), _ = jax.lax.scan(redraw, tuple(self.by_class(x, places)), (tour, uniforms))
        first, second, is_odd = first.reshape(self.rows, -1), second.reshape(self.rows, -1), self._is_odd(0)
        return jnp.stack([jnp.where(is_odd, second, first), jnp.where(is_odd, first, second)], axis=-1).ravel()

    def _pull_of(self, colour: Any, others: Num[Array, " width"], encode: Encode) -> Float[Array, "width unit"]:
        board = others.reshape(self.rows, -1)
        beside = jnp.where(self._is_odd(colour), jnp.roll(board, -1, 1), jnp.roll(board, 1, 1))
        around = (board, beside, jnp.roll(board, 1, 0), jnp.roll(board, -1, 0))
        return self.coupling * sum(encode(each.ravel()) for each in around)

    def _is_odd(self, colour: Int[Array, ""] | int) -> Bool[Array, "row 1"]:
        """Whether the sites of a class stand in odd columns, in each row."""
        return ((jnp.arange(self.rows) + colour) % 2 == 1)[:, None]


class PairPath(AbstractLinearPath, AbstractBasedPath, AbstractGibbsPath):
    """Tempered pairwise models: log f_β(x) = β (Σ_edges K_ij φ(x_i)·φ(x_j) + Σ_i h_i·φ(x_i)) + (1 − β) log p_1(x).

    p_1 has independent sites with fields h⁰, so that a site given its neighbours is drawn in the field
    β (Σ_j K_ij φ(x_j) + h_i) + (1 − β) h⁰_i.

    Attributes:
        bonds: K.
        fields: h.
        base: p_1, which also defines the values of a site.
        betas: inverse temperatures, from 0 to 1.
        site_at: the site at each place; classes are padded with copies of site 0.
        place_of: the place of each site.
        has_one_field: whether spins on a torus have the same h and h⁰ at all sites, so that few odds are possible.
    """

    bonds: AbstractBonds
    fields: Float[Array, "site unit"]
    base: AbstractSites  # pyright: ignore[reportIncompatibleVariableOverride]  (narrower, which is safe: it is frozen)
    betas: PerRung
    site_at: Int[Array, "class width"]
    place_of: Int[Array, " site"]
    has_one_field: bool = eqx.field(static=True, default=False)

    @classmethod
    def create(cls, graph: Graph, fields: np.ndarray, base: AbstractSites, betas: HostPerRung) -> "PairPath":
        """Colour the graph, order its sites by class, and make the path.

        Args:
            graph: the edges with K.
            fields: h (site, unit).
            base: p_1.
            betas: inverse temperatures that rise from 0 to 1.
        """
        torus = _even_torus(graph)
        classes = colour_classes(graph) if torus is None else _checkerboard(*torus[:2])
        width = max(len(sites) for sites in classes)
        site_at = np.zeros((len(classes), width), np.int32)
        place_of = np.zeros(graph.num_sites, np.int32)
        for colour, sites in enumerate(classes):
            site_at[colour, : len(sites)] = sites
            place_of[sites] = colour * width + np.arange(len(sites))
        bonds = _lay_out(graph, site_at.shape, place_of, num_units=fields.shape[1])
        if isinstance(bonds, SparseBonds) and torus is not None:
            bonds = TorusBonds(device_array(torus[2]), torus[0])
        arrays = {"fields": device_array(fields), "betas": float32_betas(betas)}
        return cls(
            bonds=bonds,
            base=base,
            site_at=device_array(site_at, np.int32),
            place_of=device_array(place_of, np.int32),
            has_one_field=isinstance(bonds, TorusBonds) and isinstance(base, Spins) and _is_one(fields, base.fields),
            **arrays,
        )

    def log_f(self, x: Num[Array, " site"]) -> Scalar:
        """The log density of the target, unnormalised."""
        return self.bonds.energy(x, self.site_at, self.base.encode) + jnp.sum(self.fields * self.base.encode(x))

    def log_density(self, x: Num[Array, " site"], rung: Rung) -> Scalar:
        beta = self.betas[rung]
        return beta * self.log_f(x) + (1 - beta) * self.base.log_density(x)

    def log_densities(self, x: Num[Array, " site"]) -> PerRung:
        return self.betas * self.log_f(x) + (1 - self.betas) * self.base.log_density(x)

    def slope(self, x: Num[Array, " site"]) -> Scalar:
        return self.log_f(x) - self.base.log_density(x)

    def gibbs_sweep(self, key: Key, rung: Rung, x: Num[Array, " site"]) -> Num[Array, " site"]:
        """Redraw one class after the other given all others, up to the last class and back to the first.

        Each update leaves f_k invariant and is reversible, but a sweep in one fixed order is not reversible, which
        reverse annealing needs. The palindrome P_1 … P_C … P_1 is reversible. So is a random direction, but then chains
        in different directions cannot share their index arrays: for two classes it takes as long as the three updates
        here, and for more classes longer.
        """
        num_classes, width = self.site_at.shape
        uniforms = jax.random.uniform(straight_key(key), (2 * num_classes - 1, width))
        beta, places = self.betas[rung], Places(self.site_at, self.place_of)
        fields, at_base = (self.bonds.by_class(part, places) for part in (self.fields, self.base.fields))

        def field(colour, pull):
            return beta * (fields[colour] + pull) + (1 - beta) * at_base[colour]

        def draw(colour, pull, uniforms):
            return self.base.draw(uniforms, field(colour, pull))

        drawn = self._drawn_by_table(lambda pull: field(0, pull)[:1]) if self.has_one_field else draw
        return self.bonds.swept(x, places, self.base.encode, uniforms, drawn)

    def _drawn_by_table(self, field: Callable[[Array], Array]) -> Draw:
        """New spins from the odds of each sum of four neighbours: one exponential for a sum, not for a site."""
        assert isinstance(self.bonds, TorusBonds)
        assert isinstance(self.base, Spins)
        spins, low, coupling = self.base, self.base.low, self.bonds.coupling
        sums = jnp.arange(4 * low, 5, 1 - low, jnp.float32)
        odds = jnp.concatenate([spins.odds(field(coupling * total)) for total in sums])
        between = coupling**2 * (sums[1:] + sums[:-1]) / 2  # in the order of sums for either sign of the coupling

        def draw(colour, pull, uniforms):
            chosen = odds[0]
            for edge, above in zip(between, odds[1:], strict=True):
                chosen = jnp.where(coupling * pull[:, 0] > edge, above, chosen)
            return spins.valued(uniforms < chosen)

        return draw


def _even_torus(graph: Graph) -> tuple[int, int, float] | None:
    """Rows, columns and coupling of a graph that is a periodic lattice with even sides, of 4 or more."""
    found = find_torus(graph)
    return found if found is not None and min(found[:2]) > 2 and found[0] % 2 == found[1] % 2 == 0 else None


def _is_one(*fields: Any) -> bool:
    """Whether each of these is the same at all sites."""
    return all(np.ptp(np.asarray(each), axis=0).max() == 0 for each in fields)


def _checkerboard(rows: int, columns: int) -> list[np.ndarray]:
    """The sites of each colour, in rising order."""
    colour = np.add.outer(np.arange(rows), np.arange(columns)).ravel() % 2
    return [np.flatnonzero(colour == 0), np.flatnonzero(colour == 1)]


def _lay_out(graph: Graph, class_shape: tuple[int, int], place_of: np.ndarray, num_units: int) -> AbstractBonds:
    """Dense bonds where a matrix product is faster than gathering the neighbours of each site."""
    num_places = class_shape[0] * class_shape[1]
    edges = place_of[graph.edges].reshape(-1, 2)
    degrees = np.bincount(edges.ravel(), minlength=num_places)
    degree = max(1, int(degrees.max()))
    starts, ends = np.concatenate([edges, edges[:, ::-1]]).T
    values = np.concatenate([graph.couplings, graph.couplings])
    if num_places * num_units <= _DENSE_BELOW * degree:
        matrix = np.zeros((num_places, num_places), np.float32)
        matrix[starts, ends] = values
        return DenseBonds(device_array(matrix.reshape(*class_shape, num_places)))
    order = np.argsort(starts, kind="stable")
    slot = np.arange(len(order)) - np.searchsorted(starts[order], starts[order])  # which neighbour of its site
    neighbours, couplings = np.zeros((num_places, degree), np.int32), np.zeros((num_places, degree), np.float32)
    neighbours[starts[order], slot], couplings[starts[order], slot] = ends[order], values[order]
    shape = (*class_shape, degree)
    by_edge = (device_array(graph.edges.T, np.int32), device_array(graph.couplings))
    by_site = (device_array(neighbours.reshape(shape), np.int32), device_array(couplings.reshape(shape)))
    return SparseBonds(*by_site, *by_edge)
