"""Self-adjusting weights: Ẑ is corrected between short runs until every rung is visited as often as it should be.

Chains form independent groups, each with a Ẑ of its own that only its own chains correct, so that the groups'
scatter is an honest error. Within a short run nothing adapts; updates happen on the host, between runs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tempering._errors import InputError
from tempering._types import HostPerRung, Key
from tempering.estimators import Adjusted
from tempering.kernels import AbstractMove, Guided, GuidedTempering
from tempering.ladder import Ladder
from tempering.sampling import AbstractStageKind, AbstractWarmup, Setup, Stage, walk_stages
from tempering.stats import MAX_BLOCK_STEPS, GuidedRecord, Occupancy, chain_groups
from tempering.warmups.starts import base_positions, uniform_rungs

PerGroup: TypeAlias = Float[np.ndarray, "group rung"]
_Arrays: TypeAlias = dict[str, np.ndarray]
_BY_GROUP = ("log_z_guess", "late_posterior", "late_visits", "late_nans", "histogram", "flooded_at", "delta")


class Adjusting(AbstractStageKind):
    """A short run in which every group of chains has its own guess of log Z."""

    label: ClassVar[str] = "adjusting"
    num_blocks: ClassVar[int] = 1
    record: ClassVar[Any] = GuidedRecord


@dataclasses.dataclass(frozen=True)
class SelfAdjusting(AbstractWarmup):
    """Wang-Landau or stochastic MBAR over rungs, from no guess at all; then the mean of the groups' Ẑ stays frozen.

    An update follows every `update_steps` steps. With ĉ from the n draws of a group since the last one,

        log Ẑ_k ← log Ẑ_k + γ_k n (ĉ_k / r_k − ĉ_0 / r_0),                                          eq. 19

    where γ is the gain of one draw. For "sams" ĉ_k is the mean of q(k | x) and γ is `sams_gains`; for "wang_landau" it
    is the share of visits and γ = log(1 + δ)/K. Both end with γ = 1/t, t counting draws: n of them at once then
    weigh n/t, which is the paper's 1/t per update, whatever n is.

    Caveats: if the gain falls before Ẑ is near the truth, Ẑ approaches it too slowly ever to arrive.

    Attributes:
        rule: "sams" (stochastic MBAR) or "wang_landau".
        num_steps: Steps in all.
        update_steps: Steps between two updates.
        decay: a, between ½ and 1: the gain falls as t^−a at first.
        burn_in: The share of draws after which the gain falls as 1/t; for "sams".
        flatness: δ is halved once no rung has less than 1 − flatness of its visits; for "wang_landau".
    """

    rule: str = "sams"
    num_steps: int = 2500
    update_steps: int = 5
    decay: float = 0.6
    burn_in: float = 0.1
    flatness: float = 0.8

    def __post_init__(self) -> None:
        if self.rule not in ("sams", "wang_landau"):
            raise InputError(f'`rule` must be "sams" or "wang_landau", got {self.rule!r}.')
        if not 1 <= self.update_steps <= min(self.num_steps, MAX_BLOCK_STEPS):
            most = f"`num_steps` ({self.num_steps}) or {MAX_BLOCK_STEPS}"
            raise InputError(f"`update_steps` must lie between 1 and {most}, got {self.update_steps}.")
        if not (0.5 < self.decay <= 1 and 0 < self.burn_in < 1 and 0 < self.flatness <= 1):
            raise InputError(
                f"`decay` must lie in (½, 1], `burn_in` in (0, 1) and `flatness` in (0, 1]; "
                f"got {self.decay}, {self.burn_in} and {self.flatness}."
            )

    @property
    def num_updates(self) -> int:
        """Short runs, each followed by an update."""
        return -(-self.num_steps // self.update_steps)

    def first(self, setup: Setup) -> Stage:
        """Ẑ as the ladder has it; draws of the base at uniform rungs, as for the paper's initial iterations."""
        path = setup.ladder.path
        position = base_positions(setup.key, path, uniform_rungs(setup.key, path.num_rungs, setup.num_chains))
        guess = jnp.tile(setup.ladder.log_z_guess, (setup.num_chains, 1))
        none, one = jnp.zeros_like(guess), jnp.ones(setup.num_chains)
        states = Guided(position, guess, guess, none, none, 0 * one, none, 0 * one, one)
        return Stage.first(Adjusting(), setup.ladder, GuidedTempering(setup.move), states, self.update_steps)

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Another short run with corrected Ẑ; after the last one, sampling."""
        states = self._updated(stage)
        is_last = self.is_last_run(stage)
        if not (is_last or setup.is_late):
            return stage.next(Adjusting(), setup.ladder, stage.kernel, states, self.update_steps)
        adjusted = self.outcome(stage)
        better = setup.ladder.with_log_z(adjusted.log_z.mean(axis=0))
        found = stage.with_found(is_equilibrated=is_last and adjusted.is_equilibrated)
        return setup.sampling_after(found, better, states.position)

    def is_last_run(self, stage: Stage) -> bool:
        """Whether no other short run follows this one."""
        return stage.number + 1 == self.num_updates

    def outcome(self, stage: Stage) -> Adjusted:
        """What the groups have come to with the update that follows a finished stage."""
        states, groups = self._updated(stage), chain_groups(stage.num_chains)
        has_flooded = _of_groups(states.flooded_at, groups) > 0
        return Adjusted(
            log_z=_of_groups(states.log_z_guess, groups),
            halfway=_of_groups(states.halfway, groups),
            posterior=_of_groups(states.late_posterior, groups),
            visits=_of_groups(states.late_visits, groups),
            has_slowed=has_flooded if self.rule == "sams" else _of_groups(states.delta, groups) == 0,
            log_prior=np.asarray(stage.ladder.log_prior, np.float64),
            num_nan=float(_of_groups(states.late_nans, groups).sum()),
        )

    def _updated(self, stage: Stage) -> Guided:
        """The states with the Ẑ that this stage's draws lead to."""
        groups, prior = chain_groups(stage.num_chains), np.exp(np.asarray(stage.ladder.log_prior, np.float64))
        before = {name: _of_groups(getattr(stage.states, name), groups) for name in _BY_GROUP}
        seen = jax.tree.map(lambda by_chain: _summed(by_chain, groups), stage.recording)
        done = stage.number + 1
        after = (self._by_sams if self.rule == "sams" else self._by_wang_landau)(before, seen, done, prior)
        if 2 * done <= self.num_updates:
            after["halfway"] = after["log_z_guess"]
        else:
            after["late_posterior"] = before["late_posterior"] + seen.posterior
            after["late_visits"] = before["late_visits"] + seen.visits
            after["late_nans"] = before["late_nans"] + seen.num_nan
        by_chain = [array[groups].astype(np.float32) for array in after.values()]
        return eqx.tree_at(lambda states: [getattr(states, name) for name in after], stage.states, by_chain)

    def _by_sams(self, before: _Arrays, seen: Occupancy, done: int, prior: HostPerRung) -> _Arrays:
        new = seen.visits.sum(axis=1)  # draws of each group since the last update
        histogram = before["histogram"] + seen.visits
        flooded_at = np.where((before["flooded_at"] == 0) & histogram.all(axis=1), done * new, before["flooded_at"])
        since = np.where(flooded_at > 0, done * new - flooded_at, 0.0)
        gains = sams_gains(since, self.burn_in * self.num_updates * new, self.decay)
        gains = np.minimum(np.minimum(gains[:, None], prior), 1 / new[:, None])
        log_z = corrected(before["log_z_guess"], seen.posterior, gains, prior)
        return {"log_z_guess": log_z, "histogram": histogram, "flooded_at": flooded_at}

    def _by_wang_landau(self, before: _Arrays, seen: Occupancy, done: int, prior: HostPerRung) -> _Arrays:
        new = seen.visits.sum(axis=1)
        per_draw = len(prior) / (done * new)  # K/t: the δ whose gain is 1/t
        delta, histogram = halved(before["delta"], before["histogram"] + seen.visits, per_draw, prior, self.flatness)
        gains = np.log1p(np.where(delta > 0, delta, per_draw)) / len(prior)
        log_z = corrected(before["log_z_guess"], seen.visits, np.minimum(gains, 1 / new)[:, None], prior)
        return {"log_z_guess": log_z, "histogram": histogram, "delta": delta}


