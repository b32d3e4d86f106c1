"""`tempering train`: an RBM from data, with its likelihood known on the way."""

import re
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tempering._errors import InputError
from tempering.cli import common
from tempering.cli.lines import Lines, NoView, View
from tempering.cli.live import LiveView
from tempering.cli.pictures import guess_image
from tempering.cli.training_summary import Summary
from tempering.frontends.loading import load_data
from tempering.plots.training import HOW_TO_INSTALL, can_plot, check_can_plot, plot_training
from tempering.training.settings import TrainSettings

_NUM_LINES = 20  # in a log, unless --log-every says otherwise


def train_command(
    data: Annotated[str, typer.Argument(help="FILE.npz or FILE.npz:NAME of 0/1 rows.", show_default=False)],
    valid: Annotated[str | None, typer.Option(help="FILE of rows that are not trained on.")] = None,
    binarize: common.BinarizeFlag = None,
    hidden: Annotated[int, typer.Option(help="Hidden units.")] = 500,
    method: Annotated[str, typer.Option(help="Where the model's moments come from: tempered, pcd or cd.")] = "tempered",
    optimizer: Annotated[str, typer.Option(help="rmsspectral, ssd, adam or sgd.")] = "rmsspectral",
    lr: Annotated[
        float | None, typer.Option(help="Learning rate; 1e-5 for rmsspectral and ssd, 1e-3 for adam, 0.05 for sgd.")
    ] = None,
    decay: Annotated[float, typer.Option(help="Weight decay.")] = 0.0,
    updates: Annotated[int, typer.Option(help="Updates of the parameters.")] = 8000,
    batch: Annotated[int, typer.Option(help="Rows of data for an update.")] = 100,
    chains: Annotated[int, typer.Option(help="Chains of the method.")] = 2000,
    sweeps: Annotated[int, typer.Option(help="Sweeps per chain between two updates.")] = 25,
    rungs: Annotated[int, typer.Option(help="Inverse temperatures.")] = 100,
    rung_weights: common.RungWeightsFlag = "exp:2",
    alpha: Annotated[float, typer.Option(help="How far log Z follows each update, α of eq. 24.")] = 0.2,
    track: Annotated[bool, typer.Option(help="Whether the likelihood is known on the way.")] = True,
    track_every: Annotated[int, typer.Option(help="Updates between two looks at the likelihood.")] = 1,
    follow_every: Annotated[
        int, typer.Option(help="Updates between two steps of the tracker's chains (--method pcd or cd).")
    ] = 1,
    pretrain: Annotated[
        str | None, typer.Option(help="Updates by CD before: cd1:2000, or cd1:2000:1e-3 at a rate.")
    ] = None,
    check: Annotated[str | None, typer.Option(help="AIS now and then, such as ais:500: every 500 updates.")] = None,
    early_stop: Annotated[bool, typer.Option("--early-stop", help="End when --valid gets no better.")] = False,
    seed: common.SeedFlag = 0,
    out: Annotated[Path | None, typer.Option(help="Directory for checkpoints, metrics, the model and a plot.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    events: Annotated[bool, typer.Option("--events", help="TensorBoard events in --out too.")] = False,
    plot: Annotated[bool | None, typer.Option(help="A plot in --out; by default where matplotlib is there.")] = None,
    image: Annotated[
        str | None, typer.Option(help="HEIGHTxWIDTH of a row as a picture, or none; guessed where it is a square.")
    ] = None,
    log_every: Annotated[
        int | None, typer.Option(help="Updates between two plain lines, in place of the live view.")
    ] = None,
    json: common.JsonFlag = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No live view and no lines.")] = False,
) -> None:
    """Train an RBM, and know its likelihood at every update.

    Exit status: 0 good, 2 the arguments are wrong, 3 the likelihoods are not to be believed, 130 interrupted.
    """
    _check_flags(out, valid, {"--resume": resume, "--events": events, "--plot": plot}, early_stop, log_every)
    settings: dict[str, Any] = {
        "num_hidden": hidden, "method": method, "optimizer": optimizer, "weight_decay": decay, "num_updates": updates,
        "batch_size": batch, "num_chains": chains, "num_sweeps": sweeps, "num_rungs": rungs,
        "rung_weights": rung_weights, "alpha": alpha, "is_tracked": track, "track_every": track_every,
        "follow_every": follow_every, "pretrain": pretrain, "check": check, "early_stop": early_stop, "seed": seed,
        "learning_rate": lr,
    }  # fmt: skip
    how = TrainSettings(**settings)
    shape = _read_image(image)
    rows = load_data(data, num_visible=None if shape is None else shape[0] * shape[1], binarize=binarize, seed=seed)
    others = None if valid is None else load_data(valid, num_visible=rows.shape[1], binarize=binarize, seed=seed)
    shown_as = guess_image(rows.shape[1]) if image is None else shape
    view = _choose_view(f"tempering train {data}", how, shown_as, log_every, quiet=quiet, json=json)
    started = time.perf_counter()
    with (
        _Interrupts(view) as interrupts, view, common.only_answers_on_stdout(),
        _make_run(rows, others, how, directory=out, resume=resume, log_events=events) as run,
    ):  # fmt: skip
        for row in run:
            view.show(row, run.samples)
            if interrupts.asked:
                break
        outcome, is_begun = run.outcome(), not run.is_pretraining
        files = _write_files(run, outcome, out, plot=plot, events=events) if is_begun else {}
        num_updates = run.trainer.num_updates if is_begun else 0
    go_on = _how_to_go_on(files, data, valid, binarize)
    summary = Summary(outcome, how, num_updates, time.perf_counter() - started, files, go_on)
    if json and is_begun:
        print(summary.to_json())
    elif is_begun:
        summary.print()
    if not summary.is_complete:
        common.say(common.how_to_resume(out))
        raise typer.Exit(common.EXIT_INTERRUPTED)
    is_good = summary.verdict is None or summary.verdict.is_good
    raise typer.Exit(common.EXIT_GOOD if is_good else common.EXIT_NOT_GOOD)


def _make_run(rows: np.ndarray, valid: np.ndarray | None, how: TrainSettings, **where: Any) -> Any:
    from tempering.training.session import TrainingRun  # which needs Optax, unlike the other commands

    return TrainingRun(rows, valid, settings=how, **where)


class _Interrupts:
    """Turns Ctrl-C into a stop after the update; a second one stops at once."""

    def __init__(self, view: View):
        self.asked = False
        self._view = view

    def __enter__(self) -> "_Interrupts":
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: Any) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._view.note = "stopping after this update; Ctrl-C again stops at once"


def _check_flags(
    out: Path | None, valid: str | None, need_out: dict[str, bool | None], early_stop: bool, log_every: int | None
) -> None:
    """Refuse flags that mean nothing without others."""
    for flag, given in need_out.items():
        if given and out is None:
            raise InputError(f"{flag} needs --out DIR, the directory of the run.")
    if early_stop and valid is None:
        raise InputError("--early-stop needs --valid FILE, rows that are not trained on.")
    if log_every is not None and log_every < 1:
        raise InputError(f"--log-every must be 1 or more, got {log_every}.")
    if need_out["--plot"]:
        check_can_plot()


def _read_image(image: str | None) -> tuple[int, int] | None:
    """28x28 as two numbers."""
    if image is None or image == "none":
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", image)
    if found is None:
        raise InputError(f"--image must be HEIGHTxWIDTH, as in 28x28, or none, got {image!r}.")
    return int(found[1]), int(found[2])


def _choose_view(
    title: str, how: TrainSettings, image: tuple[int, int] | None, log_every: int | None, *, quiet: bool, json: bool
) -> View:
    """A live panel where there is a terminal, else lines; a script that wants JSON must ask for lines."""
    is_terminal = sys.stderr.isatty()
    if quiet or (json and not is_terminal and log_every is None):
        return NoView()
    if is_terminal and log_every is None:
        return LiveView(title, how, image)
    return Lines(common.say, how, log_every or max(1, how.num_updates // _NUM_LINES))


def _write_files(run: Any, outcome: Any, out: Path | None, *, plot: bool | None, events: bool) -> dict[str, Path]:
    """The model and the plot; the rest the run has written itself. All files by what they are."""
    if out is None:
        return {}
    files = {"model": out / "model.npz", "metrics": out / "metrics.jsonl"}
    wants_plot = plot is not False and bool(outcome.rows)  # nothing to draw where nobody followed the likelihood
    try:
        run.save_model(files["model"])
        if wants_plot and can_plot():
            files["plot"] = out / "training.svg"
            plot_training(outcome.rows, outcome.best_update, files["plot"])
    except OSError as error:
        raise InputError(f"{out} cannot be written to: {error.strerror}. Make room, then resume.") from error
    if wants_plot and "plot" not in files:
        common.say(f"No plot, which needs matplotlib: {HOW_TO_INSTALL}.")
    return files | ({"events": out / "events"} if events else {})


def _how_to_go_on(files: dict[str, Path], data: str, valid: str | None, binarize: str | None) -> str | None:
    """The command that looks at the model again, with chains of its own."""
    if "model" not in files:
        return None
    base = ["--data", data] if valid is None else ["--base", data, "--data", valid]
    grey = [] if binarize is None else ["--binarize", binarize]
    return f"tempering {shlex.join(['estimate', str(files['model']), *base, *grey])}"
