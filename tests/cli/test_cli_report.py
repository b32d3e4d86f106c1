"""`tempering sample`, `tempering report` and --report: files, statuses, and what is said."""

import json
from pathlib import Path

import numpy as np
import pytest

import tempering as tp
from pictured import small_rbm

pytest.importorskip("matplotlib", reason="pictures need matplotlib")

QUICK = ("--warmup", "annealed", "--chains", "20", "--sweeps", "24", "--rungs", "5", "--devices", "2")
HOSTILE = "<b>x&.npz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    weights, vbias, hbias = small_rbm().on_host()
    for name in ("rbm.npz", HOSTILE):
        np.savez(folder / name, W=weights, vbias=vbias, hbias=hbias)
    return folder


def test_a_run_with_a_report_and_the_same_from_its_directory(tempering, folder, tmp_path):
    """Guards --report and `report`: a hostile file name is text, the command is there, the directory gives the same."""
    file = tmp_path / "page.html"
    arguments = ("estimate", folder / HOSTILE, *QUICK, "--out", tmp_path / "run", "--report", file)
    status, out, err = tempering(*arguments)
    assert status in (0, 3)
    assert err == f"Report: {file}\n"
    page = file.read_text()
    assert "<b>x" not in page
    assert "&lt;b&gt;x&amp;.npz" in page
    saved = json.loads((tmp_path / "run" / "result.json").read_text())
    assert saved["command"].startswith("tempering estimate ")
    assert f"log Z = {saved['log_z']:.3f}" in page
    status, out, err = tempering("report", tmp_path / "run")
    assert (status, out, err) == (0, "", f"Report: {tmp_path / 'run' / 'report.html'}\n")
    again = (tmp_path / "run" / "report.html").read_text()
    assert again.partition("</header>")[2] == page.partition("</header>")[2]
    assert "Samples of the target" in again


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("report", "nowhere"), "is not a directory"),
        (("report", "."), "has no result that can be read"),
        (("estimate", "--report", "no/where.html"), "a directory that does not exist"),
        (("compare", "--report", "."), "is a directory"),
        (("sample", "--out", "draws.txt"), "must end in .npz or .png"),
        (("sample", "--num", "0"), "--num must lie between 1 and"),
        (("sample", "--image", "3by3"), "--image must be HEIGHTxWIDTH"),
    ],
)
def test_what_is_refused(tempering, tmp_path, monkeypatch, arguments, why):
    """Guards the user's time: one line and status 2, before anything runs."""
    monkeypatch.chdir(tmp_path)
    status, out, err = tempering(*arguments)
    assert (status, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("estimate", "--report", "page.html"), ("sample", "--out", "draws.npz")])
def test_a_directory_that_cannot_be_written_to(tempering, tmp_path, monkeypatch, arguments):
    """Guards the user's time: refused before the run. For root every directory can be written to, so it is said so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    status, out, err = tempering(*arguments)
    assert (status, out) == (2, "")
    assert "cannot be written to" in err
    assert err.count("\n") == 1


def test_draws_in_a_file(tempering, folder, tmp_path):
    """Guards `sample`: bits by name, as many as asked for, and how independent they are."""
    file = tmp_path / "draws.npz"
    status, out, _ = tempering("sample", folder / "rbm.npz", *QUICK, "--out", file, "--num", 70, "--json")
    about = json.loads(out)
    assert status == (0 if about["verdict"] == "good" else 3)
    with np.load(file, allow_pickle=False) as arrays:
        draws = dict(arrays)
    assert draws.keys() == {"v"}
    assert draws["v"].shape == (70, 9)
    assert set(np.unique(draws["v"])) <= {0.0, 1.0}
    assert 1 < about["independent_size"] <= about["effective_size"] <= 20 * 24
    assert about["num_draws"] == 70
    result = tp.estimate(small_rbm(), keep_draws=True, num_chains=20, num_sweeps=24, num_rungs=5, warmup="annealed")
    assert about["independent_size"] == pytest.approx(result.draws.independent_size)


def test_draws_as_a_picture(tempering, folder, tmp_path):
    """Guards the grid: images, pixel by pixel, and as many draws as are independent."""
    from matplotlib.image import imread

    file = tmp_path / "draws.png"
    status, out, _ = tempering("sample", folder / "rbm.npz", *QUICK, "--out", file)
    assert status in (0, 3)
    words = {line[:12].strip(): line[12:].strip() for line in out.splitlines()}
    assert words["draws"].endswith("of v (9)")
    assert words["independent"].startswith(f"about {words['draws'].split()[0]};")
    picture = imread(file)
    assert picture.shape[1] > 300
    assert picture[..., :3].min() == 0
    assert picture[..., :3].max() == 1


def test_a_comparison_with_a_report(tempering, folder, tmp_path):
    file = tmp_path / "page.html"
    status, out, err = tempering(
        "compare", folder / "rbm.npz", *QUICK, "--methods", "rts,ts", "--report", file, "--json"
    )
    assert status in (0, 3)
    assert err == f"Report: {file}\n"
    page = file.read_text()
    for method in json.loads(out)["methods"]:
        assert f"{method['log_z']:.3f}" in page
    assert "tempering compare" in page
