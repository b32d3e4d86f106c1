"""An answer as plain values and named arrays, and the same answer again."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

# Programs, and what would make files large: `estimate(..., out=DIR, resume=True)` gives them again.
LEFT_OUT = ("model", "states", "features", "tuning")

Arrays = dict[str, np.ndarray]


def flattened(value: Any, name: str, arrays: Arrays) -> Any:
    """A value as JSON values. Arrays are added to `arrays`, each under its dotted name, and stand as that name.

    An object is {"kind": its class, and its fields}; a tuple is a list. NaN and infinity stay as Python writes them.

    Args:
        value: A number, a word, an array, a verdict, a tuple of these, or a dataclass or NamedTuple of these.
        name: The value's own dotted name.
        arrays: Where arrays go.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, enum.Enum):
        return {"kind": type(value).__name__, "name": value.name}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"kind": "array", "name": name}
    fields = _fields(value)
    if fields is not None:
        parts = {part: flattened(item, f"{name}.{part}", arrays) for part, item in fields.items()}
        return {"kind": type(value).__name__, "fields": parts}
    if isinstance(value, tuple):
        return [flattened(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
    raise TypeError(f"{name} is a {type(value).__name__}, for which files of results have no form")


def rebuilt(saved: Any, arrays: Mapping[str, np.ndarray], kinds: Mapping[str, Any]) -> Any:
    """What `flattened` was given.

    Args:
        saved: The JSON values.
        arrays: The arrays by name.
        kinds: The classes that may occur, by name; no others are made.
    """
    if isinstance(saved, list):
        return tuple(rebuilt(item, arrays, kinds) for item in saved)
    if not isinstance(saved, dict):
        return saved
    if saved["kind"] == "array":
        return arrays[saved["name"]]
    kind = kinds[saved["kind"]]
    if issubclass(kind, enum.Enum):
        return kind[saved["name"]]
    return kind(**{name: rebuilt(part, arrays, kinds) for name, part in saved["fields"].items()})


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or a NamedTuple that are kept; None for anything else."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {name: getattr(value, name) for name in getattr(value, "_fields")}  # noqa: B009  a NamedTuple
    else:
        return None
    return {name: item for name, item in fields.items() if name not in LEFT_OUT}
