"""The command line of training: what it prints, where, with which status, and what it leaves behind."""

import dataclasses
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import checks
import tempering as tp
from tempering import cli, plots
from tempering.cli import pictures
from tempering.cli import train as train_module
from tempering.cli.lines import Speed
from tempering.cli.live import LiveView
from tempering.estimators import Annealed
from tempering.models import RBM
from tempering.plots.style import new_axes, write_figure
from tempering.training import Kept, Outcome, Row, RunSettings, Tracked, TrainingRun
from tempering.verdicts import Finding, Verdict

# Same shapes in many tests: what was compiled for one serves the others.
TINY = ("--hidden", 4, "--updates", 30, "--chains", 40, "--sweeps", 2, "--rungs", 5, "--lr", 0.003)
LOST = Finding(Verdict.LOST, "an update left 3.0% of the chains effective", "lower the learning rate")


@pytest.fixture(autouse=True, scope="module")
def _cores_as_they_are():
    """JAX has started already in this process, so that its devices cannot be chosen any more."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("tempering.cli.common.use_cores", lambda devices: None)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Rows of 16 bits that come in two kinds, and what does not fit."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    kinds = np.where(rng.random((80, 1)) < 0.5, 0.85, 0.15) * np.ones(16)
    kinds[:, 8:] = 1 - kinds[:, 8:]
    bits = (rng.random(kinds.shape) < kinds).astype(np.uint8)
    np.savez(folder / "bits.npz", train=bits[:60], valid=bits[60:])
    np.savez(folder / "packed.npz", np.packbits(bits, axis=1))
    np.savez(folder / "grey.npz", 200 * bits + 3)
    np.savez(folder / "wide.npz", np.zeros((3, 9), np.uint8))
    return folder


def table_of(text: str) -> dict[str, str]:
    """What stands beside each label; two spaces or more lie between them."""
    parts = (line.partition("  ") for line in text.splitlines())
    return {label: value.strip() for label, _, value in parts}


def only_json(text: str) -> dict:
    """The one JSON object that is all of the output."""
    assert text.count("\n") == 1
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


# Without training: a run of the same shape that only tells a story.


def row_of(update, *, lost=False, checked=False, valid=True) -> Row:
    """−20 at first, a nat better every ten updates; validation turns after update 20."""
    tracked = Tracked(50.0 + update, np.inf if lost else 0.1, 19, update, (LOST,) if lost else ())
    train, other = -20 + update / 10, -20.5 + min(update, 40 - update) / 10
    likelihoods = [tracked.mean_log_likelihood(value + tracked.log_z, 60) for value in (train, other)]
    annealed = Annealed(tracked.log_z + 0.25, 0.05, 0.1) if checked else None
    return Row(update, likelihoods[0], likelihoods[1] if valid else None, tracked, annealed)


class StoryRun:
    """What `TrainingRun` is to the command line."""

    def __init__(self, rows, best_update=0, stopped_early=False, interrupts=None, signal_number=signal.SIGINT):
        self.signal_number = signal_number
        self.story, self.best_update, self.stopped_early = rows, best_update, stopped_early
        self.interrupts = interrupts or {}  # at which update, and how often
        self.kept = None  # what chains of its own say of the model that is kept
        self.told, self.is_pretraining, self.trainer = [], False, SimpleNamespace(num_updates=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __iter__(self):
        for row in self.story:
            self.told += [row]
            self.is_pretraining, self.trainer.num_updates = row.is_pretraining, row.num_updates
            for _ in range(self.interrupts.get(row.num_updates, 0)):
                os.kill(os.getpid(), self.signal_number)
            yield row

    def samples(self, num):
        return np.tile(np.linspace(0, 1, 16), (num, 1))

    def outcome(self):
        rows = [row for row in self.told if row.tracked is not None]
        rbm = RBM(np.zeros((16, 4)), np.zeros(16), np.zeros(4))
        findings = rows[-1].tracked.findings if rows else ()
        best = self.best_update or self.trainer.num_updates
        return Outcome(
            rbm,
            rbm,
            best,
            self.stopped_early,
            [row.to_dict() for row in rows],
            findings,
            best != self.trainer.num_updates,
        )

    def assess_kept(self):
        return self.kept

    def save_model(self, path):
        path.parent.mkdir(exist_ok=True)
        np.savez(path, W=np.zeros((16, 4)), vbias=np.zeros(16), hbias=np.zeros(4))


@pytest.fixture
def tell(tempering, files, monkeypatch):
    """The command line with a story in place of training."""

    def run(story, *arguments):
        monkeypatch.setattr(train_module, "_make_run", lambda *_, **__: story)
        return tempering("train", files / "bits.npz", *TINY, *arguments)

    return run


def test_a_table_for_people(tell):
    """Guards the plain output: the likelihoods of what is kept, and that nothing was."""
    rows = [row_of(i, lost=i == 7, checked=i == 10) for i in range(1, 31)]
    status, out, err = tell(StoryRun(rows, best_update=20), "--quiet")
    assert (status, err) == (0, "")
    table = table_of(out)
    assert table["train log-likelihood"] == "-18.000, 95 % band -18.209 to -17.791, as tracked"
    assert table["valid log-likelihood"].startswith("-18.500, ")
    assert table["valid at the end"].startswith("-19.500, ")
    assert table["updates"] == "30 of 30"
    assert table["best update"] == "20, where the smoothed line of valid was highest"
    assert table["log Z by AIS"] == "60.250 ± 0.050 at update 10; tracked 60.000 ± 0.100"
    assert table["verdict"] == "Good: the chains follow log Z."
    assert table[""] == "log Z was unknown at 1 of 30 evaluations."
    assert "--out DIR" in table["files"]
    assert "Go on with" not in out


def test_track_lost_at_the_end(tell, tmp_path):
    """Guards status 3: the numbers that there are, the verdict and its cure; and JSON without infinities."""
    rows = [row_of(i, lost=i == 30, valid=False) for i in range(1, 31)]
    status, out, err = tell(StoryRun(rows), "--quiet", "--out", tmp_path / "run")
    assert (status, err) == (3, "")
    assert "-17.000, 95 % band unknown, as tracked\n" in out
    assert Verdict.LOST.value in out
    assert "lower the learning rate" in out
    status, out, err = tell(StoryRun(rows), "--json", "--out", tmp_path / "run")
    answer = only_json(out)
    assert (status, err, answer["verdict"], answer["num_lost"]) == (3, "", "lost", 1)
    assert answer["train"] == {"value": -17.0, "interval": [None, None]}
    assert answer["valid"] is None


def test_nothing_tracked(tell, tmp_path):
    """Guards --no-track: no number is claimed, and there is nothing to plot."""
    status, out, err = tell(StoryRun([Row(i) for i in range(1, 31)]), "--no-track", "--out", tmp_path / "run")
    assert status == 0
    assert "Not tracked" in out
    assert table_of(out)["best update"] == "30, the last"
    assert err.splitlines()[-1].startswith("update 30 of 30, ")
    files = sorted(file.name for file in (tmp_path / "run").iterdir())
    assert files == ["model.npz", "samples.npz", "summary.json"]


def test_stopped_early(tell):
    """Guards --early-stop: fewer updates than asked for are then all there are."""
    rows = [row_of(i) for i in range(1, 26)]
    status, out, err = tell(StoryRun(rows, best_update=20, stopped_early=True), "--quiet")
    assert (status, err) == (0, "")
    assert "25 of 30, stopped early" in out


def test_lines_for_logs(tell):
    """Guards plain lines: on standard error, as many as asked for, none for scripts that did not ask."""
    rows = [Row(i, is_pretraining=True) for i in range(1, 6)] + [row_of(i, lost=i == 20) for i in range(1, 31)]
    status, _, err = tell(StoryRun(rows), "--log-every", 10, "--pretrain", "cd1:5")
    lines = err.splitlines()
    assert status == 0
    assert [line.partition(",")[0] for line in lines] == [
        "pretraining 5 of 5", "update 10 of 30", "update 20 of 30", "update 30 of 30"
    ]  # fmt: skip
    assert ", train -19.000 ± 0.100, valid -19.500 ± 0.100, " in lines[1]
    assert "lost: an update left 3.0% of the chains effective" in lines[2]
    assert lines[3].endswith(" 0:00:00 left")
    assert tell(StoryRun(rows), "--json")[2] == ""
    assert tell(StoryRun(rows), "--json", "--log-every", 30)[2].startswith("update 30 of 30, ")
    assert len(tell(StoryRun(rows))[2].splitlines()) == 35


def test_ctrl_c(tell, tmp_path):
    """Guards one Ctrl-C, which ends after the update and says how to go on, and two, which wait for nothing."""
    before, rows = signal.getsignal(signal.SIGINT), [row_of(i) for i in range(1, 31)]
    directory = tmp_path / "with a space"
    status, out, err = tell(StoryRun(rows, interrupts={9: 1}), "--quiet", "--out", directory)
    assert status == 130
    assert "9 of 30, interrupted" in out
    assert (directory / "model.npz").exists()
    hint, _, command = err.partition("tempering ")
    assert hint == "Interrupted. Resume with: "
    assert shlex.split(command)[:2] == ["train", "--resume"]
    assert shlex.split(command)[-1] == str(directory)
    status, out, err = tell(StoryRun(rows, interrupts={9: 1}), "--json")
    assert (status, err) == (130, "Interrupted. With --out DIR the run could be resumed.\n")
    assert only_json(out)["is_complete"] is False
    assert tell(StoryRun(rows, interrupts={9: 2}), "--quiet") == (130, "", "Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm(tell, tmp_path):
    """Guards what schedulers send: as Ctrl-C, with a status of its own. Kills: a handler for SIGINT alone."""
    before, rows = signal.getsignal(signal.SIGTERM), [row_of(i) for i in range(1, 31)]
    story = StoryRun(rows, interrupts={9: 1}, signal_number=signal.SIGTERM)
    status, out, err = tell(story, "--quiet", "--out", tmp_path / "run")
    assert status == 143
    assert "9 of 30, interrupted" in out
    assert err.startswith("Terminated. Resume with: tempering train --resume ")
    twice = StoryRun(rows, interrupts={9: 2}, signal_number=signal.SIGTERM)
    assert tell(twice, "--quiet") == (143, "", "Terminated.\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_likelihood_of_what_is_kept_is_from_chains_of_its_own(tell):
    """Kills: the tracked value, which was the maximum of many, in its place; a verdict that does not count it."""
    rows, found = [row_of(i) for i in range(1, 31)], Tracked(50.0, 0.02, 19, 30)
    likelihoods = {"train": found.mean_log_likelihood(31.5, 60), "valid": found.mean_log_likelihood(31.0, 20)}
    story = StoryRun(rows, best_update=20)
    story.kept = Kept(found, likelihoods)
    status, out, _ = tell(story, "--quiet")
    assert status == 0
    assert "-19.000, 95 % interval -19.042 to -18.958, from chains of its own" in table_of(out)["valid log-likelihood"]
    assert "-18.500 as tracked" in out
    story.kept = Kept(dataclasses.replace(found, findings=(LOST,)), likelihoods)
    status, out, _ = tell(story, "--json")
    assert (status, only_json(out)["verdict"]) == (3, "lost")


def test_ctrl_c_before_the_first_update(tell, tmp_path):
    """Guards the pretraining: there is nothing to show or keep yet, but how to go on."""
    rows = [Row(i, is_pretraining=True) for i in range(1, 6)]
    story = StoryRun(rows, interrupts={3: 1})
    status, out, err = tell(story, "--quiet", "--pretrain", "cd1:5", "--out", tmp_path / "run")
    assert (status, out) == (130, "")
    assert err.startswith("Interrupted. Resume with: ")
    assert not (tmp_path / "run").exists()


# Refusals.


@pytest.mark.parametrize("arguments", [
    "{}/missing.npz", "{}/packed.npz", "{}/grey.npz", "{}/bits.npz:test", "",
    "{}/bits.npz --valid {}/wide.npz", "{}/bits.npz --valid {}/missing.npz", "{}/bits.npz --binarize never",
    "{}/bits.npz --resume", "{}/bits.npz --events", "{}/bits.npz --plot", "{}/bits.npz --early-stop",
    "{}/bits.npz --image 4", "{}/bits.npz --image 5x5", "{}/bits.npz --image 0x16", "{}/bits.npz --log-every 0",
    "{}/bits.npz --method magic", "{}/bits.npz --optimizer magic", "{}/bits.npz --hidden 0", "{}/bits.npz --lr nan",
    "{}/bits.npz --pretrain cd", "{}/bits.npz --check ais", "{}/bits.npz --check ais:5 --no-track",
    "{}/bits.npz --seed -1", "{}/bits.npz --seed 99999999999999999999", "{}/bits.npz --updates 1e20",
    "{}/bits.npz --hidden 1e9", "{}/bits.npz --chains 1e9", "{}/bits.npz --rungs 1e6", "{}/bits.npz --sweeps 1e20",
    "{}/bits.npz --updates many", "{}/bits.npz --track-every 0", "{}/bits.npz --out {}/bits.npz",
])  # fmt: skip
def test_a_mistake_is_one_line_and_status_2(tempering, files, arguments, python_words):
    """Guards users from tracebacks: whatever is wrong with the arguments is said in one line on stderr, in flags."""
    status, out, err = tempering("train", *(part.format(files, files) for part in arguments.split()))
    assert (status, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert len(err) > len("Error: x.\n")
    assert not python_words.search(err), err


def test_packed_bits_by_the_size_of_the_image(tempering, files, monkeypatch):
    """Guards --image: it says how many units there are."""
    heard = []

    def hear(rows, *_, **__):
        heard.append(rows)
        raise tp.InputError("Heard.")

    monkeypatch.setattr(train_module, "_make_run", hear)
    assert tempering("train", files / "packed.npz", "--image", "2x8") == (2, "", "Error: Heard.\n")
    with np.load(files / "bits.npz") as stored:
        assert np.array_equal(heard[0][:60], stored["train"])


def test_without_the_extras(files):
    """Guards `tempering --help` without Optax and matplotlib; what needs them says how to get them."""
    program = """if True:
        import sys
        sys.modules["optax"] = sys.modules["matplotlib"] = None
        from tempering import cli
        for arguments in ("--help", "{file} --plot --out {file}.run", "{file} --quiet"):
            sys.argv = ["tempering", "train", *arguments.split()]
            try:
                cli.main()
            except SystemExit as ended:
                print("status", ended.code)
    """.replace("{file}", str(files / "bits.npz"))
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "--early-stop" in process.stdout
    assert process.stdout.splitlines()[-3:] == ["status 0", "status 2", "status 2"]
    no_plot, no_training = process.stderr.splitlines()
    assert no_plot.endswith("pip install 'tempering[plots]', or leave it out.")
    assert no_training.endswith("pip install 'tempering[train]'.")


# Drawings.


def test_sparklines():
    """Kills: bars upside down, the largest value without a bar, and unknown values taken for zeros."""
    assert pictures.sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert pictures.sparkline([-80, None, np.nan, -79], 8) == "▁  █"
    assert pictures.sparkline([0, 2, 9, 9], 2) == "▁█"
    assert pictures.sparkline([3, 3], 8) == "▅▅"
    assert pictures.sparkline([None], 8) == " "
    assert pictures.sparkline([], 8) == ""


def test_small_pictures():
    """Kills: halves swapped, rows for columns, an odd last row left out; and sizes that differ from what is drawn."""
    grey = np.array([[0.9, 0.1, 0.6, 0.0], [0.8, 0.7, 0.2, 0.0], [1.0, 0.0, 0.0, 0.5]])
    assert pictures.draw(grey) == ["█▄▀ ", "▀  ▀"]
    assert pictures.beside([["a", "b"], ["c", "d"]]) == ["a  c", "b  d"]
    for image in ((3, 4), (28, 28), (33, 64), (100, 7)):
        lines = pictures.draw(np.zeros(image))
        assert (len(lines), len(lines[0])) == pictures.picture_size(image)
        assert max(len(lines[0]), 2 * len(lines)) <= 32
    assert [pictures.guess_image(number) for number in (784, 180, 16, 1)] == [(28, 28), None, (4, 4), None]


def test_speed():
    """Kills: the first update's compiling counted, and what was long ago."""
    times = iter([100.0, 100.5, 101.0, 200.0, 204.0])
    speed = Speed(lambda: next(times))
    speed.count()
    assert speed.in_words(10) == "no speed yet"
    speed.count()
    speed.count()
    assert speed.in_words(7300) == "2.0 updates/s, 1:00:50 left"
    speed.count()
    speed.count()
    assert speed.in_words(10) == "4.0 s per update, 0:00:40 left"


