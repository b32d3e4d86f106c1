"""Tempered chains that follow an RBM while its parameters change, and what they say of log Z on the way.

Chains come in groups of equal size. All of them walk under one ladder; leaving out one group at a time shows how sure
the answer is, and since the same chains go on from update to update, their memory is in that too.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._types import Key, PerRung, Scalar
from tempering.kernels import BlockGibbs, Position, SimulatedTempering
from tempering.ladder import Ladder
from tempering.models import RBMPath
from tempering.models.rbm.batch import Moments, MomentSums, Parameters, largest_field
from tempering.sampling import walk_chain
from tempering.stats import TemperingStats

_KERNEL = SimulatedTempering(BlockGibbs())
_ROUND = 5  # sweeps between two looks at the moments: each costs half a sweep, and neighbours are much alike
_TINY = 1e-30  # a rung that no chain is near: its logarithm stays finite, and the verdict sees it


class Followed(eqx.Module):
    """Where tempered chains stand along an RBM's path, and log Z at every rung as known so far.

    `without` holds the same log Z as if one group of chains had not been there, a row for each group; `innovation` is
    what the chains have lately said about log Z beyond what was known, smoothed, and the same without each group.
    """

    ladder: Ladder  # with log Ẑ_k, relative to rung 0
    positions: Position  # (group, chain, …)
    without: Float[Array, "group rung"]
    innovation: Scalar  # of the target
    innovation_without: Float[Array, " group"]

    @property
    def num_groups(self) -> int:
        """G."""
        return self.without.shape[0]


class Reading(eqx.Module):
    """What one update shows; all about the target unless per rung."""

    log_z: PerRung  # log Ẑ_k − log Ẑ_0
    without: Float[Array, "group"]  # the target's, each without one group
    innovation: Scalar
    innovation_without: Float[Array, " group"]
    occupancy: PerRung  # ĉ_k / r_k
    overlap: Scalar  # effective share of the chains under the new parameters, before they moved
    largest_field: Scalar  # that any pattern can reach at a hidden unit
    num_nonfinite: Array


def follow(
    key: Key, chains: Followed, rbm: Parameters, alpha: Scalar, num_sweeps: int, *, looks_back: bool
) -> tuple[Followed, Reading, Moments]:
    """To new parameters: how log Z changes with them, sweeps, and a part of what those say of log Z itself.

    By the draws before the sweeps the change is log E[f_new/f_old] at every rung, each counting by q(k | x). Where the
    parameters were moved by what these very chains had drawn, that is too low, since training has just lowered f
    there: one then looks back, −log E[f_old/f_new] over the draws after the sweeps. (That alone would not do for other
    people's steps: chains that have not quite come along say too little, by an amount that grows with each step's
    square; looking ahead they err to both sides.) Then eq. 24, log Ẑ_k += α log(ĉ_k r_0 / (ĉ_0 r_k)). The moments
    are those of the RBM itself, from all chains after every few sweeps, each counting by q(K−1 | x).
    """
    old, new = chains.ladder, moved(chains.ladder, rbm)
    states, predicted, shares = _predicted(old, new, chains.positions)
    new = new.with_guess(old.log_z_guess + predicted.pooled)
    positions, sums, num_bad, moments = _swept(key, new, Position(states, chains.positions.rung), num_sweeps)
    told, change = _told(sums, new.log_prior), _looked_back(old, new, positions) if looks_back else predicted
    before, left = old.log_z_guess + change.pooled, chains.without + change.without
    # What the sweeps say beyond what was known; without a group, beyond what was known without it.
    news = new.log_z_guess + told.pooled - before
    news_without = new.log_z_guess + told.without - left
    log_z, without = before + alpha * news, left + alpha * news_without
    innovation = (1 - alpha) * chains.innovation + alpha * news[-1]
    innovation_without = (1 - alpha) * chains.innovation_without + alpha * news_without[:, -1]
    followed = Followed(new.with_guess(log_z), positions, without, innovation, innovation_without)
    occupancy = jnp.sum(sums, axis=0) / jnp.sum(sums) / jnp.exp(new.log_prior)
    largest = largest_field(rbm)
    reading = Reading(log_z, without[:, -1], innovation, innovation_without, occupancy, shares, largest, num_bad)
    return followed, reading, moments


def moved(ladder: Ladder, rbm: Parameters) -> Ladder:
    """The same ladder with new parameters in its path; nothing is compiled or fitted anew."""
    path = ladder.path
    assert isinstance(path, RBMPath)
    return dataclasses.replace(ladder, path=path.with_parameters(*rbm))


@dataclasses.dataclass(frozen=True)
class _Pair:
    """An estimate from all groups, and from all but one."""

    pooled: PerRung
    without: Float[Array, "group rung"]

    @classmethod
    def of_ratio(cls, above: Float[Array, "group rung"], below: Float[Array, "group #rung"]) -> "_Pair":
        """log Σ above / Σ below over groups."""
        tops, bottoms = jnp.sum(above, axis=0), jnp.sum(below, axis=0)
        return cls(_log(tops) - _log(bottoms), _log(tops - above) - _log(bottoms - below))


def _predicted(old: Ladder, new: Ladder, positions: Position):
    """States with the fields of the new parameters, how log Z_k changes, and how well old draws serve."""
    assert isinstance(new.path, RBMPath)
    log_old = _each(old.path.log_densities)(positions.x)
    states = _each(new.path.state_of)(positions.x.v)
    log_ratio = jnp.clip(_each(new.path.log_densities)(states) - log_old, -60.0, 60.0)
    share = jnp.nan_to_num(_each(old.rung_posterior)(log_old))
    weighted = share * jnp.exp(log_ratio)
    change = _Pair.of_ratio(jnp.sum(weighted, axis=1), jnp.sum(share, axis=1))
    target, ratio = share[..., -1], jnp.exp(log_ratio[..., -1])
    overlap = jnp.sum(target * ratio) ** 2 / (jnp.sum(target) * jnp.sum(target * ratio**2) + _TINY)
    return states, change, overlap


def _looked_back(old: Ladder, new: Ladder, positions: Position) -> _Pair:
    """How log Z_k has changed, by the states under the new parameters."""
    assert isinstance(old.path, RBMPath)
    log_new = _each(new.path.log_densities)(positions.x)
    log_old = _each(old.path.log_densities)(_each(old.path.state_of)(positions.x.v))
    share = jnp.nan_to_num(_each(new.rung_posterior)(log_new))
    weighted = share * jnp.exp(jnp.clip(log_old - log_new, -60.0, 60.0))
    return _Pair.of_ratio(jnp.sum(share, axis=1), jnp.sum(weighted, axis=1))


def _swept(key: Key, ladder: Ladder, positions: Position, num_sweeps: int):
    """Chains some sweeps on, Σ q(k | x) of each group, how many draws were not finite, and the target's moments."""
    path = ladder.path
    assert isinstance(path, RBMPath)
    numbers = jnp.arange(positions.rung.size).reshape(positions.rung.shape)
    empty = TemperingStats.empty(ladder, any_range=False)
    records = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*numbers.shape, *leaf.shape)), empty)
    # The first round is the shortest, so that the last one ends with the sweeps.
    ends = jnp.asarray([*range(num_sweeps % _ROUND or _ROUND, num_sweeps + 1, _ROUND)], jnp.int32)

    def one_round(carry, end):
        positions, records, start, moments = carry

        def one_chain(number, position, record):
            bounds = jnp.stack([start, end])
            return walk_chain(jax.random.fold_in(key, number), ladder, _KERNEL, record, position, bounds)

        positions, records = _each(one_chain)(numbers, positions, records)
        return (positions, records, end, moments.plus(_target_sums(ladder, positions))), None

    nothing = MomentSums.empty(*path.weights.shape)
    first = (positions, records, jnp.zeros((), jnp.int32), nothing)
    (positions, records, _, moments), _ = jax.lax.scan(one_round, first, ends)
    sums = jnp.sum(records.posterior_sum.total, axis=1)
    return positions, sums, jnp.sum(records.num_nonfinite), moments.mean()


def _told(sums: Float[Array, "group rung"], log_prior: PerRung) -> _Pair:
    """log(ĉ_k r_0 / (ĉ_0 r_k)), what the sweeps say beyond Ẑ."""
    by_prior = sums * jnp.exp(-log_prior)
    return _Pair.of_ratio(by_prior, by_prior[:, :1])


def _target_sums(ladder: Ladder, positions: Position) -> MomentSums:
    weight = jnp.nan_to_num(_each(lambda x: ladder.rung_posterior(ladder.path.log_densities(x))[-1])(positions.x))
    v, field = (leaf.reshape(-1, leaf.shape[-1]) for leaf in (positions.x.v, positions.x.field))
    return MomentSums.from_chains(v, field, weight.ravel())


def _each(function):
    """For every chain of every group."""
    return jax.vmap(jax.vmap(function))


def _log(x: Array) -> Array:
    return jnp.log(jnp.maximum(x, _TINY))
