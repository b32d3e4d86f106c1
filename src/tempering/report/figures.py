"""Pictures for the page: drawn by `tempering.plots`, with words for those who cannot see them."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tempering.plots.style import can_plot, new_axes, to_svg
from tempering.report.page import Html, tag

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_PICTURES = "There are no pictures, since matplotlib is not installed: pip install 'tempering[plots]'."


def figure(
    name: str, draw: Callable[..., "Axes"], what: Any, caption: str, *, size: tuple[float, float] = (5.0, 3.4),
    **options: Any,
) -> Html:  # fmt: skip
    """A picture with its caption; only the caption where matplotlib is not installed.

    Args:
        name: Its name on the page.
        draw: A function of `tempering.plots`.
        what: Its first argument.
        caption: What it shows, also for those who cannot see it.
        size: In inches.
        options: Other arguments of `draw`.

    Returns:
        The element.
    """
    if not can_plot():
        return Html("")
    ax = draw(what, ax=new_axes("page", size), theme="page", **options)
    return tag("figure", Html(to_svg(ax, name, caption)), tag("figcaption", caption))


def side_by_side(figures: Iterable[Html]) -> Html:
    """Pictures in a grid, one below the other on a narrow screen.

    Args:
        figures: The pictures.
    """
    shown = [each for each in figures if each]
    return tag("div", *shown, kind="figures") if shown else Html("")
