"""Reports: the verdict first, every number from the JSON, every string as text, and nothing from elsewhere."""

import dataclasses
import html
import json
import re
import shutil
import subprocess
from functools import cache, partial

import numpy as np
import pytest

import tempering as tp
from pictured import bare_result, posterior_result, rbm_result, small_comparison
from tempering.report import comparison_report, directory_report, run_report, training_report
from tempering.report.comparison_page import _findings
from tempering.report.page import table, with_code, with_whole_flags
from tempering.results import Details
from tempering.results.details import versions
from tempering.sampling.directory import sealed, unpacked

pytest.importorskip("matplotlib", reason="pictures need matplotlib")

HOSTILE = "<script>alert('x')</script>\"&amp;`--sweeps"
SUMMARY = {
    "train": {"value": -12.5, "interval": [-12.75, -12.25]}, "valid": None, "best_update": 3, "num_updates": 3,
    "is_complete": True, "stopped_early": False, "verdict": "good", "message": "Good: the chains follow log Z.",
    "findings": [], "num_evaluations": 3, "num_lost": 0, "last_check": None, "seconds": 1.5,
    "settings": {"num_updates": 3, "seed": 0}, "files": {}, "command": "tempering train x.npz", "versions": {"a": "1"},
}  # fmt: skip
ROWS = [
    {"update": i, "train": -20 + i, "train_low": -21 + i, "train_high": -19 + i, "log_z": 5.0, "verdict": "good"}
    for i in range(1, 4)
]


def stuck_details() -> Details:
    """A result that is not good, with a long cure, a knot, and readings of no weight."""
    details = Details.of(rbm_result())
    finding = {
        "verdict": "knot", "seen": "a knot at β = 0.60 holds 80% of the ladder's resistance",
        "cure": 'run more sweeps, at least `num_sweeps=4000`, with `betas="adaptive"`',
    }  # fmt: skip
    knot = {"beta": 0.6, "low": 0.5, "high": 0.75, "share": 0.8, "sweeps": 12.0}
    changes = {"verdict": "knot", "message": tp.Verdict.KNOT.value, "findings": [finding], "knot_stretches": [knot]}
    changes["readings"] = [reading | {"weight": 0.0} for reading in details.answer["readings"]]
    changes["round_trips"] = {"total": 12.0, "fewest": 0.0, "most": 1.5}
    return dataclasses.replace(details, answer={**details.answer, **changes})


DOCUMENTS = {
    "rbm": lambda: run_report(rbm_result()),
    "bare": lambda: run_report(bare_result()),
    "posterior": lambda: run_report(posterior_result()),
    "stuck": lambda: run_report(stuck_details()),
    "comparison": lambda: comparison_report(small_comparison(), settings={"chains": 20}, command="tempering compare"),
    "training": lambda: training_report(SUMMARY, ROWS, samples=np.eye(9), shape=(3, 3)),
}
DOCUMENTS = {name: cache(make) for name, make in DOCUMENTS.items()}


def text_of(document: str, *, with_pictures: bool = False) -> str:
    body = document.partition("<body>")[2]
    if not with_pictures:
        body = re.sub(r"<svg.*?</svg>", " ", body, flags=re.S)
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"</?span>|<wbr>", "", body)))


