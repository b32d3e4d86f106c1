"""An RBM that learns while its likelihood is followed, and AIS beside it: the loop, the table and the plot."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import repeats

from tempering.training import Outcome, RunSettings, TrainingRun

_MOST_POINTS = 400  # of a curve in a plot


def learned(
    train: np.ndarray, valid: np.ndarray, settings: RunSettings, directory: Path | None, print_every: int
) -> tuple[Outcome, float]:
    """What training came to, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as scratch:
        started = time.perf_counter()
        with TrainingRun(train, valid, settings=settings, directory=directory or Path(scratch), resume=True) as run:
            for row in run:
                if row.num_updates % print_every == 0:
                    tracker = run.trainer.tracker
                    travelled = "" if tracker is None else tracker.travelled
                    print(f"{time.perf_counter() - started:.0f} s", row, travelled, flush=True)
            return run.outcome(), time.perf_counter() - started


def checks(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The lines of the table: where AIS was run, it against the tracked log Z."""
    return {f"{row['update']} updates": _check(row) for row in rows if "ais_log_z" in row}


def _check(row: dict[str, Any]) -> dict[str, Any]:
    known = {name: row[name] for name in ("update", "train", "valid", "log_z", "std_error", "verdict")}
    is_lost = row["std_error"] is None  # the tracker then claims nothing of its own
    off = row["ais_log_z"] - row["log_z"]
    error = float(np.hypot(row["ais_std_error"], 0.0 if is_lost else row["std_error"]))
    agrees = bool(abs(off) < max(1.0, 3 * error))
    band = None if is_lost else row["train_high"] - row["train"]
    return known | {"band": band, "ais_minus_tracked": off, "combined_error": error, "agrees": agrees}


def plot(rows: list[dict[str, Any]], name: str, title: str, low: float) -> None:
    """The likelihoods with their bands, and what AIS says of them."""
    plt = repeats.pyplot()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    step = max(1, len(rows) // _MOST_POINTS)
    rows = [row for i, row in enumerate(rows) if row["std_error"] is not None and (i % step == 0 or "ais_log_z" in row)]
    updates = [row["update"] for row in rows]
    for part, color in (("train", "C0"), ("valid", "C1")):
        axes.plot(updates, [row[part] for row in rows], color=color, label=f"{part}, tracked", linewidth=1)
        band = ([row[f"{part}_{end}"] for row in rows] for end in ("low", "high"))
        axes.fill_between(updates, *band, color=color, alpha=0.3, linewidth=0)
        checked = [row for row in rows if "ais_log_z" in row]
        heights = [row[part] + row["log_z"] - row["ais_log_z"] for row in checked]
        axes.errorbar(
            [row["update"] for row in checked], heights, [2 * row["ais_std_error"] for row in checked],
            fmt="o", color=color, mfc="none", markersize=5, label=f"{part}, AIS",
        )  # fmt: skip
    axes.set(xlabel="updates", ylabel="mean log p(v), nats", title=title, ylim=(low, None))
    axes.legend()
    repeats.save(figure, name)
