"""Training on a terminal: a panel with likelihoods, speed and samples, drawn anew in place."""

import time
from collections import deque
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tempering.cli import pictures
from tempering.cli.lines import NAMES, Samples, Speed, check_in_words, num_updates_in_all, stage_of, trouble_in_words
from tempering.training.settings import TrainSettings

_NUM_VALUES, _SPARK_WIDTH = 200, 40  # likelihoods that a sparkline shows, in so many columns
_PICTURE_SECONDS, _MOST_PICTURES = 2.0, 6


class LiveView:
    """A panel on standard error that is drawn anew in place, and vanishes at the end."""

    def __init__(
        self, title: str, how: TrainSettings, image: tuple[int, int] | None, *, console: Console | None = None
    ):
        """`image` is the height and width of a row of data, where rows are pictures."""
        self.note = ""  # such as that a stop was asked for
        self._console = Console(stderr=True) if console is None else console
        self._title, self._how = title, how
        self._speed, self._row, self._checked, self._trouble = Speed(), None, "", ""
        self._known: dict[str, Any] = {}  # the last likelihoods; there may be a look at them only now and then
        self._values = {name: deque(maxlen=_NUM_VALUES) for name in NAMES}
        self._image, self._drawn, self._pictures_at = image, "", -np.inf
        self._waiting = Spinner("dots", "compiling, and finding log Z of the first model")
        self._live = Live(
            get_renderable=self.panel, console=self._console, transient=True, refresh_per_second=4,
            redirect_stdout=False, vertical_overflow="crop",
        )  # fmt: skip

    def __enter__(self) -> "LiveView":
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        """Leave nothing behind."""
        self._live.stop()

    def show(self, row: Any, samples: Samples) -> None:
        """After an update."""
        self._speed.count()
        for name in NAMES:
            if (likelihood := getattr(row, name)) is not None:
                self._known[name] = likelihood
                self._values[name].append(likelihood.value)
        if row.tracked is not None:
            self._trouble = trouble_in_words(row)
        if row.ais_check is not None:
            self._checked = f"{check_in_words(row)} at update {row.num_updates}"
        if self._num_pictures and time.monotonic() - self._pictures_at >= _PICTURE_SECONDS:
            self._drawn = self._draw(samples(self._num_pictures))
            self._pictures_at = time.monotonic()
        self._row = row

    @property
    def _num_pictures(self) -> int:
        """As many as fit; none where the terminal has no block characters."""
        if self._image is None or not self._console.encoding.lower().startswith("utf"):
            return 0
        lines, columns = pictures.picture_size(self._image)
        fits = lines + 9 <= self._console.height
        return min(_MOST_PICTURES, (self._console.width - 2) // (columns + 2)) if fits else 0

    def _draw(self, samples: np.ndarray) -> str:
        assert self._image is not None
        return "\n".join(pictures.beside([pictures.draw(sample.reshape(self._image)) for sample in samples]))

    def panel(self) -> Panel:
        """As it looks now."""
        row = self._row
        if row is None:
            body: list[RenderableType] = [self._waiting]
        else:
            body = [self._likelihoods(), *self._remarks(), self._progress(row)]
            body += [Text(f"\n{self._drawn}", no_wrap=True)] if self._drawn else []
        body += [Text(self.note, style="yellow")] if self.note else []
        return Panel(Group(*body), title=self._title, title_align="left", border_style="dim")

    def _likelihoods(self) -> RenderableType:
        if not self._known:
            return Text("no likelihood is known yet" if self._how.is_tracked else "the likelihood is not followed")
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("log-likelihood", "", "95 % band", f"last {len(self._values['train'])} looks"):
            table.add_column(heading, no_wrap=True, justify="left" if heading else "right")
        for name, likelihood in self._known.items():
            low, high = likelihood.interval
            band = f"{low:.3f} to {high:.3f}" if np.isfinite(likelihood.std_error) else "unknown"
            spark = pictures.sparkline(self._values[name], _SPARK_WIDTH)
            table.add_row(name, f"[bold]{likelihood.value:.3f}[/bold]", band, spark)
        return table

    def _remarks(self) -> list[RenderableType]:
        remarks = (Text(self._checked), Text(self._trouble, style="red"))
        return [remark for remark in remarks if remark]

    def _progress(self, row: Any) -> Table:
        grid = Table.grid(padding=(0, 2))
        total = num_updates_in_all(self._how, row)
        share = min(1.0, row.num_updates / total)
        grid.add_row(
            f"{stage_of(row)} {row.num_updates} of {total}",
            ProgressBar(total=1.0, completed=share, width=20),
            f"{100 * share:.0f} %",
            self._speed.in_words(total - row.num_updates),
        )
        return grid
