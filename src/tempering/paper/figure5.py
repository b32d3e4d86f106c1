"""Figure 5: the likelihood of an RBM of 180 × 500 units while it learns the dna data, with AIS beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tempering.paper.making import Errors, Made, Row, Setting
from tempering.paper.published import FIGURE5
from tempering.plots import style
from tempering.training import RunSettings

COLUMNS = ("update", "train", "valid", "log_z", "std_error", "ais_log_z")  # of the training curve
BATCH = 350  # rows; the paper does not say how many


def make(setting: Setting) -> Made:
    """RMSspectral with step 1e-5 and λ = 0.99, 25 sweeps of 2000 chains between updates, as in the paper."""
    train, valid = dna_rows(setting)
    asked = run_settings(setting)
    found = setting.piece("training", lambda: _learned(train, valid, asked, setting), is_needed=True)
    curve: list[dict[str, float]] = [
        dict(zip(COLUMNS, row, strict=True)) for row in zip(*(found[name] for name in COLUMNS), strict=True)
    ]
    rows = []
    for row in curve:
        if np.isnan(row["ais_log_z"]):
            continue
        at = int(row["update"])
        published = FIGURE5.get(at, (None, None))
        for part, known in zip(("train", "valid"), published, strict=True):
            rows.append(Row("dna", f"{part}, tracked", at, "mean log p(v)", row[part], known))
            by_ais = row[part] + row["log_z"] - row["ais_log_z"]
            rows.append(Row("dna", f"{part}, AIS", at, "mean log p(v)", by_ais, known))
    notes = (
        f"The paper does not say how large its batches were; here they have {BATCH} rows of 1400. How fast the curve "
        "climbs depends on that, so that the updates of the two figures cannot be compared one by one.",
        "What is to be seen is that the AIS circles lie on the tracked lines.",
        *(
            (f"Quick: {asked.num_chains} chains instead of 2000, and {asked.num_updates} updates instead of 8000.",)
            if setting.is_quick
            else ()
        ),
    )
    shown = curve[:: max(1, len(curve) // 400)]
    names = ("update", "train", "valid", "log_z")
    return Made(
        "Figure 5: tracking while training, dna, RBM 180×500", tuple(rows), notes,
        lambda axes, theme: _draw(axes[0], theme, curve, rows), curves={n: [row[n] for row in shown] for n in names},
    )  # fmt: skip


def dna_rows(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are learned, and those of validation."""
    with np.load(setting.file("dna_libsvm.npz")) as archive:
        return archive["train"], archive["valid"]


def run_settings(setting: Setting) -> RunSettings:
    """How the RBM is trained."""
    updates, chains, pretrain, check = setting.either((8000, 2000, 500, 500), (500, 200, 500, 250))
    return RunSettings(
        num_hidden=500, learning_rate=1e-5, num_updates=updates, num_chains=chains, batch_size=BATCH,
        pretrain=f"cd1:{pretrain}", check=f"ais:{check}",
    )  # fmt: skip


def _learned(train: np.ndarray, valid: np.ndarray, asked: RunSettings, setting: Setting) -> Errors:
    """The training curve by columns; NaN where there is no number."""
    from tempering.training import TrainingRun  # needs Optax

    with (
        setting.directory("training") as directory,
        TrainingRun(train, valid, settings=asked, directory=directory, resume=True) as run,
    ):
        for row in run:
            if row.num_updates % 250 == 0:
                setting.say(str(row))
        rows = run.outcome().rows
    return {name: [np.nan if row.get(name) is None else row[name] for row in rows] for name in COLUMNS}


def _draw(ax: Any, theme: style.Theme, curve: Sequence[Mapping[str, float]], rows: Sequence[Row]) -> None:
    for part, colour, name in (("train", theme.blue, "training"), ("valid", theme.orange, "validation")):
        known = [row for row in curve if not np.isnan(row["std_error"])]
        ax.plot([row["update"] for row in known], [row[part] for row in known], color=colour, lw=1.2, label=name)
        checked = [row for row in rows if row.method == f"{part}, AIS"]
        ax.plot([row.at for row in checked], [row.ours for row in checked], "o", mfc="none", color=colour, label="AIS")
        index = 0 if part == "train" else 1
        reached = [at for at in FIGURE5 if at <= curve[-1]["update"]]
        ax.plot(reached, [FIGURE5[at][index] for at in reached], "x:", color=colour, lw=1, label="published")
    ax.set(xlabel="gradient updates", ylabel="mean log p(v)")
    style.add_legend(ax, theme, fontsize=7)
