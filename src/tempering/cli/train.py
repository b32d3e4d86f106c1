"""`tempering train`: an RBM from data, with its likelihood tracked."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer import Argument, Option

import tempering as tp
from tempering._errors import InputError
from tempering.cli import common, processes, reporting
from tempering.cli.flags import in_flags
from tempering.cli.placing import placed
from tempering.training.settings import RunSettings

if TYPE_CHECKING:
    import numpy as np

    from tempering.cli.lines import View
    from tempering.cli.training_summary import Summary
    from tempering.training import Kept, Outcome, TrainingRun

_NUM_LINES = 20  # in a log, unless --log-every says otherwise
_NUM_SAMPLES = 40  # in a report


@placed(in_processes=True, devices="1")
def train_command(
    data: Annotated[str, Argument(help="FILE.npz or FILE.npz:NAME with rows of 0 and 1.", show_default=False)],
    valid: Annotated[str | None, Option(help="FILE of validation rows, which are not trained on.")] = None,
    binarize: common.BinarizeFlag = None,
    hidden: Annotated[int, common.count_option("Hidden units.")] = RunSettings.num_hidden,
    method: Annotated[str, Option(help="Negative phase: tempered, pcd or cd.")] = RunSettings.method,
    optimizer: Annotated[str, Option(help="rmsspectral, ssd, adam or sgd.")] = RunSettings.optimizer,
    lr: Annotated[
        float | None,
        Option(help="Learning rate. Default: 1e-5 for rmsspectral and ssd, 1e-3 for adam, 0.05 for sgd."),
    ] = RunSettings.learning_rate,
    decay: Annotated[float, Option(help="Weight decay; biases do not decay.")] = RunSettings.weight_decay,
    updates: Annotated[int, common.count_option("Updates of the parameters.")] = RunSettings.num_updates,
    batch: Annotated[int, common.count_option("Rows of data per update.")] = RunSettings.batch_size,
    chains: Annotated[int, common.count_option("Chains of tempered and pcd.")] = RunSettings.num_chains,
    sweeps: Annotated[int, common.count_option("Sweeps of every chain per update.")] = RunSettings.num_sweeps,
    rungs: Annotated[int, common.count_option("Number of inverse temperatures.")] = RunSettings.num_rungs,
    rung_weights: common.RungWeightsFlag = RunSettings.rung_weights,
    alpha: Annotated[float, Option(help="Step α of eq. 24, which corrects log Z.")] = RunSettings.alpha,
    track: Annotated[bool, Option(help="Track the likelihood.")] = RunSettings.is_tracked,
    track_every: Annotated[
        int, Option(help="Updates between two evaluations of the likelihood.")
    ] = RunSettings.track_every,
    follow_every: Annotated[
        int, Option(help="With pcd and cd: updates between two steps of the tracker's chains.")
    ] = RunSettings.follow_every,
    pretrain: Annotated[
        str | None,
        Option(
            help="Start with contrastive divergence: cd1:2000 for 2000 updates of CD-1, "
            "cd1:2000:1e-3 to give them a learning rate."
        ),
    ] = RunSettings.pretrain,
    check: Annotated[
        str | None, Option(help="Check log Z by annealed importance sampling: ais:500 for every 500 updates.")
    ] = RunSettings.check,
    early_stop: Annotated[
        bool, Option("--early-stop", help="Stop when the likelihood of --valid has fallen for good.")
    ] = RunSettings.early_stop,
    patience: Annotated[
        int, Option(help="With --early-stop: updates below the error band of the maximum before it stops.")
    ] = RunSettings.patience,
    seed: common.SeedFlag = RunSettings.seed,
    out: Annotated[Path | None, Option(help="Directory for checkpoints, metrics, the model and a plot.")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue the run in --out.")] = False,
    events: Annotated[bool, Option("--events", help="Write TensorBoard events in --out too.")] = False,
    plot: Annotated[
        bool | None, Option(help="Plot the likelihood in --out. Default: if matplotlib is installed.")
    ] = None,
    image: reporting.ImageFlag = None,
    log_every: Annotated[
        int | None, Option(help="Print a line every so many updates instead of the live view.")
    ] = None,
    report: reporting.ReportFlag = None,
    json: common.JsonFlag = False,
    quiet: Annotated[bool, Option("--quiet", help="No live view and no lines.")] = False,
) -> None:
    """Train an RBM, and know its likelihood at every update.

    Exit status: 0 good; 2 wrong arguments; 3 the likelihoods cannot be believed; 4 another process
    of the run has ended; 130 interrupted; 143 terminated.
    """
    from tempering.cli.pictures import guess_image
    from tempering.cli.training_summary import Summary

    _check_flags(out, valid, {"--resume": resume, "--events": events, "--plot": plot}, early_stop, log_every)
    settings = RunSettings(
        num_hidden=hidden, method=method, optimizer=optimizer, learning_rate=lr, weight_decay=decay,
        num_updates=updates, batch_size=batch, num_chains=chains, num_sweeps=sweeps, num_rungs=rungs,
        rung_weights=rung_weights, alpha=alpha, is_tracked=track, track_every=track_every, follow_every=follow_every,
        pretrain=pretrain, check=check, early_stop=early_stop, patience=patience, seed=seed,
    )  # fmt: skip
    shape = reporting.read_image(image)
    reporting.check_file("--report", report)
    rows, others = common.read_together(lambda: _read_rows(data, valid, shape, binarize, seed))
    shown_as = guess_image(rows.shape[1]) if image is None else shape
    is_quiet = quiet or not processes.speaks()
    view = _choose_view(f"tempering train {data}", settings, shown_as, log_every, quiet=is_quiet, json=json)
    started = time.perf_counter()
    with (
        view, common.only_answers_on_stdout(),
        _make_run(rows, others, settings=settings, directory=out, resume=resume, log_events=events) as run,
    ):  # fmt: skip
        is_stopped = _is_stopped_early(run, view)
        outcome, is_begun = run.outcome(), not run.is_pretraining
        has_files = is_begun and processes.speaks()
        files = _write_files(run, outcome, out, plot=plot, events=events) if has_files else {}
        num_updates = run.trainer.num_updates if is_begun else 0
        kept = _assess_kept(run, view) if is_begun and not is_stopped else None
        samples = run.samples(_NUM_SAMPLES) if is_begun and (out or report) is not None else None
    next_command = _estimate_command(files, data, valid, binarize)
    command, seconds = reporting.this_command(), time.perf_counter() - started
    summary = Summary(outcome, settings, num_updates, seconds, files, next_command, kept, command)
    if has_files:
        _write_report(summary, samples, shown_as, title=data, out=out, report=report)
        print(summary.to_json()) if json else summary.print()
    _exit(summary, view, out)


def _is_stopped_early(run: "TrainingRun", view: "View") -> bool:
    """Train to the end, or until somebody asks to stop in any of the processes."""
    from tempering.sampling.processes import anywhere

    run.tell = view.say_that
    for row in run:
        view.show(row, run.samples)
        if anywhere(view.asked)[0]:
            return True
    return False


def _exit(summary: "Summary", view: "View", out: Path | None) -> NoReturn:
    """End with the status that says how the training went."""
    if not summary.is_complete:
        common.say(common.how_to_resume(out, view.in_words))
        raise typer.Exit(view.status)
    is_good = summary.verdict is None or summary.verdict.is_good
    raise typer.Exit(common.EXIT_GOOD if is_good else common.EXIT_NOT_GOOD)


def _read_rows(
    data: str, valid: str | None, shape: tuple[int, int] | None, binarize: str | None, seed: int
) -> "tuple[np.ndarray, np.ndarray | None]":
    """The rows to train on, and those of --valid."""
    rows = tp.load_data(data, num_visible=None if shape is None else shape[0] * shape[1], binarize=binarize, seed=seed)
    others = None if valid is None else tp.load_data(valid, num_visible=rows.shape[1], binarize=binarize, seed=seed)
    return rows, others


def _make_run(data: "np.ndarray", valid: "np.ndarray | None", **options: Any) -> "TrainingRun":
    return tp.training.TrainingRun(data, valid, **options)


def _assess_kept(run: "TrainingRun", view: "View") -> "Kept | None":
    """The kept model's likelihood from chains that had no part in choosing it."""
    view.say_that("estimating the likelihood of the kept model with new chains")
    return run.assess_kept()


