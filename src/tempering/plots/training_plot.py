"""The likelihood during training."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.plots import style
from tempering.training import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 1000  # of a curve: more would only make the file larger

Rows = Sequence[Mapping[str, Any]]  # `Outcome.rows`, or the lines of metrics.jsonl


def training(
    outcome: Outcome | Rows,
    *,
    best_update: int | None = None,
    ax: "Axes | None" = None,
    theme: str | None = None,
) -> "Axes":
    """Draw the mean log-likelihoods of a training run by update, with their 95 % bands.

    Checks by AIS are points with two standard errors. A dashed line marks the best update. Updates at which log Z was
    unknown are shaded.

    ```python
    tp.plots.training(run.outcome())
    ```

    Args:
        outcome: What `TrainingRun.outcome` returned, its `rows`, or the lines of metrics.jsonl as dictionaries.
        best_update: The update to mark; by default that of the outcome, and none for rows.
        ax: Where to draw; by default a new figure.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes.
    """
    ax, colours = style.begin(ax, theme)
    rows = outcome.rows if isinstance(outcome, Outcome) else outcome
    if best_update is None and isinstance(outcome, Outcome):
        best_update = outcome.best_update
    _shade_lost(ax, colours, rows)
    curves = (("train", colours.blue), ("valid", colours.orange))
    shown = [_draw_curve(ax, rows, name, colour) for name, colour in curves]
    if best_update is not None:
        label = f"best: update {best_update}"
        ax.axvline(best_update, color=colours.ink, linestyle="--", linewidth=1, alpha=0.7, label=label)
    _set_height(ax, np.concatenate(shown))
    ax.set(xlabel="update", ylabel="mean log-likelihood (nats)")
    if ax.get_legend_handles_labels()[0]:
        style.add_legend(ax, colours, loc="best")
    return ax


def _draw_curve(ax: "Axes", rows: Rows, name: str, colour: str) -> np.ndarray:
    """Draw a curve with its band and its checks; return the values that the axis must show."""
    known = [row for row in rows if name in row]
    shown = known[:: max(1, -(-len(known) // _MOST_POINTS))]
    if not shown:
        return np.empty(0)
    updates, values, low, high = (_column(shown, key) for key in ("update", name, f"{name}_low", f"{name}_high"))
    ax.plot(updates, values, color=colour, linewidth=1.2, label=name)
    ax.fill_between(updates, low, high, color=colour, alpha=0.25, linewidth=0)
    checked = [row for row in known if "ais_log_z" in row]
    if not checked:
        return values
    by_ais = _column(checked, name) + _column(checked, "log_z") - _column(checked, "ais_log_z")
    ax.errorbar(
        _column(checked, "update"), by_ais, 2 * _column(checked, "ais_std_error"), fmt="o", color=colour,
        markersize=4, capsize=3, fillstyle="none", linewidth=1, label=f"{name}, by AIS",
    )  # fmt: skip
    return np.concatenate([values, by_ais])


def _shade_lost(ax: "Axes", colours: style.Theme, rows: Rows) -> None:
    """Shade the updates at which log Z was unknown."""
    lost = [row["verdict"] != "good" for row in rows]
    for start, stop in np.flatnonzero(np.diff([False, *lost, False])).reshape(-1, 2):
        ends = rows[start]["update"] - 0.5, rows[stop - 1]["update"] + 0.5
        label = "_" if ax.patches else "log Z unknown"
        ax.axvspan(*ends, color=colours.red, alpha=0.15, linewidth=0, label=label)


def _set_height(ax: "Axes", values: np.ndarray) -> None:
    """Fit the axis to the curves and the checks, not to the bands, which may be wide without limit."""
    values = values[np.isfinite(values)]
    if len(values):
        margin = 0.06 * max(float(np.ptp(values)), 0.1)
        ax.set_ylim(values.min() - margin, values.max() + margin)


def _column(rows: Rows, key: str) -> np.ndarray:
    """A column as an array; None becomes NaN, which is not drawn."""
    return np.array([row[key] for row in rows], np.float64)
