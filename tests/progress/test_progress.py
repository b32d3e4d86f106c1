"""Progress while a run goes: what is said, how often it is computed, where it is shown, and where it is not."""

import io
import os
import pty
import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from rich.live import Live

import exact
import tempering as tp
from tempering.progress import Pace, Progress, check_progress, in_hours
from tempering.progress.bars import TerminalBar
from tempering.progress.line import Line
from tempering.progress.shown import check_watch

QUICK = dict(num_chains=10, num_sweeps=64, num_rungs=5, warmup=tp.AnnealedStart(8, (8,)))
ERASED = "\x1b[1A\x1b[2K"  # one line up, and nothing there


def estimate(**how) -> tp.Result:
    return tp.estimate(exact.small_rbm(), exact.BASE_FREQUENCIES, **QUICK | how)


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


# What is said.


def log_z(value: float, error: float) -> tp.LogZ:
    return tp.LogZ("rts", np.array([0.0, value]), np.array([0.0, error]), np.zeros(2), np.zeros(2), 9)


def sampling(done: int, answer, **about) -> Progress:
    return Progress("sampling", done, 1000, answer=answer, **about)


def test_the_time_left():
    """Kills: the time before the first report counted, and a clock that stands still between two reports."""
    clock = Clock()
    pace = Pace(clock)
    pace.report(300)
    assert pace.seconds_left(50) is None
    clock.now += 4
    pace.report(308)
    assert (pace.per_second, pace.seconds_left(50)) == (2.0, 25.0)
    clock.now += 10
    assert pace.seconds_left(50) == 15.0
    clock.now += 100
    assert pace.seconds_left(50) == 0.0
    pace.report(310)
    clock.now += 1
    pace.report(313)  # long after the first
    assert pace.seconds_left(60) == 20.0
    assert [in_hours(s) for s in (0.4, 61.0, 3650.0)] == ["0:00:00", "0:01:01", "1:00:50"]


def test_the_line():
    """Kills: a pace kept from the stage before, an unknown error shown, and an estimate that outlives its run."""
    clock = Clock()
    line = Line(clock=clock)
    assert (line.is_waiting, str(line)) == (True, "compiling")
    line.hear(Progress("annealing", 10, 40))
    clock.now += 1
    line.hear(Progress("annealing", 20, 40, note="about 1040 sweeps"))
    assert str(line) == "annealing, 20 of 40, 0:00:02 left in this stage, about 1040 sweeps"
    line.hear(sampling(100, lambda: log_z(3.25, np.inf)))
    assert (str(line), line.share) == ("sampling, 100 of 1000, log Z 3.250", 0.1)
    clock.now += 10
    line.hear(sampling(200, lambda: log_z(3.5, 0.125), target_error=0.01))
    assert str(line) == "sampling, 200 of 1000, log Z 3.500 ± 0.125 → 0.01, 0:01:20 to the next look"
    line.hear(sampling(1000, lambda: log_z(4.5, 0.125), target_error=0.01))  # too soon for a new estimate
    assert str(line) == "sampling, 1000 of 1000, log Z 3.500 ± 0.125 → 0.01"
    line.hear(Progress("annealing", 10, 40, run="annealing up"))
    assert str(line) == "annealing, 10 of 40"


def test_the_line_of_a_comparison():
    line = Line(names_runs=True)
    line.hear(Progress("annealing", 10, 40, run="annealing up"))
    assert line.place == "annealing up, annealing"
    line.hear(Progress("annealing", 10, 40, run="annealing up", repeat=1, num_repeats=3))
    assert line.place == "2 of 3: annealing up, annealing"


