"""Figure 7: RTS, AIS and RAISE from a uniform base on an RBM of 784 × 500 units, and the knot that it has."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tempering.api import estimate
from tempering.models import MomentAveragedRBM
from tempering.paper.making import Made, Row, Setting, draw_rmse, rmse
from tempering.paper.published import FIGURE7, FIGURE7_KNOT
from tempering.paper.runs import REFERENCE_500, compared_errors, rts_errors
from tempering.plots import style, transitions
from tempering.results import Result
from tempering.warmups import AnnealedStart

LONG, LONG_WARMUP = "RTS, a long warm-up", AnnealedStart(10_000, (5000,) * 8)


def make(setting: Setting) -> Made:
    """The geometric path from bits that are all 50:50, 100 chains; a path of averaged moments beside it."""
    rbm, data, rows = setting.salakhutdinov_rbm(), setting.mnist_rows(), []
    averaged = None if setting.is_quick else MomentAveragedRBM.fitted(rbm, "uniform", num_knots=9)
    for num_sweeps in setting.either((2000, 5000, 10_000, 100_000), (2000,)):
        seeds = range(setting.either(20, 2))
        setting.say(f"{num_sweeps} sweeps, {len(seeds)} runs of each method")
        errors = {"RTS": rts_errors(rbm, "uniform", REFERENCE_500, num_sweeps, seeds)}
        found = compared_errors(rbm, "uniform", REFERENCE_500, seeds, "ais,raise", budget=num_sweeps, data=data)
        errors |= {"AIS": found["ais"], "RAISE": found["raise"]}
        if averaged is not None:
            errors[LONG] = rts_errors(rbm, "uniform", REFERENCE_500, num_sweeps, seeds, warmup=LONG_WARMUP)
            errors["RTS, averaged moments"] = rts_errors(averaged, None, REFERENCE_500, num_sweeps, seeds)
        for name in errors:
            known = FIGURE7.get("RTS" if name == LONG else name, {}).get(num_sweeps)
            rows.append(Row("uniform base", name, num_sweeps, "RMSE", rmse(errors[name]), known, len(seeds)))
            rows.append(
                Row("uniform base", name, num_sweeps, "mean error", float(np.mean(errors[name])), None, len(seeds))
            )
    setting.say("one run whose transitions are shown")
    linear = estimate(
        rbm, "uniform", num_sweeps=setting.either(10_000, 2000), num_rungs=100, betas="uniform", rung_weights="uniform",
        progress=False,
    )  # fmt: skip
    knot = _knot(linear)
    rows.append(Row("transition matrix", "knot", 1.0, "β", knot, FIGURE7_KNOT))
    notes = (
        "RTS on the geometric path is our default: rungs that the sequential Monte Carlo start spaces. The transition "
        "matrix is of 100 linear rungs with equal weights, as in the paper, where the knot can be seen.",
        "Chains pass the knot so rarely that the answer is as good as the Ẑ with which a run begins. The paper says "
        "that its initial iterations take significantly longer here, and not how long; they are not in its count of "
        "sweeps, nor is our warm-up in ours. The full form has a long one of 50,000 sweeps as a row, and a path of "
        "averaged moments, which has no knot.",
    )
    return Made(
        "Figure 7: uniform base, RBM 784×500", tuple(rows), notes,
        lambda axes, theme: _draw(axes, theme, rows, linear), panels=2,
    )  # fmt: skip


def _knot(result: Result) -> float:
    """The β at which chains are held up; NaN where none is found."""
    rungs = result.diagnosis.rung_chain
    return float(rungs.knots[0].beta) if rungs is not None and rungs.knots else float("nan")


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row], linear: Result) -> None:
    mine = [row for row in rows if row.quantity == "RMSE"]
    draw_rmse(axes[0], theme, mine, FIGURE7, "dotted: published", "Gibbs sweeps")
    transitions(linear, ax=axes[1], theme="light")
