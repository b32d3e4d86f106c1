"""The command line: arguments in, calls of the library out, and how it looks on a terminal."""

import io
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import jax
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from tempering._errors import InputError
from tempering.estimate import Interrupted, estimate
from tempering.estimate import Progress as RunProgress
from tempering.frontends.load import load, load_data, load_example
from tempering.results import Result

EXIT_GOOD, EXIT_USER_ERROR, EXIT_NOT_GOOD, EXIT_INTERRUPTED = 0, 2, 3, 130
_STAGES = {"anneal": "annealing", "settle": "settling", "iterate": "initial iterations", "sample": "sampling"}

_UsageError: Any = typer.BadParameter.__base__  # what typer raises on wrong arguments; it has no public name

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def _about() -> None:
    """Log partition functions by tempered sampling, with error bars and a verdict."""


@app.command("estimate")
def estimate_command(
    model: Annotated[
        str | None, typer.Argument(help="FILE.npz, FILE.npz:NAME or FILE.mat; none: a small example.")
    ] = None,
    base: Annotated[str | None, typer.Option(help="Where tempering starts: FILE of data, uniform, or bias.")] = None,
    data: Annotated[str | None, typer.Option(help="FILE of data whose mean log-likelihood is wanted.")] = None,
    binarize: Annotated[str | None, typer.Option(help="For grey values: threshold or random.")] = None,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 100,
    sweeps: Annotated[int, typer.Option(help="Sweeps per chain after the warm-up.")] = 1000,
    rungs: Annotated[int, typer.Option(help="Inverse temperatures.")] = 100,
    ladder: Annotated[str, typer.Option(help="uniform, geometric, geometric:SMALLEST, or b0,b1,...,1.")] = "uniform",
    prior: Annotated[str, typer.Option(help="Weights of the rungs: uniform or exp:RATE.")] = "uniform",
    warmup: Annotated[str, typer.Option(help="annealed, or the paper's iterations.")] = "annealed",
    method: Annotated[str, typer.Option(help="rts, ts, sd or rsd.")] = "rts",
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Directory for checkpoints and the result.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    chunk: Annotated[int, typer.Option(help="Sweeps between checkpoints, rounded up to whole blocks.")] = 1,
    devices: Annotated[int | None, typer.Option(help="CPU devices to use; as many as cores by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Estimate log Z of an RBM.

    Exit status: 0 good, 2 the arguments are wrong, 3 a number was computed but is not to be believed, 130 interrupted.
    """
    if resume and out is None:
        raise InputError("--resume needs --out DIR, the directory of the run to go on with.")
    _use_cores(devices)
    rbm, own_base = (load(model), None) if model is not None else load_example()

    def read(file: str) -> np.ndarray:
        return load_data(file, num_visible=rbm.num_visible, binarize=binarize, seed=seed)

    rows = None if data is None else read(data)
    if base is None:
        start = own_base if rows is None else rows
    else:
        start = base if base in ("uniform", "bias") else read(base)
    settings: dict[str, Any] = {
        "num_chains": chains, "num_sweeps": sweeps, "num_rungs": rungs, "betas": _betas(ladder), "prior": prior,
        "warmup": warmup, "method": method, "seed": seed, "chunk_sweeps": chunk,
    }  # fmt: skip
    message = ""
    with _Watcher(show=not quiet and sys.stderr.isatty()) as watcher:
        try:
            result = estimate(rbm, start, data=rows, out=out, resume=resume, watch=watcher, **settings)
        except Interrupted as stopped:
            result, message = None, str(stopped)
    if result is None:
        _say(message)
    elif json:
        print(result.to_json())
    else:
        _print_result(result)
    if watcher.interrupted and (result is None or not result.is_complete):
        _say(_how_to_resume(out))
        raise typer.Exit(EXIT_INTERRUPTED)
    raise typer.Exit(EXIT_GOOD if result is not None and result.verdict.is_good else EXIT_NOT_GOOD)


def main() -> None:
    """The entry point: a user's mistake is one line and status 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an ASCII terminal must not stop a run at its last line
            stream.reconfigure(errors="replace")
    try:
        sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except InputError as error:
        _refuse(str(error))
    except _UsageError as error:
        _refuse(error.format_message())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


class _Watcher:
    """Shows a live bar where there is a terminal, and turns Ctrl-C into a stop at the end of the chunk."""

    def __init__(self, *, show: bool):
        self.interrupted = False
        self._bar = Progress(
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

    def __call__(self, progress: RunProgress) -> bool:
        answer = progress.estimate
        shown = "" if answer is None else f"log Z {answer.log_z:.3f} ± {answer.std_error:.3f}"
        if progress.stage != self._stage:
            self._bar.remove_task(self._task)
            self._stage = progress.stage
            self._task = self._bar.add_task(_STAGES[progress.stage], total=progress.num_steps, estimate="")
        self._bar.update(self._task, completed=progress.done, total=progress.num_steps, estimate=shown)
        return self.interrupted

    def _interrupt(self, *_) -> None:
        if self.interrupted:  # asked twice: stop at once
            raise KeyboardInterrupt
        self.interrupted = True


def _use_cores(devices: int | None) -> None:
    """One CPU device a core: groups of chains then run side by side. Only an application may decide this."""
    if devices is not None and devices < 1:
        raise InputError(f"--devices must be 1 or more, got {devices}.")
    if devices is None and "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # the user has decided it already
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jax.config.update("jax_num_cpu_devices", devices or cores)


def _betas(ladder: str) -> Any:
    if "," not in ladder:
        return ladder
    try:
        return [float(part) for part in ladder.split(",")]
    except ValueError:
        raise InputError(f"--ladder must be a word or numbers with commas between them, got {ladder!r}.") from None


def _print_result(result: Result) -> None:
    low, high = result.interval
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("log Z", f"[bold]{result.log_z:.4f}[/bold]")
    table.add_row("standard error", f"{result.std_error:.4f}")
    table.add_row("95 % interval", f"{low:.4f} to {high:.4f}")
    if result.exact_log_z is not None:
        where = "inside the interval" if low <= result.exact_log_z <= high else "outside the interval"
        table.add_row("exact log Z", f"{result.exact_log_z:.4f} ({where})")
    if result.annealed is not None:
        table.add_row("annealing says", f"{result.annealed.log_z:.4f} ± {result.annealed.std_error:.4f}")
    table.add_row("round trips", f"{result.diagnosis.round_trips_per_chain:.2f} per chain")
    if result.mean_log_likelihood is not None:
        likelihood = result.mean_log_likelihood
        shown = f"{likelihood.value:.4f} ± {likelihood.std_error:.4f} over {likelihood.num_rows} rows"
        table.add_row("mean log-likelihood", shown)
    table.add_row(
        "chains × sweeps",
        f"{result.num_chains} × {result.num_sweeps} (+ {result.num_warmup_sweeps} of warm-up)",
    )
    table.add_row("seconds", f"{result.seconds:.1f}")
    colour = "green" if result.verdict.is_good else "red"
    table.add_row("verdict", f"[{colour}]{result.verdict.value}[/{colour}]")
    for finding in result.diagnosis.findings:
        table.add_row("", f"{finding.seen}; {finding.cure}.")
    Console(highlight=False, width=None if sys.stdout.isatty() else 1000).print(table)


def _how_to_resume(out: Path | None) -> str:
    if out is None:
        return "Interrupted. With --out DIR the run could be resumed."
    command, *arguments = (argument for argument in sys.argv[1:] if argument != "--resume")
    return f"Interrupted. Resume with: tempering {shlex.join([command, '--resume', *arguments])}"


def _refuse(message: str) -> NoReturn:
    _say(f"Error: {' '.join(message.split())}")
    sys.exit(EXIT_USER_ERROR)


def _say(line: str) -> None:
    print(line, file=sys.stderr)
