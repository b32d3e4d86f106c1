"""The command line: what it prints, where, and with which status."""

import io
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import tempering as tp
from tempering import _memory
from tempering.api.settings import read_seconds
from tempering.cli import common, main

KEYS = {
    *("log_z", "std_error", "interval", "verdict", "method", "num_chains", "num_sweeps", "num_rungs"),
    *("num_warmup_sweeps", "seconds", "annealed_log_z", "round_trips_per_chain", "seed", "exact_log_z"),
    *("num_density_evaluations", "num_gradient_evaluations"),
}
# Same shapes in many tests: what was compiled for one serves the others.
QUICK = ("--warmup", "iterations", "--chains", "40", "--sweeps", "64", "--rungs", "5")  # in this process
SMALL = ("estimate", "--chains", "20", "--rungs", "20", "--json")  # of the example, in processes of their own
ESCAPE = "\x1b"


@pytest.fixture
def estimate(tempering):
    return lambda *arguments: tempering("estimate", "--devices", 2, *arguments)


@pytest.fixture
def launch():
    """Starts the command line in a process of its own."""
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}

    def start(*arguments, stderr=subprocess.PIPE):
        command = [sys.executable, "-m", "tempering", *map(str, arguments)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)

    return start


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """RBMs and data: easy (nearly independent units), hard (strong weights), and what does not fit."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    parts = {"W": rng.normal(0, 1, (6, 4)), "vbias": rng.normal(size=6), "hbias": rng.normal(size=4)}
    for name, scale in (("easy", 0.1), ("hard", 40.0)):
        np.savez(folder / f"{name}.npz", **{key: scale * array for key, array in parts.items()})
    renamed = zip(("vishid", "visbiases", "hidbiases"), parts.values(), strict=True)
    scipy.io.savemat(folder / "easy.mat", {name: 0.1 * array for name, array in renamed})
    bits = (rng.random((30, 6)) < 0.4).astype(np.uint8)
    np.savez(folder / "bits.npz", bits)
    np.savez(folder / "grey.npz", 200 * bits + 3)
    np.savez(folder / "wide.npz", np.zeros((3, 9), np.uint8))
    (folder / "text.npz").write_text("hello")
    return folder


def only_json(text: str) -> dict:
    """The one JSON object that is all of the output."""
    assert text.count("\n") == 1
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


# Answers.


def test_the_example_as_json_and_quiet_on_a_terminal(launch):
    """Guards the demo and --quiet: everything a script wants in one object, and nothing else, also on a terminal."""
    status, out, shown = on_terminal(launch, *SMALL, "--sweeps", 250, "--quiet")
    answer = only_json(out)
    assert shown == ""
    assert status == (0 if answer["verdict"] == "good" else 3)
    assert answer.keys() >= KEYS
    with np.load(resources.files("tempering") / "data" / "digits_rbm.npz") as stored:
        assert answer["exact_log_z"] == pytest.approx(float(stored["log_z"]), abs=1e-6)
    low, high = answer["interval"]
    assert low < answer["log_z"] < high
    assert (answer["method"], answer["seed"], answer["mean_log_likelihood"]) == ("auto", 0, None)
    assert (answer["num_chains"], answer["num_sweeps"], answer["num_rungs"]) == (20, 250, 20)
    assert isinstance(answer["annealed_log_z"], float)
    assert answer["round_trips_per_chain"] > 0


def test_a_table_for_people(estimate, files):
    """Guards the plain output: status 0 for a good answer, no bar and no escape codes without a terminal."""
    status, out, err = estimate(files / "easy.npz", "--data", files / "bits.npz", *QUICK)
    assert (status, err) == (0, "")
    assert ESCAPE not in out
    rows = {line[:19].strip(): line[19:].strip() for line in out.splitlines()}
    answer = only_json(estimate(files / "easy.npz", "--data", files / "bits.npz", *QUICK, "--json")[1])
    assert rows["log Z"] == f"{answer['log_z']:.4f}"
    assert rows["standard error"].startswith(f"{answer['std_error']:.4f} (")
    assert rows["rungs"].startswith(f"{answer['num_rungs']}; ")  # this warm-up sees no length of the path
    assert rows["exact log Z"].startswith(f"{answer['exact_log_z']:.4f} (")
    assert rows["mean log-likelihood"].startswith(f"{answer['mean_log_likelihood']:.4f} ± ")
    assert rows["verdict"].startswith("Good")


def test_an_answer_that_is_not_to_be_believed(estimate, files):
    """Guards status 3: the number is printed all the same, marked, and as JSON too."""
    hard = (files / "hard.npz", *QUICK, "--sweeps", 2)
    status, out, err = estimate(*hard)
    assert (status, err) == (3, "")
    answer = only_json(estimate(*hard, "--json")[1])
    assert answer["verdict"] != "good"
    assert answer["findings"]
    assert f"{answer['log_z']:.4f}" in out
    assert answer["message"] in out


def test_the_seed_decides(estimate, files):
    """Guards repeatability: the same seed gives the same number, another seed another."""
    first, again, other = (
        only_json(estimate(files / "easy.npz", *QUICK, "--json", "--seed", seed)[1]) for seed in (1, 1, 2)
    )
    assert first["log_z"] == again["log_z"] != other["log_z"]
    assert (first["seed"], other["seed"]) == (1, 2)


def test_a_matlab_file_is_the_same_model(estimate, files):
    """Guards the readers: Salakhutdinov's names give the number that npz gives."""
    answers = [only_json(estimate(files / f"easy.{kind}", *QUICK, "--json")[1]) for kind in ("npz", "mat")]
    assert answers[0]["log_z"] == answers[1]["log_z"]