def numbers_in(value) -> list[float]:
    """All numbers of a JSON value, also those in its words."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_in(item)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers_in(item)]
    if isinstance(value, str):
        return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", value)]
    return [] if value is None or isinstance(value, bool) else [abs(float(value))]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_comes_from_elsewhere(name):
    """Kills: a link to a font, a style or a picture on the network, a script."""
    document = DOCUMENTS[name]()
    assert document.startswith("<!DOCTYPE html>")
    addresses = [each for each in re.findall(r"https?://[^\s\"'<>)]+", document) if "www.w3.org" not in each]
    assert not addresses
    assert not re.search(r"<(script|link|iframe|object)\b|@import|url\((?!#)", document)
    for source in re.findall(r'(?:src|href)="([^"]*)"', document):
        assert source.startswith(("#", "data:")), source


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_picture_has_words(name):
    document = DOCUMENTS[name]()
    pictures = re.findall(r"<svg\b[^>]*>", document)
    assert pictures
    for picture in pictures:
        assert 'role="img"' in picture
        assert re.search(r'aria-label="[^"]{20,}"', picture)
    identifiers = re.findall(r'\bid="([^"]+)"', document)
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("rbm", lambda: rbm_result().to_dict()),
        ("bare", lambda: bare_result().to_dict()),
        ("posterior", lambda: posterior_result().to_dict()),
        ("comparison", lambda: small_comparison().to_dict() | {"settings": {"chains": 20}, "versions": versions()}),
        ("training", lambda: SUMMARY),
    ],
)
def test_every_number_is_in_the_json(name, make):
    """Kills: a number that was computed for the page alone, a number of another field with another rounding."""
    known = np.array(numbers_in(make()))
    for found in re.findall(r"\d+(?:\.\d+)?", text_of(DOCUMENTS[name]())):
        if found in ("95", "0", "1"):  # 95 % intervals, and β from 0 to 1
            continue
        decimals = len(found.partition(".")[2])
        assert np.any(np.abs(known - float(found)) <= 0.5001 * 10.0**-decimals), found


def test_the_answer_and_its_verdict_come_first():
    """Guards the order, and the cure in the words of the caller."""
    words = text_of(run_report(stuck_details(), words=lambda text: text.replace("`num_sweeps=4000`", "--sweeps 4000")))
    order = ["log Z = ", "Knot: ", "a knot at β = 0.60", "--sweeps 4000", "Along the ladder", "Between rungs"]
    order += ["As the run went on", "All readings", "Samples of the target", "The command that makes it again"]
    places = [words.index(part) for part in order]
    assert places == sorted(places)
    assert "Good" not in words
    assert "The run kept no draws" in text_of(run_report(bare_result()))


def test_a_comparison_says_things_once():
    """Kills: a box for each of several methods that say the same, sentences without a space between them."""
    finding = {"seen": "the error is 0.1 by chains and 0.3 by tours", "cure": "run more sweeps"}
    said = {"verdict": "unsure", "message": "Unsure.", "findings": [finding]}
    quiet = {"method": "ais", "verdict": "good", "message": "Good.", "findings": []}
    boxes = _findings({"methods": [{"method": "rts", **said}, quiet, {"method": "ts", **said}]}, str)
    assert boxes.count("<strong>") == 1
    assert "rts, ts: Unsure." in boxes
    assert not re.search(r"\w\.[A-Z]", text_of(DOCUMENTS["comparison"]()).partition("Side by side")[0])


def test_flags_are_code_and_not_broken():
    """Kills: the full stop of a sentence taken for a part of a number, a flag that is broken after its hyphen."""
    assert with_code("run --sweeps 400.") == "run <code><span>--sweeps</span> 400</code>."
    assert with_whole_flags("tempering estimate '<x>' --out-dir a--b") == (
        "tempering estimate &#x27;&lt;x&gt;&#x27; <span>--out-dir</span> a--b"
    )


def test_hostile_names_are_text():
    """Kills: any string that reaches the page without being escaped."""
    places = ("title", "model", "command", "seen", "cure", "setting", "value", "draw")
    at = {where: HOSTILE.replace("alert", f"alert_{where}") for where in places}
    details = stuck_details()
    changes = {
        "model": at["model"], "command": at["command"], "settings": {at["setting"]: at["value"]},
        "findings": [{"verdict": "knot", "seen": at["seen"], "cure": at["cure"]}],
    }  # fmt: skip
    draws = {at["draw"]: np.linspace(0, 1, 50)}
    details = dataclasses.replace(details, answer={**details.answer, **changes}, find_draws=lambda: draws)
    documents = [run_report(details, title=title) for title in ("", at["title"])]  # the model is named without a title
    assert not any("<script" in document for document in documents)
    text = " ".join(text_of(document, with_pictures=True) for document in documents)
    for where in places:
        assert f"alert_{where}" in text, where


def test_from_a_directory_without_the_model(tmp_path):
    """Guards `Details.read`: the same page from files, and what cannot be read is refused in a line."""
    result = dataclasses.replace(rbm_result(), command="tempering estimate x.npz")
    result.save(tmp_path)
    there, here = Details.read(tmp_path), Details.of(result)
    assert there.answer == json.loads(json.dumps(here.answer))
    assert there.arrays.keys() == here.arrays.keys()
    for name, draws in here.find_draws().items():
        np.testing.assert_array_equal(there.find_draws()[name], draws)
    document = directory_report(tmp_path)
    assert document == run_report(result, title=f"RBM in {tmp_path.name}")
    assert "tempering estimate x.npz" in text_of(document)
    words = (tmp_path / "result.json").read_text()
    (tmp_path / "result.json").write_text(words.replace('"log_z": ', '"log_z": 1', 1))  # kills: another number believed
    with pytest.raises(tp.InputError, match=r"result\.json is damaged"):
        directory_report(tmp_path)
    (tmp_path / "result.npz").write_bytes(b"no archive")
    with pytest.raises(tp.InputError, match="damaged"):
        directory_report(tmp_path)
    (tmp_path / "result.json").unlink()
    with pytest.raises(tp.InputError, match="no result that can be read"):
        directory_report(tmp_path)


def test_of_training_in_a_directory(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("".join(sealed(row) + "\n" for row in ROWS))
    with pytest.raises(tp.InputError, match="without its end"):
        directory_report(tmp_path)
    (tmp_path / "summary.json").write_text(sealed(SUMMARY))
    np.savez(tmp_path / "samples.npz", v=np.eye(9))
    words = text_of(directory_report(tmp_path))
    assert "train log-likelihood −12.500" in words
    assert "Samples of the model" in words
    for damaged in ("{}", sealed(SUMMARY).replace("12.5", "12.6")):  # kills: a number that has changed on the disk
        (tmp_path / "summary.json").write_text(damaged)
        with pytest.raises(tp.InputError, match=r"summary\.json is damaged"):
            directory_report(tmp_path)


def test_files_that_would_fill_the_memory_are_refused(tmp_path, monkeypatch):
    """Kills: draws or samples that are unpacked, however large, before anyone looks."""
    for module in ("results.details", "report.directory_page"):
        monkeypatch.setattr(f"tempering.{module}.unpacked", partial(unpacked, most_bytes=10**6))
    rbm_result().save(tmp_path)
    np.savez_compressed(tmp_path / "details.npz", draw_v=np.zeros(10**6))
    with pytest.raises(tp.InputError, match="damaged result"):
        directory_report(tmp_path)
    (tmp_path / "summary.json").write_text(sealed(SUMMARY))
    np.savez_compressed(tmp_path / "samples.npz", v=np.zeros((1000, 1000)))
    with pytest.raises(tp.InputError, match="it would take"):
        directory_report(tmp_path)


def test_without_matplotlib_there_are_words(monkeypatch):
    for module in ("figures", "run_page"):
        monkeypatch.setattr(f"tempering.report.{module}.can_plot", lambda: False)
    document = run_report(rbm_result())
    assert "<svg" not in document
    assert "matplotlib is not installed" in document
    assert f"{rbm_result().log_z:.3f}" in document


def test_round_trips_are_counted_in_halves():
    """Kills: "12.0 round trips", a half that is rounded away."""
    text = " ".join(text_of(DOCUMENTS["stuck"]()).split())
    assert "12 round trips between base and target" in text
    assert "A single chain made between 0 and 1.5." in text


# In a browser.

MEASURE = """<script>
addEventListener("load", () => {
  const wide = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > wide) found.push("the page is wider than the screen");
  for (const each of document.querySelectorAll("h1, h2, p, li, pre, figcaption, .verdict, figure, table.pairs td")) {
    const box = each.getBoundingClientRect();
    if (box.left < -1 || box.right > wide + 1) found.push("cut: " + each.tagName + " " + each.textContent.slice(0, 40));
  }
  for (const picture of document.querySelectorAll("svg")) {
    const frame = picture.getBoundingClientRect(), boxes = [];
    for (const text of picture.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push("cut in a picture: " + text.textContent);
      for (const [other, words] of boxes)
        if (Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1.5 &&
            Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 3)
          found.push("overlap: " + words + " and " + text.textContent);
      boxes.push([box, text.textContent]);
    }
  }
  const verdict = document.querySelector(".verdict strong").getBoundingClientRect();
  if (verdict.bottom > innerHeight) found.push("the verdict is below the first screen");
  parent.postMessage([location.pathname.split("/").pop() + " " + innerWidth, found], "*");
});
</script></head>"""
LISTEN = """<!DOCTYPE html><body><script>addEventListener("message", event => {
  document.body.append("FOUND" + JSON.stringify(event.data) + "END"); });</script>"""
SCREENS = ((1280, 800), (390, 844))  # a desktop and a phone


@pytest.fixture(scope="module")
def chromium():
    """Runs headless Chromium; the standard output and error."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed")

    def run(folder, *arguments):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
        flags += [
            "--disable-component-update",
            "--allow-file-access-from-files",
            f"--user-data-dir={folder / 'profile'}",
        ]
        return subprocess.run([program, *flags, *map(str, arguments)], capture_output=True, text=True, timeout=120)

    return run


