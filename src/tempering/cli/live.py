"""Training on a terminal: a panel with likelihoods, speed and samples, refreshed in place."""

import time
from collections import deque
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tempering.cli import pictures
from tempering.cli.lines import Samples, View
from tempering.progress.bars import fitted_bar, live_display, spinner, usable_width
from tempering.results import MeanLogLikelihood
from tempering.training import Row, RunSettings

_NUM_VALUES, _SPARK_WIDTH = 200, 40  # likelihoods that a sparkline shows, and its columns
_GAP, _TITLE_MARGIN = 2, 2  # columns between those of the table, and beside the title
_PICTURE_SECONDS, _MOST_PICTURES = 2.0, 6


class LiveView(View):
    """A panel on standard error that is refreshed in place and removed at the end."""

    def __init__(
        self, title: str, settings: RunSettings, image: tuple[int, int] | None, *, console: Console | None = None
    ):
        """`image` is the height and width of a row of data; None where rows are no images."""
        super().__init__(settings)
        self._console = Console(stderr=True) if console is None else console
        self._title, self._checked, self._trouble = title, "", ""
        self._row: Row | None = None
        self._known: dict[str, MeanLogLikelihood] = {}  # the last likelihoods, since not every update has them
        self._values: dict[str, deque[float]] = {name: deque(maxlen=_NUM_VALUES) for name in ("train", "valid")}
        self._image, self._drawn, self._pictures_at = image, "", -np.inf
        self._waiting = spinner("compiling, and estimating log Z of the first model", self._console)
        self._live = live_display(self.panel, self._console)

    def __enter__(self) -> Self:
        self._live.start()
        return super().__enter__()

    def __exit__(self, *_: Any) -> None:
        super().__exit__()
        self._live.stop()

    def show(self, row: Row, samples: Samples) -> None:
        super().show(row, samples)
        self._known |= row.likelihoods
        for name, likelihood in row.likelihoods.items():
            self._values[name].append(likelihood.value)
        if row.tracked is not None:
            self._trouble = row.trouble
        if row.ais_check is not None:
            self._checked = f"{row.check_phrase} at update {row.num_updates}"
        if self._num_pictures and time.monotonic() - self._pictures_at >= _PICTURE_SECONDS:
            drawings = [pictures.draw(sample.reshape(self._image)) for sample in samples(self._num_pictures)]
            self._drawn, self._pictures_at = "\n".join(pictures.beside(drawings)), time.monotonic()
        self._row = row

    @property
    def _num_pictures(self) -> int:
        """As many as fit; 0 where the terminal has no block characters."""
        if self._image is None or not self._console.encoding.lower().startswith("utf"):
            return 0
        lines, columns = pictures.picture_size(self._image)
        fits = lines + 9 <= self._console.height
        return min(_MOST_PICTURES, (self._width + 2) // (columns + 2)) if fits else 0

    def panel(self) -> Panel:
        """The panel as it is now."""
        body: list[RenderableType] = [self._waiting]
        if self._row is not None:
            drawn = f"\n{self._drawn}" if self._drawn else ""
            remarks = Text(self._checked), Text(self._trouble, style="red")
            body = [self._likelihoods(), *remarks, self._bar(self._row), Text(drawn, no_wrap=True)]
        body = [part for part in (*body, Text(self.note, style="yellow")) if part]  # an empty text takes no line
        title = Text(self._title)  # a border cuts a title that is longer
        if len(title) > self._width - _TITLE_MARGIN:
            return Panel(Group(title, *body), border_style="dim")
        return Panel(Group(*body), title=title, title_align="left", border_style="dim")

    @property
    def _width(self) -> int:
        """Columns inside the border."""
        return usable_width(self._console) - 4

    def _likelihoods(self) -> RenderableType:
        if not self._known:
            return Text("no likelihood yet" if self._settings.is_tracked else "the likelihood is not tracked")
        table = Table(box=None, pad_edge=False, header_style="dim")
        last = f"last {len(self._values['train'])} values"
        for heading in ("log-likelihood", "", "95 % band", last):
            table.add_column(heading, no_wrap=True, justify="left" if heading else "right")
        rows = [(name, *_in_words(likelihood)) for name, likelihood in self._known.items()]
        used = len("log-likelihood") + max(len(value) + len(band) for _, value, band in rows) + 3 * _GAP
        if used + len(last) > self._width:
            return self._narrow_likelihoods(rows)
        for name, value, band in rows:
            spark = pictures.sparkline(self._values[name], min(_SPARK_WIDTH, self._width - used))
            table.add_row(name, f"[bold]{value}[/bold]", band, spark)
        return table

    def _narrow_likelihoods(self, rows: list[tuple[str, str, str]]) -> RenderableType:
        """Each likelihood with its band and its curve below, for a terminal that has no room for a table."""
        lines: list[RenderableType] = []
        for name, value, band in rows:
            lines += [Text(f"{name} {value}", style="bold"), Text(f"  95 % band {band}")]
            lines += [Text(pictures.sparkline(self._values[name], min(_SPARK_WIDTH, self._width)))]
        return Group(*lines)

    def _bar(self, row: Row) -> Table:
        progress, share, speed = self._progress(row)
        return fitted_bar(self._width, progress, share, f"{100 * share:.0f} %", speed)


def _in_words(likelihood: MeanLogLikelihood) -> tuple[str, str]:
    """A likelihood, and its band."""
    low, high = likelihood.interval
    band = f"{low:.3f} to {high:.3f}" if np.isfinite(likelihood.std_error) else "unknown"
    return f"{likelihood.value:.3f}" if np.isfinite(likelihood.value) else "unknown", band
