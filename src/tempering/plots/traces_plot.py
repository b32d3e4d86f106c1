"""Where some chains were on the ladder."""

from typing import TYPE_CHECKING

import numpy as np

from tempering._errors import InputError
from tempering.plots import style
from tempering.results import Details, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def traces(
    result: Result | Details, *, num_chains: int = 3, ax: "Axes | None" = None, theme: str | None = None
) -> "Axes":
    """Draw β of some chains against sweeps, one above the other.

    A chain that goes to and fro between 0 and 1 forgets where it began.

    Args:
        result: What `tp.estimate(..., keep_draws=True)` returned; other runs keep no traces.
        num_chains: How many chains, at most 6.
        ax: Where to draw; by default a new figure.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes.
    """
    arrays = Details.of(result).arrays
    if "beta_traces" not in arrays:
        raise InputError("This run kept no traces; ask for them with estimate(..., keep_draws=True).")
    ax, colours = style.begin(ax, theme)
    betas, stride = arrays["beta_traces"][:num_chains], int(arrays["trace_stride"])
    sweeps = stride * np.arange(betas.shape[1])
    room = 1.35
    for number, trace in enumerate(betas):
        bottom = room * (len(betas) - 1 - number)
        colour = (colours.blue, colours.orange, colours.green)[number % 3]
        ax.plot(sweeps, bottom + trace, color=colour, linewidth=0.8)
        ax.axhline(bottom, color=colours.faint, linewidth=0.5, alpha=0.5)
    bottoms = room * np.arange(len(betas))[::-1]
    ax.set_yticks([*bottoms, *(bottoms + 1)], ["0"] * len(betas) + ["1"] * len(betas))
    ax.set(xlabel="sweeps", ylabel=f"β of {len(betas)} chains", xlim=(0, max(sweeps[-1], 1)))
    return ax
