"""Figure 7: RTS, AIS and RAISE from a uniform base on an RBM of 784 × 500 units, and the knot that it has."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tempering.api import estimate
from tempering.models import RBM, MomentAveragedRBM
from tempering.paper.making import Made, Row, Setting, draw_rmse, rmse
from tempering.paper.published import FIGURE7, FIGURE7_KNOT
from tempering.paper.runs import REFERENCE_500, ais_errors, raise_errors, rts_errors
from tempering.plots import style, transitions
from tempering.results import Result
from tempering.warmups import AnnealedStart

BOTH_WAYS = AnnealedStart(10_000, (100, 250), returns=True)
QUICK_BOTH_WAYS = dataclasses.replace(BOTH_WAYS, anneal_steps=2000)
AS_IN_THE_PAPER = {"num_rungs": 100, "betas": "uniform", "rung_weights": "uniform"}


def make(setting: Setting) -> Made:
    """The geometric path from bits that are all 50:50, 100 chains; a path of averaged moments beside it."""
    rbm, data, rows = setting.salakhutdinov_rbm(), setting.mnist_rows(), []
    seeds, both_ways = range(setting.either(20, 2)), setting.either(BOTH_WAYS, QUICK_BOTH_WAYS)
    averaged = None if setting.is_quick else MomentAveragedRBM.fitted(rbm, "uniform", num_knots=9)
    for num_sweeps in setting.either((2000, 5000, 10_000, 100_000), (2000,)):
        for method, way in _ways(rbm, averaged, data, num_sweeps, seeds, both_ways).items():
            name = f"uniform base, {num_sweeps} sweeps, {len(seeds)} runs of {method}"
            errors = setting.piece(name, lambda way=way: {"errors": way()})["errors"]
            known = FIGURE7.get(method.partition(",")[0], {}).get(num_sweeps) if "moments" not in method else None
            rows.append(Row("uniform base", method, num_sweeps, "RMSE", rmse(errors), known, len(seeds)))
            rows.append(Row("uniform base", method, num_sweeps, "mean error", float(np.mean(errors)), None, len(seeds)))
    setting.say("one run whose transitions are shown")
    linear = estimate(
        rbm, "uniform", num_sweeps=setting.either(10_000, 2000), warmup=both_ways, progress=False, **AS_IN_THE_PAPER
    )
    rows.append(Row("transition matrix", "knot", 1.0, "β", _knot(linear), FIGURE7_KNOT))
    return Made(
        "Figure 7: uniform base, RBM 784×500", tuple(rows), _notes(both_ways),
        lambda axes, theme: _draw(axes, theme, rows, linear), panels=2,
    )  # fmt: skip


def _ways(
    rbm: RBM,
    averaged: MomentAveragedRBM | None,
    data: np.ndarray,
    num_sweeps: int,
    seeds: range,
    both_ways: AnnealedStart,
) -> dict[str, Callable[[], list[float]]]:
    """The errors of each method."""
    judged = (rbm, "uniform", REFERENCE_500, num_sweeps, seeds)
    ways = {
        "RTS": lambda: rts_errors(*judged),
        "RTS, annealed both ways": lambda: rts_errors(*judged, warmup=both_ways, **AS_IN_THE_PAPER),
        "AIS": lambda: ais_errors(*judged),
        "RAISE": lambda: raise_errors(*judged, data),
    }
    if averaged is not None and num_sweeps <= 10_000:
        ways["RTS, averaged moments"] = lambda: rts_errors(averaged, None, REFERENCE_500, num_sweeps, seeds)
    return ways


def _notes(both_ways: AnnealedStart) -> tuple[str, ...]:
    return (
        "RTS is our default. The particles of its sequential Monte Carlo start enter the digits too late, at a β that "
        "depends on their speed, so that Ẑ is too low beyond the knot. Chains pass the knot so rarely that the answer "
        "is as good as the Ẑ with which a run begins.",
        "A pass back down leaves the digits too late as well, and is too high. RTS, annealed both ways, begins with a "
        f"Ẑ from both passes, of {both_ways.anneal_steps:,} steps each; its rungs are 100 linear ones with equal "
        "weights, as in the paper. The paper says that its initial iterations take significantly longer here, and not "
        "how long; they are not in its count of sweeps, nor are our warm-ups in ours.",
        "A path of averaged moments has no knot; it is in the full form.",
    )


def _knot(result: Result) -> float:
    """The β at which chains are held up; NaN where none is found."""
    rungs = result.diagnosis.rung_chain
    return float(rungs.knots[0].beta) if rungs is not None and rungs.knots else float("nan")


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row], linear: Result) -> None:
    mine = [row for row in rows if row.quantity == "RMSE"]
    draw_rmse(axes[0], theme, mine, FIGURE7, "uniform base", "Gibbs sweeps")
    transitions(linear, ax=axes[1], theme="light")
