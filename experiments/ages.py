"""Which tables of docs/measured/results.md are older than the code that they measure.

    python experiments/ages.py [--write]

Every result file records a digest of each module of the package that was loaded when it was made (`repeats.about`).
Comments and docstrings do not count, nor do modules that only show or check things. The changelog lists the tables that
are older than the code, under "Tables that are older than the code"; a test holds that list to the files, and the page
says it below each table. `--write` brings the list up to date.
"""

import argparse
import ast
import functools
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tempering"
RESULTS = ROOT / "benchmarks" / "results"
CHANGELOG = ROOT / "CHANGELOG.md"
HEADING = "### Tables that are older than the code"
ALL = "everything"  # of a file that records no digest
# Bits that a test compares, and records of what runs survive, which have targets of their own: neither is a table.
NO_RESULTS = ("golden_bits", "damaged_files", "full_disk", "fuzz", "killed_runs", "newcomer", "scale", "soak")
# What these do changes no number.
_WITHOUT_NUMBERS = ("_errors", "_signatures", "_version", "cli", "paper", "plots", "progress", "report", "verification")


def code_record() -> str:
    """`module=digest` of every module of the package that is loaded and can change a number."""
    names = sorted(name.partition(".")[2] for name in sys.modules if name.startswith("tempering."))
    used = [name for name in names if name.partition(".")[0] not in _WITHOUT_NUMBERS]
    return " ".join(f"{name}={digest}" for name in used if (digest := digest_of(name)))


@functools.cache  # many results are of the same modules
def digest_of(module: str) -> str | None:
    """Eight digits of the SHA-256 of a module's code; None if there is no such file any more."""
    stem = PACKAGE / module.replace(".", "/")
    file = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
    return hashlib.sha256(code_of(file.read_text()).encode()).hexdigest()[:8] if file.exists() else None


def package_digest() -> str:
    """Twelve digits of the SHA-256 of all code of the package that can change a number."""
    modules = [file.relative_to(PACKAGE).with_suffix("").as_posix() for file in PACKAGE.rglob("*.py")]
    digests = [f"{name}={digest_of(name)}" for name in sorted(modules) if not name.startswith(_WITHOUT_NUMBERS)]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:12]


def code_of(source: str) -> str:
    """The lines of a source that do something: no docstrings, no lines of comments, no blank ones."""
    lines, idle = source.splitlines(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first = node.body[0]
            idle |= set(range(first.lineno - 1, first.end_lineno or first.lineno))
    kept = [line for i, line in enumerate(lines) if i not in idle and line.strip() and not line.strip().startswith("#")]
    return "\n".join(kept)


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """A result with the digest of all that it says, so that a number that is changed by hand can be told."""
    content = json.loads(json.dumps(content))  # as it will be read
    about = {name: value for name, value in content["about"].items() if name != "digest"}
    text = json.dumps(content | {"about": about}, sort_keys=True)
    return content | {"about": about | {"digest": hashlib.sha256(text.encode()).hexdigest()[:12]}}


def older_than(file: Path) -> list[str]:
    """The packages that have changed since a result was made; `ALL` if it does not say."""
    record = json.loads(file.read_text()).get("about", {}).get("code")
    if record is None:
        return [ALL]
    pairs = [entry.split("=") for entry in record.split()]
    return sorted({module.partition(".")[0] for module, digest in pairs if digest_of(module) != digest})


def stale() -> dict[str, list[str]]:
    """All results that are older than the code, by name, with the packages that have changed."""
    files = [file for file in sorted(RESULTS.glob("*.json")) if file.stem not in NO_RESULTS]
    found = {file.stem: older_than(file) for file in files}
    return {name: packages for name, packages in found.items() if packages}


def listed() -> dict[str, list[str]]:
    """The same, as the changelog says it."""
    _, _, section = CHANGELOG.read_text().partition(HEADING)
    lines = re.findall(r"^- `(\w+)`: (.+)\.$", re.split(r"^##", section, maxsplit=1, flags=re.M)[0], re.M)
    return {name: re.findall(r"\w+", packages) for name, packages in lines}


def in_words(found: dict[str, list[str]]) -> str:
    """The list of the changelog."""
    return "\n".join(f"- `{name}`: {', '.join(packages)}." for name, packages in found.items())


def write_list() -> None:
    """Bring the changelog's list up to date; what stands around it stays."""
    head, _, section = CHANGELOG.read_text().partition(HEADING)
    lines = section[: re.search(r"^##|\Z", section, re.M).start()]
    introduction = lines.partition("\n- ")[0].rstrip()
    CHANGELOG.write_text(f"{head}{HEADING}{introduction}\n\n{in_words(stale())}\n\n{section[len(lines) :]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="bring the changelog's list up to date")
    if parser.parse_args().write:
        write_list()
    print(in_words(stale()))


if __name__ == "__main__":
    main()
