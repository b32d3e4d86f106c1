"""`tempering estimate`: one model, one answer."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from tempering.api import Interrupted, Progress, Settings, estimate
from tempering.cli import common
from tempering.cli.flags import in_flags
from tempering.results import Result


def estimate_command(
    model: common.ModelFile = None,
    base: common.BaseFlag = None,
    data: Annotated[str | None, typer.Option(help="FILE of data whose mean log-likelihood is wanted.")] = None,
    binarize: common.BinarizeFlag = None,
    chains: common.ChainsFlag = Settings.num_chains,
    sweeps: common.SweepsFlag = Settings.num_sweeps,
    rungs: common.RungsFlag = str(Settings.num_rungs),
    ladder: common.LadderFlag = str(Settings.betas),
    rung_weights: common.RungWeightsFlag = str(Settings.rung_weights),
    warmup: common.WarmupFlag = str(Settings.warmup),
    method: Annotated[
        str, typer.Option(help="rts, or what else a tempered run gives: ts, rsd, mbar, ti_rb ...")
    ] = Settings.method,
    target_error: Annotated[
        float | None, typer.Option(help="Go on until the standard error is this small and the verdict good.")
    ] = None,
    max_sweeps: Annotated[
        int | None, typer.Option(help="With --target-error: the most sweeps per chain; 100 times --sweeps by default.")
    ] = None,
    max_time: Annotated[
        str | None, typer.Option(help="With --target-error: the most time, such as 90s, 10m or 1.5h.")
    ] = None,
    seed: common.SeedFlag = Settings.seed,
    out: Annotated[Path | None, typer.Option(help="Directory for checkpoints and the result.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    chunk: Annotated[int, typer.Option(help="Sweeps between checkpoints, rounded up to whole blocks.")] = (
        Settings.chunk_sweeps
    ),
    devices: common.DevicesFlag = None,
    json: common.JsonFlag = False,
    quiet: common.QuietFlag = False,
) -> None:
    """Estimate log Z of a model.

    Exit status: 0 good, 2 the arguments are wrong, 3 a number was computed but is not to be believed, 130 interrupted.
    """
    common.use_cores(devices)
    target, start, rows = common.read_inputs(model, base, data, binarize, seed)
    message = ""
    with _Watcher(show=not quiet and sys.stderr.isatty()) as watcher, common.only_answers_on_stdout():
        try:
            result = estimate(
                target, start, data=rows, num_chains=chains, num_sweeps=sweeps, num_rungs=common.read_rungs(rungs),
                betas=common.read_betas(ladder), rung_weights=rung_weights, warmup=warmup, method=method, seed=seed,
                target_error=target_error, max_sweeps=max_sweeps, max_seconds=max_time, out=out, resume=resume,
                chunk_sweeps=chunk, watch=watcher,
            )  # fmt: skip
        except Interrupted as stopped:
            result, message = None, str(stopped)
    if result is None:
        common.say(message)
    elif json:
        print(result.to_json())
    else:
        _print_result(result)
    if watcher.interrupted and (result is None or not result.is_complete):
        common.say(common.how_to_resume(out))
        raise typer.Exit(common.EXIT_INTERRUPTED)
    raise typer.Exit(common.EXIT_GOOD if result is not None and result.verdict.is_good else common.EXIT_NOT_GOOD)


class _Watcher:
    """Shows a live bar where there is a terminal, and turns Ctrl-C into a stop at the end of the chunk."""

    def __init__(self, *, show: bool):
        self.interrupted, self._show = False, show
        self._bar = Bar(
            TextColumn("{task.description:<18}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[estimate]}"), TimeRemainingColumn(),
            console=Console(stderr=True), disable=not show, transient=True,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task("compiling", total=None, estimate="")
        self._stage = ""

    def __enter__(self) -> "_Watcher":
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()
        signal.signal(signal.SIGINT, self._before)

    def __call__(self, progress: Progress) -> bool:
        if self._show:
            self._draw(progress)
        return self.interrupted

    def _draw(self, progress: Progress) -> None:
        answer = progress.estimate
        shown = "" if answer is None else f"log Z {answer.log_z:.3f} ± {answer.std_error:.3f}"
        if answer is not None and progress.target_error is not None:
            shown += f" → {progress.target_error:g}"
        if progress.stage != self._stage:
            self._bar.remove_task(self._task)
            self._stage = progress.stage
            self._task = self._bar.add_task(progress.stage, total=progress.num_steps, estimate="")
        self._bar.update(self._task, completed=progress.done, total=progress.num_steps, estimate=shown)

    def _interrupt(self, *_) -> None:
        if self.interrupted:  # asked twice: stop at once
            raise KeyboardInterrupt
        self.interrupted = True


def _print_result(result: Result) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    for label, value in (*_answer_rows(result), *_run_rows(result), *_verdict_rows(result)):
        table.add_row(label, value)
    common.table_console().print(table)


def _answer_rows(result: Result) -> Iterator[tuple[str, str]]:
    """log Z, and what it is held against."""
    low, high = result.interval
    yield "log Z", f"[bold]{result.log_z:.4f}[/bold]"
    asked = "" if result.target_error is None else f" ({result.target_error:g} asked for)"
    yield "standard error", f"{result.std_error:.4f}{asked}{_errors(result)}"
    yield "95 % interval", f"{low:.4f} to {high:.4f}"
    if result.exact_log_z is not None:
        where = "inside the interval" if low <= result.exact_log_z <= high else "outside the interval"
        yield "exact log Z", f"{result.exact_log_z:.4f} ({where})"
    if result.annealed is not None:
        yield "annealing says", f"{result.annealed.log_z:.4f} ± {result.annealed.std_error:.4f}"


def _errors(result: Result) -> str:
    """The same error seen in other ways."""
    errors = result.log_z_by_rung.errors
    ways = {} if errors is None else {"tours": errors.tours, "groups": errors.groups}
    known = [f"{error:.4f} by {name}" for name, error in ways.items() if np.isfinite(error)]
    return f" ({', '.join(known)})" if known else ""


def _rungs(result: Result) -> str:
    """How long the ladder is, and what its prior costs: draws in its middle say little of its ends."""
    base, target = result.end_shares
    length = "" if result.length is None else f", {result.length.root_kl:.1f} long in √KL"
    return f"{result.num_rungs}{length}; {base:.1%} of draws at the base, {target:.1%} at the target"


def _run_rows(result: Result) -> Iterator[tuple[str, str]]:
    """How the chains fared, and what else was asked for."""
    yield "rungs", _rungs(result)
    yield "round trips", f"{result.diagnosis.round_trips_per_chain:.2f} per chain"
    moves = result.recording.moves
    if moves is not None:
        low, high = np.nanmin(moves.acceptance), np.nanmax(moves.acceptance)
        yield "moves accepted", f"{low:.2f} to {high:.2f}, by rung"
        if moves.num_divergent.sum() > 0:
            yield "divergences", f"{moves.num_divergent.sum():.0f} of {moves.num_moves.sum():.0f} trajectories"
    if result.mean_log_likelihood is not None:
        likelihood = result.mean_log_likelihood
        shown = f"{likelihood.value:.4f} ± {likelihood.std_error:.4f} over {likelihood.num_rows} rows"
        yield "mean log-likelihood", shown
    cut = f", the first {result.log_z_by_rung.num_cut} left out" if result.log_z_by_rung.num_cut else ""
    sweeps = f"{result.num_chains} × {result.num_sweeps} (+ {result.num_warmup_sweeps} of warm-up){cut}"
    yield "chains × sweeps", sweeps
    yield "seconds", f"{result.seconds:.1f}"


def _verdict_rows(result: Result) -> Iterator[tuple[str, str]]:
    """Whether to believe it, and all that was found."""
    colour = "green" if result.verdict.is_good else "red"
    yield "verdict", f"[{colour}]{result.verdict.value}[/{colour}]"
    for finding in result.diagnosis.findings:
        yield "", f"{finding.seen}; {in_flags(finding.cure)}."
