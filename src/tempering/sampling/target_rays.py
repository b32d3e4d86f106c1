"""Rays through draws of the target: how much of its mass lies where no draw of a run is."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._batches import batch_size, in_batches
from tempering._compiling import compiled_quickly
from tempering._types import Scalar
from tempering.kernels import Evaluations
from tempering.ladder import AbstractPath, Ladder
from tempering.stats import WeightedDraws

_NUM_RAYS = 60  # from each centre
_NUM_CLIMBS = 60  # steps along the gradient
_LOG_PLACES = np.log(1000.0) * np.linspace(-1, 1, 51) ** 3  # log s, dense about the draw itself, at s = 1
_MOST = 50.0  # of the log of a ratio, so that a sum of few stays finite where f has no integral
_FARTHER = 2.0  # times as far out as any draw, or as near: a right run of few draws has some mass just beyond them
_MOST_COMPARED = 1000  # draws, to tell real numbers from others


class RayMasses(NamedTuple):
    """What rays find where no draw of a run is. Each number is the mass there over that where draws are, on one ray.

    Attributes:
        beyond: Farther out than all draws, from the first centre.
        inside: Nearer to the centre than all draws.
        centers: Where the rays begin.
        num_draws: Draws of the target.
        num_gradients: Evaluations of the gradient of log f that this cost.
    """

    beyond: Float[np.ndarray, " ray"]
    inside: Float[np.ndarray, "center ray"]
    centers: Float[np.ndarray, "center dim"]
    num_draws: int
    num_gradients: int

    @property
    def chance_beyond(self) -> float:
        """The mass that a right run may miss there: each coordinate of another draw is so far out once in n + 1."""
        return self.centers.shape[1] / (self.num_draws + 1)

    @property
    def chance_inside(self) -> float:
        """The same there: of n + 1 draws each is the nearest as often."""
        return 1 / (self.num_draws + 1)

    @property
    def evaluations(self) -> Evaluations:
        """What this cost."""
        return Evaluations(self.inside.size * len(_LOG_PLACES), self.num_gradients)


def unseen_masses(ladder: Ladder, draws: WeightedDraws, *, climbs: bool) -> RayMasses | None:
    """The mass of the target on rays, farther out and nearer than any draw.

    A ray from a centre c through a draw x consists of c + s (x − c), s > 0. In d dimensions its mass is that of
    s^(d−1) f. Let A be what lies between two boxes about c: one reaches twice as far as any draw, and the other half as
    far as the nearest. Directions of draws of the target in A occur as often as the mass within A on their ray says. So
    the mean of these ratios is that of all the mass in a box, or beyond it, to that in A, whether or not a chain has
    ever been there.

    The first centre is the median of the draws. The second is the place of the highest density on rays from the first,
    or a maximum above it.

    It sees what lies behind what the run has seen, such as a wide component, tails in all directions, or a narrow peak
    on top of the rest. It hardly sees what few rays hit, such as another mode.

    Args:
        ladder: The law that was sampled.
        draws: The states of the run.
        climbs: Whether log f has a gradient that leads to a maximum.

    Returns:
        The masses; None where there are no draws of the target, or states are not real numbers.
    """
    is_at_target = draws.rungs == ladder.path.num_rungs - 1
    if not is_at_target.any() or not all(np.issubdtype(leaf.dtype, np.floating) for leaf in jax.tree.leaves(draws.x)):
        return None
    target = _Target.of(ladder.path, jax.tree.map(lambda leaf: leaf[is_at_target], draws.x))
    x = target.x
    if _have_few_values(x):
        return None
    picked = x[np.linspace(0, len(x) - 1, _NUM_RAYS).astype(int)]
    first = _Rays.through(picked, x, np.median(x, axis=0))
    log_f = target.log_f(first.places)
    beyond, inside = first.ratios(log_f)
    center, num_gradients = first.highest(log_f), 0
    if climbs:
        center, num_gradients = target.maximum_above(center)
    second = _Rays.through(picked, x, center)
    _, inside_second = second.ratios(target.log_f(second.places))
    centers = np.stack([first.center, second.center])
    return RayMasses(beyond, np.stack([inside, inside_second]), centers, len(x), num_gradients)


class _Target(NamedTuple):
    """log f at the target as a function of all numbers of a state in a row.

    Attributes:
        path: Knows log f.
        x: Draws.
        leaves: The same draws as they were.
        form: Of a state.
    """

    path: AbstractPath
    x: Float[np.ndarray, "draw dim"]
    leaves: list[np.ndarray]
    form: Any

    @classmethod
    def of(cls, path: AbstractPath, draws: Any) -> "_Target":
        leaves, form = jax.tree.flatten(draws)
        x = np.concatenate([leaf.reshape(len(leaf), -1).astype(np.float64) for leaf in leaves], axis=1)
        return cls(path, x, leaves, form)

    def log_f(self, places: Float[np.ndarray, "ray place dim"]) -> Float[np.ndarray, "ray place"]:
        states = self._states(places.reshape(-1, places.shape[-1]))
        return np.asarray(_log_f_at(self.path, states, batch_size()), np.float64).reshape(places.shape[:-1])

    def maximum_above(self, start: Float[np.ndarray, " dim"]) -> tuple[Float[np.ndarray, " dim"], int]:
        """Where steps along the gradient lead from a place, and how many gradients that took.

        In units of the draws' scatter. The length of a step is that of Barzilai and Borwein (1988), which takes
        the curvature from the step before; a step that leads down is taken back.
        """
        scales = np.where(self.x.std(axis=0) > 0, self.x.std(axis=0), 1.0)

        def rising(y):
            log_f, slope = self._log_f_and_slope(start + scales * y)
            return log_f, scales * slope

        y, length = np.zeros_like(start), 0.01
        log_f, slope = rising(y)
        for _ in range(_NUM_CLIMBS):
            trial = y + length * slope
            new_log_f, new_slope = rising(trial)
            if not new_log_f > log_f:
                length /= 8
                continue
            turned = (trial - y) @ (slope - new_slope)
            length = float((trial - y) @ (trial - y) / turned) if turned > 0 else 2 * length
            y, log_f, slope = trial, new_log_f, new_slope
        return start + scales * y, 1 + _NUM_CLIMBS

    def _log_f_and_slope(self, x: Float[np.ndarray, " dim"]) -> tuple[float, Float[np.ndarray, " dim"]]:
        """log f and its gradient; −inf where one of them is not finite."""
        state = jax.tree.map(lambda leaf: leaf[0], self._states(x[None]))
        log_f, slopes = _log_f_and_slope(self.path, state)
        slope = np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(slopes)])
        is_known = np.isfinite(log_f) and np.isfinite(slope).all()
        return (float(log_f), slope) if is_known else (-np.inf, np.zeros_like(slope))

    def _states(self, x: Float[np.ndarray, "place dim"]) -> Any:
        """Rows of coordinates as states."""
        ends = np.cumsum([leaf[0].size for leaf in self.leaves])[:-1]
        parts = zip(np.split(x, ends, axis=1), self.leaves, strict=True)
        states = [part.reshape(-1, *leaf.shape[1:]).astype(leaf.dtype) for part, leaf in parts]
        return jax.tree.unflatten(self.form, states)


class _Rays(NamedTuple):
    """Places on rays, and how far out they are: 1 is as far as the farthest draw.

    Attributes:
        center: Where they begin.
        places: Points of space.
        distances: Of each, in the norm whose balls are boxes.
        nearest: The distance of the nearest draw.
    """

    center: Float[np.ndarray, " dim"]
    places: Float[np.ndarray, "ray place dim"]
    distances: Float[np.ndarray, "ray place"]
    nearest: float

    @classmethod
    def through(
        cls, picked: Float[np.ndarray, "ray dim"], x: Float[np.ndarray, "draw dim"], center: Float[np.ndarray, " dim"]
    ) -> "_Rays":
        reach = np.abs(x - center).max(axis=0)
        reach = np.where(reach > 0, reach, np.inf)  # a coordinate that is always the same does not count
        steps, multiples = picked - center, np.exp(_LOG_PLACES)
        distances = (np.abs(steps) / reach).max(axis=1)
        nearest = float((np.abs(x - center) / reach).max(axis=1).min())
        return cls(center, center + multiples[:, None] * steps[:, None], np.outer(distances, multiples), nearest)

    def ratios(self, log_f: Float[np.ndarray, "ray place"]) -> tuple[np.ndarray, np.ndarray]:
        """The mass beyond all draws, and that inside, over that between: sums over log s, where ds = s d log s."""
        log_mass = log_f + self.places.shape[-1] * _LOG_PLACES + np.log(np.gradient(_LOG_PLACES))
        log_mass = np.where(np.isfinite(log_mass), log_mass, -np.inf)
        is_beyond, is_inside = self._is_beyond, self.distances < self.nearest / _FARTHER
        beyond, inside, between = (
            np.logaddexp.reduce(np.where(part, log_mass, -np.inf), axis=1)
            for part in (is_beyond, is_inside, ~(is_beyond | is_inside))
        )
        is_known = np.isfinite(between)
        beyond, inside = (
            np.exp(np.minimum(np.where(is_known, part, -np.inf) - np.where(is_known, between, 0.0), _MOST))
            for part in (beyond, inside)
        )
        return beyond, inside

    def highest(self, log_f: Float[np.ndarray, "ray place"]) -> Float[np.ndarray, " dim"]:
        """The place of the highest density that is not beyond all draws."""
        is_candidate = np.isfinite(log_f) & ~self._is_beyond
        best = np.where(is_candidate, log_f, -np.inf).argmax()
        return self.places.reshape(-1, self.places.shape[-1])[best]

    @property
    def _is_beyond(self) -> np.ndarray:
        return self.distances > _FARTHER


def _have_few_values(x: Float[np.ndarray, "draw dim"]) -> bool:
    """Whether some coordinate comes back to values that it had, as a bit does: a real number never does."""
    some = x[np.linspace(0, len(x) - 1, min(len(x), _MOST_COMPARED)).astype(int)]
    num_values, num_changes = ((np.diff(row, axis=0) != 0).sum(axis=0) for row in (np.sort(some, axis=0), some))
    return bool((2 * num_values < num_changes).any())


@compiled_quickly
def _log_f_at(path: AbstractPath, states: Any, size: int) -> Float[Array, " place"]:
    target = jnp.int32(path.num_rungs - 1)
    return in_batches(lambda x: path.log_density(x, target), states, size)


@compiled_quickly
def _log_f_and_slope(path: AbstractPath, state: Any) -> tuple[Scalar, Any]:
    target = jnp.int32(path.num_rungs - 1)
    return jax.value_and_grad(lambda x: path.log_density(x, target))(state)
