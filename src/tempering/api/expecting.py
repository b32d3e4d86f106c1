"""`expect`, the function whose mean is wanted, tried before anything runs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering._errors import InputError
from tempering.ladder import AbstractPath
from tempering.models.density.trial import describe_error

_WANTED = "`expect` must be a function of one state that returns an array of real numbers, such as lambda x: x.v"


def check_expect(expect: object, path: AbstractPath) -> None:
    """Refuse what does not make one array of numbers of a state, always of the same shape.

    Args:
        expect: What was given; None where nothing was.
        path: Whose states it will get.
    """
    if expect is None:
        return
    if not callable(expect):
        raise InputError(f"{_WANTED}; got a {type(expect).__name__}.")
    first, second = (_form(expect, path) for _ in range(2))
    if first != second:
        raise InputError(f"`expect` must return arrays of one shape; got {first} and then {second}.")
    if 0 in first:
        raise InputError(f"{_WANTED}; got an empty one of shape {first}.")


def _form(expect: Any, path: AbstractPath) -> tuple[int, ...]:
    """The shape of what it returns, once that is an array of real numbers."""
    try:
        found = eqx.filter_eval_shape(lambda key: jnp.asarray(expect(path.sample_base(key))), jax.random.key(0))
    except Exception as error:  # a person's own function may raise anything
        raise InputError(f"{_WANTED}; at a state of this model it raises {describe_error(error)}.") from error
    if jnp.issubdtype(found.dtype, jnp.complexfloating):
        raise InputError(f"{_WANTED}; got {found.dtype}.")
    return found.shape
