"""Bars: on a terminal, in a notebook, and as plain lines where there is neither."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from rich import get_console
from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tempering.progress.line import Line
from tempering.progress.progress import Progress

_NOTEBOOK_SECONDS = 0.25  # between two drawings in a notebook
_LINE_SECONDS = 10.0  # between two plain lines of one stage
_ECHO = 2  # columns of "^C", which a terminal writes where the cursor stands: were there no room, a line would stay
_GAP, _WIDTHS = 2, (8, 20)  # between columns; the narrowest and the widest bar


class PlainLines:
    """A line on standard error when a stage begins, and every ten seconds: for log files. The base of the bars."""

    def __init__(self, line: Line):
        self._line, self._place, self._due = line, "", 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def show(self, progress: Progress) -> None:
        """Show where the run stands now."""
        self._line.hear(progress)
        if self._line.place != self._place or time.monotonic() >= self._due:
            self._place, self._due = self._line.place, time.monotonic() + _LINE_SECONDS
            with suppress(OSError, ValueError):  # a run does not end because nobody reads any more
                sys.stderr.write(f"{self._line}\n")
                sys.stderr.flush()


class TerminalBar(PlainLines):
    """A bar on standard error, redrawn in place by a thread of its own and removed at the end."""

    def __init__(self, line: Line):
        super().__init__(line)
        self._console = Console(stderr=True)
        self._waiting = spinner(line.place, self._console)
        self._live = live_display(self._drawn, self._console)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: Any) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone, but the answer is not
            self._live.stop()

    def show(self, progress: Progress) -> None:
        self._line.hear(progress)

    def _drawn(self) -> RenderableType:
        return self._waiting if self._line.is_waiting else drawn(self._line, usable_width(self._console))


class NotebookBar(PlainLines):
    """A bar below the cell, redrawn in place and emptied at the end. It needs IPython, but no widgets."""

    def __init__(self, line: Line):
        super().__init__(line)
        self._handle: Any = None

    def __enter__(self) -> Self:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        self._handle = display(Text(self._line.place), display_id=True)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)

    def show(self, progress: Progress) -> None:
        self._line.hear(progress)
        if self._handle is not None and time.monotonic() >= self._due:
            self._due = time.monotonic() + _NOTEBOOK_SECONDS
            self._handle.update(drawn(self._line, get_console().width))


def usable_width(console: Console) -> int:
    """Columns for what is redrawn in place."""
    return max(1, console.width - _ECHO)


def spinner(text: str, console: Console) -> Spinner:
    """A sign that something goes on, in ASCII where the terminal has no other characters."""
    return Spinner("dots" if console.encoding.lower().startswith("utf") else "line", text)


def live_display(draw: Callable[[], RenderableType], console: Console) -> Live:
    """What `draw` gives, drawn anew four times a second and removed at the end.

    What is printed on standard output meanwhile stays there, and is not moved to standard error.
    """
    return Live(
        get_renderable=lambda: Constrain(draw(), usable_width(console)), console=console, transient=True,
        refresh_per_second=4, redirect_stdout=sys.stdout is sys.stderr, vertical_overflow="crop",
    )  # fmt: skip


def drawn(line: Line, width: int) -> Table:
    """The line with its bar, for a screen of this width, and below it what is to be said of the whole run."""
    phrases = line.phrases
    if _room(width, line.place, *phrases) < _WIDTHS[0]:  # the bar says the same as the count of sweeps
        phrases = phrases[1:]
    rows = Table.grid()
    rows.add_row(fitted_bar(width, line.place, line.share, *phrases))
    if line.note:
        rows.add_row(Text(line.note, style="dim"))
    return rows


def fitted_bar(width: int, place: str, share: float, *phrases: str) -> Table:
    """One row where it fits in this width; else the place and the bar, and below them the phrases."""
    least, most = _WIDTHS
    room = _room(width, place, *phrases)
    if room >= least:
        return bar_row(place, share, *phrases, bar_width=min(most, room))
    rows, beside = Table.grid(), _room(width, place)
    if beside >= least:
        rows.add_row(bar_row(place, share, bar_width=min(most, beside)))
    else:
        rows.add_row(Text(place))
        rows.add_row(ProgressBar(total=1.0, completed=share, width=max(1, min(most, width - 1))))
    for phrase in phrases:
        rows.add_row(Text(phrase))
    return rows


def _room(width: int, *phrases: str) -> int:
    """What is left for the bar; a terminal may start a new line after its last column, which stays empty."""
    return width - 1 - sum(len(phrase) + _GAP for phrase in phrases)


def bar_row(place: str, share: float, *phrases: str, bar_width: int = 20) -> Table:
    """One row: where a run is, a bar, and phrases beside it."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in range(2 + len(phrases)):
        grid.add_column(no_wrap=True)
    bar = ProgressBar(total=1.0, completed=share, width=bar_width)
    grid.add_row(Text(place), bar, *(Text(phrase) for phrase in phrases))
    return grid
