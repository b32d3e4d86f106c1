"""Training on a terminal: a panel with likelihoods, speed and samples, refreshed in place."""

import time
from collections import deque
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tempering.cli import pictures
from tempering.cli.lines import Samples, View
from tempering.progress.bars import bar_row, live_display
from tempering.results import MeanLogLikelihood
from tempering.training import Row, RunSettings

_NUM_VALUES, _SPARK_WIDTH = 200, 40  # likelihoods that a sparkline shows, and its columns
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
        self._waiting = Spinner("dots", "compiling, and estimating log Z of the first model")
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
        return min(_MOST_PICTURES, (self._console.width - 2) // (columns + 2)) if fits else 0

    def panel(self) -> Panel:
        """The panel as it is now."""
        body: list[RenderableType] = [self._waiting]
        if self._row is not None:
            drawn = f"\n{self._drawn}" if self._drawn else ""
            remarks = Text(self._checked), Text(self._trouble, style="red")
            body = [self._likelihoods(), *remarks, self._bar(self._row), Text(drawn, no_wrap=True)]
        body = [part for part in (*body, Text(self.note, style="yellow")) if part]  # an empty text takes no line
        return Panel(Group(*body), title=self._title, title_align="left", border_style="dim")

    def _likelihoods(self) -> RenderableType:
        if not self._known:
            return Text("no likelihood yet" if self._settings.is_tracked else "the likelihood is not tracked")
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("log-likelihood", "", "95 % band", f"last {len(self._values['train'])} values"):
            table.add_column(heading, no_wrap=True, justify="left" if heading else "right")
        for name, likelihood in self._known.items():
            low, high = likelihood.interval
            band = f"{low:.3f} to {high:.3f}" if np.isfinite(likelihood.std_error) else "unknown"
            spark = pictures.sparkline(self._values[name], _SPARK_WIDTH)
            table.add_row(name, f"[bold]{likelihood.value:.3f}[/bold]", band, spark)
        return table

    def _bar(self, row: Row) -> Table:
        progress, share, speed = self._progress(row)
        return bar_row(progress, share, f"{100 * share:.0f} %", speed)
