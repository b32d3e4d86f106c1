"""States kept as they are, with their weight under the target: what posterior draws are made from."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering.ladder import Draw, Ladder

MAX_KEPT_NUMBERS = 2**24  # of all chains together; beyond it every second draw is let go, as often as needed


def systematic_picks(weights: Float[np.ndarray, " draw"], num_picks: int, offset: float) -> Int[np.ndarray, " pick"]:
    """Indices in proportion to `weights`, each n w times up to rounding; `offset` is one uniform random number."""
    until = np.cumsum(weights) / np.sum(weights)
    levels = (np.arange(num_picks) + offset) / num_picks
    return np.minimum(np.searchsorted(until, levels, side="right"), len(weights) - 1)


class StateTrace(eqx.Module):
    """Where one chain was in one block: x itself, and log q(K−1 | x)."""

    x: Any  # leading axis: step
    log_weights: Float[Array, "*chain step"]
    rungs: Int[Array, "*chain step"]
    num_steps: Int[Array, "*chain"]

    @classmethod
    def empty(cls, ladder: Ladder, room: int) -> "StateTrace":
        """Room for the longest block."""
        one = eqx.filter_eval_shape(ladder.path.sample_base, jax.random.key(0))
        x = jax.tree.map(lambda leaf: jnp.zeros((room, *leaf.shape), leaf.dtype), one)
        return cls(x, jnp.zeros(room), jnp.zeros(room, jnp.int32), jnp.zeros((), jnp.int32))

    def update(self, ladder: Ladder, draw: Draw) -> "StateTrace":
        """Note one draw; one that is not finite has no weight."""
        log_weight = ladder.log_rung_posterior(draw.log_f)[-1]
        log_weight = jnp.where(jnp.isnan(log_weight), -jnp.inf, log_weight).astype(self.log_weights.dtype)
        return StateTrace(
            jax.tree.map(lambda kept, new: kept.at[self.num_steps].set(new), self.x, draw.x),
            self.log_weights.at[self.num_steps].set(log_weight),
            self.rungs.at[self.num_steps].set(draw.rung),
            self.num_steps + 1,
        )

    def on_host(self) -> "WeightedDraws":
        """What all chains kept of this block."""
        num_steps = int(np.max(self.num_steps))
        x = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :num_steps], self.x)
        log_weights = np.asarray(self.log_weights, np.float64)[:, :num_steps]
        return WeightedDraws(x, log_weights, np.asarray(self.rungs)[:, :num_steps], num_steps)


class WeightedDraws(eqx.Module):
    """Draws of all rungs with their weights under the target: every draw counts as far as it suits it.

    ```python
    result.draws.resampled(1000)               # that many draws of the target itself
    ```
    """

    x: Any  # leading axes: chain, draw
    log_weights: Float[np.ndarray, "chain draw"]  # log q(K−1 | x), not normalised over the draws
    rungs: Int[np.ndarray, "chain draw"]
    num_steps: int  # of a chain so far
    stride: int = 1  # only every so many-th step is kept

    def then(self, later: "WeightedDraws") -> "WeightedDraws":
        """These draws followed by a later block of the same chains, thinned where there are too many."""
        keep, stride = slice(-self.num_steps % self.stride, None, self.stride), self.stride
        pairs = ((self.x, later.x), (self.log_weights, later.log_weights), (self.rungs, later.rungs))
        x, log_weights, rungs = (
            jax.tree.map(lambda mine, new: np.concatenate([mine, new[:, keep]], axis=1), *pair) for pair in pairs
        )
        while sum(leaf.size for leaf in jax.tree.leaves(x)) > MAX_KEPT_NUMBERS and rungs.shape[1] > 1:
            x, log_weights, rungs = (jax.tree.map(lambda leaf: leaf[:, ::2], part) for part in (x, log_weights, rungs))
            stride *= 2
        return WeightedDraws(x, log_weights, rungs, self.num_steps + later.num_steps, stride)

    @property
    def effective_size(self) -> float:
        """(Σw)² / Σw²: how many draws of the target these are worth, if they were independent."""
        weights = self._weights()
        return float(weights.sum() ** 2 / (weights**2).sum())

    def resampled(self, num_draws: int | None = None, *, seed: int = 0) -> Any:
        """States of the target, picked in proportion to their weights by systematic resampling; leading axis: draw.

        By default as many as `effective_size` says these draws are worth.
        """
        num_draws = max(1, round(self.effective_size)) if num_draws is None else num_draws
        picked = systematic_picks(self._weights().ravel(), num_draws, np.random.default_rng(seed).random())
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[picked], self.x)

    def _weights(self) -> Float[np.ndarray, "chain draw"]:
        return np.exp(self.log_weights - self.log_weights.max())
