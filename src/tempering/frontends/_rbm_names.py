"""Which arrays of a file are the parameters of an RBM, and which of them no RBM uses."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tempering.frontends._guard import FileError, name_list

Names: TypeAlias = str | Mapping[str, str | Sequence[str]]

NEEDED = ("W", "vbias", "hbias")
ROLES = (*NEEDED, "sigmas")
UNUSED = "unused"  # the word for arrays that are to be left out
# What other packages call the parameters. scikit-learn keeps its weights as (hidden, visible).
_ELSEWHERE = (
    {"W": "components_", "vbias": "intercept_visible_", "hbias": "intercept_hidden_"},
    {"W": "weight", "vbias": "v_bias", "hbias": "h_bias"},
    {"W": "weights", "vbias": "vbias", "hbias": "hbias"},
    {"W": "W", "vbias": "v_bias", "hbias": "h_bias"},
    {"W": "W", "vbias": "bv", "hbias": "bh"},
    {"W": "W", "vbias": "c", "hbias": "b"},
)
_TRANSPOSED = ("components_",)
_SPREADS = ("sigma", "std", "var", "precision")  # parts of names of what only a GaussianRBM has


def read_names(names: Names | None) -> dict[str, list[str]]:
    """What `names` says, as lists of arrays by their role.

    Args:
        names: "W=weight,vbias=v_bias,hbias=h_bias,unused=loss", or a mapping; None stands for nothing.
    """
    given: dict[str, list[str]] = {}
    for role, name in _pairs(names):
        if role not in (*ROLES, UNUSED):
            raise FileError(f"`names` must give {', '.join(ROLES)} or {UNUSED}, got {role!r}. {_HOW}")
        if role != UNUSED and role in given:
            raise FileError(f"`names` gives {role} twice. {_HOW}")
        given.setdefault(role, []).append(name)
    return given


def choose_names(path: Path, held: Iterable[str], pick: str | None, names: Names | None) -> dict[str, str]:
    """The array for each role; refuses a file that lacks one, or holds one that would not be used.

    Args:
        path: the file, for messages.
        held: the names of its arrays.
        pick: NAME of `FILE.npz:NAME`, the suffix of the arrays.
        names: what the caller says of names.
    """
    held, given = list(held), read_names(names)
    suffix = "" if pick is None else f"_{pick}"
    wanted = {role: given.get(role, [f"{role}{suffix}"])[0] for role in ROLES}
    if "sigmas" not in given and stored_name(wanted["sigmas"], held) not in held:
        del wanted["sigmas"]
    missing = [name for name in wanted.values() if stored_name(name, held) not in held]
    if missing:
        raise FileError(f"{path} has no array {name_list(missing)}. {_hint(path, held)}")
    used = {stored_name(name, held) for name in wanted.values()} | set(given.get(UNUSED, ()))
    rest = [name for name in held if name not in used and not _is_of_another(name, held, pick)]
    if rest:
        raise FileError(_refusal(path, wanted, rest))
    return wanted


def stored_name(name: str, held: Iterable[str]) -> str:
    """The name of an array in the file: "weight.T" stands for the transpose of weight, unless it is there itself."""
    return name if name in held else name.removesuffix(".T")


def turned(array: np.ndarray, name: str, held: Iterable[str]) -> np.ndarray:
    """The array that a name stands for; weights of scikit-learn are turned to (visible, hidden)."""
    return array.T if stored_name(name, held) != name or name in _TRANSPOSED else array


def has_spreads(names: Iterable[str]) -> list[str]:
    """Names that look like the standard deviations of a Gaussian RBM."""
    return [name for name in names if any(part in name.lower() for part in _SPREADS)]


def _pairs(names: Names | None) -> list[tuple[str, str]]:
    if isinstance(names, str):
        return [_pair(part) for part in names.split(",")]
    lists = {role: [name] if isinstance(name, str) else name for role, name in (names or {}).items()}
    return [(role, name) for role, several in lists.items() for name in several]


def _pair(part: str) -> tuple[str, str]:
    role, equals, name = (piece.strip() for piece in part.partition("="))
    if not equals or not name:
        raise FileError(f"`names` must be ROLE=ARRAY with commas between them, got {part!r}. {_HOW}")
    return role, name


def _is_of_another(name: str, held: list[str], pick: str | None) -> bool:
    """Whether an array belongs to another model of a file with several."""
    if pick is not None and "W" in held and name in ROLES:
        return True
    picks = [other.removeprefix("W_") for other in held if other.startswith("W_")]
    return any(other != pick and name.endswith(f"_{other}") for other in picks)


def _refusal(path: Path, wanted: dict[str, str], rest: list[str]) -> str:
    kind = "a GaussianRBM" if "sigmas" in wanted else "an RBM"
    spreads = has_spreads(rest) if "sigmas" not in wanted else []
    seems = f' With {spreads[0]} it seems to be a GaussianRBM: `names="sigmas={spreads[0]}"`.' if spreads else ""
    leave = ",".join(f"{UNUSED}={name}" for name in rest[:4])
    return (
        f"{path} also holds {name_list(rest)}, which the model of the other arrays, {kind}, does not use.{seems} "
        f'If it may be left out, say so: `names="{leave}"`.'
    )


def _hint(path: Path, held: list[str]) -> str:
    """What to do about an archive without the wanted arrays."""
    usable = [str(path)] if set(NEEDED) <= set(held) else []
    picks = [name.removeprefix("W_") for name in held if name.startswith("W_")]
    usable += [f"{path}:{pick}" for pick in picks if {f"vbias_{pick}", f"hbias_{pick}"} <= set(held)]
    if usable:
        return f"Pick one of: {name_list(usable)}."
    holds = f"It holds: {name_list(held)}."
    for known in _ELSEWHERE:
        if set(known.values()) <= set(held):
            said = ",".join(f"{role}={name}" for role, name in known.items() if role != name)
            return f'{holds} Say which is which: `names="{said}"`.'
    return f"{holds} Save the arrays W (visible, hidden), vbias and hbias, or say which is which with `names`."


_HOW = 'Write `names="W=weight,vbias=v_bias,hbias=h_bias"`; weight.T stands for the transpose.'
