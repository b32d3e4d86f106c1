"""A density is evaluated at draws of its base before anything runs, and refused where it cannot work."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering._compiling import compiled_quickly
from tempering._errors import InputError
from tempering._types import LogF, State
from tempering.bases import AbstractBase
from tempering.kernels import HMC, AbstractMove, BitFlips

_NUM_TRIALS = 64  # draws of the base at which a density is evaluated
_NO_GRADIENT_NEEDED = "Or give move=tp.RandomWalk(), which needs none."


def check_same_form(base: AbstractBase, expected: Any) -> None:
    """Refuse a base whose draws differ from the states of the model in structure or shape."""
    came = state_form(base)
    shapes = [jax.tree.map(lambda leaf: leaf.shape, form) for form in (came, expected)]
    if shapes[0] != shapes[1]:
        wanted = f"{describe_form(expected)} for this model"
        raise InputError(f"`base` must draw states {wanted}, got {describe_form(came)}.")


def check_callable(name: str, log_f: Any) -> None:
    """Refuse what is not a function."""
    if not callable(log_f):
        raise InputError(f"`{name}` must be a function of one state, got a {type(log_f).__name__}.")


def checked_move(name: str, log_f: LogF, base: AbstractBase, move: AbstractMove | None) -> AbstractMove:
    """The move that was given, or the default one, once log f has been checked at draws of the base."""
    check_callable(name, log_f)
    draws, one = trial_draws(base), state_form(base)
    if not jax.tree.leaves(one) or not all(jnp.issubdtype(a.dtype, jnp.floating) for a in jax.tree.leaves(one)):
        cure = "For bits use tp.Bernoulli, whose draws are 0.0 and 1.0; whole numbers cannot be moved."
        raise InputError(f"`base` must draw arrays of real numbers, got {describe_form(one)}. {cure}")
    chosen = _default_move(draws) if move is None else move
    check_shape(name, log_f, one)
    values, base_values, gradients = _evaluated(name, log_f, base, draws, with_gradient=chosen.needs_gradient)
    _check_values(name, values, base_values)
    if gradients is not None:
        _check_gradients(name, values, gradients)
    return chosen


def _default_move(draws: State) -> AbstractMove:
    """Flips for bits, HMC for numbers. A coordinate that is 0 or 1 in every draw counts as a bit."""
    rows = _rows(draws)
    is_bit = np.all((rows == 0) | (rows == 1), axis=0)
    if is_bit.all():
        return BitFlips()
    if is_bit.any():
        what = f"{is_bit.sum()} of {is_bit.size} coordinates of the base are bits and the others are not"
        cure = "Sum the bits out of the density, or give a move of your own with move=...."
        raise InputError(f"{what}, and no move here is for both. {cure}")
    return HMC()


def result_form(name: str, log_f: Callable[..., Any], one: Any) -> Any:
    """The shape and type of what log f returns, without computing it; a function that fails is refused."""
    try:
        return jax.eval_shape(log_f, one)
    except Exception as error:  # a user's function may raise anything
        why = f"{describe_form(one)}: {describe_error(error)}. {_cure(error)}"
        raise InputError(f"`{name}` cannot be evaluated at a draw of its base, {why}") from error


def check_shape(name: str, log_f: LogF, one: Any) -> None:
    """Refuse a function that does not return one real number for one x."""
    answer = result_form(name, log_f, one)
    if getattr(answer, "shape", None) != ():
        sums = " Add it up, with jnp.sum for instance." if getattr(answer, "shape", None) else ""
        raise InputError(f"`{name}` must return one number for one x, got {describe_form(answer)}.{sums}")
    if not jnp.issubdtype(answer.dtype, jnp.floating):
        raise InputError(f"`{name}` must return a real number, got {answer.dtype}. Make it a float, as in 1.0 * x.")


def _evaluated(name: str, log_f: LogF, base: AbstractBase, draws: State, *, with_gradient: bool) -> tuple[Any, ...]:
    """log f and the base's log density at all draws, and the gradient of log f or None: in one program."""

    def evaluated(x: State, with_gradient: bool) -> tuple[Any, ...]:
        value, gradient = jax.value_and_grad(log_f)(x) if with_gradient else (log_f(x), None)
        return value, base.log_density(x), gradient

    try:
        return jax.device_get(compiled_quickly(jax.vmap(partial(evaluated, with_gradient=with_gradient)))(draws))
    except Exception as error:  # a user's function may raise anything
        if not with_gradient:
            cause = f"cannot be compiled for many draws at once: {describe_error(error)}"
            raise InputError(f"`{name}` {cause}.") from error
        _evaluated(name, log_f, base, draws, with_gradient=False)  # is it the gradient?
        cause = f"has a value but no gradient: {describe_error(error)}"
        raise InputError(f"`{name}` {cause}. {_NO_GRADIENT_NEEDED}") from error