def test_data_are_base_and_likelihood(estimate, files):
    """Guards --data, --base and --binarize: which of them changes the run, and which only the likelihood."""

    def answer(*arguments):
        return only_json(estimate(files / "easy.npz", *QUICK, "--json", *arguments)[1])

    bits = answer("--data", files / "bits.npz")
    grey = answer("--data", files / "grey.npz", "--binarize", "threshold")
    assert grey["mean_log_likelihood"] == bits["mean_log_likelihood"] < 0
    assert answer("--base", files / "bits.npz")["log_z"] == bits["log_z"]
    assert answer("--base", files / "bits.npz")["mean_log_likelihood"] is None
    uniform = answer("--base", "uniform", "--data", files / "bits.npz")
    assert uniform["log_z"] != bits["log_z"]
    assert uniform["mean_log_likelihood"] is not None


def test_witnesses_from_a_file(estimate, files):
    """Kills: a file that is not read, that is taken as data, or whose answer is not told."""
    told = only_json(estimate(files / "easy.npz", *QUICK, "--json", "--witnesses", files / "bits.npz")[1])
    assert told["witnesses"]["num_witnesses"] == 30
    assert told["witnesses"]["away"] == {"num_away": 0, "num_chains": 30}
    assert told["witnesses"]["missing"] is None
    assert told["mean_log_likelihood"] is None
    shown = estimate(files / "easy.npz", *QUICK, "--witnesses", files / "bits.npz")[1]
    assert "0 of 30 chains from witnesses never came to the base" in " ".join(shown.split())


def test_every_method_and_ladder_runs(estimate, files):
    """Guards the options that the other tests leave alone."""
    for options in (("--method", "ts"), ("--ladder", "0,0.1,0.3,0.6,1"), ("--rung-weights", "exp:1")):
        status, out, err = estimate(files / "easy.npz", *QUICK, "--json", *options)
        assert status in (0, 3)
        assert err == ""
        assert only_json(out)["num_rungs"] == 5


def test_a_path_of_averaged_moments_and_its_knots(estimate, files):
    """Kills: knots that are not passed on, a base that is given twice, the geometric path under another name."""
    plain = only_json(estimate(files / "easy.npz", "--base", "uniform", "--json", *QUICK)[1])
    averaged = only_json(estimate(files / "easy.npz", "--base", "uniform", "--path", "moments:3", "--json", *QUICK)[1])
    assert averaged["log_z"] != plain["log_z"]
    assert abs(averaged["log_z"] - plain["log_z"]) < 6 * np.hypot(averaged["std_error"], plain["std_error"])


@pytest.mark.slow  # test_run.py walks on one device and on two; test_processes.py has the command line
def test_devices_do_not_change_the_answer(launch, tempering):
    """Guards the promise that the number of CPU devices changes nothing but the time, and silence without a terminal.

    This process has two devices; the other is given one.
    """
    common = ("estimate", *QUICK, "--chains", 100, "--json", "--devices")
    outs, errs = zip(launch(*common, 1).communicate(), tempering(*common, 2)[1:], strict=True)
    assert errs == ("", "")
    one, two = map(only_json, outs)
    for told in (one, two):  # how long it took, and how it was asked for
        del told["seconds"], told["settings"], told["command"]
    assert one == two


