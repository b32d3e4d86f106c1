"""What the commands share: their flags, their exit statuses, and how they speak.

What loads JAX or NumPy is imported in functions, here and in the modules of the commands: help needs neither.
"""

import math
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self, TypeVar, cast

from rich.console import Console
from rich.markup import escape as escape
from rich.table import Table
from typer import Argument, BadParameter, Option

from tempering import _defaults
from tempering._errors import InputError, RecoveryWarning
from tempering.cli import processes
from tempering.cli.flags import in_flags

if TYPE_CHECKING:
    import numpy as np

    from tempering.models import AbstractModel

T = TypeVar("T")

EXIT_GOOD, EXIT_USER_ERROR, EXIT_NOT_GOOD = 0, 2, 3
EXIT_INTERRUPTED, EXIT_TERMINATED = 130, 143  # 128 and the number of the signal, as shells have it
_MOST_DEVICES = 64  # or as many as there are cores: each device has threads of its own
_LONGEST = 2000  # bytes of a refusal that processes tell each other
_BASE_WORDS = ("uniform", "bias", "field")  # anything else is a file

_MODELS = (
    "FILE.npz, FILE.npz:NAME, FILE.safetensors, FILE.h5 or FILE.mat for an RBM; FILE.py:NAME for a model of your own, "
    "whose code is run; mixture; ising:ROWSxCOLUMNS:COUPLING; potts:ROWSxCOLUMNS:COLOURS:COUPLING; "
    "boltzmann:BITS:SCALE; rbm:VISIBLExHIDDEN:SCALE; none: a small example."
)
_BASES = "Where tempering starts: uniform, bias or FILE of data for an RBM, uniform or field for Ising."
_LADDERS = "auto, adaptive, adaptive:rejection, uniform, power:P, geometric:SMALLEST, or numbers b0,b1,...,1."
_WARMUPS = (
    "sequential, annealed, hysteresis (for paths with a knot), iterations (the paper's: how many at most, and the "
    f"sweeps of each, as in iterations:{_defaults.ITERATIONS}:{_defaults.ITERATION_SWEEPS}), sams or wang_landau."
)