def frames_of(names) -> str:
    """All pages side by side, each as wide and high as a desktop and as a phone."""
    size = 'style="width:{}px;height:{}px;border:0"'
    return "".join(
        f'<iframe src="{name}.html" {size.format(*screen)}></iframe>' for name in names for screen in SCREENS
    )


def test_nothing_overlaps_or_is_cut(chromium, tmp_path):
    """Kills: a table that widens the page, labels of axes upon each other, a verdict that must be scrolled to."""
    for name, document in DOCUMENTS.items():
        free = re.sub(r"<meta http-equiv.*?>", "", document())  # which allows no script
        (tmp_path / f"{name}.html").write_text(free.replace("</head>", MEASURE))
    (tmp_path / "frame.html").write_text(LISTEN + frames_of(DOCUMENTS))
    shown = chromium(
        tmp_path, "--window-size=1400,1000", "--virtual-time-budget=6000", "--dump-dom", tmp_path / "frame.html"
    )
    found = dict(json.loads(each) for each in re.findall(r"FOUND(.*?)END", shown.stdout.partition("</script>")[2]))
    assert found == {f"{name}.html {width}": [] for name in DOCUMENTS for width, _ in SCREENS}


def test_no_message_and_no_request(chromium, tmp_path):
    """Kills: anything that Chromium complains of. The pages allow no request, so that one would be complained of."""
    for name, document in DOCUMENTS.items():
        (tmp_path / f"{name}.html").write_text(document())
    fetching = DOCUMENTS["stuck"]().replace("<main>", '<main><img src="http://example.org/x.png">')
    (tmp_path / "fetching.html").write_text(fetching)
    for names, is_silent in ((DOCUMENTS, True), (["fetching"], False)):
        file, picture = tmp_path / "frame.html", tmp_path / f"{is_silent}.png"
        file.write_text("<!DOCTYPE html><body>" + frames_of(names))
        shown = chromium(tmp_path, "--enable-logging=stderr", f"--screenshot={picture}", file)
        assert picture.exists()
        assert ("CONSOLE" not in shown.stderr) == is_silent


def test_an_unknown_answer_is_said_in_words():
    """Kills: "unknown ± unknown" and an interval from unknown to unknown."""
    details = stuck_details()
    unknown = {"log_z": None, "std_error": None, "interval": [None, None]}
    head = text_of(run_report(dataclasses.replace(details, answer={**details.answer, **unknown})))
    head = head.partition("Along the ladder")[0]
    assert "log Z is unknown" in head
    assert "± unknown" not in head
    assert "interval" not in head


def test_names_of_readings_break_at_their_underscores():
    """Kills: a column that pushes the last one off a phone; a hostile name that is marked up before it is escaped."""
    text = table(("reading", "log Z"), [("stepping_<b>_down", "1_0")], words=("reading",))
    assert "<td>stepping_<wbr>&lt;b&gt;_<wbr>down</td>" in text
    assert ">1_0</td>" in text
