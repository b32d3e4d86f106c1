"""The reference has every public name."""

import importlib
import inspect
import re
from types import ModuleType

from pages import ROOT

REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
PACKAGES = (
    "tempering", "tempering.api", "tempering.results", "tempering.models", "tempering.paths", "tempering.kernels",
    "tempering.kernels.moves", "tempering.warmups", "tempering.ladder", "tempering.stats", "tempering.sampling",
    "tempering.estimators", "tempering.diagnosis", "tempering.training", "tempering.bases",
)  # fmt: skip


def public_names() -> dict[str, object]:
    """Dotted names and what they mean, for all that the packages export."""
    found = {}
    for package in map(importlib.import_module, PACKAGES):
        for name in getattr(package, "__all__", vars(package)):
            thing = getattr(package, name)
            if not name.startswith("_") and not isinstance(thing, ModuleType):
                found[f"{package.__name__}.{name}"] = thing
    return found


def has_docstring(thing: object) -> bool:
    """Whether it is a class or a function, and not a constant or a type."""
    return inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing))


def names_on_the_pages() -> list[str]:
    return [name for page in REFERENCE for name in re.findall(r"^::: tempering\.(\S+)$", page.read_text(), re.M)]


def resolved(name: str) -> object:
    thing = importlib.import_module("tempering")
    for part in name.split("."):
        if isinstance(thing, ModuleType) and not hasattr(thing, part):
            importlib.import_module(f"{thing.__name__}.{part}")  # a module that its package does not import
        thing = getattr(thing, part)
    return thing


def is_there(name: str) -> bool:
    try:
        resolved(name)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


def entries() -> dict[str, object]:
    """What the pages describe from docstrings."""
    return {f"tempering.{name}": resolved(name) for name in names_on_the_pages() if is_there(name)}


def is_documented_by_hand(name: str) -> bool:
    """Constants have no docstring; a sentence on a page names them."""
    return any(f"`{name}`" in page.read_text() for page in REFERENCE)


def test_every_public_name_is_on_a_reference_page():
    """Kills: a new export without an entry, an entry for a name that is gone."""
    gone = [name for name in names_on_the_pages() if not is_there(name)]
    assert not gone, f"remove from docs/reference what is no longer there: {', '.join(gone)}"
    names = public_names()
    assert len(names) > 150
    described = {id(thing) for thing in entries().values()}
    missing = [
        name
        for name, thing in names.items()
        if not (id(thing) in described if has_docstring(thing) else is_documented_by_hand(name))
    ]
    assert not missing, f"add `::: NAME` to a page of docs/reference for {', '.join(missing)}"


def test_no_name_is_described_twice():
    listed = names_on_the_pages()
    twice = {name for name in listed if listed.count(name) > 1}
    things = [thing for thing in entries().values() if has_docstring(thing)]
    assert not twice
    assert len(things) == len({id(thing) for thing in things})
