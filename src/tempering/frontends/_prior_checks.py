"""Priors given by a density and a way to draw: do the draws follow the density?"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._precision import in_full_precision
from tempering._types import Key, LogF, Scalar, State
from tempering.bases import AbstractBase
from tempering.models import Posterior

_FALSE_FAILURE = 1e-6  # the probability that a correct prior is refused
_NUM_PILOTS = 512  # draws used only for the location and scale of each coordinate
_MAX_NONFINITE = 1e-3  # of the draws; float32 rounds a few to the edge of their support, and those are drawn again
_NUM_STEPS = 2**18  # over all coordinates: about a tenth of a second for a small model
_MAX_COORDINATES = 1024
_STEP = 2.4  # of a proposal, in units of the coordinate's scale


class DrawnPrior(AbstractBase):
    """A prior on unconstrained space that can be drawn from exactly.

    Attributes:
        log_p: its normalised log density, with the log-Jacobians of the map from unconstrained space.
        draw: an exact draw from a key.
    """

    log_p: LogF
    draw: Callable[[Key], State]

    @in_full_precision
    def log_density(self, x: State) -> Scalar:
        return self.log_p(x)

    @in_full_precision
    def sample(self, key: Key) -> State:
        """A draw; a second one if the first was rounded to the edge of its support, as float32 sometimes does."""
        both = jax.vmap(self.draw)(jax.random.split(key))
        is_finite = jnp.all(jnp.isfinite(ravel_pytree(jax.tree.map(lambda leaf: leaf[0], both))[0]))
        return jax.tree.map(lambda leaf: jnp.where(is_finite, leaf[0], leaf[1]), both)


def check_prior(prior: AbstractBase | Posterior, *, num_draws: int | None = None, seed: int = 0) -> None:
    """Refuse a prior whose draws do not follow its density: every estimate that starts from it would be wrong.

    ```python
    check_prior(Unnormalised(log_f, draw))              # silent if the prior is correct, else an InputError
    ```

    From each draw u, one Metropolis step to u′ is made in one coordinate with the density. If u follows the density,
    (u, u′) and (u′, u) have the same law, so that d = g(u′) − g(u) is symmetric about 0 for every g. Then
    P(|Σd| > t √Σd²) ≤ 2 exp(−t²/2) for any number of draws and any tails (Efron 1969), and a correct prior is refused
    with probability 1e-6 at most. Stein's identity E[u ∂ log p] = −1 is the limit of short steps, but its terms have
    infinite variance in hierarchical models.

    Caveats: a wrong constant is not detected, because it cancels, nor are errors smaller than about 10/√num_draws of a
    coordinate's scale.

    Args:
        prior: a base, or a posterior, whose prior is then checked. Its states must be real numbers.
        num_draws: how many draws to test; by default 256 to 16384, fewer for more coordinates.
        seed: of the draws.
    """
    base = prior.prior if isinstance(prior, Posterior) else prior
    one = jax.eval_shape(base.sample, jax.random.key(0))
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(one)):
        raise InputError("check_prior(...) is for priors over real numbers, not for bits or integers.")
    names = _coordinate_names(one)
    _, unflatten = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), one))
    num = int(np.clip(_NUM_STEPS // len(names), 256, 16384)) if num_draws is None else num_draws
    draw = base.draw if isinstance(base, DrawnPrior) else base.sample  # without its second draws
    draws = np.asarray(_flat_draws(draw, jax.random.split(jax.random.key(seed), _NUM_PILOTS + num)))
    _check_draws(draws, names)
    pilots, starts = np.split(draws, [_NUM_PILOTS])
    low, center, high = np.nanpercentile(pilots, [25, 50, 75], axis=0)  # quantiles exist for every prior

    def log_density(rows):
        return np.asarray(_log_densities(base, unflatten, jnp.asarray(rows)), np.float64)

    def log_ratios(rows):
        return log_density(rows) - log_starts

    starts, log_starts = _finite_starts(starts, log_density(starts))
    rng, ratios = np.random.default_rng(seed), {}
    for i in np.unique(np.linspace(0, len(names) - 1, min(len(names), _MAX_COORDINATES)).astype(int)):
        scale = (high - low)[i]
        ends = _after_metropolis_step(rng, starts, log_ratios, int(i), float(_STEP * scale))
        ratios[names[i]] = _asymmetry((starts[:, i] - center[i]) / scale, (ends - center[i]) / scale)
    _check_symmetric(ratios)


def _check_draws(draws: Float[np.ndarray, "draw dim"], names: list[str]) -> None:
    """Refuse draws that are not finite, or that repeat."""
    bad = ~np.isfinite(draws)
    if bad.any(axis=1).mean() > _MAX_NONFINITE:
        raise InputError(
            f"{bad.any(axis=1).sum()} of {len(draws)} prior draws are not finite on unconstrained space, in "
            f"`{names[int(bad.sum(axis=0).argmax())]}` above all: the prior is improper, or too extreme for single "
            "precision. Choose a prior with less mass at the edge of its support."
        )
    for name, column in zip(names, draws.T, strict=True):
        if len(np.unique(column)) < len(column) / 2:
            raise InputError(
                f"Prior draws of `{name}` repeat: it is discrete, a constant, or not drawn from its prior. "
                "Only continuous parameters can be tempered; sum discrete ones out, and pass constants as they are."
            )


@eqx.filter_jit
def _flat_draws(draw: Callable[[Key], State], keys: Array) -> Float[Array, "draw dim"]:
    return jax.vmap(lambda key: ravel_pytree(draw(key))[0])(keys)


@eqx.filter_jit
def _log_densities(base: AbstractBase, unflatten: Callable[[Array], State], rows: Array) -> Float[Array, " draw"]:
    return jax.vmap(lambda row: base.log_density(unflatten(row)))(rows)


def _finite_starts(starts: np.ndarray, log_starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The draws at which the prior's density is finite; nearly all must be."""
    is_right = np.isfinite(log_starts)
    if np.mean(~is_right) > _MAX_NONFINITE:
        raise InputError(
            f"The prior's density is NaN, 0 or infinite at {np.sum(~is_right)} of {len(starts)} of its own draws: "
            "density and draws do not belong together, or the prior is too extreme for single precision. Choose a "
            "narrower one."
        )
    spare = int(is_right.argmax())  # replaces the others, so that shapes and compiled code stay the same
    return np.where(is_right[:, None], starts, starts[spare]), np.where(is_right, log_starts, log_starts[spare])


