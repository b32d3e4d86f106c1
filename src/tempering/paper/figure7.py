"""Figure 7: RTS, AIS and RAISE from a uniform base on an RBM of 784 × 500 units, and the knot that it has."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tempering.api import estimate
from tempering.models import RBM, MomentAveragedRBM
from tempering.paper.making import Made, Row, Setting, colours_of, draw_rmse, rmse
from tempering.paper.published import FIGURE7, FIGURE7_KNOT
from tempering.paper.runs import REFERENCE_500, ais_errors, raise_errors, rts_errors
from tempering.plots import style, transitions
from tempering.results import Result
from tempering.warmups import HysteresisStart

AT_THE_KNOT = {"num_rungs": 100, "betas": "adaptive", "rung_weights": "uniform"}
AS_IN_THE_PAPER = {"num_rungs": 100, "betas": "uniform", "rung_weights": "uniform"}
_LONGEST_FIRST_PASS = 1000


def make(setting: Setting) -> Made:
    """The geometric path from bits that are all 50:50, 100 chains; a path of averaged moments beside it."""
    rbm, data, rows = setting.salakhutdinov_rbm(), setting.mnist_rows(), []
    seeds = range(setting.either(20, 4))
    averaged = None if setting.is_quick else MomentAveragedRBM.fitted(rbm, "uniform", num_knots=9)
    for num_sweeps in setting.either((2000, 5000, 10_000, 100_000), (2000,)):
        for method, way in _ways(rbm, averaged, data, num_sweeps, seeds).items():
            name = f"uniform base, {num_sweeps} sweeps, {len(seeds)} runs of {method}"
            errors = setting.piece(name, lambda way=way: {"errors": way()})["errors"]
            known = FIGURE7.get(method.partition(",")[0], {}).get(num_sweeps) if "moments" not in method else None
            rows.append(Row("uniform base", method, num_sweeps, "RMSE", rmse(errors), known, len(seeds)))
            rows.append(Row("uniform base", method, num_sweeps, "mean error", float(np.mean(errors)), None, len(seeds)))
    setting.say("one run whose transitions are shown")
    start, length = halves_of(setting.either(10_000, 2000))
    linear = estimate(rbm, "uniform", num_sweeps=length, warmup=start, progress=False, **AS_IN_THE_PAPER)
    rows.append(Row("transition matrix", "knot", 1.0, "β", _knot(linear), FIGURE7_KNOT))
    return Made(
        "Figure 7: uniform base, RBM 784×500", tuple(rows), NOTES,
        lambda axes, theme: _draw(axes, theme, rows, linear), panels=3,
    )  # fmt: skip


def halves_of(num_sweeps: int) -> tuple[HysteresisStart, int]:
    """A warm-up and a length of sampling that take so many sweeps together; the warm-up has at most three quarters.

    Args:
        num_sweeps: Of a chain, in all.

    Returns:
        The warm-up, and the sweeps of sampling.
    """
    start = HysteresisStart(min(num_sweeps // 20, _LONGEST_FIRST_PASS))
    return start, num_sweeps - start.num_warmup_steps


def _ways(
    rbm: RBM, averaged: MomentAveragedRBM | None, data: np.ndarray, num_sweeps: int, seeds: range
) -> dict[str, Callable[[], list[float]]]:
    """The errors of each method."""
    judged = (rbm, "uniform", REFERENCE_500, num_sweeps, seeds)
    start, length = halves_of(num_sweeps)
    ways = {
        "RTS": lambda: rts_errors(*judged[:3], length, seeds, warmup=start, **AT_THE_KNOT),
        "RTS, default start": lambda: rts_errors(*judged),
        "AIS": lambda: ais_errors(*judged),
        "RAISE": lambda: raise_errors(*judged, data),
    }
    if averaged is not None and num_sweeps <= 10_000:
        ways["RTS, averaged moments"] = lambda: rts_errors(averaged, None, REFERENCE_500, num_sweeps, seeds)
    return ways


NOTES = (
    "RTS begins with rounds of annealing up and down, each slower where the one before lost work, and has half of its "
    "rungs there: `warmup=HysteresisStart(...)`. Its sweeps are all that a chain makes, the warm-up included. The "
    "paper says that its initial iterations take significantly longer here, and not how long; it does not count them.",
    "RTS, default start: the particles of sequential Monte Carlo enter the digits too late, at a β that depends on "
    "their speed, so that Ẑ is too low beyond the knot. Chains pass the knot so rarely that the answer is as good as "
    "the Ẑ with which a run begins. Its verdict is KNOT. Its warm-up comes on top of its sweeps.",
    "A path of averaged moments has no knot; it is in the full form.",
)


def _knot(result: Result) -> float:
    """The β at which chains are held up; NaN where none is found."""
    rungs = result.diagnosis.rung_chain
    return float(rungs.knots[0].beta) if rungs is not None and rungs.knots else float("nan")


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row], linear: Result) -> None:
    means, mine = ([row for row in rows if row.quantity == name] for name in ("mean error", "RMSE"))
    for method, colour in colours_of([row.method for row in means], theme).items():
        places = [(row.at, REFERENCE_500 + row.ours) for row in means if row.method == method]
        axes[0].plot(*zip(*places, strict=True), "o-", ms=4, color=colour, label=method)
    axes[0].axhline(REFERENCE_500, color=theme.ink, lw=1, label="truth")
    axes[0].set(xscale="log", xlabel="Gibbs sweeps", ylabel="mean of log Ẑ", title="means")
    style.add_legend(axes[0], theme, fontsize=7)
    draw_rmse(axes[1], theme, mine, FIGURE7, "uniform base", "Gibbs sweeps")
    transitions(linear, ax=axes[2], theme="light")
