"""Several estimates of the same log Z side by side."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.plots import style
from tempering.results import Comparison, Details, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOUBTED = "not good by its own verdict"
_UNUSED = "of no weight in the answer"
_MOST_TICKS = 5  # such as 450.95, which are long
_WIDEST = 8.0  # half-widths of the typical interval that fit beside the middle; what lies further out is an arrow


@dataclasses.dataclass(frozen=True)
class _Estimate:
    """A row of the figure."""

    name: str
    value: float
    low: float
    high: float
    doubt: str = ""  # why its mark is hollow

    @property
    def is_good(self) -> bool:
        return not self.doubt


def comparison(
    result: Comparison | Result | Details | Mapping[str, Any], *, ax: "Axes | None" = None, theme: str | None = None
) -> "Axes":
    """Draw all methods of a comparison with their 95 % intervals, or all readings of one run, and the truth if known.

    Hollow marks are estimates whose own verdict is not good, and readings that have no weight in the answer. Estimates
    far outside are arrows at the edge.

    Args:
        result: What `tp.compare` or `tp.estimate` returned, or the `to_dict()` of a comparison.
        ax: Where to draw; by default a new figure.
        theme: "light" or "dark"; by default as the ground of `ax` asks.

    Returns:
        The axes.
    """
    style.check_can_plot()
    from matplotlib.ticker import MaxNLocator

    rows, truth = _rows_of(result)
    ax, colours = style.begin(ax, theme, (5.0, 1.2 + 0.24 * len(rows)))
    limits = _limits(rows, truth)
    if truth is not None:
        ax.axvline(truth, color=colours.orange, linewidth=1.4, linestyle="--", label="exact")
    for place, row in enumerate(rows):
        _draw_row(ax, colours, row, len(rows) - 1 - place, limits)
    ax.set_yticks(range(len(rows)), [row.name for row in reversed(rows)])
    ax.set(xlabel="log Z, with 95 % intervals", xlim=limits, ylim=(-0.7, len(rows) - 0.3))
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS))
    doubts = dict.fromkeys(row.doubt for row in rows if row.doubt and np.isfinite(row.value))
    if doubts:
        ax.plot(
            [], [], "o", color=colours.faint, fillstyle="none", label=",\nor ".join(doubts)
        )  # too long for one line
    if ax.get_legend_handles_labels()[0]:
        style.add_legend(ax, colours, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0, ncols=2)
    return ax


def _rows_of(result: Comparison | Result | Details | Mapping[str, Any]) -> tuple[list[_Estimate], float | None]:
    if isinstance(result, Result | Details):
        answer = Details.of(result).answer
        return _readings(answer), answer["exact_log_z"]
    found = result.to_dict() if isinstance(result, Comparison) else result
    rows = [_judged(each["method"], each) for each in found["methods"]]
    return rows, found["truth"]


def _readings(answer: Mapping[str, Any]) -> list[_Estimate]:
    """The answer, the readings that it was made of, and the pass of the warm-up."""
    rows = [_judged(f"{answer['method']}, the answer", answer)]
    rows += [_estimate(each["name"], each, "" if each["weight"] > 0 else _UNUSED) for each in answer["readings"]]
    if answer["annealed_log_z"] is not None:
        value, reach = answer["annealed_log_z"], 1.96 * _number(answer["annealed_std_error"])
        rows.append(_Estimate("warm-up", value, value - reach, value + reach))
    return rows


def _judged(name: str, found: Mapping[str, Any]) -> _Estimate:
    return _estimate(name, found, "" if found["verdict"] == "good" else _DOUBTED)


def _estimate(name: str, found: Mapping[str, Any], doubt: str) -> _Estimate:
    low, high = found["interval"]
    return _Estimate(name, _number(found["log_z"]), _number(low), _number(high), doubt)


def _limits(rows: list[_Estimate], truth: float | None) -> tuple[float, float]:
    """Wide enough for the intervals of all estimates near the good ones, or near all where none is good."""
    known = [row for row in rows if np.isfinite([row.value, row.low, row.high]).all()]
    trusted = [row for row in known if row.is_good] or known
    if not trusted:
        middle = 0.0 if truth is None else truth
        return middle - 1, middle + 1
    middle = float(np.median([row.value for row in trusted])) if truth is None else truth
    reach = _WIDEST * float(np.median([(row.high - row.low) / 2 for row in trusted])) + 1e-9
    near = [row for row in known if abs(row.value - middle) < reach] or trusted
    ends = [middle, *(end for row in near for end in (row.low, row.high))]
    low, high = max(min(ends), middle - reach), min(max(ends), middle + reach)
    margin = 0.06 * (high - low) + 1e-9
    return low - margin, high + margin


def _draw_row(ax: "Axes", colours: style.Theme, row: _Estimate, place: int, limits: tuple[float, float]) -> None:
    low, high = limits
    if not np.isfinite(row.value):
        ax.text(sum(limits) / 2, place, "unknown", color=colours.faint, ha="center", va="center", fontsize=9)
        return
    if not low <= row.value <= high:  # an arrow at the edge, with the number
        is_left = row.value < low
        edge, side = (low, "left") if is_left else (high, "right")
        text = f"◂ {row.value:.4g}" if is_left else f"{row.value:.4g} ▸"
        ax.text(edge, place, text, color=colours.red, ha=side, va="center", fontsize=9)
        return
    colour = colours.blue if row.is_good else colours.faint
    reach = np.nan_to_num([[row.value - row.low], [row.high - row.value]], nan=0.0, posinf=2 * (high - low))
    ax.errorbar(
        [row.value], [place], xerr=np.maximum(reach, 0.0), fmt="o", color=colour, markersize=5, capsize=3,
        linewidth=1.4, fillstyle="full" if row.is_good else "none",
    )  # fmt: skip


def _number(value: float | None) -> float:
    return np.nan if value is None else value
