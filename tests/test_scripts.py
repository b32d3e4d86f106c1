"""The commands for maintainers: the fuzzer of readers, the audit of dependencies, and the path of a newcomer."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def script(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FUZZER, AUDIT, NEWCOMER = script("fuzz_readers"), script("audit_dependencies"), script("newcomer")


@pytest.mark.parametrize("reader", FUZZER.READERS)
def test_damaged_inputs_are_read_or_refused(reader, tmp_path, capsys):
    """A few of the inputs of `make fuzz`. Kills: a list of errors that lacks zipfile's own, for checkpoints."""
    FUZZER.work(reader, 60, 3, tmp_path)
    told = json.loads(capsys.readouterr().out)
    assert told["failures"] == []
    assert told["read"] + told["refused"] == 60


def test_the_fuzzer_notices_a_reader_that_fails(tmp_path, capsys, monkeypatch):
    """A check that cannot fail would be none."""

    def careless(file):
        file.read_bytes().decode("ascii")

    monkeypatch.setitem(FUZZER.READERS, "careless", ("rows.csv", careless))
    FUZZER.work("careless", 200, 0, tmp_path)
    failures = json.loads(capsys.readouterr().out)["failures"]
    assert any("UnicodeDecodeError" in failure for failure in failures)


@pytest.mark.parametrize(("events", "affected"), [
    ([{"introduced": "0"}], True),
    ([{"introduced": "0"}, {"fixed": "2.0"}], False),
    ([{"introduced": "0"}, {"fixed": "2.1"}], True),
    ([{"introduced": "0"}, {"last_affected": "2.0"}], True),
    ([{"introduced": "0"}, {"last_affected": "1.9"}], False),
    ([{"introduced": "2.0.1"}], False),
    ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.5"}, {"fixed": "3"}], True),
])  # fmt: skip
def test_versions_are_held_against_ranges(events, affected):
    """Kills: a bound that is in the wrong range, a second range that is not read."""
    assert AUDIT.is_affected("2.0", {"ranges": [{"type": "ECOSYSTEM", "events": events}]}) is affected


def test_packages_that_others_need_are_audited_too():
    """Kills: direct dependencies alone; ml_dtypes comes with JAX."""
    assert {"tempering", "jax", "ml-dtypes"} <= AUDIT.needed().keys()


def test_the_path_of_a_newcomer_is_the_one_that_was_measured():
    """Kills: a number on the page that was typed, a record that breaks the promise of five minutes."""
    record, page = json.loads(NEWCOMER.RECORD.read_text()), NEWCOMER.PAGE.read_text()
    assert NEWCOMER.page_with(page, record) == page, "run `python scripts/newcomer.py --table`"
    own = sum(step["seconds"] for name, step in record["steps"].items() if name != "download")
    assert record["seconds_without_downloads"] == pytest.approx(own, abs=0.11)
    assert own <= NEWCOMER.MOST_SECONDS == 300


def test_a_report_without_a_picture_ends_the_path_of_a_newcomer():
    """A check that cannot fail would be none."""
    page = '<h1>log Z = 1 ± 2</h1><div class="verdict good"></div><svg></svg>'
    NEWCOMER.check_page(page)
    for part in ("<svg", "log Z = ", "verdict"):
        with pytest.raises(SystemExit, match=r"demo\.html has no"):
            NEWCOMER.check_page(page.replace(part, ""))
