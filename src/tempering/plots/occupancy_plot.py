"""How much of the run each rung got."""

from typing import TYPE_CHECKING

import numpy as np

from tempering.plots import style
from tempering.results import Details, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def occupancy(result: Result | Details, *, ax: "Axes | None" = None, theme: str | None = None) -> "Axes":
    """Draw ĉ_k, the share of the run at each rung, against r_k, the share that it was meant to have.

    Where the two agree the guess Ẑ_k was right. Rungs without any share are marked at the bottom.

    Args:
        result: What `tp.estimate` returned.
        ax: Where to draw; by default a new figure.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes: rungs along, shares up, on a scale of logarithms.
    """
    ax, colours = style.begin(ax, theme)
    found = Details.of(result).by_rung
    rungs, share, prior = np.arange(len(found["prior"])), found["share"], found["prior"]
    is_seen = share > 0
    ax.step(rungs, prior, where="mid", color=colours.faint, linewidth=1.4, label="meant to be: r")
    ax.plot(rungs[is_seen], share[is_seen], "o", color=colours.blue, markersize=3, label="found: ĉ")
    ax.set_yscale("log")
    lowest = min(prior.min(), share[is_seen].min(initial=prior.min())) / 1.5
    highest = 1.6 * max(prior.max(), share.max(initial=0.0))
    if not is_seen.all():
        at_bottom = np.full(int(np.sum(~is_seen)), lowest * 1.1)
        ax.plot(rungs[~is_seen], at_bottom, "x", color=colours.red, markersize=5, label="never visited")
    ax.set_ylim(max(lowest, 1e-8 * highest), highest)
    style.plain_log_ticks(ax.yaxis)
    ax.set(xlabel="rung, from the base to the target", ylabel="share of the run")
    style.add_legend(ax, colours, loc="upper center", ncols=3, columnspacing=1.0, handletextpad=0.4)
    return ax