def corrected(log_z: PerGroup, sums: PerGroup, gains: Float[np.ndarray, "group #rung"], prior: HostPerRung) -> PerGroup:
    """log Ẑ_k + γ_k Σ q(k | x) / r_k, less the same at rung 0 (eq. 19): still only where the rungs are even."""
    moved = log_z + gains * sums / prior
    return moved - moved[:, :1]


def sams_gains(
    since_flood: Float[np.ndarray, " group"], burn_in: Float[np.ndarray, " group"], decay: float
) -> Float[np.ndarray, " group"]:
    """The gain γ of one draw: t^−a until t_0, then 1/(t − t_0 + t_0^a), which joins on and is optimal in the end.

    Here t counts draws of the group since it had visited every rung, and t_0 is `burn_in`. Before that t is 0 and the
    gain has no bound but the two of the caller: r_k, so that one draw adds at most 1 to log Ẑ_k (Tan 2017), and 1/n for
    an update by n draws, for beyond it eq. 19 overshoots.
    """
    with np.errstate(divide="ignore"):  # at t = 0 there is no bound
        early = since_flood**-decay
    late = 1 / (np.maximum(since_flood - burn_in, 0.0) + burn_in**decay)
    return np.where(since_flood <= burn_in, early, late)


def halved(
    delta: Float[np.ndarray, " group"],
    histogram: PerGroup,
    per_draw: Float[np.ndarray, " group"],
    prior: HostPerRung,
    flatness: float,
) -> tuple[Float[np.ndarray, " group"], PerGroup]:
    """δ halved, and visits counted anew, in groups whose histogram is flat; 0 where 1/t has taken over.

    It takes over when δ, halved at least once, is no larger than K/t (Belardinelli and Pereyra 2007): a δ that goes on
    being halved falls too fast, and the error saturates.
    """
    share = histogram / (prior * histogram.sum(axis=1, keepdims=True))
    is_flat = (share.min(axis=1) > 1 - flatness) & (delta > 0)
    delta = np.where(is_flat, delta / 2, delta)
    delta = np.where((delta < 1) & (delta <= per_draw), 0.0, delta)
    return delta, np.where(is_flat[:, None], 0.0, histogram)


