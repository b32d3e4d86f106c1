"""The likelihood during training, drawn by matplotlib."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tempering._errors import InputError

HOW_TO_INSTALL = "pip install 'tempering[plots]'"
_COLOURS = {"train": "#1f77b4", "valid": "#d95f02"}
_MOST_POINTS = 1000  # of a curve: more would only make the file larger

Rows = Sequence[Mapping[str, Any]]  # `Outcome.rows`, or the lines of metrics.jsonl


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_training(rows: Rows, best_update: int, path: str | Path) -> None:
    """Write `training_figure` to a file.

    Args:
        rows: `Outcome.rows`.
        best_update: `Outcome.best_update`.
        path: A file whose name ends in .svg, .png or another format of matplotlib's.
    """
    _check_can_plot()
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "tempering", "font.size": 10}):  # the same rows give the same file
        metadata = {"Date": None} if Path(path).suffix.lower() == ".svg" else {}
        training_figure(rows, best_update).savefig(path, dpi=150, metadata=metadata)


def training_figure(rows: Rows, best_update: int) -> Any:
    """The mean log-likelihoods of a training run by update, with their 95 % bands.

    Checks by AIS are points with two standard errors. A dashed line marks the best update. Updates at which log Z was
    unknown are shaded.

    ```python
    outcome = run.outcome()
    tp.plots.training_figure(outcome.rows, outcome.best_update).savefig("training.png")
    ```

    Args:
        rows: `Outcome.rows`, or the lines of metrics.jsonl as dictionaries.
        best_update: `Outcome.best_update`.

    Returns:
        A matplotlib `Figure`.
    """
    _check_can_plot()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes: Any = figure.subplots()
    _shade_lost(axes, rows)
    shown = [_draw_curve(axes, rows, name, colour) for name, colour in _COLOURS.items()]
    axes.axvline(best_update, color="0.3", linestyle="--", linewidth=1, label=f"best: update {best_update}")
    _set_height(axes, np.concatenate(shown))
    axes.set(xlabel="update", ylabel="mean log-likelihood (nats)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.legend(framealpha=0.85, edgecolor="none", loc="lower right")
    return figure


def _check_can_plot() -> None:
    if not can_plot():
        raise InputError(f"Figures need matplotlib: {HOW_TO_INSTALL}.")


def _draw_curve(axes: Any, rows: Rows, name: str, colour: str) -> np.ndarray:
    """Draw a curve with its band and its checks; return the values that the axis must show."""
    known = [row for row in rows if name in row]
    shown = known[:: max(1, -(-len(known) // _MOST_POINTS))]
    if not shown:
        return np.empty(0)
    updates, values, low, high = (_column(shown, key) for key in ("update", name, f"{name}_low", f"{name}_high"))
    axes.plot(updates, values, color=colour, linewidth=1.2, label=name)
    axes.fill_between(updates, low, high, color=colour, alpha=0.25, linewidth=0)
    checked = [row for row in known if "ais_log_z" in row]
    if not checked:
        return values
    by_ais = _column(checked, name) + _column(checked, "log_z") - _column(checked, "ais_log_z")
    axes.errorbar(
        _column(checked, "update"), by_ais, 2 * _column(checked, "ais_std_error"), fmt="o", color=colour,
        markersize=4, capsize=3, markerfacecolor="white", linewidth=1, label=f"{name}, by AIS",
    )  # fmt: skip
    return np.concatenate([values, by_ais])


def _shade_lost(axes: Any, rows: Rows) -> None:
    """Shade the updates at which log Z was unknown."""
    lost = [row["verdict"] != "good" for row in rows]
    for start, stop in np.flatnonzero(np.diff([False, *lost, False])).reshape(-1, 2):
        ends = rows[start]["update"] - 0.5, rows[stop - 1]["update"] + 0.5
        axes.axvspan(*ends, color="#f9dedb", linewidth=0, label="_" if axes.patches else "log Z unknown")


def _set_height(axes: Any, values: np.ndarray) -> None:
    """Fit the axis to the curves and the checks, not to the bands, which may be wide without limit."""
    values = values[np.isfinite(values)]
    if len(values):
        margin = 0.06 * max(float(np.ptp(values)), 0.1)
        axes.set_ylim(values.min() - margin, values.max() + margin)


def _column(rows: Rows, key: str) -> np.ndarray:
    """A column as an array; None becomes NaN, which is not drawn."""
    return np.array([row[key] for row in rows], np.float64)
