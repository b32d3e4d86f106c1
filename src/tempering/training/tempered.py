"""Tempered chains that follow an RBM through training, and the log Z that they imply at every rung.

The chains form groups of equal size and all walk under one ladder. Every estimate of log Z is also made with one group
left out at a time; the spread of these values is the jackknife's standard error. The same chains go on from update to
update, so the error includes the correlation between updates.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tempering._types import Key, PerRung, Scalar
from tempering.kernels import BlockGibbs, Position, SimulatedTempering
from tempering.ladder import Ladder
from tempering.models import HiddenBitsState, RBMPath
from tempering.models.rbm.batch import Moments, MomentSums, Parameters, largest_field
from tempering.sampling import walk_chain
from tempering.stats import TemperingStats
from tempering.training.spread import Spread, added

ByGroup: TypeAlias = Float[Array, "group rung"]

_KERNEL = SimulatedTempering(BlockGibbs())
_MOMENT_EVERY = 5  # sweeps between two sums of moments: one costs half a sweep, and successive sweeps are alike
_MAX_LOG_RATIO = 60.0  # keeps exp finite in float32
_TINY = 1e-30  # keeps the logarithm finite at a rung that no chain is near; the verdict reports such a rung


class Walkers(eqx.Module):
    """Where chains stand, and which end of the ladder each reached last; leading axes: group, chain."""

    x: HiddenBitsState
    rung: Int[Array, "group chain"]
    last_end: Int[Array, "group chain"]  # BOTTOM or TOP; 0 if it reached none


class TemperedChains(eqx.Module):
    """Tempered chains along an RBM's path, and log Z at every rung as known so far.

    The innovation of an update is what its sweeps say about the target's log Z beyond what was known.
    """

    ladder: Ladder  # under the present parameters, with log Ẑ_k relative to rung 0
    positions: Walkers
    log_z_without: ByGroup  # log Ẑ_k with one group left out
    innovation: Scalar  # exponential mean over updates
    innovation_without: Float[Array, " group"]  # the same with one group left out


class Reading(eqx.Module):
    """What one update shows; about the target where it is not per rung. Names are those of `TemperedChains`."""

    log_z: PerRung  # log Ẑ_k − log Ẑ_0
    log_z_without: Float[Array, " group"]
    innovation: Scalar
    innovation_without: Float[Array, " group"]
    occupancy: PerRung  # ĉ_k / r_k
    overlap: Scalar  # effective share of the chains under the new parameters, before they moved
    largest_field: Scalar  # the largest |vW + b| that any v can reach at a hidden unit
    num_nonfinite: Array  # draws whose density was not finite
    num_crossings: Array  # of all chains, from one end of the ladder to the other


def follow(
    key: Key, chains: TemperedChains, rbm: Parameters, alpha: Scalar, num_sweeps: int, *, is_backward: bool,
    spread: Spread,
) -> tuple[TemperedChains, Reading, Moments]:  # fmt: skip
    """Move the chains from parameters θ to θ′, and update log Ẑ_k at every rung. Inside jit.

    1. Predict the change of log Z_k from the states x_i that the chains had under θ:

           Δ_k = log Σ_i q(k | x_i) f_k(x_i; θ′) / f_k(x_i; θ) − log Σ_i q(k | x_i).

    2. Sweep under θ′, with log Ẑ_k + Δ_k in the ladder. With ĉ_k the mean of q(k | x) over the draws, the sweeps say
       that log Z_k is log Ẑ_k + Δ_k + log(ĉ_k r_0 / (ĉ_0 r_k)).
    3. Correct by eq. 24 of the paper: move log Ẑ_k + Δ_k by a part α towards that value.

    A gradient made by these chains lowers f at just the states x_i, so Δ_k would be too low. With `is_backward`, step 3
    uses the states x′_i after the sweeps instead:

           Δ′_k = −log Σ_i q′(k | x′_i) f_k(x′_i; θ) / f_k(x′_i; θ′) + log Σ_i q′(k | x′_i).

    Chains that have not equilibrated under θ′ make Δ′_k too small by an amount of second order in θ′ − θ, always with
    the same sign; the errors of Δ_k have either sign. So Δ_k is used wherever other chains made the gradient.

    Args:
        key: Random key.
        chains: The chains under θ; of several devices, those of this one.
        rbm: θ′.
        alpha: α of eq. 24.
        num_sweeps: Sweeps of every chain.
        is_backward: Whether these chains made the gradient that led to θ′.
        spread: How the chains are spread over devices.

    Returns:
        The chains under θ′; what the update shows; and the moments of the RBM at θ′, over all chains after every few
        sweeps, each weighted by q(K−1 | x).
    """
    old, new = chains.ladder, _with_parameters(chains.ladder, rbm)
    states, told = spread.by_share(partial(_forward_sums, old, new), chains.positions)
    predicted, overlap = _Jackknifed.log_ratio(*_by_group(told[:2])), _overlap(*_by_group(told[2:]))
    new = new.with_guess(old.log_z_guess + predicted.pooled)
    sweep = partial(_sweep, key, new, num_sweeps)
    numbers = _own_numbers(chains.positions, spread)
    walkers = Walkers(states, chains.positions.rung, chains.positions.last_end)
    positions, told = spread.by_share(sweep, walkers, numbers)
    (sums, num_bad, crossings), moments = _by_group(told[:3]), added(told[3]).mean()
    correction, change = _correction(sums, new.log_prior), predicted
    if is_backward:
        _, told = spread.by_share(partial(_backward_sums, old, new), positions)
        change = _Jackknifed.log_ratio(*_by_group(told))
    known, known_without = old.log_z_guess + change.pooled, chains.log_z_without + change.without
    news = new.log_z_guess + correction.pooled - known
    news_without = new.log_z_guess + correction.without - known_without
    log_z, log_z_without = known + alpha * news, known_without + alpha * news_without
    innovation = (1 - alpha) * chains.innovation + alpha * news[-1]
    innovation_without = (1 - alpha) * chains.innovation_without + alpha * news_without[:, -1]
    followed = TemperedChains(new.with_guess(log_z), positions, log_z_without, innovation, innovation_without)
    occupancy = jnp.sum(sums, axis=0) / jnp.sum(sums) / jnp.exp(new.log_prior)
    reading = Reading(
        log_z, log_z_without[:, -1], innovation, innovation_without, occupancy, overlap, largest_field(rbm),
        jnp.sum(num_bad), jnp.sum(crossings),
    )  # fmt: skip
    return followed, reading, moments


def _with_parameters(ladder: Ladder, rbm: Parameters) -> Ladder:
    path = ladder.path
    assert isinstance(path, RBMPath)
    return dataclasses.replace(ladder, path=path.with_parameters(*rbm))


class _Jackknifed(NamedTuple):
    """An estimate from all groups, and from all but one."""

    pooled: PerRung
    without: ByGroup

    @classmethod
    def log_ratio(cls, above: ByGroup, below: Float[Array, "group #rung"]) -> "_Jackknifed":
        """log(Σ above / Σ below), with sums over groups."""
        tops, bottoms = jnp.sum(above, axis=0), jnp.sum(below, axis=0)
        return cls(_log(tops) - _log(bottoms), _log(tops - above) - _log(bottoms - below))


def _by_group(told: Any) -> Any:
    """What shares have told of their groups, with one axis of groups."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), told)