def adjust(
    key: Key,
    ladder: Ladder,
    move: AbstractMove,
    num_chains: int,
    how: SelfAdjusting,
    watch: Callable[[Stage], None] | None = None,
) -> Adjusted:
    """All updates of an adjustment by itself, without the run that may follow it.

    ```python
    sams(adjust(key, ladder, BlockGibbs(), 100, SelfAdjusting()), log_z_base=path.log_z_base())
    ```

    Args:
        key: The random key.
        ladder: The ladder, whose guess of log Z is the first.
        move: How x moves.
        num_chains: Chains; they form at most ten groups.
        how: The rule of the updates, and their number.
        watch: Called with every short run at its end.

    Returns:
        What the groups have come to, for `sams` or `wang_landau`.
    """
    for stage in walk_stages(how, Setup(key, ladder, move, num_chains)):
        if not stage.is_finished:
            continue
        if watch is not None:
            watch(stage)
        if how.is_last_run(stage):
            return how.outcome(stage)
    raise AssertionError("an adjustment has a last run")


def _of_groups(by_chain: Any, groups: Int[np.ndarray, " chain"]) -> np.ndarray:
    """What the chains of a group share, once per group, in float64."""
    firsts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.asarray(by_chain, np.float64)[firsts]


def _summed(by_chain: Float[np.ndarray, "chain *rung"], groups: Int[np.ndarray, " chain"]) -> np.ndarray:
    return np.add.reduceat(by_chain, np.flatnonzero(np.diff(groups, prepend=-1)), axis=0)
