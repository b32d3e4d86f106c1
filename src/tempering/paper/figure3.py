"""Figure 3: RTS, AIS and RAISE against sweeps, on RBMs of 784 × 500 and 784 × 100 units."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tempering.api import estimate
from tempering.models import RBM
from tempering.paper.making import Errors, Made, Row, Setting, draw_means, draw_rmse, rmse
from tempering.paper.published import FIGURE3, FIGURE3_LOG_Z
from tempering.paper.runs import PAPERS_SETTINGS, PAPERS_WARMUP, REFERENCE_500, ais_errors, raise_errors, rts_errors
from tempering.plots import style

_INITIAL = PAPERS_WARMUP.steps * PAPERS_WARMUP.max_iterations  # sweeps that AIS and RAISE are given on top


def make(setting: Setting) -> Made:
    """100 chains a run. AIS and RAISE have as many sweeps as the paper's RTS, its initial iterations included."""
    data = setting.mnist_rows()
    truths, rows, seeds = {"784×500": REFERENCE_500}, [], range(setting.either(50, 3))
    for panel, rbm in (("784×500", setting.salakhutdinov_rbm()), ("784×100", setting.mnist_rbm(100))):
        if panel not in truths:
            found = setting.piece(
                f"log Z of {panel}", lambda rbm=rbm: _reference(rbm, data, setting), is_needed=True
            )  # fmt: skip
            truths[panel] = found["log_z"][0]
        for num_sweeps in setting.either((1000, 10_000, 100_000), (1000,)):
            rows += _rows(panel, rbm, data, truths[panel], num_sweeps, seeds, setting)
    notes = (
        f"784×500 is the paper's own RBM: log Z = {REFERENCE_500}, published {FIGURE3_LOG_Z['784×500']}. The weights "
        f"of its 784×100 RBM (log Z = {FIGURE3_LOG_Z['784×100']}) were not published; ours is another, with log Z = "
        f"{truths['784×100']:.2f} by a long run, so that its errors are not those of the same problem.",
        "RTS is our default: a sequential Monte Carlo start and heavier ends. Its warm-up comes on top of the sweeps, "
        "as the paper's does in the second row. AIS and RAISE anneal in equal steps of β.",
    )
    return Made(
        "Figure 3: means and RMSE against sweeps", tuple(rows), notes,
        lambda axes, theme: _draw(axes, theme, rows, truths), panels=4,
    )  # fmt: skip


def _rows(
    panel: str, rbm: RBM, data: np.ndarray, truth: float, num_sweeps: int, seeds: range, setting: Setting
) -> list[Row]:
    base, budget = data.mean(axis=0), num_sweeps + _INITIAL
    ways = {
        "RTS": lambda: rts_errors(rbm, base, truth, num_sweeps, seeds),
        "RTS, the paper's warm-up": lambda: rts_errors(rbm, base, truth, num_sweeps, seeds, **PAPERS_SETTINGS),
        "AIS": lambda: ais_errors(rbm, base, truth, budget, seeds),
        "RAISE": lambda: raise_errors(rbm, base, truth, budget, seeds, data),
    }
    published = FIGURE3[panel] | {"RTS, the paper's warm-up": FIGURE3[panel]["RTS"]}
    rows = []
    for method, way in ways.items():
        name = f"{panel}, {num_sweeps} sweeps, {len(seeds)} runs of {method}"
        errors = setting.piece(name, lambda way=way: {"errors": way()})["errors"]
        known = published[method].get(num_sweeps)
        rows.append(Row(panel, method, num_sweeps, "RMSE", rmse(errors), known, len(seeds)))
        rows.append(Row(panel, method, num_sweeps, "mean error", float(np.mean(errors)), None, len(seeds)))
    return rows


def _reference(rbm: RBM, data: np.ndarray, setting: Setting) -> Errors:
    """log Z by a run that is far longer than those that are judged by it."""
    num_sweeps, num_chains = setting.either((200_000, 1000), (4000, 200))
    found = estimate(
        rbm, data.mean(axis=0), num_chains=num_chains, num_sweeps=num_sweeps, seed=10**6, progress=False
    )  # fmt: skip
    return {"log_z": [found.log_z], "std_error": [found.std_error]}


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row], truths: dict[str, float]) -> None:
    for pair, panel in zip((axes[:2], axes[2:]), FIGURE3, strict=True):
        means, mine = ([row for row in rows if (row.panel, row.quantity) == (panel, q)] for q in ("mean error", "RMSE"))
        draw_means(pair[0], theme, means, truths[panel], f"{panel}, means", "Gibbs sweeps")
        draw_rmse(pair[1], theme, mine, FIGURE3[panel], panel, "Gibbs sweeps")
