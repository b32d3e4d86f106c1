"""What a figure is made from, and what it comes to: rows of numbers, and a picture of them."""

import contextlib
import csv
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import chdtri

from tempering.frontends.loading import load, load_data
from tempering.models import RBM
from tempering.paper import datasets
from tempering.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Value = TypeVar("Value")
_READING = 0.1  # how far values that were read off a published plot may be wrong
_UNLIKELY = 0.05  # the probability that luck alone makes an RMSE that much smaller or larger
OUTCOMES = BETTER, NOT_CLEAR, WORSE = "better", "no clear difference", "worse"
"""How an RMSE may compare with the published one."""

Errors = dict[str, list[float]]


def _made(name: str, make: Callable[[], Errors], is_needed: bool) -> Errors:
    """Made anew each time."""
    return make()


def _silent(line: str) -> None:
    """Says nothing."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a figure is to be made.

    Attributes:
        data_dir: Where the data are, or are downloaded to.
        is_quick: Whether a few minutes are all the time there is: fewer repeats and shorter runs.
        say: Told what is being done, a line at a time.
        keep: Makes a piece of a figure by name, or takes it from where it was kept when it was made before.
        run_dir: Where trainings are kept while they run, so that they can go on later; by default nowhere.
    """

    data_dir: Path
    is_quick: bool = False
    say: Callable[[str], None] = _silent
    keep: Callable[[str, Callable[[], Errors], bool], Errors] = _made
    run_dir: Path | None = None

    def piece(self, name: str, make: Callable[[], Errors], *, is_needed: bool = False) -> Errors:
        """Errors by method: a piece of a figure that is made on its own.

        Args:
            name: Of the piece, unlike those of all other pieces of the figure.
            make: Makes it.
            is_needed: Whether other pieces cannot be made without it.

        Returns:
            What it makes, or has made before.
        """
        self.say(name)
        return self.keep(name, make, is_needed)

    @contextlib.contextmanager
    def directory(self, name: str) -> Iterator[Path]:
        """Where a training writes its checkpoints: a place of its own that stays, or one that is removed at the end."""
        if self.run_dir is not None:
            yield self.run_dir / name
            return
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)

    def either(self, full: Value, quick: Value) -> Value:
        """The first, or the second if time is short."""
        return quick if self.is_quick else full

    def file(self, name: str) -> Path:
        """A file of data, downloaded if it is not there."""
        return datasets.fetched(name, self.data_dir, self.say)

    def mnist_rbm(self, num_hidden: int) -> RBM:
        """One of the RBMs with 10, 15, 20 or 100 hidden units that others have trained."""
        return _as_rbm(load(f"{self.file('rbm_mnist_small.npz')}:{num_hidden}"))

    def salakhutdinov_rbm(self) -> RBM:
        """The RBM with 500 hidden units of Salakhutdinov and Murray (2008)."""
        return _as_rbm(load(self.file("rbm_mnist_cd25_500.npz")))

    def mnist_rows(self) -> np.ndarray:
        """Binarized MNIST, 60,000 rows of 784 bits."""
        return load_data(self.file("mnist_binarized.npz"), num_visible=784)


def _as_rbm(model: Any) -> RBM:
    assert isinstance(model, RBM)
    return model


class Row(NamedTuple):
    """One number beside its published value.

    Attributes:
        panel: The part of the figure.
        method: What made the number.
        at: The value of the horizontal axis.
        quantity: What the number is; for "RMSE" less is better.
        ours: The number.
        published: As read off the paper's plot; None where it shows none.
        runs: How many independent repeats the number is from.
    """

    panel: str
    method: str
    at: float
    quantity: str
    ours: float
    published: float | None = None
    runs: int = 1

    @property
    def outcome(self) -> str:
        """Whether an RMSE is better or worse than the published one, beyond noise and the error of reading.

        The noise is that of normal errors: the sum of `runs` squares has a chi-square law. Where errors have a bias, an
        RMSE is known better than that, and "no clear difference" is said more often than it need be.
        """
        if self.published is None or self.quantity != "RMSE":
            return ""
        low, high = (self.ours * np.sqrt(self.runs / chdtri(self.runs, p)) for p in (_UNLIKELY, 1 - _UNLIKELY))
        if high < self.published * (1 - _READING):
            return BETTER
        return WORSE if low > self.published * (1 + _READING) else NOT_CLEAR


