"""States with their weights under the target, from which draws of the target are resampled."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from tempering._device_arrays import device_zeros
from tempering.ladder import Draw, Ladder
from tempering.stats.independence import independent_size
from tempering.stats.statistic import AbstractHostStatistic, AbstractRecord
from tempering.stats.steps import append_thinned, filled_steps, set_step, step_room
from tempering.stats.teams import Teams

MAX_KEPT_NUMBERS = 2**24  # of all chains together; beyond it every second draw is dropped, as often as needed


class WeightedDraws(AbstractHostStatistic):
    """Draws of all rungs, each with its weight under the target.

    A draw made at any rung is a draw of the target with importance weight w ∝ q(K−1 | x), where K−1 is the target's
    rung. Draws near the target have large weights, draws of the base usually small ones.

    ```python
    result = estimate(model, keep_draws=True)
    result.draws.independent_size              # how many independent draws of the target these are worth
    result.draws.resampled(1000)               # 1000 draws of the target
    ```

    Caveats: the weights are right only once the chains have equilibrated. `effective_size` ignores autocorrelation.

    Attributes:
        x: the states; every leaf has leading axes (chain, draw).
        log_weights: log q(K−1 | x), not normalised over the draws; −inf for a draw that is not finite.
        rungs: the rung drawn after each x.
        num_steps: steps of a chain so far, kept or not.
        stride: every how many-th step is kept.
        log_rises: log f at the target less log f at the base; None where it was not kept.
    """

    x: Any
    log_weights: Float[np.ndarray, "chain draw"]
    rungs: Int[np.ndarray, "chain draw"]
    num_steps: int
    stride: int = 1
    log_rises: Float[np.ndarray, "chain draw"] | None = None

    def then(self, later: "WeightedDraws", /) -> "WeightedDraws":
        numbers_per_draw = sum(leaf[:, :1].size for leaf in jax.tree.leaves(later.x))  # of all chains
        return append_thinned(self, later, max_draws=MAX_KEPT_NUMBERS // max(1, numbers_per_draw))

    @property
    def effective_size(self) -> float:
        """(Σw)² / Σw²: the number of independent draws of the target that these are worth, if they are independent."""
        weights = self._weights()
        return float(weights.sum() ** 2 / (weights**2).sum())

    @property
    def independent_size(self) -> float:
        """The same with autocorrelation: how many independent draws give means with errors as small as these do."""
        leaves = [leaf.reshape(*leaf.shape[:2], -1) for leaf in map(np.asarray, jax.tree.leaves(self.x))]
        return independent_size(self._weights(), np.concatenate(leaves, axis=2))

    def resampled(self, num_draws: int | None = None, *, seed: int = 0) -> Any:
        """Draws of the target, picked in proportion to their weights by systematic resampling.

        Args:
            num_draws: how many; by default `effective_size`, rounded.
            seed: of the one random number that is needed.

        Returns:
            States as in `x`, with a single leading axis (draw). A state may occur several times.
        """
        num_draws = max(1, round(self.effective_size)) if num_draws is None else num_draws
        picked = systematic_picks(self._weights().ravel(), num_draws, np.random.default_rng(seed).random())
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[picked], self.x)

    @property
    def num_chains(self) -> int:
        """The number of chains whose states are kept."""
        return len(self.log_weights)

    @property
    def skewness_of_rises(self) -> float:
        """The skewness of `log_rises` under the target; NaN where it is unknown, or where they do not vary."""
        if self.log_rises is None or not np.isfinite(self.log_weights.max(initial=-np.inf)):
            return np.nan
        is_finite = np.isfinite(self.log_rises)
        weights, rises = self._weights()[is_finite], self.log_rises[is_finite]
        if weights.sum() == 0:
            return np.nan
        off = rises - np.average(rises, weights=weights)
        second, third = (np.average(off**power, weights=weights) for power in (2, 3))
        return float(third / second**1.5) if second > 0 else np.nan

    def exceeded_by(self, share: float) -> float:
        """The level that `log_rises` exceed under the target with this probability, or a smaller one.

        Args:
            share: The probability.
        """
        assert self.log_rises is not None
        rises, weights = self.log_rises.ravel(), self._weights().ravel()
        order = np.argsort(rises, kind="stable")  # NaN comes last, and has no weight
        until = np.cumsum(weights[order]) / weights.sum()
        return float(rises[order][min(np.searchsorted(until, 1 - share), len(order) - 1)])

    def time_beyond(self, level: float) -> "Share":
        """The probability under the target that `log_rises` exceed a level.

        Args:
            level: The level.
        """
        assert self.log_rises is not None
        weights = self._weights()
        beyond, of_all = (weights * (self.log_rises > level)).sum(axis=1), weights.sum(axis=1)
        share = beyond.sum() / of_all.sum()
        return Share(float(share), mean_of_chains((beyond - share * of_all)[:, None] / of_all.mean()).std_error)

    def _weights(self) -> Float[np.ndarray, "chain draw"]:
        return np.exp(self.log_weights - self.log_weights.max())

    def __repr__(self) -> str:
        num_chains, num_draws = np.shape(self.log_weights)
        return f"WeightedDraws({num_chains} chains × {num_draws} draws, worth {self.effective_size:.1f})"


class Share(NamedTuple):
    """A probability, as chains estimate it.

    Attributes:
        value: The estimate.
        std_error: Its standard error, by the scatter of chains; NaN for one chain.
    """

    value: float
    std_error: float


def mean_of_chains(numbers: Shaped[np.ndarray, "chain draw"]) -> Share:
    """A mean over the draws of chains that are independent of one another, with its error.

    Args:
        numbers: One for each draw, such as whether something is so.

    Returns:
        The mean. Its error is that of the means of chains.
    """
    means = numbers.mean(axis=1)
    error = means.std(ddof=1) / len(means) ** 0.5 if len(means) > 1 else np.nan
    return Share(float(means.mean()), float(error))


def systematic_picks(weights: Float[np.ndarray, " draw"], num_picks: int, offset: float) -> Int[np.ndarray, " pick"]:
    """Systematic resampling: indices in proportion to weights, each n·w times up to rounding.

    Args:
        weights: non-negative, with any sum.
        num_picks: n, how many indices to return.
        offset: one uniform random number in [0, 1).

    Returns:
        The indices, in ascending order.
    """
    until = np.cumsum(weights) / np.sum(weights)
    levels = (np.arange(num_picks) + offset) / num_picks
    return np.minimum(np.searchsorted(until, levels, side="right"), len(weights) - 1)


class StateTrace(AbstractRecord):
    """The states of one chain in one block, with room for the longest block.

    Attributes:
        rooms: x, log q(K−1 | x), the rung, and log f at the target over that at the base, of every step.
        num_steps: how many steps have been written.
    """

    rooms: tuple[Any, Float[Array, "*chain step"], Int[Array, "*chain step"], Float[Array, "*chain step"]]
    num_steps: Int[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder) -> "StateTrace":
        one = eqx.filter_eval_shape(ladder.path.sample_base, jax.random.key(0))
        x = jax.tree.map(lambda leaf: step_room(leaf.shape, leaf.dtype), one)
        return cls((x, step_room(), step_room((), jnp.int32), step_room()), device_zeros((), jnp.int32))

    def update(self, ladder: Ladder, draw: Draw, /) -> "StateTrace":
        log_weight = ladder.log_target_posterior_of(draw)
        log_weight = jnp.where(jnp.isnan(log_weight), -jnp.inf, log_weight)
        kept = self.rooms[1].dtype
        log_weight, log_rise = log_weight.astype(kept), (draw.log_f[-1] - draw.log_f[0]).astype(kept)
        values = (draw.x, log_weight, draw.rung, log_rise)
        return StateTrace(set_step(self.rooms, self.num_steps, values), self.num_steps + 1)

    def gathered(self, teams: Teams) -> "StateTrace":
        return teams.firsts(self)  # one chain of each team gives draws enough

    def on_host(self) -> WeightedDraws:
        x, log_weights, rungs, log_rises = filled_steps(self.rooms, self.num_steps)
        log_weights, log_rises = (numbers.astype(np.float64) for numbers in (log_weights, log_rises))
        return WeightedDraws(x, log_weights, rungs, rungs.shape[1], log_rises=log_rises)
