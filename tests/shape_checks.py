"""Shapes and types of arguments and results, checked while tests run, but not at every call of a loop."""

import functools
import inspect
from types import CodeType, FunctionType
from typing import Any, get_type_hints

import jaxtyping
from jaxtyping import install_import_hook

# A check takes longer than most functions of NumPy, and the making of a check takes a millisecond.
# Of all calls in one test, the first ones of each function are checked, and later those numbered by powers of two.
ALL_UNTIL = 4

_checked_always = jaxtyping.jaxtyped


class _Definition:
    """What all functions that one `def` makes share, however often it is run: the number of calls, and the check.

    jaxtyping's own check looks at arguments twice, and puts them in order for a message that is rarely needed. So calls
    are first checked by beartype within jaxtyping's context, in half the time; what fails there is left to jaxtyping.
    """

    def __init__(self, code: CodeType):
        self.code, self.num_calls = code, 0
        self._takes: Any = None
        self._gives: Any = None

    def call(self, function: Any, typechecker: Any, args: Any, kwargs: Any) -> Any:
        """What the function gives, checked."""
        if self._takes is None:
            self._takes, self._gives = _takes_and_gives(function, typechecker)
        with _checked_always("context"):
            if _passes(self._takes, args, kwargs):
                found = function(*args, **kwargs)
                if _passes(self._gives, (found,), {}):
                    return found
                function = _giving(found, function)
        return _checked_always(function, typechecker=typechecker)(*args, **kwargs)


def _passes(check: Any, args: Any, kwargs: Any) -> bool:
    try:
        check(*args, **kwargs)
    except Exception:  # noqa: BLE001 - whatever it is, jaxtyping finds it too and says what it is
        return False
    return True


def _giving(found: Any, function: Any) -> Any:
    """A function with the same signature that gives this, for the message."""

    def give(*args, **kwargs):
        return found

    # Annotations that are strings are looked up among the function's own globals.
    return functools.update_wrapper(
        FunctionType(give.__code__, function.__globals__, closure=give.__closure__), function
    )


class _Name:
    """Stands for an annotation or a default where a signature is written as text."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


def _takes_and_gives(function: Any, typechecker: Any) -> tuple[Any, Any]:
    """Two functions that do nothing: one takes the same arguments, the other takes what is given back."""
    signature, scope = inspect.signature(function), {}

    def named(thing: Any, name: str) -> Any:
        if thing is inspect.Signature.empty:
            return thing
        scope[name] = thing
        return _Name(name)

    parameters = [
        parameter.replace(
            annotation=named(_annotation(parameter.annotation, function), f"_type_{name}"),
            default=named(parameter.default, f"_default_{name}"),
        )
        for name, parameter in signature.parameters.items()
    ]
    given = named(_annotation(signature.return_annotation, function), "_given")
    takes = signature.replace(parameters=parameters, return_annotation=signature.empty)
    gives = inspect.Signature([inspect.Parameter("given", inspect.Parameter.POSITIONAL_ONLY, annotation=given)])
    exec(f"def takes{takes}: pass\ndef gives{gives}: pass", scope)
    told = ("__module__", "__name__", "__qualname__")
    return tuple(typechecker(functools.update_wrapper(scope[name], function, told, ())) for name in ("takes", "gives"))


def _annotation(annotation: Any, function: Any) -> Any:
    """The type that is meant where it is written as a string; anything, as for jaxtyping, where it cannot be found."""
    if annotation is inspect.Signature.empty:
        return annotation

    def give(value):
        return value

    give.__annotations__ = {"value": annotation}
    try:
        return get_type_hints(give, function.__globals__, include_extras=True)["value"]
    except Exception:  # noqa: BLE001
        return Any


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
        return definition.call(function, typechecker, args, kwargs)

    counted.ischecked_often = True
    return counted


def checked_imports(package: str) -> Any:
    """A context: the modules of the package that are imported in it are checked."""
    jaxtyping.jaxtyped = jaxtyping._decorator.jaxtyped = checked_often  # also for functions that are made later
    return install_import_hook(package, "beartype.beartype")
