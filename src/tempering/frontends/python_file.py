"""A model that a Python file defines."""

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
from tempering.frontends._guard import FileError, checked_suffix, name_list, open_file
from tempering.models import AbstractModel


def split_target(spec: str) -> tuple[Path, str] | None:
    """Split `FILE.py:NAME` in two; None if it is something else."""
    head, _, name = spec.rpartition(":")
    if head.lower().endswith(".py"):
        if not name.isidentifier():
            raise FileError(f"{spec} must end in the name of a model after the colon, as in {head}:model.")
        return Path(head), name
    if spec.lower().endswith(".py"):
        raise FileError(f"{spec} needs the name of a model after it. Write {spec}:NAME.")
    return None


def load_from_python(path: Path, name: str) -> AbstractModel:
    """The model `name` of a Python file: a model, or a function without arguments that returns one.

    The file is executed once. Meanwhile modules in its folder can be imported.
    """
    checked_suffix(path, (".py",))
    with open_file(path) as stream:
        source = stream.read()
    with _empty_module(path) as module, _folder_importable(path), _errors_located(path):
        exec(compile(source, str(path), "exec"), vars(module))
        if not hasattr(module, name):
            raise FileError(f"{path} has no {name}. It defines: {name_list(_candidates(module))}.")
        return _checked_model(getattr(module, name), f"{path}:{name}")


def _checked_model(found: Any, label: str) -> AbstractModel:
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
    except ValueError:  # functions written in C may have no signature
        return []


def _candidates(module: types.ModuleType) -> list[str]:
    """The names of the file's own models and functions."""
    names = {name: thing for name, thing in vars(module).items() if not name.startswith("_")}
    is_own = {name: getattr(thing, "__module__", None) == module.__name__ for name, thing in names.items()}
    return [n for n, thing in names.items() if isinstance(thing, AbstractModel) or (callable(thing) and is_own[n])]


@contextmanager
def _empty_module(path: Path) -> Iterator[types.ModuleType]:
    """An empty module, registered in `sys.modules` because dataclasses look there; removed if its file fails."""
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
    """Modules beside the file can be imported; the search path is restored, even if the file changed it."""
    before = list(sys.path)
    sys.path.insert(0, os.path.abspath(path.parent))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _errors_located(path: Path) -> Iterator[None]:
    """Turn whatever the file raises into one line with file and line number."""
    try:
        yield
    except FileError:
        raise
    except (Exception, SystemExit) as error:  # the user's program may raise anything
        words = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
        # The arguments that it names are those of a call in the file; in backticks they would be read as flags.
        words, is_refused = words.replace("`", "'"), isinstance(error, InputError)
        what = words if is_refused else f"{type(error).__name__}: {words}".rstrip(": ")
        raise FileError(f"{_file_and_line(path, error)}: {what}") from error


def _file_and_line(path: Path, error: BaseException) -> str:
    """FILE:LINE of the innermost line of the file that led to the error, or of the SyntaxError."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    first, lines = error, []
    while first.__cause__ is not None:  # the library describes an error of the file in its own words
        first = first.__cause__
    for each in (first, error):
        lines += [line for frame, line in walk_tb(each.__traceback__) if frame.f_code.co_filename == str(path)][-1:]
    return f"{path}:{lines[0]}" if lines else str(path)