def test_estimates_are_computed_now_and_then():
    """Kills: an estimate at every chunk, one that takes most of the run, and one by a method that reads all draws."""
    clock, computed = Clock(), []

    def heard_every_second(cost: float, **about) -> list[float]:
        line = Line(clock=clock)
        computed.clear()
        clock.now = 0.0

        def answer():
            computed.append(clock.now)
            clock.now += cost
            return log_z(3.5, 0.1)

        while clock.now < 100:
            line.hear(sampling(1, answer, **about))
            clock.now += 1
        return computed

    assert heard_every_second(0.0)[:4] == [0, 2, 4, 6]
    assert heard_every_second(1.0) == [0, 21, 42, 63, 84]
    assert heard_every_second(0.0, is_slow=True) == []


def test_methods_that_read_all_draws_are_slow():
    seen = []

    def watch(progress: Progress) -> bool:
        seen.append(progress.is_slow)
        return True

    for method in ("rts", "mbar"):
        with pytest.raises(tp.Interrupted):
            estimate(method=method, watch=watch)
    assert seen == [False, True]


# Where it is shown.


def on_terminal(call: Callable[[], object]) -> str:
    """What a terminal shows of a call, where standard error is one."""
    leader, follower = pty.openpty()
    shown = []

    def read() -> None:
        while True:
            try:
                shown.append(os.read(leader, 4096))
            except OSError:  # the other end is closed
                return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with os.fdopen(follower, "w", encoding="utf-8") as stream, pytest.MonkeyPatch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.setenv("COLUMNS", "120")
            patch.setattr(sys, "stderr", stream)
            call()
            assert sys.stderr is stream  # given back by the bar
    finally:
        reader.join()
        os.close(leader)
    return b"".join(shown).decode()


def compare(**how) -> tp.Comparison:
    return tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts,ais", **QUICK | how)


def test_a_terminal_shows_a_bar(capfd):
    """Kills: a bar on standard output, one that stays there, and one without the estimate."""
    shown = on_terminal(estimate)
    for part in ("compiling", "sampling", "64 of 64", "log Z ", "±"):
        assert part in shown
    assert shown.endswith(ERASED)
    assert capfd.readouterr() == ("", "")


def test_a_comparison_shows_its_runs():
    """Kills: runs without a name, and repeats without a number."""
    shown = on_terminal(lambda: compare(repeats=2))
    assert "2 of 2: annealing up, annealing" in shown
    assert shown.endswith(ERASED)


@pytest.mark.parametrize("how", [{"progress": False}, {"watch": lambda _: None}], ids=["False", "watch"])
def test_a_terminal_shows_nothing_where_nothing_is_wanted(how):
    """Kills: a bar in spite of progress=False, and one over what a watcher shows."""
    assert on_terminal(lambda: estimate(**how)) == ""
    assert on_terminal(lambda: compare(**how)) == ""


def test_other_threads_show_nothing_unasked():
    """Kills: bars of many runs at once, drawn over each other."""

    def run() -> None:
        thread = threading.Thread(target=estimate)
        thread.start()
        thread.join()

    assert on_terminal(run) == ""


def test_a_watcher_can_have_a_bar_and_stop_the_run():
    """Kills: a bar instead of the watcher, and a watcher's answer that is lost."""
    results = []
    shown = on_terminal(
        lambda: results.append(estimate(progress=True, watch=lambda progress: progress.stage == "sampling"))
    )
    assert 0 < results[0].num_sweeps < 64
    assert "sampling" in shown


def test_ctrl_c_removes_the_bar():
    """Kills: a terminal left without its cursor, and an interruption that is lost."""

    def interrupt(progress):
        raise KeyboardInterrupt

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            estimate(progress=True, watch=interrupt)

    shown = on_terminal(run)
    assert "\x1b[?25h" in shown
    assert shown.endswith(ERASED)


