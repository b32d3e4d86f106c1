"""A model that somebody's Python file defines."""

import inspect
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any

from tempering._errors import InputError
from tempering.frontends._guard import FileError, checked_suffix, listing, open_file
from tempering.models import AbstractModel


def split_target(spec: str) -> tuple[Path, str] | None:
    """Cut `FILE.py:NAME` in two; None where it is something else."""
    head, _, name = spec.rpartition(":")
    if head.lower().endswith(".py"):
        if not name.isidentifier():
            raise FileError(f"{spec} must end in the name of a model after the colon, as in {head}:model.")
        return Path(head), name
    if spec.lower().endswith(".py"):
        raise FileError(f"{spec} needs the name of a model after it. Write {spec}:NAME.")
    return None


def load_from_python(path: Path, name: str) -> AbstractModel:
    """The model `name` of a Python file: a model itself, or a function of no arguments that makes one.

    The file is executed, once, as any program is: load only files that you would run. While it is, its folder can be
    imported from.
    """
    checked_suffix(path, (".py",))
    with open_file(path) as stream:
        source = stream.read()
    with _module(path) as module, _folder_importable(path), _blaming(path):
        exec(compile(source, str(path), "exec"), vars(module))
        if not hasattr(module, name):
            raise FileError(f"{path} has no {name}. It defines: {listing(_candidates(module))}.")
        return _model_of(getattr(module, name), f"{path}:{name}")


def _model_of(found: Any, label: str) -> AbstractModel:
    if not isinstance(found, AbstractModel) and callable(found):
        if any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in _parameters(found)):
            raise FileError(
                f"{label} takes arguments, expected a model or a function of none that returns one. "
                "A density alone becomes a model by tp.LogDensity(log_f, base)."
            )
        found = found()
    if not isinstance(found, AbstractModel):
        raise FileError(
            f"{label} must be a model such as tp.LogDensity(log_f, base), or a function that returns one; "
            f"got a {type(found).__name__}."
        )
    return found


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # some functions written in C do not say
        return []


def _candidates(module: types.ModuleType) -> list[str]:
    """Names of the file's own models and functions."""
    names = {name: thing for name, thing in vars(module).items() if not name.startswith("_")}
    is_own = {name: getattr(thing, "__module__", None) == module.__name__ for name, thing in names.items()}
    return [n for n, thing in names.items() if isinstance(thing, AbstractModel) or (callable(thing) and is_own[n])]


@contextmanager
def _module(path: Path) -> Iterator[types.ModuleType]:
    """An empty module, registered as an imported one is, because dataclasses look there; not if its file fails."""
    module = types.ModuleType(f"_tempering_model_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        yield module
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise


@contextmanager
def _folder_importable(path: Path) -> Iterator[None]:
    """Neighbours of the file can be imported; afterwards the search path is as it was, whatever the file did to it."""
    before = list(sys.path)
    sys.path.insert(0, os.path.abspath(path.parent))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Turn whatever the file raises into one line with its place."""
    try:
        yield
    except FileError:
        raise
    except (Exception, SystemExit) as error:  # it is another's program, and may raise anything
        words = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
        what = words if isinstance(error, InputError) else f"{type(error).__name__}: {words}".rstrip(": ")
        raise FileError(f"{_place(path, error)}: {what}") from error


def _place(path: Path, error: BaseException) -> str:
    """FILE:LINE of the innermost line of the file that led to the error, or of the SyntaxError."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    first, lines = error, []
    while first.__cause__ is not None:  # the library's words about an error in the file
        first = first.__cause__
    for each in (first, error):
        lines += [line for frame, line in walk_tb(each.__traceback__) if frame.f_code.co_filename == str(path)][-1:]
    return f"{path}:{lines[0]}" if lines else str(path)
