"""Keyword arguments that do not exist are refused with the name of the one that was probably meant."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tempering._errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

_MIN_LIKENESS = 0.5  # of difflib, from 0 to 1
_FLAG_NAMES = {  # flags of the command line whose argument in Python has another name
    "chains": "num_chains", "sweeps": "num_sweeps", "rungs": "num_rungs", "ladder": "betas", "prior": "rung_weights",
    "draws": "keep_draws", "hidden": "num_hidden", "updates": "num_updates", "lr": "learning_rate",
    "batch": "batch_size", "track": "is_tracked", "decay": "weight_decay",
}  # fmt: skip
_RUN_SETTING = "`TrainingRun(settings=RunSettings(...))` has it, and so has `tempering train`."
_ELSEWHERE = {("Trainer", name): _RUN_SETTING for name in ("pretrain", "check", "early_stop")}


def suggests(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function refuse unknown keyword arguments with an `InputError` that names the nearest known one.

    ```python
    @suggests
    def estimate(model, *, num_chains=100): ...

    estimate(model, chains=5)  # InputError: `estimate` has no argument `chains`. Did you mean `num_chains`?
    ```

    Args:
        function: a function or an `__init__`, whose messages then name the class.

    Returns:
        The function with the same signature.
    """
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    title = function.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in names:
                raise InputError(f"`{title}` has no argument `{name}`. {_advice(title, name, names)}")
        return function(*args, **kwargs)

    return checked


def _advice(title: str, name: str, names: list[str]) -> str:
    if (title, name) in _ELSEWHERE:
        return _ELSEWHERE[title, name]
    meant = [_FLAG_NAMES[name]] if _FLAG_NAMES.get(name) in names else difflib.get_close_matches(
        name, names, n=1, cutoff=_MIN_LIKENESS
    )  # fmt: skip
    return f"Did you mean `{meant[0]}`?" if meant else f"It takes: {', '.join(names)}."