def whole_number(text: Any) -> int:
    """A whole number, which may be written as 1e6 too."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number.is_integer():  # nor are infinity and NaN
        raise BadParameter(f"{text[:40]!r} is not a whole number.")
    return int(number)


def count_option(help: str) -> Any:
    """An option that takes a whole number."""
    return Option(help=help, parser=whole_number, metavar="INTEGER")


ModelFile = Annotated[str | None, Argument(help=_MODELS)]
NamesFlag = Annotated[
    str | None, Option(help="Arrays of FILE.npz that are called otherwise: W=weight,vbias=v_bias,unused=loss.")
]
BaseFlag = Annotated[str | None, Option(help=_BASES)]
BinarizeFlag = Annotated[str | None, Option(help="For grey values: threshold or random.")]
ChainsFlag = Annotated[int, count_option("Independent chains.")]
SweepsFlag = Annotated[int, count_option("Sweeps per chain after the warm-up.")]
RungsFlag = Annotated[str | None, Option(help="Inverse temperatures: how many, or auto; 100 or more by default.")]
LadderFlag = Annotated[str, Option(help=_LADDERS)]
RungWeightsFlag = Annotated[str, Option(help="Weights of the rungs: auto, ends, ends:SHARE, uniform or exp:RATE.")]
WarmupFlag = Annotated[str, Option(help=_WARMUPS)]
SeedFlag = Annotated[int, Option(help="Seed of all randomness.")]
DevicesFlag = Annotated[str, Option(help="CPU devices to use: all (one for every core), or how many.")]
JsonFlag = Annotated[bool, Option("--json", help="Print one JSON object.")]
QuietFlag = Annotated[bool, Option("--quiet", help="No progress bar.")]
CacheFlag = Annotated[bool, Option("--cache/--no-cache", help="Keep compiled programs for the next run.")]


def read_inputs(
    model: str | None, names: str | None, base: str | None, data: str | None, binarize: str | None, seed: int
) -> "tuple[AbstractModel, Any, np.ndarray | None]":
    """The model, what tempering starts from, and the rows of data, from what was typed."""
    from tempering.frontends.loading import load, load_example

    if names is not None and model is None:
        raise InputError("--names is for the arrays of a FILE.npz: give the file as MODEL.")
    with only_answers_on_stdout():  # a Python file may print
        target, own_base = (load(model, names=names), None) if model is not None else load_example()
    _check_useful(target, base, data, binarize)
    rows = None if data is None else _read_rows(target, data, binarize, seed)
    if base is None:
        return target, own_base if rows is None else rows, rows
    return target, base if base in _BASE_WORDS else _read_rows(target, base, binarize, seed), rows


def read_witnesses(
    model: "AbstractModel", witnesses: str | None, binarize: str | None, seed: int
) -> "np.ndarray | None":
    """The rows of the file of witnesses, if one was given."""
    return None if witnesses is None else _read_rows(model, witnesses, binarize, seed)


def _read_rows(model: "AbstractModel", file: str, binarize: str | None, seed: int) -> "np.ndarray":
    """Rows of data for this model."""
    from tempering.frontends.loading import load_data, load_rows
    from tempering.models import RBM

    if isinstance(model, RBM):
        return load_data(file, num_visible=model.num_visible, binarize=binarize, seed=seed)
    return load_rows(file)


def _check_useful(model: "AbstractModel", base: str | None, data: str | None, binarize: str | None) -> None:
    """Refuse flags that mean nothing for this model; words for --base that it does not know it refuses itself."""
    from tempering.models import RBM

    kind = type(model).__name__
    if binarize is not None and not isinstance(model, RBM):
        raise InputError(f"--binarize is for RBMs over bits; this {kind} has no use for it. Leave it out.")
    if data is not None and not model.reads_rows:
        raise InputError(f"--data has no use here: this {kind} is not a model of rows of data. Leave it out.")
    if base is not None and not model.reads_rows:
        raise InputError(f"--base {base} has no use here: this {kind} brings the base that it was made with.")


@contextmanager
def only_answers_on_stdout() -> Iterator[None]:
    """What people's own functions print goes to standard error meanwhile, so that --json stays JSON."""
    with redirect_stdout(sys.stderr):
        yield


def use_cores(devices: str) -> None:
    """One CPU device a core: groups of chains then run side by side. Only an application may decide this."""
    most = max(_MOST_DEVICES, os.cpu_count() or 1)
    if devices != "all" and not (devices.isascii() and devices.isdecimal() and 1 <= int(devices) <= most):
        raise InputError(f"--devices must be all, or from 1 to {most}; got {devices}. As many as cores are enough.")
    if devices == "all" and "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # the user has decided it already
    import jax

    from tempering.sampling.side_by_side import num_cores

    jax.config.update("jax_num_cpu_devices", num_cores() if devices == "all" else int(devices))


def read_together(read: Callable[[], T]) -> T:
    """What every process reads for itself. Where one of them cannot, all of them refuse, with what it has to say."""
    import numpy as np

    from tempering.sampling.processes import gathered

    found, refusal = None, ""
    try:
        found = read()
    except InputError as error:
        refusal = str(error)
    told = gathered(np.frombuffer(refusal.encode()[:_LONGEST].ljust(_LONGEST), np.uint8)[None])
    for process, row in enumerate(np.asarray(told)):
        if text := row.tobytes().decode(errors="ignore").strip():
            raise InputError(text if process == 0 else f"process {process}: {text}")
    return cast(T, found)


def read_betas(ladder: str) -> Any:
    """A word stays a word; numbers with commas between them become a list."""
    if "," not in ladder:
        return ladder
    try:
        return [float(part) for part in ladder.split(",")]
    except ValueError:
        raise InputError(f"--ladder must be a word or numbers with commas between them, got {ladder!r}.") from None


