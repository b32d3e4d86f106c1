"""CONTRIBUTING.md says where each kind of code belongs, for every package that there is."""

import re

from pages import ROOT

SOURCE = ROOT / "src" / "tempering"
ENTRY_POINTS = {"__init__.py", "__main__.py"}


def places() -> list[str]:
    """What the right column of the table names, such as `ladder/`, `models/rbm/` and `bases.py`."""
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| question |", 1)[1].split("\n\n", 1)[0]
    cells = [line.strip("|").split("|")[1] for line in table.splitlines()[2:]]
    assert all("`" in cell for cell in cells)
    return [name for cell in cells for name in re.findall(r"`([\w/]+(?:/|\.py))`", cell)]


def test_every_package_and_module_has_a_row():
    packages = {f"{folder.parent.name}/" for folder in SOURCE.glob("*/__init__.py")}
    modules = {file.name for file in SOURCE.glob("*.py")} - ENTRY_POINTS
    assert len(packages) > 10
    assert packages | modules == {name for name in places() if "/" not in name.rstrip("/")}


def test_every_row_names_something_that_exists():
    for name in places():
        assert (SOURCE / name).exists(), name