def _after_metropolis_step(
    rng: np.random.Generator, starts: np.ndarray, log_ratios: Callable[..., np.ndarray], coordinate: int, size: float
) -> Float[np.ndarray, " draw"]:
    """One coordinate of each draw after a Metropolis step in it."""
    proposed = starts.copy()
    proposed[:, coordinate] += (size * rng.normal(size=len(starts))).astype(starts.dtype)
    log_ratio = np.nan_to_num(log_ratios(proposed), nan=-np.inf)
    is_taken = np.log(rng.uniform(size=len(starts))) < log_ratio
    return np.where(is_taken, proposed[:, coordinate], starts[:, coordinate])


def _asymmetry(before: np.ndarray, after: np.ndarray) -> float:
    """The larger |Σd|/√Σd² of two functions: one is sensitive to the coordinate's location, one to its scale."""
    changes = np.stack([g(after) - g(before) for g in (np.tanh, _squashed_square)]).astype(np.float64)
    squares = (changes**2).sum(axis=1)
    return float(np.max(np.abs(changes.sum(axis=1)) / np.sqrt(np.where(squares > 0, squares, 1.0))))


def _squashed_square(z: np.ndarray) -> np.ndarray:
    return z**2 / (1 + z**2)


def _check_symmetric(ratios: dict[str, float]) -> None:
    limit = np.sqrt(2 * np.log(2 * 2 * len(ratios) / _FALSE_FAILURE))
    where = max(ratios, key=lambda name: ratios[name])
    if ratios[where] > limit:
        raise InputError(
            f"The draws of the prior do not follow its density, in `{where}` above all: the test statistic is "
            f"{ratios[where]:.1f}, and exceeds {limit:.1f} by chance once in a million times. log Z would be wrong. "
            "Correct the density or the draws, or write that prior in another way."
        )


def _coordinate_names(one: State) -> list[str]:
    """A name per coordinate, such as theta[0], in the order in which states are flattened."""
    names = []
    for where, leaf in jax.tree_util.tree_flatten_with_path(one)[0]:
        name = jax.tree_util.keystr(where, simple=True, separator=".") or "x"
        names += [name + (f"[{', '.join(map(str, index))}]" if index else "") for index in np.ndindex(leaf.shape)]
    return names
