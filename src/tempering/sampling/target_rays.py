"""Rays through draws of the target: how much of its mass lies farther out than any draw of a run."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._batches import batch_size, in_batches
from tempering._compiling import compiled_quickly
from tempering.ladder import AbstractPath, Ladder
from tempering.stats import WeightedDraws

_NUM_RAYS = 60
_LOG_PLACES = np.log(1000.0) * np.linspace(-1, 1, 51) ** 3  # log s, dense about the draw itself, at s = 1
_MOST = 50.0  # of the log of a ratio, so that a sum of few stays finite where f has no integral
_MOST_COMPARED = 1000  # draws, to tell real numbers from others
_FARTHER = 2.0  # times as far out as any draw: a right run of few draws has some mass just beyond them


class RayMasses(NamedTuple):
    """What rays find beyond the draws of a run.

    Attributes:
        ratios: The mass of each ray beyond what draws have reached, over that within.
        by_chance: What a right run may miss: each of d coordinates of another draw is farther out than all of n draws
            were with probability 1/(n + 1).
    """

    ratios: Float[np.ndarray, " ray"]
    by_chance: float


def masses_beyond(ladder: Ladder, draws: WeightedDraws) -> RayMasses | None:
    """The mass of the target on rays beyond what draws have reached.

    A ray from a centre c through a draw x consists of c + s (x − c), s > 0. In d dimensions its mass is that of
    s^(d−1) f. Let A be the box about c that reaches twice as far as any draw. Directions of draws of the target in A
    occur as often as the mass within A on their ray says. So the mean of these ratios is that of all the mass outside A
    to that inside, whether or not a chain has ever been outside.

    It sees what lies behind what the run has seen, such as a wide component or tails in all directions. It hardly sees
    what few rays hit, such as another mode.

    Args:
        ladder: The law that was sampled.
        draws: The states of the run.

    Returns:
        The masses; None where there are no draws of the target, or states are not real numbers.
    """
    is_at_target = draws.rungs == ladder.path.num_rungs - 1
    leaves, form = jax.tree.flatten(draws.x)
    if not is_at_target.any():
        return None
    at_target = [leaf[is_at_target].astype(np.float64) for leaf in leaves]
    x = np.concatenate([leaf.reshape(len(leaf), -1) for leaf in at_target], axis=1)
    if _have_few_values(x):
        return None
    center = np.median(x, axis=0)
    steps = x[np.linspace(0, len(x) - 1, _NUM_RAYS).astype(int)] - center
    places = center + np.exp(_LOG_PLACES)[:, None] * steps[:, None]
    log_f = _log_f_at(ladder.path, _as_states(places.reshape(-1, x.shape[1]), leaves, form), batch_size())
    log_f = np.asarray(log_f, np.float64).reshape(_NUM_RAYS, -1)
    reached = _FARTHER * np.abs(x - center).max(axis=0)
    until = np.divide(reached, np.abs(steps), out=np.full(steps.shape, np.inf), where=steps != 0).min(axis=1)
    is_beyond = np.log(until)[:, None] < _LOG_PLACES
    ratios = _ratios(log_f + x.shape[1] * _LOG_PLACES, is_beyond)  # ds = s d log s
    return RayMasses(ratios, x.shape[1] / (len(x) + 1))


def num_densities() -> int:
    """Evaluations of log f that this costs."""
    return _NUM_RAYS * len(_LOG_PLACES)


def _ratios(log_mass: Float[np.ndarray, "ray place"], is_beyond: np.ndarray) -> Float[np.ndarray, " ray"]:
    """The sums of the mass per unit of log s beyond, over those within, by the trapezoid rule."""
    log_mass = np.where(np.isfinite(log_mass), log_mass, -np.inf) + np.log(np.gradient(_LOG_PLACES))
    beyond, within = (
        np.logaddexp.reduce(np.where(part, log_mass, -np.inf), axis=1) for part in (is_beyond, ~is_beyond)
    )
    is_known = np.isfinite(within) & np.isfinite(beyond)
    return np.exp(np.minimum(np.where(is_known, beyond, -np.inf) - np.where(is_known, within, 0.0), _MOST))


def _have_few_values(x: Float[np.ndarray, "draw dim"]) -> bool:
    """Whether some coordinate comes back to values that it had, as a bit does: a real number never does."""
    some = x[np.linspace(0, len(x) - 1, min(len(x), _MOST_COMPARED)).astype(int)]
    num_values, num_changes = ((np.diff(row, axis=0) != 0).sum(axis=0) for row in (np.sort(some, axis=0), some))
    return bool((2 * num_values < num_changes).any())


def _as_states(x: Float[np.ndarray, "place dim"], leaves: list[np.ndarray], form: Any) -> Any:
    """Rows of coordinates as states of the form that draws have."""
    ends = np.cumsum([leaf[0, 0].size for leaf in leaves])[:-1]
    parts = zip(np.split(x, ends, axis=1), leaves, strict=True)
    return jax.tree.unflatten(form, [part.reshape(-1, *leaf.shape[2:]).astype(leaf.dtype) for part, leaf in parts])


@compiled_quickly
def _log_f_at(path: AbstractPath, states: Any, size: int) -> Float[Array, " place"]:
    target = jnp.int32(path.num_rungs - 1)
    return in_batches(lambda x: path.log_density(x, target), states, size)
