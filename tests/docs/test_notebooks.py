"""Notebooks: they use names that exist, can be found, run, and show what they say."""

import ast
import importlib.util
import re

import pytest

import checks
import tempering as tp
from pages import ROOT

spec = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts" / "notebooks.py")
assert spec is not None
assert spec.loader is not None
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)
NAMES = [*notebooks.NOTEBOOKS]


def needed(name: str) -> None:
    for package in ("matplotlib", *notebooks.NOTEBOOKS[name]):
        pytest.importorskip(package, reason=f"this notebook needs {package}")


@pytest.mark.parametrize("name", NAMES)
def test_names_exist_and_pages_can_be_found(name):
    """Kills: a public name that was renamed, a notebook that no page leads to."""
    cells = notebooks.cells_of(name)
    assert cells[0].text.startswith("# ")
    code = ast.parse("\n".join(cell.text for cell in cells if cell.is_code))
    used = {node.attr for node in ast.walk(code) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "tp"}
    assert used
    assert used <= set(dir(tp)), used - set(dir(tp))
    assert f"notebooks/{name}.md" in (ROOT / "mkdocs.yml").read_text()
    assert f"notebooks/{name}.md" in (ROOT / "docs" / "index.md").read_text()
    for link in re.findall(r"\]\(\.\./([\w/]+\.md)\)", "\n".join(cell.text for cell in cells)):
        assert (ROOT / "docs" / link).exists()


def test_a_script_becomes_cells_a_page_and_a_notebook(tmp_path, monkeypatch):
    """Kills: cells in the wrong order, an output under another cell, a last value that is not shown."""
    pytest.importorskip("matplotlib", reason="the runner draws")
    script = "# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nx = 3\nprint('said')\nx\n\n# %%\ny = x + 1\n"
    (tmp_path / "tiny.py").write_text(script)
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    done, variables = notebooks.run(notebooks.cells_of("tiny"))
    assert variables["y"] == 4
    assert [cell.printed for cell in done] == ["", "said\n3\n", ""]
    page = notebooks.as_page("tiny", done)
    assert page.startswith("# Title\n\ntext\n\n```python\nx = 3")
    assert page.index("said\n3") < page.index("y = x + 1")
    written = notebooks.as_ipynb(done)
    assert [cell["cell_type"] for cell in written["cells"]] == ["markdown", "code", "code"]
    assert written["cells"][1]["outputs"][0]["text"] == "said\n3\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_notebooks_run_and_are_right(name):
    """Slow, since nothing is shortened: verdicts are good, and exact answers lie within 5.5 standard errors."""
    needed(name)
    cells, variables = notebooks.run(notebooks.cells_of(name))
    assert sum(len(cell.pictures) for cell in cells) >= 2
    for result in variables.get("results") or [variables["result"]]:
        assert result.verdict.is_good, result.summary()
        if result.exact_log_z is not None:
            checks.assert_within(result.log_z, result.exact_log_z, result.std_error)
    if name == "bayes_factor":
        line = variables["results"][0]
        checks.assert_within(line.log_z, variables["exact"], line.std_error)
