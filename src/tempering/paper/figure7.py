"""Figure 7: RTS, AIS and RAISE from a uniform base on an RBM of 784 × 500 units, and the knot that it has."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tempering.api import estimate
from tempering.models import RBM, MomentAveragedRBM
from tempering.paper.making import Errors, Made, Row, Setting, draw_means, draw_rmse, rmse
from tempering.paper.published import FIGURE7, FIGURE7_KNOT
from tempering.paper.runs import REFERENCE_500, ais_errors, raise_errors, rts_errors
from tempering.plots import style, transitions
from tempering.results import Details
from tempering.warmups import HysteresisStart

AT_THE_KNOT = {"num_rungs": 100, "betas": "adaptive", "rung_weights": "uniform"}
AS_IN_THE_PAPER = {"num_rungs": 100, "betas": "uniform", "rung_weights": "uniform"}
LENGTHS = (2000, 5000, 10_000, 100_000)
MOMENTS = "RTS, averaged moments"
_LONGEST_FIRST_PASS = 1000
_KNOT = ("beta", "low", "high")  # of a knot that is shown


def make(setting: Setting) -> Made:
    """The geometric path from bits that are all 50:50, 100 chains; a path of averaged moments beside it."""
    rbm, data, rows = setting.salakhutdinov_rbm(), setting.mnist_rows(), []
    seeds = range(setting.either(20, 4))
    averaged = None if setting.is_quick else setting.piece(MOMENTS, lambda: _averaged_moments(rbm, seeds))
    for num_sweeps in setting.either(LENGTHS, LENGTHS[:1]):
        errors = {}
        for method, way in _ways(rbm, data, num_sweeps, seeds).items():
            name = f"uniform base, {num_sweeps} sweeps, {len(seeds)} runs of {method}"
            errors[method] = setting.piece(name, lambda way=way: {"errors": way()})["errors"]
        if averaged is not None and num_sweeps != LENGTHS[-1]:
            errors[MOMENTS] = averaged[str(num_sweeps)]
        for method, found in errors.items():
            known = None if method == MOMENTS else FIGURE7[method.partition(",")[0]][num_sweeps]
            rows.append(Row("uniform base", method, num_sweeps, "RMSE", rmse(found), known, len(seeds)))
            rows.append(Row("uniform base", method, num_sweeps, "mean error", float(np.mean(found)), None, len(seeds)))
    shown = setting.piece("one run whose transitions are shown", lambda: _transitions(rbm, setting))
    rows.append(Row("transition matrix", "knot", 1.0, "β", (shown["knot beta"] or [np.nan])[0], FIGURE7_KNOT))
    return Made(
        "Figure 7: uniform base, RBM 784×500", tuple(rows), NOTES,
        lambda axes, theme: _draw(axes, theme, rows, _details(shown)), panels=3,
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


def _ways(rbm: RBM, data: np.ndarray, num_sweeps: int, seeds: range) -> dict[str, Callable[[], list[float]]]:
    """The errors of each method along the geometric path."""
    judged = (rbm, "uniform", REFERENCE_500, num_sweeps, seeds)
    start, length = halves_of(num_sweeps)
    return {
        "RTS": lambda: rts_errors(*judged[:3], length, seeds, warmup=start, **AT_THE_KNOT),
        "RTS, default start": lambda: rts_errors(*judged),
        "AIS": lambda: ais_errors(*judged),
        "RAISE": lambda: raise_errors(*judged, data),
    }


def _averaged_moments(rbm: RBM, seeds: range) -> Errors:
    """The errors along a path of averaged moments by number of sweeps; its knots are trained once."""
    averaged = MomentAveragedRBM.fitted(rbm, "uniform", num_knots=9)
    return {str(length): rts_errors(averaged, None, REFERENCE_500, length, seeds) for length in LENGTHS[:-1]}


NOTES = (
    "RTS begins with rounds of annealing up and down, each slower where the one before lost work, and has half of its "
    "rungs there: `warmup=HysteresisStart(...)`. Its sweeps are all that a chain makes, the warm-up included. The "
    "paper says that its initial iterations take significantly longer here, and not how long; it does not count them.",
    "RTS, default start: the particles of sequential Monte Carlo enter the digits too late, at a β that depends on "
    "their speed, so that Ẑ is too low beyond the knot. Chains pass the knot so rarely that the answer is as good as "
    "the Ẑ with which a run begins. Its verdict is KNOT. Its warm-up comes on top of its sweeps.",
    "A path of averaged moments has no knot; it is in the full form.",
)


def _transitions(rbm: RBM, setting: Setting) -> Errors:
    """The transition matrix of one run on linear rungs, and the knots in it."""
    start, length = halves_of(setting.either(10_000, 2000))
    run = estimate(rbm, "uniform", num_sweeps=length, warmup=start, progress=False, **AS_IN_THE_PAPER)
    details = Details.of(run)
    knots = {f"knot {end}": [knot[end] for knot in details.answer["knot_stretches"]] for end in _KNOT}
    return {"matrix": details.arrays["transition_matrix"].ravel().tolist(), "betas": run.betas.tolist(), **knots}


def _details(shown: Errors) -> Details:
    """What the picture of the transitions is drawn from."""
    ends = zip(*(shown[f"knot {end}"] for end in _KNOT), strict=True)
    knots = [dict(zip(_KNOT, knot, strict=True)) for knot in ends]
    matrix = np.reshape(shown["matrix"], (len(shown["betas"]),) * 2)
    answer = {"by_rung": {"beta": shown["betas"]}, "knot_stretches": knots}
    return Details(answer, {"transition_matrix": matrix}, dict)


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row], linear: Details) -> None:
    means, mine = ([row for row in rows if row.quantity == name] for name in ("mean error", "RMSE"))
    draw_means(axes[0], theme, means, REFERENCE_500, "means", "Gibbs sweeps")
    draw_rmse(axes[1], theme, mine, FIGURE7, "uniform base", "Gibbs sweeps")
    transitions(linear, ax=axes[2], theme="light")