def test_the_live_view():
    """Guards the panel: what is known now, what is wrong, what AIS said, pictures, and a word about Ctrl-C."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    console = Console(file=stream, force_terminal=True, width=100, height=40, color_system=None)
    view = LiveView("tempering train x", RunSettings(num_updates=30), (4, 4), console=console)
    story = StoryRun([])

    def panel():
        stream.buffer.truncate(0)
        console.print(view.panel())
        return stream.buffer.getvalue().decode()

    assert "compiling" in panel()
    view.show(row_of(1, checked=True), story.samples)
    view.show(row_of(2), story.samples)
    shown = panel()
    assert "train           -19.800  -20.009 to -19.591  ▁█" in shown
    assert "valid           -20.300" in shown
    assert "log Z by AIS 51.250 ± 0.050, tracked 51.000 ± 0.100 at update 1" in shown
    assert "update 2 of 30" in shown
    assert "████  ████  ████" in shown
    assert "lost" not in shown
    view.note = "stopping after this update"
    view.show(row_of(4, lost=True), story.samples)
    view.show(Row(5), story.samples)  # no look at the likelihood: what the last one showed stays
    shown = panel()
    assert "lost: an update left 3.0% of the chains effective" in shown
    assert "-19.600  unknown" in shown
    assert "last 3 values" in shown
    assert "stopping after this update" in shown


@pytest.mark.parametrize("width", [40, 30])
def test_nothing_is_cut_on_a_narrow_terminal(width):
    """Kills: columns that are cut off, a title that ends in an ellipsis, a check that nobody hears of."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    console = Console(file=stream, force_terminal=True, width=width, height=40, color_system=None)
    view = LiveView("tempering train folder/of/rows.npz:train", RunSettings(num_updates=8000), None, console=console)
    for update in (1, 2):
        view.show(row_of(update, checked=True), StoryRun([]).samples)
    view.say_that("checking log Z by annealed importance sampling")
    console.print(view._live.renderable)
    lines = stream.buffer.getvalue().decode().splitlines()
    assert all(len(line.rstrip()) <= width - len("^C") for line in lines)  # which a terminal writes after the last one
    words = "".join(line.strip("│ ").replace(" ", "") for line in lines)
    for said in ("rows.npz:train", "train -19.800", "-20.009 to -19.591", "log Z by AIS", "tracked 52.000 ± 0.100",
                 "update 2 of 8000", "left", "checking log Z by annealed importance sampling"):  # fmt: skip
        assert said.replace(" ", "") in words
    assert "…" not in words


