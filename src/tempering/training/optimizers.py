"""Optimizers whose steps are measured in the norms that bound an RBM's log Z, as Optax transformations."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from tempering._errors import InputError
from tempering._signatures import suggests
from tempering._types import Numbers

try:
    import optax
except ImportError as error:
    raise InputError(f"Training needs Optax ({error}): pip install 'tempering[train]'.") from error

Number = float | int | Array
Rate = Numbers | Callable[..., Any]  # a number, or a schedule of Optax: from the count of steps to a number

FACTORIZATIONS = ("svd", "newton_schulz")
"""How `sharp` finds the orthogonal factor of a matrix."""

_HIGHEST = jax.lax.Precision.HIGHEST  # a GPU's default of ten bits is too coarse for an orthogonal factor
_MAX_STRETCH = 1.65  # a larger one makes the largest singular values so small on the way that rounding shows


def sharp(x: Float[Array, "..."], method: str = "svd") -> Float[Array, "..."]:
    """The direction of steepest ascent x^#: the d that maximises ⟨x, d⟩ − ‖d‖²/2.

    It satisfies ⟨x, x^#⟩ = ‖x^#‖² = ‖x‖²_dual (Carlson, Cevher and Carin 2015). For a matrix X = U diag(s) Vᵀ in the
    Schatten-∞ norm, its largest singular value, X^# = ‖s‖₁ U Vᵀ. For a vector or a scalar in the ℓ∞ norm, its largest
    entry, x^# = ‖x‖₁ sign(x). Directions in which x is zero stay zero: the gradient of a small batch has low rank, and
    the rest would be noise.

    Args:
        x: A real scalar, vector or matrix.
        method: How UVᵀ is found: "svd", or "newton_schulz" by matrix products alone, see `orthogonal_factor`.

    Returns:
        x^#, of the shape and type of x.
    """
    _check_method(method)
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.ndim > 2:
        got = f"got shape {x.shape} of {x.dtype}: reshape it, or leave it out by optax.masked"
        raise InputError(f"Expected real scalars, vectors and matrices, {got}.")
    if x.size == 0:
        return x
    wide = _at_least_float32(x)
    if x.ndim < 2:
        return (jnp.sum(jnp.abs(wide)) * jnp.sign(wide)).astype(x.dtype)
    factor = orthogonal_factor(wide) if method == "newton_schulz" else _factor_by_svd(wide)
    nuclear_norm = jnp.sum(wide * factor)  # ‖s‖₁ = ⟨X, UVᵀ⟩
    return (nuclear_norm * factor).astype(x.dtype)


def orthogonal_factor(x: Float[Array, "row column"]) -> Float[Array, "row column"]:
    """UVᵀ of X = U diag(s) Vᵀ by Newton–Schulz iterations, which need matrix products only.

    Y ← ρY(3I − ρ²YᵀY)/2 maps each singular value y to p(ρy), p(y) = y(3 − y²)/2, which drives all of (0, 1] to 1. The
    scale ρ that raises the smallest one, ℓ, most is ρ² = 3/(1 + ℓ + ℓ²), where p(ρℓ) = p(ρ) (Chen and Chow 2014). X is
    first divided by ‖XᵀX‖_F^½, which is at least its largest singular value. That takes 12 iterations in float32 and 25
    in float64, each of two products of rows × columns × the smaller of both, and one more product for the scale.

    Args:
        x: A real matrix.

    Returns:
        UVᵀ.

    Caveats: only singular values above √eps of the scale (3e-4 in float32) become 1. Smaller ones shrink towards 0 in
    proportion, and zeros stay zero up to rounding. ⟨X, UVᵀ⟩ is too small by at most the sum of the smaller ones.
    """
    if x.shape[0] < x.shape[1]:
        return orthogonal_factor(x.T).T
    dot = partial(jnp.matmul, precision=_HIGHEST)
    largest = jnp.max(jnp.abs(x))
    # Entries are first scaled to size 1, so that squares neither overflow nor underflow. A zero matrix stays zero.
    y = x / jnp.where(largest > jnp.finfo(x.dtype).tiny, largest, 1)
    scale = jnp.sqrt(jnp.linalg.norm(dot(y.T, y)))
    y = y / jnp.where(scale > 0, scale, 1)

    def iterate(y: Array, stretch: Array) -> tuple[Array, None]:
        y = stretch * y
        return 1.5 * y - 0.5 * dot(y, dot(y.T, y)), None

    stretches = jnp.asarray(_stretches(float(jnp.finfo(x.dtype).eps)), x.dtype)
    return jax.lax.scan(iterate, y, stretches)[0]


def spectral_descent(learning_rate: Rate, *, method: str = "svd") -> optax.GradientTransformation:
    """Stochastic spectral descent: θ ← θ − ε G^#, for each array by itself (Carlson, Cevher and Carin 2015).

    The step minimises the bound loss(θ + d) ≤ loss(θ) + ⟨G, d⟩ + ‖d‖²/(2ε). For the weights of a binary RBM with M × N
    units and minus the mean log-likelihood as the loss, it holds in the Schatten-∞ norm at ε = 1/(MN): the second
    derivative of log Z along D is the variance of vᵀDh, and |vᵀDh| ≤ √(MN) ‖D‖. For biases of M units it holds in the
    ℓ∞ norm at ε = 4/M². These rates are small because G^# is large. Larger ones often work, without this guarantee.

    Args:
        learning_rate: ε, a number or an Optax schedule.
        method: "svd" or "newton_schulz", see `sharp`.

    Returns:
        An Optax transformation.
    """
    _check_method(method)
    by_sharp = optax.stateless(lambda updates, params: jax.tree.map(partial(sharp, method=method), updates))
    return optax.chain(by_sharp, optax.scale_by_learning_rate(_checked_rate(learning_rate)))


class RMSSpectralState(NamedTuple):
    """The state of `rms_spectral`.

    Attributes:
        mean_square: V, arrays of the parameters' shapes, in float32 at least.
    """

    mean_square: PyTree


def rms_spectral(
    learning_rate: Rate, decay: Number = 0.99, delta: Number = 1e-5, *, method: str = "svd"
) -> optax.GradientTransformation:
    """RMSspectral: spectral descent in coordinates scaled by the size of past gradients.

    V ← λV + (1 − λ) G∘G, D = (δ + V^½)^½, θ ← θ − ε (G ⊘ D)^# ⊘ D, entry by entry except for # (Carlson, Collins,
    Hsieh, Carin and Cevher 2015). V starts at zero. Where V^½ is far above δ, multiplying the loss by a constant leaves
    the steps unchanged. Entries whose gradients stay below δ are scaled by δ alone.

    Args:
        learning_rate: ε, a number or an Optax schedule.
        decay: λ, in [0, 1).
        delta: δ, positive.
        method: "svd" or "newton_schulz", see `sharp`.

    Returns:
        An Optax transformation.
    """
    _check_method(method)
    _check_number("decay", decay, lambda number: 0 <= number < 1, "a number in [0, 1)")
    _check_number("delta", delta, lambda number: 0 < number < np.inf, "a positive number")

    def init(params: PyTree) -> RMSSpectralState:
        return RMSSpectralState(jax.tree.map(lambda leaf: _at_least_float32(jnp.zeros_like(leaf)), params))

    def update(updates: PyTree, state: Any, params: PyTree = None) -> tuple[PyTree, Any]:
        del params

        def averaged(mean_square: Array, gradient: Array) -> Array:
            square = jnp.square(jnp.asarray(gradient, mean_square.dtype))
            return (decay * mean_square + (1 - decay) * square).astype(mean_square.dtype)

        def step(gradient: Array, mean_square: Array) -> Array:
            scale = jnp.sqrt(delta + jnp.sqrt(mean_square))
            return (sharp(gradient / scale, method) / scale).astype(jnp.asarray(gradient).dtype)

        mean_square = jax.tree.map(averaged, state.mean_square, updates)
        return jax.tree.map(step, updates, mean_square), RMSSpectralState(mean_square)

    by_scaled_sharp = optax.GradientTransformation(init, update)
    return optax.chain(by_scaled_sharp, optax.scale_by_learning_rate(_checked_rate(learning_rate)))


@suggests()
def make_optimizer(
    name: str,
    learning_rate: Rate,
    *,
    momentum: float | None = None,
    b1: float | None = None,
    b2: float | None = None,
    eps: float | None = None,
    decay: Number | None = None,
    delta: Number | None = None,
    method: str | None = None,
) -> optax.GradientTransformation:
    """The optimizer of that name. For other options of "sgd" and "adam", call Optax itself.

    ```python
    make_optimizer("rmsspectral", 1e-5, decay=0.95, method="newton_schulz")
    ```

    Args:
        name: "sgd", "adam", "ssd" (`spectral_descent`) or "rmsspectral" (`rms_spectral`).
        learning_rate: A number or an Optax schedule.
        momentum: Of "sgd", by default 0.9.
        b1: Of "adam": decay of the mean of gradients.
        b2: Of "adam": decay of the mean of their squares.
        eps: Of "adam": added to the root of that mean.
        decay: Of "rmsspectral".
        delta: Of "rmsspectral".
        method: Of "ssd" and "rmsspectral".

    Returns:
        An Optax transformation.
    """
    if name not in _OPTIMIZERS:
        raise InputError(f'Unknown optimizer "{name}". Choose one of: {", ".join(_OPTIMIZERS)}.')
    make, known = _OPTIMIZERS[name]
    asked = {"momentum": momentum, "b1": b1, "b2": b2, "eps": eps, "decay": decay, "delta": delta, "method": method}
    options = {option: value for option, value in asked.items() if value is not None}
    for option in options:
        if option not in known:
            raise InputError(f'Optimizer "{name}" has no option "{option}". It takes: {", ".join(known)}.')
    return make(_checked_rate(learning_rate), **options)


_OPTIMIZERS: dict[str, tuple[Callable[..., optax.GradientTransformation], tuple[str, ...]]] = {
    "sgd": (partial(optax.sgd, momentum=0.9), ("momentum",)),
    "adam": (optax.adam, ("b1", "b2", "eps")),
    "ssd": (spectral_descent, ("method",)),
    "rmsspectral": (rms_spectral, ("decay", "delta", "method")),
}


def _factor_by_svd(x: Float[Array, "row column"]) -> Float[Array, "row column"]:
    """UVᵀ over the singular values that exceed rounding; the singular vectors of the others are arbitrary."""
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    is_kept = s > s[0] * max(x.shape) * jnp.finfo(x.dtype).eps
    return jnp.matmul(u * is_kept, vh, precision=_HIGHEST)


def _stretches(eps: float) -> list[float]:
    """ρ of each iteration, until a singular value of √eps has become 1 up to rounding."""
    lowest, found = eps**0.5, []
    while 1 - lowest > eps:
        found.append(min(_MAX_STRETCH, (3 / (1 + lowest + lowest**2)) ** 0.5))
        lowest = min(stretched * (3 - stretched**2) / 2 for stretched in (found[-1] * lowest, found[-1]))
    return found


def _at_least_float32(x: Array) -> Array:
    """Half precision is too coarse for sums, and squares of small gradients underflow in it."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _checked_rate(learning_rate: Rate) -> Any:
    if not callable(learning_rate):
        wanted = "a finite number, at least 0, or a schedule"
        _check_number("learning_rate", learning_rate, lambda rate: 0 <= rate < np.inf, wanted)
    return learning_rate


def _check_method(method: str) -> None:
    if method not in FACTORIZATIONS:
        raise InputError(f'`method` must be one of {", ".join(FACTORIZATIONS)}, got "{method}".')


def _check_number(name: str, value: Any, is_sound: Callable[[float], bool], wanted: str) -> None:
    if isinstance(value, Tracer):
        return  # `optax.inject_hyperparams` under jit: it has no value yet
    array = np.asarray(value)
    is_real = jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)
    if array.ndim or not is_real or not is_sound(float(array)):
        raise InputError(f"`{name}` must be {wanted}, got {value!r}.")