@dataclasses.dataclass(frozen=True)
class Made:
    """A figure, made again.

    Attributes:
        title: What it shows.
        rows: Its numbers.
        notes: Where they differ from the published ones, and why.
        draw: Draws it on axes, one per panel.
        panels: How many axes `draw` takes.
        curves: Curves that no row stands for, by name; written beside the rows.
    """

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    draw: Callable[[Sequence["Axes"], style.Theme], None]
    panels: int = 1
    curves: dict[str, Sequence[float]] = dataclasses.field(default_factory=dict)

    def write_csv(self, file: Path) -> None:
        """All rows as a table; curves, if there are any, in a second file that ends in `_curves.csv`.

        Args:
            file: Where to.
        """
        with file.open("w", newline="") as out:
            table = csv.writer(out)
            table.writerow([*Row._fields, "outcome"])
            table.writerows([*row, row.outcome] for row in self.rows)
        if self.curves:
            with file.with_name(f"{file.stem}_curves.csv").open("w", newline="") as out:
                table = csv.writer(out)
                table.writerow(self.curves)
                table.writerows(zip(*self.curves.values(), strict=True))

    def write_picture(self, file: Path) -> None:
        """The picture; its format follows from the name.

        Args:
            file: Where to, such as `figure1.png`.
        """
        from matplotlib.figure import Figure

        width = 3.6 * self.panels + 0.8
        figure = Figure(figsize=(width, 4.0), layout="constrained", facecolor=style.LIGHT.paper)
        axes = [figure.add_subplot(1, self.panels, i + 1) for i in range(self.panels)]
        for ax in axes:
            style.dress(ax, style.LIGHT)
        self.draw(axes, style.LIGHT)
        for ax in axes:
            for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
                text.set_fontsize(9)
        figure.suptitle(self.title, fontsize=11, color=style.LIGHT.ink)
        style.write_figure(axes[0], file)


def write_table(file: Path, figures: Mapping[str, Made]) -> None:
    """The rows of several figures as one table.

    Args:
        file: Where to.
        figures: By name.
    """
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["figure", *Row._fields, "outcome"])
        for name, made in figures.items():
            table.writerows([name, *row, row.outcome] for row in made.rows)


def colours_of(methods: Sequence[str], theme: style.Theme) -> dict[str, str]:
    """A colour for each method, the same in every panel.

    Args:
        methods: Their names.
        theme: The colours to take them from.

    Returns:
        Colours by name.
    """
    palette = [theme.blue, theme.orange, theme.green, "#7c3aed", theme.red, "#0e7490", theme.faint]
    return {name: palette[i % len(palette)] for i, name in enumerate(dict.fromkeys(methods))}


def draw_rmse(
    ax: "Axes",
    theme: style.Theme,
    rows: Sequence[Row],
    published: Mapping[str, Mapping[int, float]],
    title: str,
    xlabel: str,
) -> None:
    """RMSE against the horizontal axis, both logarithmic: ours as full lines, the published values dotted.

    Args:
        ax: Where to draw.
        theme: The colours.
        rows: Of one panel.
        published: The published values of each method, also where we have none.
        title: Of the panel.
        xlabel: Of the horizontal axis.
    """
    colours = colours_of([row.method for row in rows], theme)
    for method in dict.fromkeys(row.method for row in rows):
        mine = [row for row in rows if row.method == method]
        ax.plot([row.at for row in mine], [row.ours for row in mine], "o-", ms=4, color=colours[method], label=method)
        known = published.get(method, {})
        ax.plot([*known], [*known.values()], "x:", ms=5, color=colours[method], lw=1)
    if any(published.get(row.method) for row in rows):
        ax.plot([], [], "x:", ms=5, color=theme.faint, lw=1, label="published")
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel="RMSE", title=title)
    style.plain_log_ticks(ax.yaxis)
    _add_legend_below(ax, theme)


def draw_means(ax: "Axes", theme: style.Theme, rows: Sequence[Row], truth: float, title: str, xlabel: str) -> None:
    """Means of log Ẑ against the horizontal axis, which is logarithmic, and the truth as a line.

    Args:
        ax: Where to draw.
        theme: The colours.
        rows: The mean errors of one panel.
        truth: log Z.
        title: Of the panel.
        xlabel: Of the horizontal axis.
    """
    for method, colour in colours_of([row.method for row in rows], theme).items():
        places = [(row.at, truth + row.ours) for row in rows if row.method == method]
        ax.plot(*zip(*places, strict=True), "o-", ms=4, color=colour, label=method)
    ax.axhline(truth, color=theme.ink, lw=1, label="truth")
    ax.set(xscale="log", xlabel=xlabel, ylabel="mean of log Ẑ", title=title)
    _add_legend_below(ax, theme)


def _add_legend_below(ax: "Axes", theme: style.Theme) -> None:
    """Lines may be anywhere inside the axes."""
    style.add_legend(ax, theme, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def rmse(errors: Sequence[float] | np.ndarray) -> float:
    """The root of the mean square.

    Args:
        errors: Estimates less the truth.

    Returns:
        The root mean squared error.
    """
    return float(np.sqrt(np.mean(np.square(errors))))
