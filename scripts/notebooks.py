"""Run the notebooks of docs/notebooks while the site is built, and make of each a page and an .ipynb file.

    python scripts/notebooks.py FOLDER     # or `mkdocs build`, which calls `on_files`

A notebook is a Python script with cells: `# %%` begins code, `# %% [markdown]` text. Outputs are never committed.
"""

import ast
import base64
import contextlib
import importlib.util
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = {"rbm_pytorch": ("torch", "safetensors"), "bayes_factor": ("numpyro", "funsor"), "ising": ()}
"""Each with the packages that it needs beyond our own and matplotlib."""


class Cell(NamedTuple):
    """A cell, and after it has run what it printed and drew."""

    is_code: bool
    text: str
    printed: str = ""
    pictures: tuple[bytes, ...] = ()


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: the pages, pictures and .ipynb files."""
    from mkdocs.structure.files import File

    for path, content in made().items():
        files.append(File.generated(config, f"notebooks/{path}", content=content))
    return files


def made() -> dict[str, str | bytes]:
    """All files that are made of the notebooks, by name."""
    files: dict[str, str | bytes] = {}
    for name, needed in NOTEBOOKS.items():
        cells = cells_of(name)
        missing = [package for package in needed if importlib.util.find_spec(package) is None]
        if not missing:
            cells, _ = run(cells)
        note = f"!!! note\n    Not run here, for lack of {' and '.join(missing)}.\n\n" if missing else ""
        files[f"{name}.md"] = note + as_page(name, cells)
        files[f"{name}.ipynb"] = json.dumps(as_ipynb(cells), indent=1, ensure_ascii=False)
        pictures = (picture for cell in cells for picture in cell.pictures)
        files |= {f"{name}_{i}.png": picture for i, picture in enumerate(pictures)}
    return files


def cells_of(name: str) -> list[Cell]:
    """The cells of a notebook's script."""
    pieces = re.split(r"^# %%( \[markdown\])?\n", (FOLDER / f"{name}.py").read_text(encoding="utf-8"), flags=re.M)
    cells = []
    for mark, text in zip(pieces[1::2], pieces[2::2], strict=True):
        is_code = mark is None
        text = text if is_code else re.sub(r"^# ?", "", text, flags=re.M)
        cells.append(Cell(is_code, text.strip("\n")))
    return cells


def run(cells: list[Cell]) -> tuple[list[Cell], Mapping[str, Any]]:
    """Run all code in a folder of its own; the cells with their outputs, and the variables at the end."""
    import matplotlib as mpl
    from matplotlib import pyplot

    variables: dict[str, Any] = {"__name__": "__main__"}
    mpl.use("Agg")
    pyplot.close("all")  # what others have left open is no output of these cells
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        done = [cell._replace(**_output(cell.text, variables)) if cell.is_code else cell for cell in cells]
    return done, variables


def _output(code: str, variables: dict[str, Any]) -> dict[str, Any]:
    """Run a cell as a notebook would: the value of its last line is shown, unless there is a picture."""
    from matplotlib import pyplot

    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "notebook", "exec"), variables)
        value = None if last is None else eval(compile(ast.Expression(last.value), "notebook", "eval"), variables)
        if value is not None and not pyplot.get_fignums():
            print(repr(value))
    pictures = []
    for number in pyplot.get_fignums():
        with io.BytesIO() as file:
            pyplot.figure(number).savefig(file, format="png", dpi=110, metadata={"Software": None})
            pictures.append(file.getvalue())
    pyplot.close("all")
    return {"printed": printed.getvalue(), "pictures": tuple(pictures)}


def as_page(name: str, cells: list[Cell]) -> str:
    """A page of the site."""
    return "\n\n".join([*_page_parts(name, cells), f"[Download as a notebook]({name}.ipynb)", ""])


def _page_parts(name: str, cells: list[Cell]) -> Iterator[str]:
    num_pictures = 0
    for cell in cells:
        if not cell.is_code:
            yield cell.text
            continue
        yield f"```python\n{cell.text}\n```"
        if cell.printed:
            yield f"```text\n{cell.printed.rstrip()}\n```"
        for _ in cell.pictures:
            yield f"![Picture {num_pictures + 1} of this notebook]({name}_{num_pictures}.png)"
            num_pictures += 1


def as_ipynb(cells: list[Cell]) -> dict[str, Any]:
    """The notebook in Jupyter's format, with its outputs."""
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {
        "cells": [_ipynb_cell(i, cell) for i, cell in enumerate(cells)],
        "metadata": kernel,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _ipynb_cell(number: int, cell: Cell) -> dict[str, Any]:
    shared = {"id": f"cell-{number}", "metadata": {}, "source": cell.text}
    if not cell.is_code:
        return {"cell_type": "markdown", **shared}
    outputs: list[dict[str, Any]] = []
    if cell.printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": cell.printed})
    for picture in cell.pictures:
        data = {"image/png": base64.b64encode(picture).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    return {"cell_type": "code", "execution_count": None, "outputs": outputs, **shared}


if __name__ == "__main__":
    for file, made_of in made().items():
        content = made_of if isinstance(made_of, bytes) else made_of.encode()
        (Path(sys.argv[1]) / file).write_bytes(content)
