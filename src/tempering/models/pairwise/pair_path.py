"""Tempered models of sites that interact in pairs, and their Gibbs sampler: one path for spins, bits and colours."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.kernels import AbstractGibbsPath
from tempering.ladder import checked_betas
from tempering.models.pairwise.graph import Graph, colour_classes
from tempering.models.pairwise.sites import AbstractSites
from tempering.paths import AbstractLinearPath

Encode = Callable[[Array], Array]  # φ of `AbstractSites`

_DENSE_BELOW = 32  # a gathered number costs about as much as this many multiply-adds of a matrix product, on a CPU
_HIGHEST = jax.lax.Precision.HIGHEST


class AbstractBonds(eqx.Module):
    """All couplings K_ij, with the sites laid out class by class: place c · width + i is site i of class c."""

    def pull(self, colour: Int[Array, ""], y: Num[Array, " place"], encode: Encode) -> Float[Array, "width unit"]:
        """Σ_j K_ij φ(y_j) for the sites i of one class."""
        raise NotImplementedError

    def energy(self, x: Num[Array, " site"], site_at: Int[Array, "class width"], encode: Encode) -> Scalar:
        """Σ_edges K_ij φ(x_i) · φ(x_j)."""
        raise NotImplementedError


class SparseBonds(AbstractBonds):
    """For lattices and other graphs with few neighbours a site: these are gathered one by one."""

    neighbours: Int[Array, "class width degree"]  # places; filled up with place 0
    couplings: Float[Array, "class width degree"]  # filled up with 0
    edges: Int[Array, "2 edge"]  # sites, not places: no need to lay out x only to know its energy
    edge_couplings: Float[Array, " edge"]

    def pull(self, colour: Int[Array, ""], y: Num[Array, " place"], encode: Encode) -> Float[Array, "width unit"]:
        """A pass over width × degree numbers."""
        return jnp.sum(self.couplings[colour][..., None] * encode(y[self.neighbours[colour]]), axis=1)

    def energy(self, x: Num[Array, " site"], site_at: Int[Array, "class width"], encode: Encode) -> Scalar:
        """Edge by edge: half the numbers that the sum over all neighbours would gather."""
        ends = encode(x[self.edges[0]]) * encode(x[self.edges[1]])
        return jnp.sum(self.edge_couplings * jnp.sum(ends, axis=1))


class DenseBonds(AbstractBonds):
    """For graphs where most sites are neighbours, or that are small: matrix products."""

    matrix: Float[Array, "class width place"]

    def pull(self, colour: Int[Array, ""], y: Num[Array, " place"], encode: Encode) -> Float[Array, "width unit"]:
        """The rows of one class."""
        return jnp.matmul(self.matrix[colour], encode(y), precision=_HIGHEST)

    def energy(self, x: Num[Array, " site"], site_at: Int[Array, "class width"], encode: Encode) -> Scalar:
        """½ Σ_ij K_ij φ_i · φ_j. Places that were filled up have no bonds: what stands there does not matter."""
        phi = encode(x[site_at.ravel()])
        pulls = jnp.matmul(self.matrix.reshape(-1, self.matrix.shape[-1]), phi, precision=_HIGHEST)
        return 0.5 * jnp.sum(phi * pulls)


class PairPath(AbstractLinearPath, AbstractGibbsPath):
    """Tempered pairwise models: log f_β(x) = β (Σ_edges K_ij φ(x_i)·φ(x_j) + Σ_i h_i·φ(x_i)) + (1 − β) log p_1(x).

    p_1 has independent sites with fields h⁰, so that a site given its neighbours is drawn in the field
    β (Σ_j K_ij φ(x_j) + h_i) + (1 − β) h⁰_i.
    """

    bonds: AbstractBonds
    fields: Float[Array, "site unit"]  # h
    # p_1, and what values a site may have. Fields are frozen, so that a narrower type is safe.
    base: AbstractSites  # pyright: ignore[reportIncompatibleVariableOverride]
    betas: PerRung
    site_at: Int[Array, "class width"]  # which site is at a place; classes are filled up with copies of site 0
    place_of: Int[Array, " site"]

    @classmethod
    def create(cls, graph: Graph, fields: np.ndarray, base: AbstractSites, betas: HostPerRung) -> "PairPath":
        """Colour the graph and lay out its sites, once, on the host."""
        classes = colour_classes(graph)
        width = max(len(sites) for sites in classes)
        site_at = np.zeros((len(classes), width), np.int32)
        place_of = np.zeros(graph.num_sites, np.int32)
        for colour, sites in enumerate(classes):
            site_at[colour, : len(sites)] = sites
            place_of[sites] = colour * width + np.arange(len(sites))
        return cls(
            bonds=_lay_out(graph, site_at.shape, place_of, num_units=fields.shape[1]),
            fields=jnp.asarray(fields, jnp.float32),
            base=base,
            betas=jnp.asarray(checked_betas(betas), jnp.float32),
            site_at=jnp.asarray(site_at),
            place_of=jnp.asarray(place_of),
        )

    def log_f(self, x: Num[Array, " site"]) -> Scalar:
        """The target, unnormalised."""
        return self.bonds.energy(x, self.site_at, self.base.encode) + jnp.sum(self.fields * self.base.encode(x))

    def log_density(self, x: Num[Array, " site"], rung: Rung) -> Scalar:
        """The formula above at one β."""
        beta = self.betas[rung]
        return beta * self.log_f(x) + (1 - beta) * self.base.log_density(x)

    def log_densities(self, x: Num[Array, " site"]) -> PerRung:
        """All rungs from the two ends."""
        return self.betas * self.log_f(x) + (1 - self.betas) * self.base.log_density(x)

    def slope(self, x: Num[Array, " site"]) -> Scalar:
        """log f − log p_1."""
        return self.log_f(x) - self.base.log_density(x)

    def with_betas(self, betas: HostPerRung) -> "PairPath":
        """The same two ends, other steps between them."""
        return dataclasses.replace(self, betas=jnp.asarray(checked_betas(betas), jnp.float32))

    def gibbs_sweep(self, key: Key, rung: Rung, x: Num[Array, " site"]) -> Num[Array, " site"]:
        """Redraw class after class given all others, up to the last class and back to the first.

        Each class leaves f_k invariant and is reversible, but a sweep in one fixed order is not reversible, and
        annealing downwards needs that. There and back is: the product P_1 … P_C … P_1 reads the same from both ends.
        A random direction would be too, but chains that go different ways cannot share their index arrays: for two
        classes it takes as long as the three updates here, and for more classes longer.
        """
        num_classes, width = self.site_at.shape
        tour = jnp.asarray([*range(num_classes), *reversed(range(num_classes - 1))], jnp.int32)
        uniforms = jax.random.uniform(key, (len(tour), width))
        beta = self.betas[rung]
        alone = beta * self.fields[self.site_at] + (1 - beta) * self.base.fields[self.site_at]

        def redraw(y, step):
            colour, uniforms = step
            field = alone[colour] + beta * self.bonds.pull(colour, y, self.base.encode)
            return jax.lax.dynamic_update_slice(y, self.base.draw(uniforms, field), (colour * width,)), None

        y, _ = jax.lax.scan(redraw, x[self.site_at.ravel()], (tour, uniforms))
        return y[self.place_of]


def _lay_out(graph: Graph, shape: tuple[int, int], place_of: np.ndarray, num_units: int) -> AbstractBonds:
    """Dense where a product over all places is quicker than gathering the neighbours of one site after the other."""
    num_classes, width = shape
    num_places = num_classes * width
    edges = place_of[graph.edges].reshape(-1, 2)
    degrees = np.bincount(edges.ravel(), minlength=num_places)
    degree = max(1, int(degrees.max()))
    starts, ends = np.concatenate([edges, edges[:, ::-1]]).T
    values = np.concatenate([graph.couplings, graph.couplings])
    if num_places * num_units <= _DENSE_BELOW * degree:
        matrix = np.zeros((num_places, num_places), np.float32)
        matrix[starts, ends] = values
        return DenseBonds(jnp.asarray(matrix.reshape(num_classes, width, num_places)))
    order = np.argsort(starts, kind="stable")
    slot = np.arange(len(order)) - np.searchsorted(starts[order], starts[order])  # which neighbour of its site
    neighbours, couplings = np.zeros((num_places, degree), np.int32), np.zeros((num_places, degree), np.float32)
    neighbours[starts[order], slot], couplings[starts[order], slot] = ends[order], values[order]
    return SparseBonds(
        jnp.asarray(neighbours.reshape(num_classes, width, degree)),
        jnp.asarray(couplings.reshape(num_classes, width, degree)),
        jnp.asarray(graph.edges.T.astype(np.int32)),
        jnp.asarray(graph.couplings, jnp.float32),
    )