def _own_numbers(positions: Walkers, spread: Spread) -> Int[Array, "group chain"]:
    """The numbers of this device's chains among all."""
    rungs = positions.rung
    device = 0 if spread.mesh is None else jax.lax.axis_index(spread.mesh.axis_names[0])
    return device * rungs.size + jnp.arange(rungs.size).reshape(rungs.shape)


def _forward_sums(old: Ladder, new: Ladder, positions: Walkers) -> tuple[HiddenBitsState, tuple[Array, ...]]:
    """The states with their fields under θ′, and sums over the chains of each group, for Δ_k and for the overlap."""
    assert isinstance(new.path, RBMPath)
    log_old = _each(old.path.log_densities)(positions.x)
    states = _each(new.path.state_of)(positions.x.v)
    log_ratio = _clip(_each(new.path.log_densities)(states) - log_old)
    share = jnp.nan_to_num(_each(old.rung_posterior)(log_old))
    weighted = share * jnp.exp(log_ratio)
    target, ratio = share[..., -1], jnp.exp(log_ratio[..., -1])
    moments = (jnp.sum(target * ratio**power, axis=1) for power in range(3))
    return states, (jnp.sum(weighted, axis=1), jnp.sum(share, axis=1), *moments)


def _overlap(weight: Array, first: Array, second: Array) -> Scalar:
    """The overlap of `Reading`, from Σ q r^i for i = 0, 1, 2 of each group, r the ratio of new and old densities."""
    return jnp.sum(first) ** 2 / (jnp.sum(weight) * jnp.sum(second) + _TINY)