@pytest.mark.parametrize(("encoding", "sign"), [("ascii", "- compiling"), ("utf-8", "⠋ compiling")])
def test_a_narrow_terminal_has_room_for_ctrl_c(monkeypatch, encoding, sign):
    """Kills: a line as wide as the terminal, below which "^C" is written, so that a line stays; "?" for a spinner."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", write_through=True)
    console = Console(file=stream, force_terminal=True, width=40, color_system=None)
    monkeypatch.setattr("tempering.progress.bars.Console", lambda **_: console)
    line = Line(names_runs=True)
    bar = TerminalBar(line)
    console.print(bar._live.renderable)
    bar.show(Progress("sampling", 10, 1000, note="a note that is longer than a terminal which has forty columns"))
    console.print(bar._live.renderable)
    lines = stream.buffer.getvalue().decode(encoding).splitlines()
    assert lines[0].rstrip() == sign
    assert max(len(each.rstrip()) for each in lines) <= 38


def test_a_terminal_that_is_gone_does_not_cost_the_answer(monkeypatch):
    """Guards long runs: the terminal was closed meanwhile, and what is written there fails."""
    stop, results = Live.stop, []

    def fail(live):
        stop(live)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Live, "stop", fail)
    on_terminal(lambda: results.append(estimate()))
    assert results[0].is_complete


def test_a_dumb_terminal_gets_lines(monkeypatch):
    """Kills: escape codes where no line can be redrawn."""
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "dumb")
    estimate()
    assert stream.getvalue() == ""
    estimate(progress=True)
    assert "\x1b" not in stream.getvalue()
    assert "sampling, " in stream.getvalue()


def test_no_terminal_no_bar(capfd):
    """Guards scripts: nothing is written to a pipe or a file."""
    estimate()
    assert capfd.readouterr() == ("", "")


def test_lines_where_there_is_no_terminal(capfd, monkeypatch):
    """Guards log files: one line a stage, no escape codes, and nothing on standard output."""
    monkeypatch.setattr("tempering.progress.bars._LINE_SECONDS", 1e9)
    estimate(progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "\x1b" not in err
    assert [line.partition(",")[0] for line in err.splitlines()] == ["annealing", "equilibrating", "sampling"]


def test_without_standard_error(monkeypatch):
    """Guards programs without a console, where it is None."""
    monkeypatch.setattr(sys, "stderr", None)
    assert estimate().is_complete


@pytest.mark.parametrize("progress", ["yes", 1])
def test_what_progress_may_be(progress):
    """Kills: a word that is taken for True."""
    with pytest.raises(tp.InputError, match="`progress` must be True, False or None"):
        check_progress(progress)


def test_a_watcher_that_cannot_be_called_is_refused():
    with pytest.raises(tp.InputError, match="`watch` must be a function of a `Progress`; got 'bar'"):
        check_watch("bar")


# Notebooks.


@pytest.fixture
def notebook(monkeypatch) -> list:
    """IPython as it is in a kernel, as far as it is used; the list has all that was displayed."""
    displayed = []

    class Handle:
        def update(self, thing, raw=False):
            displayed.append(thing if raw else thing._repr_mimebundle_((), ()))

    def display(thing, display_id):
        Handle().update(thing)
        return Handle() if display_id else None

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # pyright: ignore[reportAttributeAccessIssue]
    displays.display = display  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return displayed


def test_a_notebook_shows_a_bar(notebook, capfd, monkeypatch):
    """Kills: a bar that stays below the cell, and one that is drawn more often than it can be seen."""
    monkeypatch.setattr("tempering.progress.bars._NOTEBOOK_SECONDS", 1e9)
    estimate()
    first, bar, last = notebook
    assert "compiling" in first["text/html"]
    assert "annealing" in bar["text/html"]
    assert last == {"text/plain": "", "text/html": ""}
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr("tempering.progress.bars._NOTEBOOK_SECONDS", 0.0)
    estimate()
    assert "log Z" in notebook[-2]["text/html"]


def test_a_notebook_can_be_silent(notebook):
    estimate(progress=False)
    assert notebook == []


def test_ipython_on_a_terminal_is_no_notebook(notebook):
    """Kills: HTML for a terminal."""
    sys.modules["IPython"].get_ipython = SimpleNamespace  # a shell without a kernel
    assert "sampling" in on_terminal(estimate)
    assert notebook == []
