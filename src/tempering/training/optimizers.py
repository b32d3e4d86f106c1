"""Steps measured in the norms that bound an RBM's log Z, as transformations of Optax."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from tempering._errors import InputError
from tempering._types import Numbers

try:
    import optax
except ImportError as error:
    raise InputError(f"Training needs Optax ({error}): pip install 'tempering[train]'.") from error

Number = float | int | Array
Rate = Numbers | Callable[..., Any]  # a number, or a schedule of Optax: from the count of steps to a number

FACTORIZATIONS = ("svd", "newton_schulz")
"""How `sharp` finds the orthogonal factor of a matrix."""

_HIGHEST = jax.lax.Precision.HIGHEST  # ten bits, a GPU's own choice, are too few for a factor that is orthogonal
_MAX_STRETCH = 1.65  # a larger one presses the largest singular values so low that rounding shows in the answer


def sharp(x: Float[Array, "..."], method: str = "svd") -> Float[Array, "..."]:
    """The steepest direction x^#: the d that maximises ⟨x, d⟩ − ‖d‖²/2, so ⟨x, x^#⟩ = ‖x^#‖² = ‖x‖²_dual.

    A matrix X = U diag(s) Vᵀ is measured by its largest singular value, the Schatten-∞ norm: X^# = ‖s‖₁ U Vᵀ. Vectors
    and scalars by their largest entry, the ℓ∞ norm: x^# = ‖x‖₁ sign(x) (Carlson, Cevher and Carin 2015). Directions
    in which x is zero stay zero: a batch of few rows has a gradient of low rank, and it is not to be filled with noise.

    `method="newton_schulz"` needs no SVD, only matrix products: see `orthogonal_factor`.
    """
    _check_method(method)
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.ndim > 2:
        raise InputError(
            f"Expected real scalars, vectors and matrices, got shape {x.shape} of {x.dtype}: "
            "reshape it, or leave it out by optax.masked."
        )
    if x.size == 0:
        return x
    wide = _at_least_float32(x)
    if x.ndim < 2:
        return (jnp.sum(jnp.abs(wide)) * jnp.sign(wide)).astype(x.dtype)
    factor = orthogonal_factor(wide) if method == "newton_schulz" else _factor_by_svd(wide)
    nuclear_norm = jnp.sum(wide * factor)  # ‖s‖₁ = ⟨X, UVᵀ⟩
    return (nuclear_norm * factor).astype(x.dtype)


def orthogonal_factor(x: Float[Array, "row column"]) -> Float[Array, "row column"]:
    """UVᵀ of X = U diag(s) Vᵀ by Newton–Schulz iterations: products only, which is what accelerators do best.

    Y ← ρY(3I − ρ²YᵀY)/2 maps each singular value y to p(ρy), p(y) = y(3 − y²)/2, which drives all of (0, 1] to 1. The
    stretch ρ that lifts the smallest one, ℓ, most is ρ² = 3/(1 + ℓ + ℓ²), where p(ρℓ) = p(ρ) (Chen and Chow 2014). X is
    first divided by ‖XᵀX‖_F^½, which is at least its largest singular value. For float32 that is 12 iterations of
    two products of rows × columns × the smaller of both, for float64 25, and one product more for the scale.

    Singular values above √eps of that scale (3e-4 in float32) come out as 1, those below are shrunk towards 0 in
    proportion, and zeros stay zero up to rounding. What this costs ⟨X, UVᵀ⟩ is at most the sum of those below.
    """
    if x.shape[0] < x.shape[1]:
        return orthogonal_factor(x.T).T
    dot = partial(jnp.matmul, precision=_HIGHEST)
    largest = jnp.max(jnp.abs(x))
    # Entries of size 1 first, so that squares neither overflow nor vanish. A zero matrix is left as it is.
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
    ℓ∞ norm at ε = 4/M². So the rate is small, since G^# is large: larger ones work until the bound is missed.
    """
    _check_method(method)
    return optax.chain(_by_sharp(method), optax.scale_by_learning_rate(_checked_rate(learning_rate)))


class RMSSpectralState(NamedTuple):
    """What `rms_spectral` remembers."""

    mean_square: PyTree  # V, arrays of the parameters' shapes, in float32 at least


def rms_spectral(
    learning_rate: Rate, decay: Number = 0.99, delta: Number = 1e-5, *, method: str = "svd"
) -> optax.GradientTransformation:
    """RMSspectral: spectral descent in coordinates scaled by the size of past gradients.

    V ← λV + (1 − λ) G∘G, D = (δ + V^½)^½, θ ← θ − ε (G ⊘ D)^# ⊘ D, entry by entry but for the # (Carlson, Collins,
    Hsieh, Carin and Cevher 2015), with λ = `decay` and δ = `delta`. V starts at zero. While V^½ is far above δ, a loss
    multiplied by a constant gives the same steps. Entries whose gradients stay below δ are scaled by δ alone.
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

    return optax.chain(
        optax.GradientTransformation(init, update), optax.scale_by_learning_rate(_checked_rate(learning_rate))
    )


def make_optimizer(name: str, learning_rate: Rate, **options: Any) -> optax.GradientTransformation:
    """The optimizer of that name: "sgd" (momentum 0.9 unless told), "adam", "ssd" or "rmsspectral".

    ```python
    make_optimizer("rmsspectral", 1e-5, decay=0.95, method="newton_schulz")
    ```
    """
    makers = {"sgd": partial(optax.sgd, momentum=0.9), "adam": optax.adam}
    makers |= {"ssd": spectral_descent, "rmsspectral": rms_spectral}
    if name not in makers:
        raise InputError(f'Unknown optimizer "{name}". Choose one of: {", ".join(makers)}.')
    known = [option for option in inspect.signature(makers[name]).parameters if option != "learning_rate"]
    for option in options:
        if option not in known:
            raise InputError(f'Optimizer "{name}" has no option "{option}". It takes: {", ".join(known)}.')
    return makers[name](_checked_rate(learning_rate), **options)


def _factor_by_svd(x: Float[Array, "row column"]) -> Float[Array, "row column"]:
    """UVᵀ over the singular values that are not zero up to rounding; of the others the SVD's vectors are arbitrary."""
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    is_kept = s > s[0] * max(x.shape) * jnp.finfo(x.dtype).eps
    return jnp.matmul(u * is_kept, vh, precision=_HIGHEST)


def _stretches(eps: float) -> list[float]:
    """ρ of each iteration, until a singular value that began at √eps is 1 up to rounding."""
    lowest, found = eps**0.5, []
    while 1 - lowest > eps:
        found.append(min(_MAX_STRETCH, (3 / (1 + lowest + lowest**2)) ** 0.5))
        lowest = min(stretched * (3 - stretched**2) / 2 for stretched in (found[-1] * lowest, found[-1]))
    return found


def _at_least_float32(x: Array) -> Array:
    """Half precision is too coarse for sums, and squares of small gradients vanish in it."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _by_sharp(method: str) -> optax.GradientTransformation:
    return optax.stateless(lambda updates, params: jax.tree.map(partial(sharp, method=method), updates))


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
