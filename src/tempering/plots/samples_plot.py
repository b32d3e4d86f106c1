"""Draws of the target: images where they are images, marginals and pairs where they are parameters."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering.plots import style
from tempering.results import Details, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PARAMETERS = 4  # in a table of pairs
_MOST_POINTS = 250  # of a pair
_NUM_IMAGES = 40
_GAP = 0.12  # between the panels of pairs

Draws = Mapping[str, np.ndarray]  # by name, each with a leading axis of draws


def samples(
    result: Result | Details | Draws,
    *,
    shape: tuple[int, int] | None = None,
    names: list[str] | None = None,
    ax: "Axes | None" = None,
    theme: str | None = None,
) -> "Axes":
    """Draw draws of the target: as images if they are images, else their marginals and pairs.

    Draws are images where `shape` is given, or where a state is a single array of bits or spins whose number is a
    square. Otherwise each parameter gets a histogram, and each pair of them a cloud of points.

    ```python
    tp.plots.samples(tp.estimate(rbm, keep_draws=True), shape=(28, 28))
    ```

    Args:
        result: What `tp.estimate(..., keep_draws=True)` returned, or draws by name.
        shape: Height and width of an image.
        names: The parameters to show, at most four, such as "mu" or "theta[2]"; by default the first ones.
        ax: Where to draw; by default a new figure. Marginals and pairs are panels inside it.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes.
    """
    draws = Details.of(result).find_draws() if isinstance(result, Result | Details) else result
    if not draws:
        raise InputError("This run kept no draws; ask for them with estimate(..., keep_draws=True).")
    images = None if names is not None else as_images(draws, shape)
    given = ax
    ax, colours = style.begin(ax, theme, fitting_size(images))
    if images is not None:
        _draw_images(ax, colours, images)
    else:
        _draw_pairs(ax, colours, _columns(draws, names), is_dressed=given is None or theme is not None)
    return ax


def as_images(draws: Draws, shape: tuple[int, int] | None) -> Float[np.ndarray, "draw height width"] | None:
    """Draws as images with values from 0 to 1; None where they are not images.

    Args:
        draws: By name, each with a leading axis.
        shape: Height and width; None to find out.
    """
    name, values = max(draws.items(), key=lambda item: item[1].size)
    flat = np.asarray(values, np.float64).reshape(len(values), -1)
    if shape is None:
        side = round(flat.shape[1] ** 0.5)
        if len(draws) > 1 or side < 3 or side * side != flat.shape[1] or len(np.unique(flat[:200])) > 2:
            return None
        shape = (side, side)
    if shape[0] * shape[1] != flat.shape[1]:
        raise InputError(f"`shape` has {shape[0]} × {shape[1]} pixels, but {name} has {flat.shape[1]} numbers.")
    low, high = flat.min(), flat.max()
    return ((flat - low) / (high - low if high > low else 1.0)).reshape(-1, *shape)


def tiled(
    images: Float[np.ndarray, "draw height width"], num_columns: int, *, edge: float = 0.0
) -> Float[np.ndarray, "y x"]:
    """Images side by side in rows, a pixel apart.

    Args:
        images: The images.
        num_columns: How many stand in a row.
        edge: The value between them.

    Returns:
        One image.
    """
    num_rows = -(-len(images) // num_columns)
    _, height, width = images.shape
    grid = np.full((num_rows * (height + 1) - 1, num_columns * (width + 1) - 1), edge)
    for number, image in enumerate(images):
        top, left = number // num_columns * (height + 1), number % num_columns * (width + 1)
        grid[top : top + height, left : left + width] = image
    return grid


def fitting_size(images: Float[np.ndarray, "draw height width"] | None) -> tuple[float, float]:
    """The size of a figure of draws in inches.

    Args:
        images: What `as_images` returned.
    """
    if images is None:
        return 5.0, 4.6
    num_columns = _num_columns(images)
    num_rows = -(-min(len(images), _NUM_IMAGES) // num_columns)
    return 5.0, max(0.6, 5.0 * num_rows * images.shape[1] / (num_columns * images.shape[2]))


def _num_columns(images: Float[np.ndarray, "draw height width"]) -> int:
    """As many as make the whole about half as high again as wide, or fewer where there are few images."""
    num_shown = min(len(images), _NUM_IMAGES)
    return max(1, min(num_shown, round((1.6 * num_shown * images.shape[1] / images.shape[2]) ** 0.5)))


def _draw_images(ax: "Axes", colours: style.Theme, images: Float[np.ndarray, "draw height width"]) -> None:
    from matplotlib.colors import to_rgb

    shown = images[np.linspace(0, len(images) - 1, min(len(images), _NUM_IMAGES)).round().astype(int)]
    num_columns = _num_columns(images)
    is_tile = tiled(np.ones_like(shown), num_columns)
    grid = np.empty((*is_tile.shape, 4))
    grid[..., :3] = to_rgb(colours.tone)
    grid[..., 3] = np.where(is_tile > 0, 0.06 + 0.94 * tiled(shown, num_columns), 0.0)
    ax.imshow(grid, interpolation="nearest", aspect="equal")
    ax.set_axis_off()


def _columns(draws: Draws, names: list[str] | None) -> dict[str, np.ndarray]:
    """Single numbers by name: "mu" for a number, "theta[2]" and "w[0,1]" for those in arrays."""
    found: dict[str, np.ndarray] = {}
    for name, values in draws.items():
        for place in np.ndindex(values.shape[1:]):
            if names is None and len(found) == _MOST_PARAMETERS:
                return found
            label = f"{name}[{','.join(map(str, place))}]" if place else name
            found[label] = np.asarray(values[(slice(None), *place)], np.float64)
    unknown = [name for name in names or () if name not in found]
    if unknown or (names is not None and not 0 < len(names) <= _MOST_PARAMETERS):
        some = ", ".join(list(found)[:8])
        raise InputError(f"`names` must be up to {_MOST_PARAMETERS} of {some}{' …' if len(found) > 8 else ''}.")
    return found if names is None else {name: found[name] for name in names}


def _draw_pairs(ax: "Axes", colours: style.Theme, columns: dict[str, np.ndarray], *, is_dressed: bool) -> None:
    """Histograms on the diagonal, clouds below it, each in a panel of its own inside the axes."""
    ax.set_axis_off()
    number, labels = len(columns), list(columns)
    side = 1 / (number + _GAP * (number - 1))
    for row in range(number):
        for column in range(row + 1):
            place = (column * (1 + _GAP) * side, (number - 1 - row) * (1 + _GAP) * side, side, side)
            panel = ax.inset_axes(place)
            panel.spines[["top", "right"]].set_visible(False)
            if is_dressed:
                style.dress(panel, colours)
            _draw_panel(panel, colours, columns[labels[column]], None if row == column else columns[labels[row]])
            panel.tick_params(labelsize=8, labelbottom=row == number - 1, labelleft=column == 0 and row > 0)
            panel.locator_params(nbins=3)
            if row == number - 1:
                panel.set_xlabel(labels[column], parse_math=False)
            if column == 0 and row > 0:
                panel.set_ylabel(labels[row], parse_math=False)


def _draw_panel(panel: Any, colours: style.Theme, x: np.ndarray, y: np.ndarray | None) -> None:
    ends = _ends(x)
    if y is None:
        panel.hist(x, bins=30, range=ends, color=colours.blue, alpha=0.75)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
    else:
        some = np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).round().astype(int)  # of all chains
        panel.plot(x[some], y[some], ".", color=colours.blue, markersize=2.5, alpha=0.5)
        panel.set_ylim(_ends(y))
    panel.set_xlim(ends)


def _ends(values: np.ndarray) -> tuple[float, float]:
    """The range of nearly all values, so that a few far out do not hide the rest."""
    low, high = np.quantile(values[np.isfinite(values)], [0.002, 0.998]) if np.isfinite(values).any() else (0.0, 0.0)
    margin = 0.05 * (high - low) or 0.5
    return float(low - margin), float(high + margin)
