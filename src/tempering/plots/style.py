"""How figures look: colours for light and dark grounds, axes without clutter, and files."""

import dataclasses
import importlib.util
import io
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering._errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOW_TO_INSTALL = "pip install 'tempering[plots]'"
_SIZE = (5.0, 3.4)  # inches: a phone shows it with letters of about 10 pixels


@dataclasses.dataclass(frozen=True)
class Theme:
    """The colours of a figure.

    Attributes:
        paper: The ground.
        ink: Text, and what must be read.
        faint: Frames, guides, and what is left out.
        blue: The answer, and what leads to it.
        orange: What it is held against.
        red: What is wrong.
        green: A third curve.
        tone: Of images, from transparent to this colour. It is a colour of its own in every theme.
    """

    paper: str
    ink: str
    faint: str
    blue: str
    orange: str
    red: str
    green: str
    tone: str


LIGHT = Theme("#ffffff", "#24292f", "#8a939d", "#2457c5", "#c2410c", "#b42318", "#2f7d4f", "#24292f")
DARK = Theme("#16181d", "#e3e7ee", "#7f8a99", "#7aa2f7", "#ff9e64", "#f7768e", "#8fce9b", "#e3e7ee")
# Stand-ins, which `to_svg` replaces by variables of the page, so that one picture suits light and dark.
PAGE = Theme("none", "#010101", "#020202", "#030303", "#040404", "#050505", "#060606", "#4f7fd6")
_THEMES = {"light": LIGHT, "dark": DARK, "page": PAGE}


def can_plot() -> bool:
    """Whether matplotlib is installed.

    Returns:
        True if figures can be drawn.
    """
    return importlib.util.find_spec("matplotlib") is not None


def check_can_plot() -> None:
    """Refuse to draw where matplotlib is not installed."""
    if not can_plot():
        raise InputError(f"Figures need matplotlib: {HOW_TO_INSTALL}.")


def begin(ax: "Axes | None", theme: str | None, size: tuple[float, float] = _SIZE) -> tuple["Axes", Theme]:
    """Axes to draw on, and the colours that suit them.

    Args:
        ax: Axes of the caller's; None for a new figure of matplotlib's pyplot.
        theme: "light" or "dark"; None to go by the ground of the axes, or by matplotlib's settings for a new figure.
        size: Of a new figure, in inches.

    Returns:
        The axes and the theme.
    """
    check_can_plot()
    if theme is not None and theme not in _THEMES:
        raise InputError(f'`theme` must be "light" or "dark", got {theme!r}.')
    if ax is not None:
        colours = _THEMES[theme] if theme else _suiting(ax)
        ax.spines[["top", "right"]].set_visible(False)
        return ax, colours
    import matplotlib as mpl
    from matplotlib import pyplot

    ground = mpl.rcParams["figure.facecolor"]
    colours = _THEMES[theme] if theme else (DARK if _is_dark(ground) else LIGHT)
    figure = pyplot.figure(figsize=size, layout="constrained", facecolor=colours.paper)
    ax = figure.add_subplot()
    dress(ax, colours)
    return ax, colours


def new_axes(theme: str = "page", size: tuple[float, float] = _SIZE) -> "Axes":
    """Axes on a figure that pyplot does not know, for files.

    Args:
        theme: "light", "dark", or "page" for `to_svg`.
        size: In inches.
    """
    check_can_plot()
    from matplotlib.figure import Figure

    colours = _THEMES[theme]
    ax = Figure(figsize=size, layout="constrained", facecolor=colours.paper).add_subplot()
    dress(ax, colours)
    return ax


def dress(ax: "Axes", theme: Theme) -> None:
    """Give axes the ground, frame and letters of a theme.

    Args:
        ax: The axes.
        theme: The colours.
    """
    ax.set_facecolor(theme.paper)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[:].set_color(theme.faint)
    ax.tick_params(colors=theme.faint, labelcolor=theme.ink, which="both", labelsize=9)
    for label in (ax.xaxis.label, ax.yaxis.label, ax.title):
        label.set_color(theme.ink)


def add_legend(ax: "Axes", theme: Theme, **options: Any) -> None:
    """A legend without a frame, in the colours of the theme.

    Args:
        ax: The axes.
        theme: The colours.
        options: Of `Axes.legend`.
    """
    ax.legend(**{"frameon": False, "labelcolor": theme.ink, "fontsize": 9, **options})


def say_if_unknown(ax: "Axes", theme: Theme, values: np.ndarray) -> None:
    """A word in the middle of axes that would be empty, since there is no finite value to draw.

    Args:
        ax: The axes.
        theme: The colours.
        values: What was to be drawn.
    """
    if not np.isfinite(values).any():
        ax.text(0.5, 0.3, "unknown", color=theme.faint, ha="center", va="center", transform=ax.transAxes)


def plain_log_ticks(*axes: Any) -> None:
    """100 and 0.05 rather than powers of ten on axes with a logarithmic scale, and not too many.

    Args:
        axes: Such as `ax.xaxis`.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    for axis in axes:
        low, high = sorted(axis.get_view_interval())
        is_wide = high > 1e3 * max(low, 1e-300)
        axis.set_major_locator(LogLocator(base=10, subs=(1.0,) if is_wide else (1.0, 2.0, 5.0), numticks=9))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
        axis.set_minor_locator(NullLocator())


def write_figure(ax: "Axes", path: str | Path) -> None:
    """Write the figure of some axes to a file; the same figure gives the same bytes.

    Args:
        ax: The axes.
        path: A file whose name ends in .svg, .png or another format of matplotlib's.
    """
    import matplotlib as mpl

    metadata = {"Date": None} if Path(path).suffix.lower() == ".svg" else {}
    with mpl.rc_context({"svg.hashsalt": "tempering"}):
        _figure_of(ax).savefig(path, dpi=150, metadata=metadata)


def to_svg(ax: "Axes", name: str, description: str) -> str:
    """The figure of some axes as an SVG element for a page that defines the colours as variables of CSS.

    Args:
        ax: Axes of `new_axes("page")`.
        name: Begins all identifiers in it, so that several pictures can stand on one page.
        description: What the picture shows, in words, for those who cannot see it.

    Returns:
        The element.
    """
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        _figure_of(ax).savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = re.sub(r"<metadata>.*?</metadata>", "", text.getvalue(), flags=re.S)
    svg = svg[svg.index("<svg") :]
    for colour in ("ink", "faint", "blue", "orange", "red", "green"):
        svg = svg.replace(getattr(PAGE, colour), f"var(--{colour})")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{name}-", svg)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)  # the page decides
    start, _, rest = svg.partition(">")
    return f'{start} role="img" aria-label="{escape(description)}"><title>{escape(description)}</title>{rest}'


def _figure_of(ax: "Axes") -> Any:
    return ax.get_figure(root=True)


def _suiting(ax: "Axes") -> Theme:
    """By the ground of the axes; where that is transparent, by that of the figure."""
    from matplotlib.colors import to_rgba

    for ground in (ax.get_facecolor(), _figure_of(ax).get_facecolor()):
        if to_rgba(ground)[3] > 0:
            return DARK if _is_dark(ground) else LIGHT
    return LIGHT


def _is_dark(colour: Any) -> bool:
    from matplotlib.colors import to_rgba

    red, green, blue, _ = to_rgba(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
