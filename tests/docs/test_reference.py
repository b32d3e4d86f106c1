"""The reference has every public name, and its docstring explains every argument."""

import dataclasses
import enum
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
    "tempering.plots", "tempering.report",
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


# Docstrings.


def described() -> dict[str, object]:
    """All public functions and classes, each once and by its shortest name."""
    names = {**public_names(), **entries()}
    shortest = {id(thing): name for name, thing in sorted(names.items(), key=lambda item: -len(item[0]))}
    return {name: names[name] for name in shortest.values() if has_docstring(names[name])}


def sections_of(doc: str) -> dict[str, str]:
    """The Google-style sections of a docstring by their headings, such as `Args`; equal headings are joined."""
    sections: dict[str, str] = {}
    parts = re.split(r"^(\w+):[ \t]*$", inspect.cleandoc(doc), flags=re.M)
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        sections[heading] = sections.get(heading, "") + text
    return sections


def documented_names(doc: str) -> set[str]:
    """The names that `Args:` and `Attributes:` explain, at the first level of indentation.

    Attributes may share a line, `first, second: …`; in `Args:` the reference would take them for one name.
    """
    sections = sections_of(doc)
    arguments = re.findall(r"^ {4}\*{0,2}(\w+)(?: \([^)\n]*\))?:", sections.get("Args", ""), re.M)
    attributes = re.findall(r"^ {4}(\w+(?:, \w+)*)(?: \([^)\n]*\))?:", sections.get("Attributes", ""), re.M)
    return {*arguments, *(name for names in attributes for name in names.split(", "))}


def has_own_init(cls: type) -> bool:
    """Whether the class wrote its __init__; one that `dataclass` wrote is in no file."""
    init = vars(cls).get("__init__")
    return inspect.isfunction(init) and not inspect.unwrap(init).__code__.co_filename.startswith("<")


def fields_of(cls: type) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(getattr(cls, "_fields", ())) if issubclass(cls, tuple) else []


def arguments_of(thing: object) -> list[str]:
    """What must be documented: parameters of a function or of __init__, or the fields of a class without one."""
    if inspect.isclass(thing) and issubclass(thing, enum.Enum | Exception):
        return []
    if inspect.isclass(thing) and not has_own_init(thing):
        names = fields_of(thing)
    else:
        names = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing).parameters
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def doc_of(thing: object) -> str:
    """The docstring; for a class those of its bases too, whose fields it inherits, and that of its own __init__."""
    if not inspect.isclass(thing):
        return thing.__doc__ or ""
    ours = [cls for cls in thing.__mro__ if cls.__module__.startswith("tempering")]
    inits = [vars(cls)["__init__"] for cls in ours[:1] if has_own_init(cls)]
    return "\n\n".join(inspect.cleandoc(part.__doc__ or "") for part in [*ours, *inits])


def returns_nothing(function: object) -> bool:
    return inspect.signature(function).return_annotation in (None, "None", type(None))


def test_public_docstrings_name_every_argument():
    """Kills: an argument or field that is added without a line in `Args:` or `Attributes:`."""
    offenders = []
    for name, thing in described().items():
        doc = doc_of(thing)
        missing = [argument for argument in arguments_of(thing) if argument not in documented_names(doc)]
        if missing:
            offenders.append(f"{name}: {', '.join(missing)}")
    assert not offenders, f"{len(offenders)} docstrings without a line for:\n" + "\n".join(sorted(offenders))


def test_public_functions_say_what_they_return():
    offenders = [
        name
        for name, thing in described().items()
        if not inspect.isclass(thing)
        and not returns_nothing(thing)
        and not {"Returns", "Yields"} & set(sections_of(doc_of(thing)))
    ]
    assert not offenders, f"{len(offenders)} functions without `Returns:`:\n" + "\n".join(sorted(offenders))


def own_docstrings(name: str, thing: object) -> dict[str, str]:
    """The docstring of a public thing, and those that its public methods and properties have."""
    found = {name: (thing.__doc__ or "").strip()}
    if inspect.isclass(thing):
        if found[name].startswith(f"{thing.__name__}("):  # written by `dataclass` or `NamedTuple`
            found[name] = ""
        for member, value in vars(thing).items():
            method = getattr(value, "__func__", value)
            is_method = inspect.isfunction(method) or isinstance(method, property)
            if is_method and not member.startswith("_") and method.__doc__:
                found[f"{name}.{member}"] = method.__doc__.strip()
    return found


def test_no_public_docstring_is_shorter_than_four_words():
    """Kills: a docstring that repeats the name, and none at all."""
    offenders = [
        f"{name}: {text!r}"
        for public, thing in described().items()
        for name, text in own_docstrings(public, thing).items()
        if len(text.split()) < 4
    ]
    assert not offenders, f"{len(offenders)} docstrings are too short:\n" + "\n".join(sorted(offenders))
