"""The command line: arguments in, calls of the library out, and how it looks on a terminal."""

import os
import shutil
import sys
from typing import Annotated, Any

# Before JAX is loaded, which reads it then: on CPUs, XLA calls each compiled program that it loads from the cache an
# error, for lack of tuning flags that are no features of a CPU. What JAX itself has to say is still heard.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import typer

from tempering import __version__
from tempering._errors import InputError
from tempering.cli import processes
from tempering.cli.common import EXIT_INTERRUPTED, EXIT_TERMINATED, StoppedAtOnce, refuse, say, warnings_as_lines
from tempering.cli.compare import compare_command
from tempering.cli.estimate import estimate_command
from tempering.cli.outlets import open_outlets
from tempering.cli.plain_text import print_plainly_where_needed
from tempering.cli.report import report_command
from tempering.cli.reproduce import reproduce_command
from tempering.cli.sample import sample_command
from tempering.cli.train import train_command
from tempering.cli.verify import verify_command

_WIDE_ENOUGH = 80  # columns
_UsageError: Any = typer.BadParameter.__base__  # what typer raises on wrong arguments; it has no public name

# On a narrow terminal the boxes of rich would cut words off.
_HELP = "rich" if shutil.get_terminal_size().columns >= _WIDE_ENOUGH else None

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=_HELP
)  # fmt: skip
app.command("estimate")(estimate_command)
app.command("compare")(compare_command)
app.command("train")(train_command)
app.command("sample")(sample_command)
app.command("report")(report_command)
app.command("verify")(verify_command)
app.command("reproduce")(reproduce_command)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"tempering {__version__}")
        raise typer.Exit()


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Log partition functions by tempered sampling, with error bars and a verdict."""


def main() -> None:
    """The entry point: a user's mistake is one line and status 2, never a traceback."""
    print_plainly_where_needed(sys.stdout, sys.stderr)
    try:
        with open_outlets(), warnings_as_lines():
            sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except InputError as error:
        refuse(str(error))
    except _UsageError as error:
        refuse(error.format_message())
    except StoppedAtOnce as stopped:
        say("Terminated." if stopped.args[0] == EXIT_TERMINATED else "Interrupted.")
        processes.leave(stopped.args[0])  # the interpreter's own end may crash while a program is being compiled
    except KeyboardInterrupt:
        say("Interrupted.")
        processes.leave(EXIT_INTERRUPTED)
    except Exception as error:
        if processes.are_several():
            processes.leave_after(error)
        raise
