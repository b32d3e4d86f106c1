"""The estimate and its error as a run goes on."""

from typing import TYPE_CHECKING

import numpy as np

from tempering.plots import style
from tempering.results import Details, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def convergence(
    result: Result | Details, *, error: bool = False, ax: "Axes | None" = None, theme: str | None = None
) -> "Axes":
    """Draw log Z against sweeps with its 95 % band, or its standard error against sweeps.

    The curve is RTS from the first sweeps of every chain. The answer itself, which may join several readings and
    leave out the beginning, stands at the end.

    Args:
        result: What `tp.estimate` returned.
        error: Whether to draw the standard error instead, with the slope of 1/√sweeps to compare with.
        ax: Where to draw; by default a new figure.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes.
    """
    ax, colours = style.begin(ax, theme)
    details = Details.of(result)
    if error:
        _draw_error(ax, colours, details)
    else:
        _draw_estimate(ax, colours, details)
    style.say_if_unknown(ax, colours, details.by_sweeps["std_error" if error else "log_z"])
    ax.set_xlabel("sweeps per chain")
    return ax


def _draw_estimate(ax: "Axes", colours: style.Theme, details: Details) -> None:
    found, answer = details.by_sweeps, details.answer
    ax.fill_between(found["sweeps"], found["low"], found["high"], color=colours.blue, alpha=0.2, linewidth=0)
    dots = {"linewidth": 1.4, "markersize": 3}
    ax.plot(found["sweeps"], found["log_z"], "o-", color=colours.blue, label="so far, 95 %", **dots)
    low, high = (np.nan if end is None else end for end in answer["interval"])
    value = np.nan if answer["log_z"] is None else answer["log_z"]
    ax.errorbar(
        [1.03 * found["sweeps"][-1]], [value], [[value - low], [high - value]], fmt="s", color=colours.ink,
        markersize=4, capsize=3, linewidth=1.2, label="the answer",
    )  # fmt: skip
    if answer["exact_log_z"] is not None:
        ax.axhline(answer["exact_log_z"], color=colours.orange, linewidth=1.2, linestyle="--", label="exact")
    ax.set_ylabel("log Z")
    ax.set_xlim(0, None)
    _set_height(ax, found, (low, high, answer["exact_log_z"]))
    style.add_legend(ax, colours, loc="best")


def _set_height(ax: "Axes", found: dict[str, np.ndarray], others: tuple[float | None, ...]) -> None:
    """Fit the axis to all but the first bands, which may be wide without limit."""
    later = slice(len(found["low"]) // 8, None)
    shown = np.array([*found["low"][later], *found["high"][later], *(x for x in others if x is not None)], np.float64)
    shown = shown[np.isfinite(shown)]
    if len(shown):
        margin = 0.08 * max(float(np.ptp(shown)), 1e-6)
        ax.set_ylim(shown.min() - margin, shown.max() + margin)


def _draw_error(ax: "Axes", colours: style.Theme, details: Details) -> None:
    found, answer = details.by_sweeps, details.answer
    is_known = np.isfinite(found["std_error"]) & (found["std_error"] > 0)
    sweeps, errors = found["sweeps"][is_known], found["std_error"][is_known]
    if len(sweeps):
        guide = errors[-1] * np.sqrt(sweeps[-1] / sweeps)
        ax.plot(sweeps, guide, color=colours.faint, linewidth=1.2, linestyle=":", label="1/√sweeps")
        ax.plot(sweeps, errors, "o-", color=colours.blue, linewidth=1.4, markersize=3, label="so far")
    if answer["std_error"] is not None:
        at = found["sweeps"][-1]
        ax.plot([at], [answer["std_error"]], "s", color=colours.ink, markersize=5, label="of the answer")
    if answer["target_error"] is not None:
        ax.axhline(answer["target_error"], color=colours.orange, linewidth=1.2, linestyle="--", label="asked for")
    ax.set(xscale="log", yscale="log", ylabel="standard error (nats)")
    style.plain_log_ticks(ax.xaxis, ax.yaxis)
    style.add_legend(ax, colours, loc="best")
