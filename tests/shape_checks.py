"""Shapes and types of arguments and results, checked while tests run, but not at every call of a loop."""

import functools
import inspect
from collections import Counter
from types import CodeType
from typing import Any

import jaxtyping
from jaxtyping import install_import_hook

# A check takes longer than most functions of NumPy, and so does the making of a check for a function inside another.
# Of all calls in one test, the first ones of each function are checked, and later those numbered by powers of two.
ALL_UNTIL = 4

_calls: Counter[CodeType] = Counter()
_checked_always = jaxtyping.jaxtyped


def forget_calls() -> None:
    """Count the calls of every function from 0: a test begins."""
    _calls.clear()


def is_checked(number: int) -> bool:
    """Whether the call with that number, from 1, is checked."""
    return number <= ALL_UNTIL or number & (number - 1) == 0


def checked_often(function: Any = None, *, typechecker: Any) -> Any:
    """In place of `jaxtyping.jaxtyped`: the same check, at some calls of a function."""
    if function is None:
        return functools.partial(checked_often, typechecker=typechecker)
    if not inspect.isfunction(function):  # of a class or a property, the functions come here one by one
        return _checked_always(function, typechecker=typechecker)
    if hasattr(function, "ischecked_often"):  # the `__init__` of a class comes twice
        return function
    code, checked = function.__code__, None

    @functools.wraps(function)
    def counted(*args, **kwargs):
        nonlocal checked
        _calls[code] += 1
        if not is_checked(_calls[code]):
            return function(*args, **kwargs)
        if checked is None:
            checked = _checked_always(function, typechecker=typechecker)
        return checked(*args, **kwargs)

    counted.ischecked_often = True
    return counted


def checked_imports(package: str) -> Any:
    """A context: the modules of the package that are imported in it are checked."""
    jaxtyping.jaxtyped = jaxtyping._decorator.jaxtyped = checked_often  # also for functions that are made later
    return install_import_hook(package, "beartype.beartype")
