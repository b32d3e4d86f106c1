"""Explicit signatures: an unknown argument is refused with the name of the nearest one."""

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from tempering._errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

# What the command line, other packages and earlier versions call an argument.
_OTHER_NAMES = {
    "chains": "num_chains", "sweeps": "num_sweeps", "rungs": "num_rungs", "ladder": "betas", "prior": "rung_weights",
    "draws": "keep_draws", "max_time": "max_seconds", "hidden": "num_hidden", "updates": "num_updates",
    "lr": "learning_rate", "batch": "batch_size", "track": "is_tracked", "decay": "weight_decay",
    "num_samples": "num_sweeps", "temperatures": "betas", "method": "methods",
    "verbose": "progress", "quiet": "progress",
}  # fmt: skip


def suggests(elsewhere: Mapping[str, str] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: keyword arguments that the function does not have raise an `InputError` that says what is meant.

    Args:
        elsewhere: Arguments that a reader may expect here, and what to do instead.

    Returns:
        The decorator. It changes neither the signature nor the types.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        names = [name for name in inspect.signature(function).parameters if name != "self"]
        owner = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in names:
                    hint = (elsewhere or {}).get(name) or _nearest(name, names)
                    raise InputError(f"`{owner}` has no argument `{name}`. {hint}")
            return function(*args, **kwargs)

        return wrapped

    return decorate


def _nearest(name: str, names: list[str]) -> str:
    known = _OTHER_NAMES.get(name)
    holding = [other for other in names if len(name) > 2 and name in other]  # `sweep` is in `num_sweeps`
    near = [known] if known in names else holding or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"Did you mean `{near[0]}`?" if near else f"It takes: {', '.join(names)}."