def _check_values(name: str, values: np.ndarray, base_values: np.ndarray) -> None:
    if not np.isfinite(base_values).any():
        raise InputError(f"`base` has no finite log density at any of {_NUM_TRIALS} of its own draws. Is it improper?")
    if np.isposinf(values).any() or np.isnan(values).all():
        what = "+inf at some" if np.isposinf(values).any() else "NaN at all"
        raise InputError(f"`{name}` is {what} of {_NUM_TRIALS} draws of the base. Look for log(0), 0/0 or overflow.")
    if not np.isfinite(values).any():
        what = "−inf or NaN" if np.isnan(values).any() else "−inf"
        why = "target and base do not overlap, or every state is forbidden"
        cure = "Choose a base inside the support of the target."
        raise InputError(f"`{name}` is {what} at all of {_NUM_TRIALS} draws of the base: {why}. {cure}")


def _check_gradients(name: str, values: np.ndarray, gradients: State) -> None:
    num_bad = int(np.sum(np.isfinite(values) & ~np.isfinite(_rows(gradients)).all(axis=1)))
    if num_bad:
        where = f"at {num_bad} of {_NUM_TRIALS} draws where its value is"
        why = "sqrt, log or a norm at 0 inside jnp.where is the usual cause; guard its argument, not its result"
        raise InputError(f"The gradient of `{name}` is not finite {where}: {why}. {_NO_GRADIENT_NEEDED}")


def trial_draws(base: AbstractBase) -> State:
    """The draws of a base at which densities are checked."""
    key = jax.random.key(0)
    return compiled_quickly(lambda key: jax.vmap(base.sample)(jax.random.split(key, _NUM_TRIALS)))(key)


def state_form(base: AbstractBase) -> Any:
    """The structure, shapes and types of a draw of a base."""
    return jax.eval_shape(base.sample, jax.random.key(0))


def _rows(draws: State) -> np.ndarray:
    """One row per draw, with all its coordinates."""
    return np.concatenate([np.asarray(leaf).reshape(_NUM_TRIALS, -1) for leaf in jax.tree.leaves(draws)], axis=1)


def describe_form(form: Any) -> str:
    """A structure in words: float32[3], or {'a': float32[], 'b': float32[3]}."""

    def of_leaf(leaf: Any) -> Any:
        shape = getattr(leaf, "shape", None)
        return type(leaf).__name__ if shape is None else f"{leaf.dtype}{list(shape)}"

    return str(jax.tree.map(of_leaf, form)).replace("'float", "float").replace("]'", "]")


def describe_error(error: Exception) -> str:
    """The type of an error and the first line of its message."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}".rstrip(".: ")


def _cure(error: Exception) -> str:
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return "Write it with jax.numpy instead of numpy."
    if isinstance(error, jax.errors.ConcretizationTypeError):
        return "Use jnp.where in place of `if`, and no float() or int() of what depends on x."
    return "Does the base have the shape that it expects?"
