"""What is kept of the draws: small statistics with `empty`, `update` for a draw, and `then` for what comes later.

On the device a statistic speaks of one chain and one block (a stretch of at most `MAX_BLOCK_STEPS` steps) in float32;
on the host blocks are joined in float64, in a fixed order, so that the answer does not depend on how a run was
cut, parallelised or resumed.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._logspace import LogSum, Sum
from tempering._types import HostPerRung
from tempering.ladder import Draw, Ladder

_COUNTS = ("visits", "num_draws", "num_nonfinite")
_PER_BLOCK = ("log_sums", *_COUNTS)
_MAX_BLOCKS = 40  # per chain; then neighbours are joined
MAX_BLOCK_STEPS = 250  # keeps float32 sums exact enough and a lost block short
_MAX_GROUPS = 10  # of chains, for the errors of estimates made from transition matrices


class TemperingStats(eqx.Module):
    """What Rao-Blackwellized tempered sampling needs of one chain: Σ_i q(k | x_i), and how the chain travelled.

    ```python
    stats = TemperingStats.empty(ladder)
    stats = stats.update(ladder, draw)      # inside jit, scan, vmap
    log_z = rts(stats)                      # any leading axes; the first one is the chain
    ```
    """

    posterior_sum: LogSum | Sum  # (rung,)  Σ_i q(k | x_i), the numerator of ĉ_k in eq. 9
    visits: Int[Array, "*axes rung"]
    first_end: Int[Array, "*axes"]
    last_end: Int[Array, "*axes"]
    num_crossings: Int[Array, "*axes"]  # from one end of the ladder to the other
    num_draws: Int[Array, "*axes"]
    num_nonfinite: Int[Array, "*axes"]  # draws left out, because their density was NaN or infinite
    log_prior: Float[Array, "*axes rung"]  # the law that these were gathered under
    log_z_guess: Float[Array, "*axes rung"]

    @classmethod
    def empty(cls, ladder: Ladder, *, any_range: bool = True) -> "TemperingStats":
        """Nothing seen yet, under this ladder's law.

        With `any_range` posteriors are summed in log space, as they must be while Ẑ may be wrong by a hundred nats.
        Without it a rung whose posterior is below 1e-38 at every draw counts as never reached, at half the cost.
        """
        num_rungs = ladder.path.num_rungs
        zero = jnp.zeros((), jnp.int32)
        posterior_sum = (LogSum if any_range else Sum).empty((num_rungs,))
        visits = jnp.zeros(num_rungs, jnp.int32)
        return cls(posterior_sum, visits, zero, zero, zero, zero, zero, ladder.log_prior, ladder.log_z_guess)

    def update(self, ladder: Ladder, draw: Draw) -> "TemperingStats":
        """Fold one draw in."""
        in_log_space = isinstance(self.posterior_sum, LogSum)
        posterior = (ladder.log_rung_posterior if in_log_space else ladder.rung_posterior)(draw.log_f)
        is_finite = ~jnp.isnan(posterior[0])  # a density that is not finite makes every rung NaN
        end = ladder.ends[draw.rung]
        crossed = (end != 0) & (self.last_end != 0) & (end != self.last_end)
        return TemperingStats(
            self.posterior_sum.add(jnp.where(is_finite, posterior, -jnp.inf if in_log_space else 0.0)),
            self.visits.at[draw.rung].add(1),
            jnp.where(self.first_end == 0, end, self.first_end),
            jnp.where(end == 0, self.last_end, end),
            self.num_crossings + crossed,
            self.num_draws + 1,
            self.num_nonfinite + ~is_finite,
            self.log_prior,
            self.log_z_guess,
        )

    def on_host(self) -> "BlockedStats":
        """The same numbers in float64, with axes (chain, block, rung); a missing chain or block axis is added."""
        axes = np.ndim(self.num_draws)
        if axes > 2:
            raise ValueError(f"TemperingStats may have a chain and a block axis, got {axes} leading axes.")

        def widen(leaf, ndim: int) -> np.ndarray:
            array = np.asarray(leaf)
            array = array[None] if axes == 0 else array
            return array[:, None] if array.ndim < ndim else array

        ends = [widen(leaf, 2) for leaf in (self.first_end, self.last_end, self.num_crossings)]
        travel = Travel(ends[0][:, 0], ends[1][:, 0], ends[2][:, 0])
        for block in range(1, ends[0].shape[1]):
            travel = travel.then(Travel(ends[0][:, block], ends[1][:, block], ends[2][:, block]))
        return BlockedStats(
            log_prior=_only_row(self.log_prior),
            log_z_guess=_only_row(self.log_z_guess),
            log_sums=widen(self.posterior_sum.log(), 3),
            visits=widen(self.visits, 3),
            num_draws=widen(self.num_draws, 2).astype(np.int64),
            num_nonfinite=widen(self.num_nonfinite, 2).astype(np.int64),
            travel=travel,
            block_size=int(np.max(self.num_draws)),
        )


class Travel(eqx.Module):
    """How chains crossed the ladder: an associative summary, joined in the order of time."""

    first_end: Int[np.ndarray, " chain"]
    last_end: Int[np.ndarray, " chain"]
    num_crossings: Int[np.ndarray, " chain"]

    def then(self, later: "Travel") -> "Travel":
        """This stretch followed by a later one of the same chains."""
        between = (self.last_end != 0) & (later.first_end != 0) & (self.last_end != later.first_end)
        return Travel(
            np.where(self.first_end == 0, later.first_end, self.first_end),
            np.where(later.last_end == 0, self.last_end, later.last_end),
            self.num_crossings + later.num_crossings + between,
        )


class BlockedStats(eqx.Module):
    """The statistics of a run on the host, in float64: what estimators, errors and verdicts are made from."""

    log_prior: HostPerRung  # log r_k
    log_z_guess: HostPerRung  # log Ẑ_k − log Ẑ_0
    log_sums: Float[np.ndarray, "chain block rung"]  # log Σ_i q(k | x_i)
    visits: Int[np.ndarray, "chain block rung"]
    num_draws: Int[np.ndarray, "chain block"]
    num_nonfinite: Int[np.ndarray, "chain block"]
    travel: Travel
    block_size: int  # draws in a full block; the last one may have fewer

    def on_host(self) -> "BlockedStats":
        """Itself."""
        return self

    @property
    def num_chains(self) -> int:
        """Independent chains."""
        return self.log_sums.shape[0]

    @property
    def num_blocks(self) -> int:
        """Blocks that each chain was cut into."""
        return self.log_sums.shape[1]

    def then(self, later: "BlockedStats") -> "BlockedStats":
        """These blocks followed by one later block of the same chains, gathered under the same law."""
        for name in ("log_prior", "log_z_guess"):
            if not np.array_equal(getattr(self, name), getattr(later, name)):
                raise ValueError(
                    f"Statistics gathered under two ladders cannot be merged: their `{name}` differ. "
                    "Estimate from each, or keep the ladder frozen within a run."
                )

        if self.num_draws[0, -1] < self.block_size:
            return self._with_last_grown(later)
        joined = {n: np.concatenate([getattr(self, n), getattr(later, n)], axis=1) for n in _PER_BLOCK}
        longer = dataclasses.replace(self, travel=self.travel.then(later.travel), **joined)
        return longer.coarsened() if longer.num_blocks == _MAX_BLOCKS else longer

    def without_first(self, num_blocks: int) -> "BlockedStats":
        """The same run with its first blocks left out; crossings stay those of the whole run."""
        return dataclasses.replace(self, **{n: getattr(self, n)[:, num_blocks:] for n in _PER_BLOCK})

    def coarsened(self) -> "BlockedStats":
        """Neighbouring blocks joined in pairs, an odd last one alone, so that memory does not grow with a run."""
        starts = np.arange(0, self.num_blocks, 2)
        added = {n: np.add.reduceat(getattr(self, n), starts, axis=1) for n in _COUNTS}
        log_sums = np.logaddexp.reduceat(self.log_sums, starts, axis=1)
        return dataclasses.replace(self, log_sums=log_sums, block_size=2 * self.block_size, **added)

    def _with_last_grown(self, later: "BlockedStats") -> "BlockedStats":
        grown = {n: getattr(self, n).copy() for n in _PER_BLOCK}
        for name in _COUNTS:
            grown[name][:, -1] += getattr(later, name)[:, 0]
        grown["log_sums"][:, -1] = np.logaddexp(grown["log_sums"][:, -1], later.log_sums[:, 0])
        return dataclasses.replace(self, travel=self.travel.then(later.travel), **grown)


class RungTrace(eqx.Module):
    """The rungs that one chain stood at, step by step, within one block."""

    origin: Int[Array, ""]  # where the block began
    rungs: Int[Array, " step"]
    num_steps: Int[Array, ""]

    @classmethod
    def empty(cls) -> "RungTrace":
        """Room for the longest block: one length for all, so that runs of any length share what was compiled."""
        zero = jnp.zeros((), jnp.int32)
        return cls(zero, jnp.zeros(MAX_BLOCK_STEPS, jnp.int32), zero)

    def update(self, ladder: Ladder, draw: Draw) -> "RungTrace":
        """Note where the chain went."""
        origin = jnp.where(self.num_steps == 0, draw.origin, self.origin)
        return RungTrace(origin, self.rungs.at[self.num_steps].set(draw.rung), self.num_steps + 1)


class TransitionSums(eqx.Module):
    """Σ_n q(k | x_n) 1{k_n = j}: the Rao-Blackwellized transition sums of Appendix G, K × K numbers a chain."""

    sums: Float[Array, "rung rung"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "TransitionSums":
        """Nothing seen yet."""
        return cls(jnp.zeros((ladder.path.num_rungs, ladder.path.num_rungs)))

    def update(self, ladder: Ladder, draw: Draw) -> "TransitionSums":
        """Add q(· | x) to the row of the rung at which x was drawn; a draw that is not finite adds nothing."""
        posterior = ladder.rung_posterior(draw.log_f)
        return TransitionSums(self.sums.at[draw.origin].add(jnp.nan_to_num(posterior)))


class TemperingRecord(eqx.Module):
    """All that one chain keeps of one block in a tempered run."""

    stats: TemperingStats
    trace: RungTrace
    transitions: TransitionSums | None

    @classmethod
    def empty(cls, ladder: Ladder, *, any_range: bool = True, with_transitions: bool = False) -> "TemperingRecord":
        """An empty record; Rao-Blackwellized transitions cost K × K numbers a chain, so they are kept on request."""
        transitions = TransitionSums.empty(ladder) if with_transitions else None
        return cls(TemperingStats.empty(ladder, any_range=any_range), RungTrace.empty(), transitions)

    def update(self, ladder: Ladder, draw: Draw) -> "TemperingRecord":
        """Fold one draw into each part."""
        transitions = None if self.transitions is None else self.transitions.update(ladder, draw)
        return TemperingRecord(self.stats.update(ladder, draw), self.trace.update(ladder, draw), transitions)

    def on_host(self) -> "Recording":
        """What all chains kept of this block, in float64."""
        stats = self.stats.on_host()
        groups = chain_groups(stats.num_chains)
        sums = None if self.transitions is None else _group_sums(np.asarray(self.transitions.sums), groups)
        return Recording(stats, _transition_counts(self.trace, groups, len(stats.log_prior)), sums)


class Recording(eqx.Module):
    """What a tempered run has kept so far. Transition matrices are added up within groups of chains."""

    stats: BlockedStats
    transition_counts: Int[np.ndarray, "group rung rung"]
    transition_sums: Float[np.ndarray, "group rung rung"] | None

    def then(self, later: "Recording") -> "Recording":
        """This recording followed by one later block of the same chains."""
        sums = None
        if self.transition_sums is not None and later.transition_sums is not None:
            sums = self.transition_sums + later.transition_sums
        return Recording(self.stats.then(later.stats), self.transition_counts + later.transition_counts, sums)


def chain_groups(num_chains: int) -> Int[np.ndarray, " chain"]:
    """The group that each chain belongs to: at most ten, contiguous, as equal in size as can be."""
    return np.arange(num_chains) * min(_MAX_GROUPS, num_chains) // num_chains


def _transition_counts(trace: RungTrace, groups: np.ndarray, num_rungs: int) -> Int[np.ndarray, "group rung rung"]:
    num_steps = int(np.max(trace.num_steps))
    to = np.asarray(trace.rungs)[:, :num_steps].astype(np.int64)
    came_from = np.concatenate([np.asarray(trace.origin)[:, None], to[:, :-1]], axis=1)
    flat = ((groups[:, None] * num_rungs + came_from) * num_rungs + to).ravel()
    shape = (groups.max() + 1, num_rungs, num_rungs)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def _group_sums(per_chain: np.ndarray, groups: np.ndarray) -> Float[np.ndarray, "group rung rung"]:
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.add.reduceat(per_chain.astype(np.float64), starts, axis=0)


def _only_row(leaf) -> HostPerRung:
    rows = np.asarray(leaf, np.float64).reshape(-1, np.shape(leaf)[-1])
    if not np.array_equal(rows, np.broadcast_to(rows[0], rows.shape)):
        raise ValueError("Statistics gathered under several ladders cannot be estimated from together.")
    return rows[0]