def read_rungs(rungs: str | None) -> int | str | None:
    """A whole number, or the word auto; None stays None."""
    if rungs is None or rungs == "auto":
        return rungs
    try:
        return whole_number(rungs)
    except BadParameter:
        raise InputError(f"--rungs must be a whole number or auto, got {rungs!r}.") from None


def table_console() -> Console:
    """Where tables go; lines are not cut where there is no terminal to be as wide as."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 1000)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Labels and what stands beside them, as a table on standard output."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for label, value in rows:
        table.add_row(label, value)
    print_table(table)


def print_table(table: Table | str) -> None:
    """A table on standard output; where that is no terminal, without the spaces that fill its lines up."""
    console = table_console()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def in_colour(text: str, is_good: bool | None) -> str:
    """Text in green where the verdict is good, in red where it is not, and in yellow where there is none."""
    colour = "yellow" if is_good is None else "green" if is_good else "red"
    return f"[{colour}]{text}[/{colour}]"


class StoppedAtOnce(BaseException):
    """A signal that ends the command where it is. Its argument is the exit status.

    It is no KeyboardInterrupt, which typer turns into a status of its own.
    """


class Interrupts:
    """Turns Ctrl-C and SIGTERM into a request to stop, which `asked` tells; a second one stops at once.

    Attributes:
        asked: Whether the run is to stop.
        status: The exit status that says which signal it was.
    """

    asked = False
    status = EXIT_INTERRUPTED

    def __init__(self, *, at_once: bool = False):
        """`at_once` stops at the first signal, where there is nothing that could be saved."""
        self._at_once = at_once

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def in_words(self) -> str:
        """What happened."""
        return "Terminated" if self.status == EXIT_TERMINATED else "Interrupted"

    def _interrupt(self, number: int, *_: Any) -> None:
        if not self.asked:
            self.status = EXIT_TERMINATED if number == signal.SIGTERM else EXIT_INTERRUPTED
        if self.asked or self._at_once:
            raise StoppedAtOnce(EXIT_TERMINATED if number == signal.SIGTERM else EXIT_INTERRUPTED)
        self.asked = True


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """What was damaged on disk and is done without is said in a line on standard error, not as Python does."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_line(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, RecoveryWarning):
                say(f"Warning: {message}")
            else:
                show(message, category, *where, **options)

        warnings.showwarning = show_line
        yield


def refuse(message: str) -> NoReturn:
    """One line on standard error, and the status of a user's mistake.

    Of several processes only the first speaks. Another one does only where the first has no such mistake.
    """
    if not processes.speaks():
        if processes.have_all_ended():
            sys.exit(EXIT_USER_ERROR)
        print(f"Error in process {processes.number_of_this()}: {in_flags(' '.join(message.split()))}", file=sys.stderr)
        processes.leave(EXIT_USER_ERROR)
    say(f"Error: {in_flags(' '.join(message.split()))}")
    sys.exit(EXIT_USER_ERROR)


def say(line: str) -> None:
    """A line on standard error, where results do not go; of several processes, from the first one only."""
    if processes.speaks():
        print(line, file=sys.stderr)


def how_to_resume(out: Path | None, what: str = "Interrupted") -> str:
    """What to say of a run that was interrupted."""
    if out is None:
        return f"{what}. With --out DIR the run could be resumed."
    command, *arguments = (argument for argument in sys.argv[1:] if argument != "--resume")
    return f"{what}. Resume with: tempering {shlex.join([command, '--resume', *arguments])}"


def how_to_go_on(what: str) -> str:
    """What happened to one of several processes, and how to go on with the run of this command line."""
    if "compare" in sys.argv[1:2]:
        return f"{what}. Start it again."
    has_directory = any(argument.partition("=")[0] == "--out" for argument in sys.argv)
    return how_to_resume(Path() if has_directory else None, what)
