"""Tables that are older than the code say so, and every table has a study that makes it."""

import json
import runpy
import sys

import numpy as np
import pytest

import checks
from pages import ROOT
from tempering.paper.runs import REFERENCE_500


@pytest.fixture(scope="module")
def scripts() -> dict:
    """What these scripts of experiments/ define."""
    sys.path.insert(0, str(ROOT / "experiments"))
    try:
        return {name: runpy.run_path(str(ROOT / "experiments" / f"{name}.py")) for name in ("ages", "repeats", "study")}
    finally:
        sys.path.remove(str(ROOT / "experiments"))


def test_the_changelog_lists_every_table_that_is_older_than_the_code(scripts):
    """Kills: a change of the code that a table measures, without a word; a table that was made again, still listed."""
    ages = scripts["ages"]
    assert ages["listed"]() == ages["stale"](), "run `python experiments/ages.py --write`, then benchmarks/report.py"


def test_a_change_of_code_makes_a_table_old_and_one_of_words_does_not(scripts, tmp_path, monkeypatch):
    """Kills: a digest of nothing, comments and docstrings that count, a module that is gone and is not missed."""
    ages = scripts["ages"]
    code = ages["code_of"]
    first = 'def f(x):\n    """Old words."""\n    return x + 1  # kept\n'
    assert code(first) == code('# A remark.\n\ndef f(x):\n    """New\n    words."""\n    return x + 1  # kept\n')
    assert code(first) != code(first.replace("+ 1", "+ 2"))
    record = {
        "about": {
            "code": f"stats.sums={ages['digest_of']('stats.sums')} ladder.joint={ages['digest_of']('ladder.joint')}"
        }
    }
    file = tmp_path / "table.json"
    file.write_text(json.dumps(record))
    assert ages["older_than"](file) == []
    file.write_text(json.dumps(record).replace("ladder.joint=", "ladder.joint=0"))
    assert ages["older_than"](file) == ["ladder"]
    file.write_text(json.dumps({"about": {"code": "kernels.gone=12345678"}}))
    assert ages["older_than"](file) == ["kernels"]
    file.write_text(json.dumps({"about": {}}))
    assert ages["older_than"](file) == [ages["ALL"]]


def test_no_result_differs_from_what_its_script_wrote(scripts, tmp_path, monkeypatch):
    """Those that carry their digest; older ones have none. Kills: a number that was changed by hand."""

    def is_as_written(content):
        return content["about"]["digest"] == scripts["ages"]["sealed"](content)["about"]["digest"]

    for file in (ROOT / "benchmarks" / "results").glob("*.json"):
        content = json.loads(file.read_text())
        if "digest" in content.get("about", {}):
            assert is_as_written(content), f"{file.stem} was changed after it was written"
    monkeypatch.setattr(sys, "argv", [str(ROOT / "experiments" / "table.py")])
    monkeypatch.setitem(scripts["repeats"]["write"].__globals__, "RESULTS", tmp_path)
    written = scripts["repeats"]["write"]("table", {"all": {"rmse": 0.1, "runs": 2}}, {"all": [{"error": 1 / 3}]})
    assert is_as_written(json.loads(written.read_text()))
    assert not is_as_written(json.loads(written.read_text().replace('"rmse": 0.1', '"rmse": 0.09')))


def test_the_record_has_the_modules_that_were_loaded(scripts):
    import tempering.estimators.tempered  # noqa: F401  what is looked for

    record = dict(entry.split("=") for entry in scripts["ages"]["code_record"]().split())
    assert record["estimators.tempered"] == scripts["ages"]["digest_of"]("estimators.tempered")
    assert not any(name.partition(".")[0] in ("cli", "plots", "_version") for name in record)


def test_every_table_has_a_study(scripts):
    """`make study` runs what the page shows, and nothing on it was made otherwise. Kills: a result without a script."""
    studies = {study.result: study for study in scripts["study"]["STUDIES"]}
    for file in (ROOT / "benchmarks" / "results").glob("*.json"):
        if file.stem in scripts["ages"]["NO_RESULTS"]:
            continue
        study = studies[file.stem]
        assert (ROOT / study.script).exists()
        about = json.loads(file.read_text())["about"]
        if "code" in about:  # older ones are listed as such
            assert about["command"].startswith(f"python {study.script}"), file.stem


def test_a_study_that_is_current_is_left_out(scripts, tmp_path, monkeypatch):
    """Kills: a study that begins anew after an interruption, a quick figure that stands for a full one."""
    study = scripts["study"]["Study"]("table", "experiments/figures.py")
    ages = study.is_current.__globals__["ages"]
    monkeypatch.setattr(ages, "RESULTS", tmp_path)
    assert not study.is_current()
    about = {"seconds": 120, "code": f"stats.sums={ages.digest_of('stats.sums')}"}
    (tmp_path / "table.json").write_text(json.dumps({"about": about}))
    assert study.is_current()
    assert "2 min" in scripts["study"]["plan"]([study], 3)
    (tmp_path / "table.json").write_text(json.dumps({"about": about, "is_quick": True}))
    assert not study.is_current()


def test_the_reference_is_that_of_its_script():
    """Where `experiments/reference.py` has been run. Kills: a constant that was typed in and never measured."""
    file = ROOT / "benchmarks" / "results" / "reference.json"
    if not file.exists():
        pytest.skip("the reference has not been measured with this code")
    found = json.loads(file.read_text())["summaries"]["784×500"]
    checks.assert_within(REFERENCE_500, found["log_z"], np.hypot(found["std_error"], 0.01))
