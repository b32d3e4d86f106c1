"""A few sums per rung, which one chain gathers within one block, on the device in float32."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._device_arrays import device_full, device_zeros
from tempering._logspace import LogSum, Sum
from tempering._types import HostPerRung, PerRung, Rung
from tempering.ladder import AbstractPath, AbstractTwoEndedPath, Draw, Ladder
from tempering.stats.blocked import BlockedStats, Fault, Travel
from tempering.stats.statistic import AbstractRecord
from tempering.stats.teams import Teams


class SlopeSums(eqx.Module):
    """Moments of the slope s_k = d log f_k/dβ for thermodynamic integration: Σ(s − reference), its square, Σ ds/dβ.

    Attributes:
        reference: the slope of log Ẑ. It is near the mean of s if the guess is good, so that squares lose no digits.
        counted: the moments over the draws made at rung k.
        weighted: the moments over all draws, weighted by q(k | x) (eq. 21).
    """

    reference: Float[Array, "*axes rung"]
    counted: Float[Array, "*axes rung moment"]
    weighted: Float[Array, "*axes rung moment"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "SlopeSums":
        between = jnp.diff(ladder.log_z_guess) / jnp.diff(ladder.path.betas)
        reference = (jnp.append(between[:1], between) + jnp.append(between, between[-1:])) / 2
        none = jnp.zeros((ladder.path.num_rungs, 3))
        return cls(reference, none, none)

    def gathered(self, teams: Teams) -> "SlopeSums":
        """See `AbstractRecord.gathered`."""
        return SlopeSums(teams.firsts(self.reference), teams.sums(self.counted), teams.sums(self.weighted))

    def update(self, ladder: Ladder, draw: Draw, posterior: PerRung) -> "SlopeSums":
        """Add one draw; `posterior` is q(k | x), 0 at every rung if the density is not finite."""
        slopes, curvatures = _slopes(ladder.path, draw)
        off = slopes - self.reference
        moments = jnp.stack([off, off**2, curvatures], axis=-1)
        moments = jnp.where(posterior[draw.rung] > 0, moments, 0.0)
        counted = self.counted.at[draw.origin].add(moments[draw.origin])
        return SlopeSums(self.reference, counted, self.weighted + posterior[:, None] * moments)


def _slopes(path: AbstractPath, draw: Draw) -> tuple[PerRung, PerRung]:
    """d log f/dβ and its derivative at every rung, from what the kernel knows already where that is enough."""
    if draw.log_ends is None or not isinstance(path, AbstractTwoEndedPath):
        return path.slopes(draw.x), path.curvatures(draw.x)
    return jnp.broadcast_to(path.slope_from(draw.log_ends), path.betas.shape), jnp.zeros_like(path.betas)


def _beside(log_f: PerRung, origin: Rung) -> Float[Array, "3"]:
    """log f_{k−1}, log f_k and log f_{k+1}; −inf past an end."""
    rungs = origin + jnp.arange(-1, 2)
    is_rung = (rungs >= 0) & (rungs < len(log_f))
    return jnp.where(is_rung, jnp.take(log_f, rungs, mode="clip"), -jnp.inf)


def _log_ratios(log_f: PerRung, origin: Rung) -> Float[Array, "2"]:
    """log f_{k+1}/f_k and log f_{k−1}/f_k; −inf past an end, and where a density is NaN."""
    below, here, above = _beside(log_f, origin)
    log_ratios = jnp.stack([above, below]) - here
    return jnp.where(jnp.isnan(log_ratios), -jnp.inf, log_ratios)


def _log_share(log_ratio: Array) -> Array:
    """log of b/(a + b), given log b/a."""
    return -jnp.logaddexp(0.0, -log_ratio)


def _control_moments(ladder: Ladder, draw: Draw) -> Float[Array, "4"]:
    """c, c², and c times the shares of both neighbouring densities."""
    assert draw.control is not None
    shares = jnp.exp(_log_share(_log_ratios(draw.log_f - ladder.log_z_guess, draw.origin)))
    return draw.control * jnp.concatenate([jnp.stack([jnp.ones(()), draw.control]), shares])


def _with_ratios(
    sums: tuple[LogSum, LogSum], ladder: Ladder, origin: Rung, log_f: PerRung, log_term: Callable[[Array], Array]
) -> tuple[LogSum, LogSum]:
    """Add a function of the ratios of one draw; past an end, or to or from a density that is NaN, add nothing."""
    if ladder.writes_rows:
        padded = jnp.pad(log_f, 1, constant_values=-jnp.inf)
        is_origin = jnp.arange(ladder.path.num_rungs) == origin
        rows = [padded[2:] - log_f, padded[:-2] - log_f]
        rows = [jnp.where(is_origin & ~jnp.isnan(row), log_term(row), -jnp.inf) for row in rows]
        return sums[0].add(rows[0]), sums[1].add(rows[1])
    up, down = log_term(_log_ratios(log_f, origin))
    return sums[0].add_at(origin, up), sums[1].add_at(origin, down)


def _with_vanished(counts: Int[Array, " rung"], ladder: Ladder, draw: Draw) -> Int[Array, " rung"]:
    """Add one draw; only if it has a density at its rung and none at the next."""
    if ladder.writes_rows:
        is_positive = jnp.append(draw.log_f > -jnp.inf, True)  # False for NaN; past the end nothing can vanish
        is_origin = jnp.arange(ladder.path.num_rungs) == draw.origin
        return counts + (is_origin & is_positive[:-1] & ~is_positive[1:])
    _, is_here, is_above = _beside(draw.log_f, draw.origin) > -jnp.inf
    is_last = draw.origin == len(counts) - 1
    return counts.at[draw.origin].add(is_here & ~is_above & ~is_last)


class TemperingStats(AbstractRecord):
    """What Rao-Blackwellized tempered sampling needs of one chain: Σ_i q(k | x_i), and how the chain travelled.

    ```python
    stats = TemperingStats.empty(ladder)
    for _ in range(1000):                           # or jax.lax.scan, under jit and vmap over chains
        key, key_step = jax.random.split(key)
        position, draw = kernel(key_step, ladder, position)
        stats = stats.update(ladder, draw)
    log_z = rts(stats)                              # leading axes: none, (chain,) or (chain, block)
    ```

    Caveats: sums in float32 lose digits; keep below 10⁴ draws in one of these, and join blocks by `on_host().then`, as
    `run_chains` makes possible. A ladder may not change within them.

    Attributes:
        posterior_sum: Σ_i q(k | x_i), the numerator of ĉ_k in eq. 9, of shape (rung,).
        visits: the number of draws of each rung.
        origins: the number of draws of x made at each rung, without those that were left out.
        first_end: the end of the ladder that the chain reached first, BOTTOM or TOP; 0 if none.
        last_end: the end that it reached last.
        num_crossings: from one end of the ladder to the other.
        num_draws: the number of draws.
        num_nonfinite: draws whose density was NaN at some rung, where it counts as 0, and draws left out.
        num_left_out: draws left out because their density was infinite at some rung, or 0 at every rung.
        betas: the inverse temperatures of the law that was sampled.
        log_prior: its log r_k.
        log_z_guess: its log Ẑ_k − log Ẑ_0.
        slopes: sums for thermodynamic integration, on request.
        steps: Σ f_{k+1}(x)/f_k(x) and Σ f_{k−1}(x)/f_k(x) over the draws made at rung k, for stepping stones, on
            request.
        num_vanished: the number of draws made at rung k where f_{k+1}(x) is 0; kept with `steps`.
        bridges: Σ b_k(x) and Σ b_{k−1}'(x) over the draws made at rung k, for bridge sampling, on request: the shares
            of f_{k+1}/Ẑ_{k+1} and of f_{k−1}/Ẑ_{k−1} in their sums with f_k/Ẑ_k.
        controls: Σ c, Σ c², Σ c b_k and Σ c b_{k−1}' of the control c over the draws made at rung k, on request.
        first_fault: of the first draw of `num_nonfinite`, how many draws came before it, and the rung at which it was
            made; −1 where there is none.
    """

    posterior_sum: LogSum | Sum
    visits: Int[Array, "*axes rung"]
    origins: Int[Array, "*axes rung"]
    first_end: Int[Array, "*chains"]
    last_end: Int[Array, "*chains"]
    num_crossings: Int[Array, "*chains"]
    num_draws: Int[Array, "*axes"]
    num_nonfinite: Int[Array, "*axes"]
    num_left_out: Int[Array, "*axes"]
    betas: Float[Array, "*axes rung"]
    log_prior: Float[Array, "*axes rung"]
    log_z_guess: Float[Array, "*axes rung"]
    slopes: SlopeSums | None
    steps: tuple[LogSum, LogSum] | None
    num_vanished: Int[Array, "*axes rung"] | None
    bridges: tuple[LogSum, LogSum] | None
    controls: Float[Array, "*axes rung control"] | None
    first_fault: tuple[Int[Array, "*chains"], Int[Array, "*chains"]]

    @classmethod
    def empty(
        cls,
        ladder: Ladder,
        *,
        any_range: bool = True,
        with_slopes: bool = False,
        with_steps: bool = False,
        with_bridges: bool = False,
        with_controls: bool = False,
    ) -> "TemperingStats":
        """Statistics of no draws.

        Args:
            ladder: the law that is sampled.
            any_range: whether posteriors are summed in log space, as is necessary while Ẑ may be wrong by a hundred
                nats. If not, a rung with q(k | x) below 1e-38 at every draw counts as never reached, at half the cost.
            with_slopes: whether to keep what thermodynamic integration needs.
            with_steps: whether to keep what stepping stones need.
            with_bridges: whether to keep what bridge sampling needs.
            with_controls: whether to keep the control variates of a move that gives them.
        """
        num_rungs = ladder.path.num_rungs
        zero = device_zeros((), jnp.int32)
        posterior_sum = (LogSum if any_range else Sum).empty((num_rungs,))
        none = device_zeros((num_rungs,), jnp.int32)
        law = (ladder.path.betas, ladder.log_prior, ladder.log_z_guess)
        slopes = SlopeSums.empty(ladder) if with_slopes else None
        steps, bridges = (
            (LogSum.empty((num_rungs,)), LogSum.empty((num_rungs,))) if is_kept else None
            for is_kept in (with_steps, with_bridges)
        )
        num_vanished = none if with_steps else None
        controls = device_zeros((num_rungs, 4)) if with_controls else None
        no_fault = device_full((), -1, jnp.int32)
        return cls(
            posterior_sum, none, none, zero, zero, zero, zero, zero, zero, *law, slopes, steps, num_vanished,
            bridges, controls, (no_fault, no_fault),
        )  # fmt: skip

    def update(self, ladder: Ladder, draw: Draw, /) -> "TemperingStats":
        in_log_space = isinstance(self.posterior_sum, LogSum)
        posterior = ladder.log_rung_posterior(draw.log_f) if in_log_space else ladder.posterior_of(draw)
        is_usable = ~jnp.isnan(posterior[0])  # a draw without q(k | x) has NaN at every rung
        is_finite = is_usable & ~jnp.any(jnp.isnan(draw.log_f))
        posterior = jnp.where(is_usable, posterior, -jnp.inf if in_log_space else 0.0)
        end = ladder.ends[draw.rung]
        crossed = (end != 0) & (self.last_end != 0) & (end != self.last_end)
        plain = jnp.exp(posterior) if in_log_space else posterior
        return dataclasses.replace(
            self,
            posterior_sum=self.posterior_sum.add(posterior),
            visits=ladder.added_at(self.visits, draw.rung, jnp.ones((), jnp.int32)),
            origins=ladder.added_at(self.origins, draw.origin, is_usable.astype(jnp.int32)),
            first_end=jnp.where(self.first_end == 0, end, self.first_end),
            last_end=jnp.where(end == 0, self.last_end, end),
            num_crossings=self.num_crossings + crossed,
            num_draws=self.num_draws + 1,
            num_nonfinite=self.num_nonfinite + ~is_finite,
            num_left_out=self.num_left_out + ~is_usable,
            slopes=None if self.slopes is None else self.slopes.update(ladder, draw, plain),
            steps=self._with_steps(ladder, draw),
            num_vanished=None if self.num_vanished is None else _with_vanished(self.num_vanished, ladder, draw),
            bridges=self._with_bridges(ladder, draw),
            controls=self._with_control(ladder, draw),
            first_fault=tuple(
                jnp.where(is_finite | (self.first_fault[0] >= 0), known, new)
                for known, new in zip(self.first_fault, (self.num_draws, draw.origin), strict=True)
            ),
        )

    def _with_steps(self, ladder: Ladder, draw: Draw) -> tuple[LogSum, LogSum] | None:
        return self.steps and _with_ratios(self.steps, ladder, draw.origin, draw.log_f, lambda log_ratio: log_ratio)

    def _with_bridges(self, ladder: Ladder, draw: Draw) -> tuple[LogSum, LogSum] | None:
        return self.bridges and _with_ratios(
            self.bridges, ladder, draw.origin, draw.log_f - ladder.log_z_guess, _log_share
        )  # fmt: skip

    def _with_control(self, ladder: Ladder, draw: Draw) -> Float[Array, "rung moment"] | None:
        if self.controls is None:
            return None
        return self.controls.at[draw.origin].add(_control_moments(ladder, draw))

    def gathered(self, teams: Teams) -> "TemperingStats":
        added = ("posterior_sum", "visits", "origins", "num_draws", "num_nonfinite", "num_left_out", "steps")
        sums = {name: teams.sums(getattr(self, name)) for name in (*added, "num_vanished", "bridges", "controls")}
        laws = {name: teams.firsts(getattr(self, name)) for name in ("betas", "log_prior", "log_z_guess")}
        slopes = None if self.slopes is None else self.slopes.gathered(teams)
        return dataclasses.replace(self, slopes=slopes, **sums, **laws)

    def on_host(self) -> BlockedStats:
        """The same numbers in float64 with axes (chain, block, rung); a missing chain or block axis is added."""
        axes, slopes = np.ndim(self.num_draws), self.slopes
        if axes > 2:
            raise ValueError(f"TemperingStats may have a chain and a block axis, got {axes} leading axes.")
        num_chains, num_blocks = (*np.shape(self.num_draws), 1, 1)[:2]

        def widen(leaf) -> np.ndarray:
            return np.asarray(leaf).reshape(num_chains, num_blocks, *np.shape(leaf)[axes:])

        by_chain = (self.first_end, self.last_end, self.num_crossings)
        ends = [np.asarray(leaf).reshape(-1, num_blocks) for leaf in by_chain]
        num_draws = widen(self.num_draws).astype(np.int64)
        travels = [Travel(*(end[:, block] for end in ends)) for block in range(num_blocks)]
        return BlockedStats(
            *(_only_row(law) for law in (self.betas, self.log_prior, self.log_z_guess)),
            log_sums=widen(self.posterior_sum.log()),
            visits=widen(self.visits),
            origins=widen(self.origins),
            num_draws=num_draws,
            num_nonfinite=widen(self.num_nonfinite).astype(np.int64),
            num_left_out=widen(self.num_left_out).astype(np.int64),
            travel=functools.reduce(Travel.then, travels),
            block_size=int(np.max(self.num_draws)),
            slope_reference=None if slopes is None else _only_row(slopes.reference),
            counted_slopes=None if slopes is None else widen(slopes.counted).astype(np.float64),
            weighted_slopes=None if slopes is None else widen(slopes.weighted).astype(np.float64),
            log_steps=self.steps and np.stack([widen(side.log()) for side in self.steps], axis=-1),
            num_vanished=None if self.num_vanished is None else widen(self.num_vanished).astype(np.int64),
            log_bridges=self.bridges and np.stack([widen(side.log()) for side in self.bridges], axis=-1),
            controls=None if self.controls is None else _finite_or_nan(widen(self.controls).astype(np.float64)),
            first_fault=Fault.first_of(np.stack(self.first_fault, axis=-1).reshape(-1, num_blocks, 2), num_draws),
        )

    def __repr__(self) -> str:
        return f"TemperingStats({np.shape(self.visits)[-1]} rungs, leading axes {np.shape(self.num_draws)})"


def _finite_or_nan(numbers: np.ndarray) -> np.ndarray:
    """NaN in the place of ±∞, so that ∞ − ∞ is never met."""
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _only_row(leaf) -> HostPerRung:
    rows = np.asarray(leaf, np.float64).reshape(-1, np.shape(leaf)[-1])
    if not np.array_equal(rows, np.broadcast_to(rows[0], rows.shape)):
        raise ValueError("Statistics gathered under several ladders cannot be estimated from together.")
    return rows[0]