def _backward_sums(old: Ladder, new: Ladder, positions: Walkers) -> tuple[None, tuple[ByGroup, ByGroup]]:
    """Sums over the chains of each group for Δ′_k."""
    assert isinstance(old.path, RBMPath)
    log_new = _each(new.path.log_densities)(positions.x)
    log_old = _each(old.path.log_densities)(_each(old.path.state_of)(positions.x.v))
    share = jnp.nan_to_num(_each(new.rung_posterior)(log_new))
    weighted = share * jnp.exp(_clip(log_old - log_new))
    return None, (jnp.sum(share, axis=1), jnp.sum(weighted, axis=1))


def _sweep(
    key: Key, ladder: Ladder, num_sweeps: int, walkers: Walkers, numbers: Int[Array, "group chain"]
) -> tuple[Walkers, tuple[ByGroup, Array, Array, MomentSums]]:
    """The chains after the sweeps; Σ q(k | x), draws that were not finite and crossings by group; sums for moments."""
    path = ladder.path
    assert isinstance(path, RBMPath)
    empty = TemperingStats.empty(ladder, any_range=False)
    records = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*numbers.shape, *leaf.shape)), empty)
    records = dataclasses.replace(records, last_end=walkers.last_end)
    positions = Position(walkers.x, walkers.rung)
    # The first round takes the remainder, so that the last one ends with the last sweep.
    first_end = num_sweeps % _MOMENT_EVERY or _MOMENT_EVERY
    ends = jnp.asarray([*range(first_end, num_sweeps + 1, _MOMENT_EVERY)], jnp.int32)

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
    counted = (records.posterior_sum.total, records.num_nonfinite, records.num_crossings)
    sums, num_bad, crossings = (jnp.sum(leaf, axis=1) for leaf in counted)
    return Walkers(positions.x, positions.rung, records.last_end), (sums, num_bad, crossings, moments)


def _correction(sums: ByGroup, log_prior: PerRung) -> _Jackknifed:
    """log(ĉ_k r_0 / (ĉ_0 r_k))."""
    by_prior = sums * jnp.exp(-log_prior)
    return _Jackknifed.log_ratio(by_prior, by_prior[:, :1])


def _target_sums(ladder: Ladder, positions: Position) -> MomentSums:
    weight = jnp.nan_to_num(_each(lambda x: ladder.rung_posterior(ladder.path.log_densities(x))[-1])(positions.x))
    v, field = (leaf.reshape(-1, leaf.shape[-1]) for leaf in (positions.x.v, positions.x.field))
    return MomentSums.from_chains(v, field, weight.ravel())


def _each(function):
    """Map over the chains of every group."""
    return jax.vmap(jax.vmap(function))


def _clip(log_ratio: Array) -> Array:
    return jnp.clip(log_ratio, -_MAX_LOG_RATIO, _MAX_LOG_RATIO)


def _log(x: Array) -> Array:
    return jnp.log(jnp.maximum(x, _TINY))