# Refusals.


@pytest.mark.parametrize("arguments", [
    "{}/missing.npz", "{}", "{}/text.npz", "{}/easy.npz:other", "{}/bits.npz", "{}/easy.txt",
    "{}/easy.npz --data {}/wide.npz", "{}/easy.npz --data {}/grey.npz", "{}/easy.npz --base {}/missing.npz",
    "{}/easy.npz --data {}/grey.npz --binarize never",
    "{}/easy.npz --witnesses {}/wide.npz", "{}/easy.npz --witnesses {}/missing.npz", "mixture --witnesses {}/wide.npz",
    "--rung-weights exp", "--rung-weights exp:x", "--rung-weights exp:nan", "--rung-weights flat", "--ladder linear",
    "--ladder 0,1,0.5",
    "--ladder 0,x,1", "--ladder geometric:7", "--warmup cold", "--method magic", "--sweeps 0", "--chains 0",
    "--chains 1000000000000", "--rungs 1000000", "--sweeps 100000000000000000000", "--devices 10000",
    "--rung-weights exp:1e9", "--rungs 1", "--chunk 0", "--devices 0",
    "--sweeps many", "--seed -1", "--seed 99999999999999999999",
    "--target-error 0", "--target-error nan", "--target-error small", "--sweeps 1000 --max-sweeps 2000",
    "--max-sweeps 0", "--max-time 10x", "--sweeps 1000 --target-error 0.1 --max-sweeps 999",
    "--target-error 0.1 --max-time 10x", "--target-error 0.1 --max-time m",
    "--target-error 0.1 --max-time -5", "--rungs many", "--rungs 2.5",
    "--path straight", "--path moments:1", "--path moments:²", "--path moments:100000000000",
    "--warmup iterations:20:3000000000", "--path geometric:3", "ising:2x2:0.3 --path moments",
    "{}/easy.npz --ladder 0,1 --rungs auto", "--ladder power:-1", "--rung-weights ends:0.7", "--ladder power:x",
    "--nonsense", "--out", "--resume", "--out {}/easy.npz", "a b",
])  # fmt: skip
def test_a_mistake_is_one_line_and_status_2(estimate, files, arguments, python_words):
    """Guards users from tracebacks: whatever is wrong with the arguments is said in one line on stderr, in flags."""
    status, out, err = estimate(*(part.format(files) for part in arguments.split()))
    assert (status, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert len(err) > len("Error: x.\n")
    assert not python_words.search(err), err


@pytest.mark.parametrize(("arguments", "line"), [
    ("--sweeps 1e20", "--sweeps must be at most 2147483647, the most steps that are counted; got "
     "100000000000000000000: give --sweeps 1000000 or fewer."),
    ("--rungs 1e6", "--rungs 1000000 needs at least 80 TB of memory, and there are 1 GB: --rungs 2000 fits."),
    ("--chains 1e3.5", "Invalid value for '--chains': '1e3.5' is not a whole number."),
    ("--chains 1e-3", "Invalid value for '--chains': '1e-3' is not a whole number."),
    ("--chains 1e999", "Invalid value for '--chains': '1e999' is not a whole number."),
])  # fmt: skip
def test_numbers_that_are_too_large_or_none(estimate, monkeypatch, arguments, line):
    """Kills: 1e20 that is no number, a size without one that fits, the advice of another command's flags."""
    monkeypatch.setattr(_memory, "machine_bytes", lambda: 10**9)
    assert estimate(*arguments.split()) == (2, "", f"Error: {line}\n")


def test_whole_numbers_as_people_write_them():
    assert list(map(common.whole_number, ("7", "1e3", "2.5e1", 12, "123456789012345678901"))) == [
        7, 1000, 25, 12, 123456789012345678901,
    ]  # fmt: skip


def test_mistakes_in_a_process_of_its_own(launch):
    """Guards the entry point itself: typer and Python add nothing to the line."""
    process = launch("estimate", "missing.npz")
    assert process.communicate() == ("", "Error: cannot read missing.npz: no such file. Check the path.\n")
    assert process.returncode == 2


def test_until_the_error_is_small_enough(estimate, files):
    """Guards --target-error: it ends when it is there, and says what is missing where the budget is spent."""
    easy = (files / "easy.npz", *QUICK)
    status, out, _ = estimate(*easy, "--target-error", 0.001, "--json")
    answer = only_json(out)
    assert (status, answer["verdict"], answer["target_error"]) == (0, "good", 0.001)
    assert answer["std_error"] <= 0.001
    assert answer["num_sweeps"] > 64
    status, out, err = estimate(*easy, "--target-error", 1e-5, "--max-sweeps", 200)
    assert (status, err) == (3, "")
    assert " (1e-05 asked for)" in out
    assert "Too short" in out
    assert "--max-sweeps" in out


def test_until_the_time_is_up(estimate, files, tmp_path):
    """Guards --max-time, and that the run can be taken up again without it."""
    run = (files / "easy.npz", *QUICK, "--target-error", 0.001, "--json", "--out", tmp_path / "run")
    status, out, err = estimate(*run, "--max-time", "1e-9h")
    assert (status, err) == (3, "")
    late = only_json(out)
    assert late["num_sweeps"] < 64
    assert "short" in [finding["verdict"] for finding in late["findings"]]
    status, out, _ = estimate(*run, "--resume", "--max-time", "0.5h")
    assert status == 0
    assert only_json(out)["std_error"] <= 0.001


def test_times_in_words():
    """Kills: a unit mistaken for another."""
    times = [read_seconds(time) for time in (None, "90", "90s", "10m", "1.5h")]
    assert times == [None, 90.0, 90.0, 600.0, 5400.0]


def test_as_many_rungs_as_are_needed(tempering, monkeypatch):
    """Guards --rungs auto: both commands pass on the word, and numbers as numbers."""
    heard = []

    def hear(*arguments, num_rungs, **settings):
        heard.append(num_rungs)
        raise tp.InputError("Heard.")

    for command in ("estimate", "compare"):
        monkeypatch.setattr(f"tempering.{command}", hear)
        for rungs in ("auto", 7):
            assert tempering(command, "--devices", 2, "--rungs", rungs) == (2, "", "Error: Heard.\n")
    assert heard == ["auto", 7, "auto", 7]


def test_a_directory_in_which_a_run_lies(estimate, files, tmp_path):
    """Guards --out without --resume, and --resume with other arguments."""
    run = (files / "easy.npz", *QUICK, "--json", "--out", tmp_path / "run")
    answer = only_json(estimate(*run)[1])
    status, out, err = estimate(*run)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "already holds a run" in err
    assert "by --resume," in err
    for other, line in (
        (("--seed", 1), "it differs in --seed (0 there, 1 here). Ask for the same,"),
        (("--warmup", "annealed"), "it differs in --warmup. Ask"),
        (("--base", "uniform"), "it differs in MODEL or --base. Ask"),
        (("--sweeps", 2), "has 64 sweeps already: give --sweeps 64 or more."),
    ):
        assert line in estimate(*run, "--resume", *other)[2]
    again = only_json(estimate(*run, "--resume")[1])
    saved = json.loads((tmp_path / "run" / "result.json").read_text())
    assert again["log_z"] == saved["log_z"] == answer["log_z"]


def test_help(tempering):
    """Guards the first thing that anybody types."""
    for arguments in ((), ("--help",)):
        status, out, err = tempering(*arguments)
        assert (status, err) == (0, "")
        assert "Usage" in out
        assert "estimate" in out
    status, out, _ = tempering("estimate", "--help")
    assert status == 0
    for option in ("--base", "--data", "--out", "--resume", "--json", "--quiet", "--devices", "--seed"):
        assert option in out
    for option in ("--target-error", "--max-sweeps", "--max-time"):
        assert option in out


def test_an_ascii_terminal(estimate, files, monkeypatch):
    """Guards the last line of a long run against an encoding that has no ± or ×: they become +/- and x."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    assert estimate(files / "easy.npz", *QUICK)[0] == 0
    assert b"chains x sweeps" in stream.buffer.getvalue()


# Terminals and Ctrl-C.


def on_terminal(launch, *arguments) -> tuple[int, str, str]:
    """The status, stdout, and what a terminal shows of stderr."""
    leader, follower = pty.openpty()
    process = launch(*arguments, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            shown += os.read(leader, 4096)
        except OSError:  # the process has ended
            break
    os.close(leader)
    out, _ = process.communicate()
    return process.returncode, out, shown.decode()


@pytest.mark.slow  # tests/progress has the bar on a terminal, and the words of its line
def test_the_bar_on_a_terminal(launch):
    """Guards the live bar: the stage, the estimate with its error and the one asked for; stdout stays clean."""
    _, out, shown = on_terminal(launch, *SMALL, "--sweeps", 250, "--target-error", 1e-6, "--max-sweeps", 750)
    assert only_json(out)["num_sweeps"] == 750
    for part in ("climbing", "sampling", "log Z ", "±", "→ 1e-06", ESCAPE):  # equilibration may be over too soon
        assert part in shown


def stage_of(directory: Path) -> str | None:
    """The stage that a run has reached, by its checkpoint."""
    try:
        body = (directory / "checkpoint").read_bytes().partition(b"\n")[2]
    except FileNotFoundError:
        return None
    with np.load(io.BytesIO(body)) as arrays:
        return json.loads(arrays["about"].tobytes())["kind"]


@pytest.mark.slow  # the same for a model of one's own in test_cli_models.py, and by SIGTERM below
def test_ctrl_c_and_resume(launch, tmp_path):
    """Guards Ctrl-C while sampling: the estimate so far, how to go on, and then the uninterrupted answer."""
    common = (*SMALL, "--sweeps", 8000, "--out")
    whole = only_json(launch(*common, tmp_path / "whole").communicate()[0])
    directory = tmp_path / "with a space"
    process = launch(*common, directory)
    while stage_of(directory) != "Sampling" and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    so_far = only_json(out)
    assert 0 < so_far["num_sweeps"] < 8000
    assert so_far["is_complete"] is False
    hint, _, command = err.strip().partition("tempering ")
    assert hint == "Interrupted. Resume with: "
    process = launch(*shlex.split(command))
    ended = only_json(process.communicate()[0])
    assert process.returncode in (0, 3)
    for told in (whole, ended):  # how long it took, and how it was asked for
        del told["seconds"], told["settings"], told["command"]
    assert ended == whole


def test_sigterm_in_mid_run(estimate, files, monkeypatch, tmp_path):
    """Guards what schedulers send: the estimate so far, how to go on, and status 143."""
    original = tp.estimate

    def terminated(*arguments, watch, **settings):
        def watching(progress):
            if progress.stage == "sampling":
                os.kill(os.getpid(), signal.SIGTERM)
            return watch(progress)

        return original(*arguments, watch=watching, **settings)

    monkeypatch.setattr("tempering.estimate", terminated)
    status, out, err = estimate(files / "easy.npz", *QUICK, "--out", tmp_path / "run", "--json")
    assert status == 143
    assert only_json(out)["is_complete"] is False
    assert err.startswith("Terminated. Resume with: tempering estimate --resume")
    assert (tmp_path / "run" / "checkpoint").exists()


def test_ctrl_c_without_a_directory(estimate, files, monkeypatch):
    """Guards Ctrl-C in the warm-up, where nothing can be resumed, and a second one, which waits for nothing."""

    def interrupting(times):
        def run(*arguments, watch, **settings):
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
            return original(*arguments, watch=watch, **settings)

        return run

    original, before = tp.estimate, signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("tempering.estimate", interrupting(1))
    status, out, err = estimate(files / "easy.npz", *QUICK)
    assert (status, out) == (130, "")
    first, second = err.splitlines()
    assert "during its warm-up" in first
    assert second == "Interrupted. With --out DIR the run could be resumed."
    monkeypatch.setattr("tempering.estimate", interrupting(2))
    assert estimate(files / "easy.npz", *QUICK) == (130, "", "Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupted_command_leaves_without_the_interpreters_end(monkeypatch):
    """Which may crash while a program is being compiled. Kills: `sys.exit` after Ctrl-C."""
    left = []
    monkeypatch.setattr("tempering.cli.processes.leave", left.append)
    monkeypatch.setattr("tempering.cli.app", _interrupted)
    main()
    assert left == [130]


def _interrupted(*arguments, **settings):
    raise KeyboardInterrupt
