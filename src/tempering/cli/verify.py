"""`tempering verify`: does this installation give right answers?"""

import json as json_format
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Option

from tempering.cli import common
from tempering.cli.placing import placed

if TYPE_CHECKING:
    from tempering.verification import Check

EXIT_WRONG = 1


@placed()
def verify_command(
    json: common.JsonFlag = False,
    failures: Annotated[bool, Option("--failures", help="Show only what fails.")] = False,
) -> None:
    """Check every estimator and move on problems whose answers are known exactly, in about a minute.

    A right installation fails one of the random checks with probability 1e-6. Exit status: 0 all hold, 1 some do not,
    and their names are printed last.
    """
    from tempering.verification import verify

    started = time.perf_counter()
    with common.Interrupts(at_once=True), common.only_answers_on_stdout():
        checks = list(verify())
    wrong = [check for check in checks if not check.is_passed]
    if json:
        print(json_format.dumps({"checks": [asdict(check) for check in checks], "failed": _names(wrong)}, indent=1))
    else:
        _print_checks(wrong if failures else checks)
        seconds = f"{time.perf_counter() - started:.0f} s"
        print(f"{len(checks) - len(wrong)} of {len(checks)} checks hold ({seconds}).")
        if wrong:
            if len(_names(wrong)) > 1:
                print("The first name is the first to look at, for others may rest on it.")
            print(f"FAILED: {', '.join(_names(wrong))}")
    raise typer.Exit(EXIT_WRONG if wrong else common.EXIT_GOOD)


def _names(checks: "list[Check]") -> list[str]:
    """Each once, in the order in which they were checked."""
    return list(dict.fromkeys(check.name for check in checks))


def _print_checks(checks: "list[Check]") -> None:
    if not checks:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("checked", "against", "outcome", ""):
        table.add_column(column)
    for check in checks:
        outcome = common.in_colour("holds" if check.is_passed else "FAILS", check.is_passed)
        table.add_row(common.escape(check.name), check.how, outcome, common.escape(check.seen))
    common.print_table(table)