def _check_flags(
    out: Path | None, valid: str | None, need_out: dict[str, bool | None], early_stop: bool, log_every: int | None
) -> None:
    """Refuse flags that have no meaning without others."""
    from tempering.plots.style import HOW_TO_INSTALL, can_plot

    for flag, given in need_out.items():
        if given and out is None:
            raise InputError(f"{flag} needs --out DIR, the directory of the run.")
    if early_stop and valid is None:
        raise InputError("--early-stop needs --valid FILE with validation rows.")
    if log_every is not None and log_every < 1:
        raise InputError(f"--log-every must be 1 or more, got {log_every}.")
    if need_out["--plot"] and not can_plot():
        raise InputError(f"--plot needs matplotlib: {HOW_TO_INSTALL}, or leave it out.")


def _choose_view(
    title: str, settings: RunSettings, image: tuple[int, int] | None, log_every: int | None, *, quiet: bool, json: bool
) -> "View":
    """A live panel on a terminal, else lines; with --json, lines only where --log-every asks for them."""
    from tempering.cli.lines import Lines, View
    from tempering.cli.live import LiveView
    from tempering.progress import is_terminal

    on_terminal = is_terminal()
    if quiet or (json and not on_terminal and log_every is None):
        return View(settings)
    if on_terminal and log_every is None:
        return LiveView(title, settings, image)
    return Lines(settings, log_every or max(1, settings.num_updates // _NUM_LINES))


def _write_files(
    run: "TrainingRun", outcome: "Outcome", out: Path | None, *, plot: bool | None, events: bool
) -> dict[str, Path]:
    """Write the model and the plot; the run has written the rest. All files by name."""
    from tempering.plots.style import HOW_TO_INSTALL, can_plot, new_axes, write_figure

    if out is None:
        return {}
    files = {"model": out / "model.npz", "metrics": out / "metrics.jsonl"}
    wants_plot = plot is not False and bool(outcome.rows)  # there are none where the likelihood was not tracked
    try:
        run.save_model(files["model"])
        if wants_plot and can_plot():
            files["plot"] = out / "training.svg"
            ax = tp.plots.training(outcome, ax=new_axes("light", (8.0, 4.5)), theme="light")
            write_figure(ax, files["plot"])
    except OSError as error:
        raise InputError(f"{out} cannot be written to: {error.strerror}. Make room, then resume.") from error
    if wants_plot and "plot" not in files:
        common.say(f"No plot, which needs matplotlib: {HOW_TO_INSTALL}.")
    return files | ({"events": out / "events"} if events else {})


def _write_report(
    summary: "Summary", samples: "np.ndarray | None", shape: tuple[int, int] | None, *, title: str, out: Path | None,
    report: Path | None,
) -> None:  # fmt: skip
    """Leave in --out what a report is made of, and write it where one was asked for."""
    if out is not None:
        reporting.save_training(summary.to_dict(), samples, out)
    if report is not None:
        rows = summary.outcome.rows
        page = tp.report.training_report(
            summary.to_dict(), rows, samples=samples, shape=shape, words=in_flags, title=title
        )
        reporting.write(page, report)


def _estimate_command(files: dict[str, Path], data: str, valid: str | None, binarize: str | None) -> str | None:
    """The command that estimates log Z of the saved model with chains of its own."""
    if "model" not in files:
        return None
    base = ["--data", data] if valid is None else ["--base", data, "--data", valid]
    grey = [] if binarize is None else ["--binarize", binarize]
    return f"tempering {shlex.join(['estimate', str(files['model']), *base, *grey])}"
