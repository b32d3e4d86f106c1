"""log Z along the ladder."""

from typing import TYPE_CHECKING

import numpy as np

from tempering.plots import style
from tempering.results import Details, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def ladder(result: Result | Details, *, ax: "Axes | None" = None, theme: str | None = None) -> "Axes":
    """Draw log Ẑ_k along β with its 95 % band, and its standard error on an axis of its own at the right.

    ```python
    tp.plots.ladder(tp.estimate(model))
    ```

    Args:
        result: What `tp.estimate` returned.
        ax: Where to draw; by default a new figure.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes of log Ẑ_k.
    """
    given = ax
    ax, colours = style.begin(ax, theme)
    found, exact = Details.of(result).by_rung, Details.of(result).answer["exact_log_z"]
    ax.fill_between(found["beta"], found["low"], found["high"], color=colours.blue, alpha=0.25, linewidth=0)
    ax.plot(found["beta"], found["log_z"], color=colours.blue, linewidth=1.8, label="log Ẑ and its 95 % band")
    if exact is not None:
        ax.plot([found["beta"][-1]], [exact], "o", color=colours.ink, markersize=5, fillstyle="none", label="exact")
    errors = ax.twinx()
    errors.plot(found["beta"], found["std_error"], color=colours.orange, linewidth=1.2, linestyle=(0, (4, 2)))
    ax.plot([], [], color=colours.orange, linewidth=1.2, linestyle=(0, (4, 2)), label="standard error (right)")
    if given is None or theme is not None:
        style.dress(errors, colours)
    errors.spines[["top", "left", "bottom"]].set_visible(False)
    errors.spines["right"].set_visible(True)
    finite = found["std_error"][np.isfinite(found["std_error"])]
    errors.set_ylim(0, 1.6 * finite.max(initial=1e-3))
    errors.set_ylabel("standard error (nats)")
    style.say_if_unknown(ax, colours, found["log_z"])
    ax.set(xlabel="β, from the base (0) to the target (1)", ylabel="log Z(β)")
    style.add_legend(ax, colours, loc="best")
    return ax