def test_the_live_view_is_for_terminals(tell, monkeypatch):
    """Guards the choice: on a terminal a panel that leaves nothing behind, and only there."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    rows = [row_of(i) for i in range(1, 31)]
    status, out, err = tell(StoryRun(rows), "--json")
    assert (status, only_json(out)["num_updates"]) == (0, 30)
    assert "tempering train" in err
    assert "\x1b[2K" in err  # lines are wiped
    assert tell(StoryRun(rows), "--json", "--quiet")[2] == ""


def test_the_plot(tmp_path):
    """Guards the figure: curves, checks on the right side of them, what is kept, and what was lost."""
    rows = [row_of(i, lost=i in (7, 8, 12), checked=i == 10).to_dict() for i in range(1, 31)]
    axes = plots.training(rows, best_update=20, ax=new_axes("light"), theme="light")
    labels = axes.get_legend_handles_labels()[1]
    assert {"train", "valid", "train, by AIS", "valid, by AIS", "best: update 20", "log Z unknown"} == set(labels)
    curves = {line.get_label(): line.get_xydata() for line in axes.lines}
    assert np.allclose(curves["train"][:, 1], [row["train"] for row in rows])
    assert np.allclose(curves["best: update 20"][:, 0], 20)
    ais = next(bars for bars in axes.containers if bars.get_label() == "train, by AIS")
    assert np.allclose(ais.lines[0].get_xydata(), [[10, -19.25]])  # log Z was larger by AIS, so the likelihood is lower
    lost = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]
    assert np.allclose(lost, [(6.5, 8.5), (11.5, 12.5)])
    low, high = axes.get_ylim()
    assert low < -20.4
    assert -17 < high < -16
    for name in ("one.svg", "two.svg", "one.png"):
        write_figure(plots.training(rows, best_update=20, ax=new_axes("light"), theme="light"), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


# Training itself.


def train_arguments(files, directory):
    data = ("train", files / "bits.npz", "--valid", f"{files / 'bits.npz'}:valid")
    return list(map(str, (*data, *TINY, "--json", "--out", directory)))


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    """A run that nothing disturbed: its directory, status, stdout and stderr."""
    directory, out, err = tmp_path_factory.mktemp("runs") / "whole", io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["tempering", *train_arguments(files, directory)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return SimpleNamespace(directory=directory, status=ended.value.code, out=out.getvalue(), err=err.getvalue())


def test_a_run_for_scripts(tempering, files, whole):
    """Guards what a run leaves: one JSON object, the metrics it speaks of, a model and a plot."""
    answer, directory = only_json(whole.out), whole.directory
    assert (whole.status, whole.err) == (0 if answer["verdict"] == "good" else 3, "")
    metrics = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert [row["update"] for row in metrics] == list(range(1, 31))
    best = metrics[answer["best_update"] - 1]
    tracked = {"value": best["valid"], "interval": [best["valid_low"], best["valid_high"]]}
    assert answer["tracked"]["valid"] == tracked
    rbm, found = tp.load(directory / "model.npz"), answer["valid"]
    assert rbm.weights.shape == (16, 4)
    with np.load(files / "bits.npz") as bits:
        exact = rbm.log_density(bits["valid"]).mean() - rbm.exact_log_z()
    low, high = found["interval"]
    checks.assert_within(found["value"], exact, (high - low) / 4)
    assert found != tracked  # it had no part in choosing the model
    assert (directory / "training.svg").read_text().startswith("<?xml")
    names = {"model": "model.npz", "metrics": "metrics.jsonl", "plot": "training.svg"}
    assert answer["files"] == {what: str(directory / name) for what, name in names.items()}
    assert "already holds a run" in tempering(*train_arguments(files, directory))[2]


def test_interrupted_and_resumed(tempering, files, whole, tmp_path, monkeypatch):
    """Guards Ctrl-C in earnest: the command that it prints leads to the same bits as if nothing had happened."""
    updates = TrainingRun.__iter__

    def interrupted(run):
        for row in updates(run):
            if row.num_updates == 12:
                os.kill(os.getpid(), signal.SIGINT)
            yield row

    monkeypatch.setattr(TrainingRun, "__iter__", interrupted)
    status, out, err = tempering(*train_arguments(files, tmp_path / "cut"))
    assert (status, only_json(out)["num_updates"]) == (130, 12)
    status, out, _ = tempering(*shlex.split(err.partition("tempering ")[2]))
    assert status in (0, 3)
    assert only_json(out)["num_updates"] == 30
    for name in ("metrics.jsonl", "training.svg"):
        assert (tmp_path / "cut" / name).read_bytes() == (whole.directory / name).read_bytes()
    with np.load(tmp_path / "cut" / "model.npz") as one, np.load(whole.directory / "model.npz") as two:
        assert all(np.array_equal(one[name], two[name]) for name in ("W", "vbias", "hbias"))


def test_on_to_the_estimate(tempering, files, whole):
    """Guards the last line: a finished run, asked again, says how to go on, and `estimate` takes that."""
    arguments = [part for part in train_arguments(files, whole.directory) if part != "--json"]
    _, out, _ = tempering(*arguments, "--resume", "--quiet")
    command = out.splitlines()[-1].removeprefix("Go on with: tempering ")
    quick = ("--devices", 2, "--warmup", "iterations", "--chains", 40, "--sweeps", 64, "--rungs", 5, "--json")
    status, out, err = tempering(*shlex.split(command), *quick)
    assert (status in (0, 3), err) == (True, "")
    assert only_json(out)["mean_log_likelihood"] < 0
