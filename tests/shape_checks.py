"""Shapes and types of arguments and results, checked while tests run, but not at every call of a loop."""

import functools
import inspect
import threading
from types import CodeType, FunctionType
from typing import Any

import jaxtyping
from jaxtyping import install_import_hook

# A check takes longer than most functions of NumPy, and the making of a check takes a millisecond.
# Of all calls in one test, the first ones of each function are checked, and later those numbered by powers of two.
ALL_UNTIL = 4

_checked_always = jaxtyping.jaxtyped


class _Definition:
    """What all functions that one `def` makes share, however often it is run: the number of calls, and the check."""

    def __init__(self, code: CodeType):
        self.code, self.num_calls = code, 0
        self._checked, self._now = None, threading.local()

    def checked(self, function: Any, typechecker: Any) -> Any:
        """The function with its check, to be called at once."""
        self._now.function = function
        if self._checked is None:
            now = self._now

            def call(*args, **kwargs):
                return now.function(*args, **kwargs)

            # Annotations that are strings are looked up among the function's own globals.
            template = FunctionType(call.__code__, function.__globals__, closure=call.__closure__)
            self._checked = _checked_always(functools.update_wrapper(template, function), typechecker=typechecker)
        return self._checked


_definitions: dict[int, _Definition] = {}  # by the code's id: equal code may stand in two classes


def forget_calls() -> None:
    """Count the calls of every function from 0: a test begins."""
    for definition in _definitions.values():
        definition.num_calls = 0


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
    code = function.__code__
    if id(code) not in _definitions:
        _definitions[id(code)] = _Definition(code)
    definition = _definitions[id(code)]

    @functools.wraps(function)
    def counted(*args, **kwargs):
        definition.num_calls += 1
        if not is_checked(definition.num_calls):
            return function(*args, **kwargs)
        return definition.checked(function, typechecker)(*args, **kwargs)

    counted.ischecked_often = True
    return counted


def checked_imports(package: str) -> Any:
    """A context: the modules of the package that are imported in it are checked."""
    jaxtyping.jaxtyped = jaxtyping._decorator.jaxtyped = checked_often  # also for functions that are made later
    return install_import_hook(package, "beartype.beartype")
