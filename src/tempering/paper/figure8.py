"""Figure 8: log Z from the stationary distribution of the rungs, on RBMs of 784 × 10 and 784 × 200 units."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tempering.api import estimate
from tempering.models import RBM
from tempering.paper.making import Errors, Made, Row, Setting, draw_rmse, rmse
from tempering.paper.published import FIGURE8
from tempering.paper.runs import read_errors
from tempering.plots import style
from tempering.training import RunSettings

METHODS = {"RTS": "rts", "SD": "sd", "RSD": "rsd", "TS": "ts"}


def make(setting: Setting) -> Made:
    """20 repeats; all methods read the same draws. The larger RBM is trained here."""
    data = setting.mnist_rows()
    base, small = data.mean(axis=0), setting.mnist_rbm(10)
    rows, seeds, reference = [], range(setting.either(20, 5)), {}
    for panel, find in (
        ("784×10", lambda: (small, {"log_z": [small.exact_log_z()]})),
        ("784×200", lambda: _trained_with_log_z(data, setting)),  # last, so that nobody waits for the training
    ):
        rbm, reference = find()
        truth = reference["log_z"][0]
        for length in setting.either((1000, 10_000, 100_000), (300, 1000)):
            found = setting.piece(
                f"{panel}, {length} sweeps, {len(seeds)} runs",
                lambda rbm=rbm, truth=truth, length=length: read_errors(
                    rbm, base, truth, seeds, [*METHODS.values()], num_sweeps=length, rung_weights="uniform"
                ),
            )
            for name, method in METHODS.items():
                known = FIGURE8[panel].get(name, {}).get(length)
                rows.append(Row(panel, name, length, "RMSE", rmse(found[method]), known, len(seeds)))
    log_z, std_error = (reference[name][0] for name in ("log_z", "std_error"))
    notes = (
        f"784×10: log Z = {small.exact_log_z():.3f} by enumeration; the paper's own weights were not published. "
        f"784×200: trained here by PCD, log Z = {log_z:.2f} ± {std_error:.2f} by a long run.",
        "SD and RSD take the rung for a Markov chain, which it is only where x is drawn anew at every step. The paper "
        "has RSD about 10 % below RTS on the smaller RBM, and no different on the larger. Here, RSD to RTS: "
        + ", ".join(f"{panel} {_ratio(rows, panel):.2f}" for panel in FIGURE8)
        + f", each from {rows[-1].runs} runs.",
    )
    return Made(
        "Figure 8: stationary distributions", tuple(rows), notes, lambda axes, theme: _draw(axes, theme, rows), panels=2
    )


def _ratio(rows: list[Row], panel: str) -> float:
    """The RMSE of RSD over that of RTS, in the longest runs."""
    longest = {row.method: row.ours for row in rows if row.panel == panel}  # the last of each method
    return longest["RSD"] / longest["RTS"]


def _trained_with_log_z(data: np.ndarray, setting: Setting) -> tuple[RBM, Errors]:
    """784 × 200 units by PCD after CD-1, as `tempering train` does it, and log Z by a run that is far longer.

    With a learning rate of 1e-3 nearly all of the mass is at a place that chains rarely find and hardly ever leave.
    Runs of 100,000 sweeps are then nats off, and say so; with 1e-4 a thousand sweeps are enough for an error of 0.2.

    The parameters are a piece too, so that all other pieces are about the same RBM wherever they are made.
    """

    def learned() -> Errors:
        weights, vbias, hbias = _trained(data, setting).on_host()
        return {"weights": weights.ravel().tolist(), "vbias": vbias.tolist(), "hbias": hbias.tolist()}

    def judged() -> Errors:
        num_sweeps, num_chains = setting.either((200_000, 1000), (5000, 200))
        found = estimate(
            rbm, data.mean(axis=0), num_sweeps=num_sweeps, num_chains=num_chains, seed=10**6, progress=False
        )
        return {"log_z": [found.log_z], "std_error": [found.std_error]}

    found = setting.piece("an RBM of 784×200 units", learned, is_needed=True)
    weights, vbias, hbias = (np.array(found[name]) for name in ("weights", "vbias", "hbias"))
    rbm = RBM(weights.reshape(len(vbias), len(hbias)), vbias, hbias)
    return rbm, setting.piece("log Z of 784×200", judged, is_needed=True)


def _trained(data: np.ndarray, setting: Setting) -> RBM:
    """The RBM, trained here."""
    from tempering.training import TrainingRun  # needs Optax

    asked = RunSettings(
        num_hidden=200, method="pcd", optimizer="adam", learning_rate=1e-4, num_updates=setting.either(20_000, 300),
        num_chains=100, num_sweeps=1, batch_size=100, pretrain="cd1:300", is_tracked=False,
    )  # fmt: skip
    with (
        setting.directory("training") as directory,
        TrainingRun(data, None, settings=asked, directory=directory, resume=True) as run,
    ):
        for _ in run:
            pass
        return run.outcome().rbm


def _draw(axes: Sequence[Any], theme: style.Theme, rows: list[Row]) -> None:
    for ax, panel in zip(axes, FIGURE8, strict=True):
        mine = [row for row in rows if row.panel == panel]
        draw_rmse(ax, theme, mine, FIGURE8[panel], panel, "Gibbs sweeps")
