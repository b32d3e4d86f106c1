"""How chains go from rung to rung."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from tempering.plots import style
from tempering.results import Details, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CELLS = 60  # along a side; neighbouring rungs share a cell beyond that, since counts are few


def transitions(result: Result | Details, *, ax: "Axes | None" = None, theme: str | None = None) -> "Axes":
    """Draw the probabilities of going from rung to rung, with knots marked.

    A knot is a narrow stretch that chains rarely pass; see `tp.diagnosis.find_knots`. A stronger colour is a larger
    probability; its root is shown, so that rare transitions can be seen too.

    Args:
        result: What `tp.estimate` returned.
        ax: Where to draw; by default a new figure.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes: the rung that is reached along, the rung that is left up.
    """
    ax, colours = style.begin(ax, theme, (4.4, 3.9))
    details = Details.of(result)
    matrix, betas = details.arrays["transition_matrix"], details.by_rung["beta"]
    num_rungs = len(matrix)
    cells = _in_cells(matrix)
    # As shades of one colour over the ground, so that the same picture suits light and dark.
    from matplotlib.colors import to_rgb

    image = np.empty((*cells.shape, 4))
    image[..., :3] = to_rgb(colours.tone if theme == "page" else colours.blue)
    image[..., 3] = np.sqrt(cells / max(cells.max(), 1e-300))
    ends = (-0.5, num_rungs - 0.5)
    ax.imshow(image, origin="lower", extent=(*ends, *ends), interpolation="nearest", aspect="equal")
    knots = details.answer["knot_stretches"]
    places = ", ".join(f"{knot['beta']:.2f}" for knot in knots)
    for number, knot in enumerate(knots):
        low, high = (int(np.searchsorted(betas, knot[end])) for end in ("low", "high"))
        ends_of_knot = max(low - 0.5, ends[0]), min(high + 0.5, ends[1])
        label = "_" if number else f"knot at β = {places}"
        ax.axvspan(*ends_of_knot, color=colours.orange, alpha=0.3, linewidth=0, label=label)
        ax.axhspan(*ends_of_knot, color=colours.orange, alpha=0.3, linewidth=0)
    ax.set(xlabel="to rung", ylabel="from rung", xlim=ends, ylim=ends)
    if knots:
        style.add_legend(ax, colours, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    return ax


def _in_cells(matrix: Float[np.ndarray, "rung rung"]) -> Float[np.ndarray, "cell cell"]:
    """Neighbouring rungs joined: the mean over rungs that are left, the sum over rungs that are reached."""
    size = -(-len(matrix) // _MOST_CELLS)
    if size == 1:
        return matrix
    starts = np.arange(0, len(matrix), size)
    num_each = np.diff(starts, append=len(matrix))
    return np.add.reduceat(np.add.reduceat(matrix, starts, axis=0), starts, axis=1) / num_each[:, None]
