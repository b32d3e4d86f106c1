"""Known vulnerabilities of the packages that tempering needs, as they are installed here. It needs no network.

    python scripts/audit_dependencies.py advisories.zip

The data are the advisories for PyPI in the format of OSV: a folder of JSON files, or the archive of all of them, which
https://storage.googleapis.com/osv-vulnerabilities/PyPI/all.zip has. Fetch it where there is a network, and take it
along. Exits 1 if a package has a known vulnerability, 2 if there are no data.
"""

import argparse
import importlib.metadata
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(root: str = "tempering") -> dict[str, str]:
    """All packages that a package needs, directly or not, with every extra that is installed, and their versions."""
    found, left = {}, [root]
    while left:
        name = normalized(left.pop())
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        found[name] = distribution.version
        left += [Requirement(text).name for text in distribution.requires or ()]
    return found


def advisories(place: Path) -> Iterator[dict[str, Any]]:
    if place.is_dir():
        for file in sorted(place.glob("*.json")):
            yield json.loads(file.read_bytes())
        return
    with zipfile.ZipFile(place) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def is_affected(version: str, entry: dict[str, Any]) -> bool:
    """Whether an entry of an advisory names this version, or a range that holds it."""
    return version in entry.get("versions", ()) or any(
        _is_within(Version(version), known["events"])
        for known in entry.get("ranges", ())
        if known["type"] == "ECOSYSTEM"
    )


def _is_within(version: Version, events: list[dict[str, str]]) -> bool:
    is_in = False
    for event in events:
        (kind, text), *_ = event.items()
        try:
            bound = Version(text)
        except InvalidVersion:
            continue
        if kind == "introduced" and version >= bound:
            is_in = True
        if (kind == "fixed" and version >= bound) or (kind == "last_affected" and version > bound):
            is_in = False
    return is_in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    place = parser.parse_args().data
    if not place.exists():
        print(f"{place} is not there. Fetch the advisories first.", file=sys.stderr)
        sys.exit(2)
    packages, num_read, found = needed(), 0, []
    for advisory in advisories(place):
        num_read += 1
        for entry in () if advisory.get("withdrawn") else advisory.get("affected", ()):
            name = normalized(entry.get("package", {}).get("name", ""))
            if name in packages and is_affected(packages[name], entry):
                found.append(f"{name} {packages[name]}: {advisory['id']}: {advisory.get('summary', 'no summary')}")
    print(f"{len(packages)} packages held against {num_read} advisories: {len(found)} known vulnerabilities")
    print("\n".join(sorted(set(found))))
    sys.exit(2 if num_read == 0 else bool(found))


if __name__ == "__main__":
    main()
