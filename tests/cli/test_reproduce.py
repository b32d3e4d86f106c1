"""`tempering reproduce`: what it writes and prints, and what it refuses, with a figure that takes no time."""

import types

import pytest

from tempering.paper import FIGURES, Made, Row
from tempering.plots import can_plot


@pytest.fixture
def one_figure(monkeypatch):
    """A figure of our own in the place of the first."""
    rows = (Row("left", "RTS", 1000, "RMSE", 0.4, 0.2, 500), Row("left", "AIS", 1000, "RMSE", 0.9, None, 5))

    def make(setting):
        setting.say("half an hour of work")
        return Made("Figure 1: a test", rows, ("They differ because of this.",), lambda axes, theme: None)

    monkeypatch.setitem(FIGURES, "fig1", types.SimpleNamespace(make=make))


def test_a_figure_is_written_and_printed(tempering, one_figure, tmp_path):
    """Kills: a table without the published values, a difference that is not called worse, notes that are lost."""
    status, out, err = tempering(
        "reproduce", "fig1", "--quick", "--out", tmp_path, "--data-dir", tmp_path, "--devices", 2
    )
    assert status == 0
    assert "half an hour of work" in err
    assert "worse" in out
    assert "They differ because of this." in out
    assert (tmp_path / "figure1.csv").read_text().count("\n") == 3
    assert (tmp_path / "figure1.png").exists() == can_plot()


def test_all_figures_come_with_one_table(tempering, monkeypatch, tmp_path):
    """Kills: a figure that is left out, a table that is lost when a later figure fails."""
    seen = []

    def make(name):
        if (tmp_path / "table.csv").exists():
            seen.append((tmp_path / "table.csv").read_text().count("\n"))
        row = Row("left", name, 1000, "RMSE", 0.4, 0.2, 500)
        return Made(f"A test: {name}", (row,), (), lambda axes, theme: None)

    for name in FIGURES:
        monkeypatch.setitem(FIGURES, name, types.SimpleNamespace(make=lambda setting, name=name: make(name)))
    status, out, _ = tempering("reproduce", "all", "--quick", "--out", tmp_path, "--devices", 2)
    assert status == 0
    assert seen == [2, 3, 4, 5, 6, 7, 8]  # after each figure
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [*FIGURES]
    assert len(list(tmp_path.glob("figure?.csv"))) == 8
    assert len(list(tmp_path.glob("figure?.png"))) == 8 * can_plot()
    summary = out.partition("RMSE beside the published one")[2]
    assert summary.count("A test: fig") == 8
    assert "table.csv" in summary


def test_wrong_names_and_missing_data_are_one_line(tempering, tmp_path, monkeypatch):
    status, out, err = tempering("reproduce", "fig9", "--out", tmp_path / "figures")
    assert (status, out) == (2, "")
    assert "choose fig1, fig2" in err
    assert not (tmp_path / "figures").exists()
    (tmp_path / "file").write_text("")
    status, out, err = tempering("reproduce", "fig1", "--out", tmp_path / "file", "--data-dir", tmp_path)
    assert (status, out) == (2, "")
    assert "cannot be used as a directory" in err
    monkeypatch.setattr("urllib.request.urlopen", _no_network)
    status, out, err = tempering(
        "reproduce", "fig1", "--quick", "--quiet", "--data-dir", tmp_path, "--out", tmp_path, "--devices", 2
    )
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "--data-dir" in err


def _no_network(*arguments, **options):
    raise OSError("no route to host")
