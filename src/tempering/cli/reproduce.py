"""`tempering reproduce`: the figures of the paper, made again."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Argument, Option

from tempering._errors import InputError
from tempering.cli import common
from tempering.cli.placing import placed

if TYPE_CHECKING:
    from tempering.paper import Made

_NAMES = tuple(f"fig{number}" for number in range(1, 9))


@placed()
def reproduce_command(
    figure: Annotated[str, Argument(help=f"{', '.join(_NAMES)}, or all.", show_default=False)],
    quick: Annotated[bool, Option("--quick", help="Minutes instead of hours: fewer and shorter runs.")] = False,
    data_dir: Annotated[
        Path | None, Option(help="Where the data are; by default the user's cache, and downloaded if missing.")
    ] = None,
    out: Annotated[Path, Option(help="The directory for tables and pictures.")] = Path("figures"),
    quiet: Annotated[bool, Option("--quiet", help="Do not say what is being done.")] = False,
) -> None:
    """Make a figure of the paper again: its numbers beside the published ones, a CSV file and a picture.

    With all, the numbers of the figures that are done so far are in table.csv too. What is done stays after Ctrl-C.

    Exit status: 0 made, 2 the arguments are wrong or data are missing.
    """
    if figure not in (*_NAMES, "all"):
        raise InputError(f"There is no figure {figure!r}; choose {', '.join(_NAMES)}, or all.")
    from tempering.paper import FIGURES, Setting, datasets, write_table

    setting = Setting(data_dir or datasets.default_directory(), quick, (lambda line: None) if quiet else common.say)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out} cannot be used as a directory: {error.strerror}. Choose another.") from None
    done: dict[str, Made] = {}
    with common.Interrupts(at_once=True):
        for name in _NAMES if figure == "all" else [figure]:
            started = time.perf_counter()
            with common.only_answers_on_stdout():
                made = FIGURES[name].make(setting)
            _print_made(made, _written(made, out / name.replace("fig", "figure")), time.perf_counter() - started)
            done[name] = made
            if figure == "all":
                write_table(out / "table.csv", done)
    if figure == "all":
        _print_outcomes(done)
        print(f"Written: {out / 'table.csv'}")


def _written(made: "Made", stem: Path) -> str:
    """What was written, in words."""
    from tempering.plots.style import HOW_TO_INSTALL, can_plot

    made.write_csv(stem.with_suffix(".csv"))
    if not can_plot():
        return f"{stem}.csv; for the picture, {HOW_TO_INSTALL}"
    made.write_picture(stem.with_suffix(".png"))
    return f"{stem}.csv, {stem}.png"


def _print_outcomes(figures: "dict[str, Made]") -> None:
    """How many RMSEs of each figure are better or worse than the published ones."""
    from tempering.paper.making import OUTCOMES

    table = Table(box=None, pad_edge=False, title="RMSE beside the published one", title_justify="left")
    table.add_column("")
    for outcome in OUTCOMES:
        table.add_column(outcome, justify="right")
    for made in figures.values():
        found = [row.outcome for row in made.rows]
        table.add_row(made.title, *(str(found.count(outcome)) for outcome in OUTCOMES))
    common.print_table(table)


def _print_made(made: "Made", files: str, seconds: float) -> None:
    table = Table(box=None, pad_edge=False, title=made.title, title_justify="left")
    for column in ("", "method", "at", "", "ours", "published", "runs", ""):
        table.add_column(column, justify="right" if column in ("at", "ours", "published", "runs") else "left")
    for row in made.rows:
        known = "–" if row.published is None else f"{row.published:.3g}"
        outcome = row.outcome and common.in_colour(row.outcome, row.outcome != "worse")
        table.add_row(
            row.panel, row.method, f"{row.at:g}", row.quantity, f"{row.ours:.3g}", known, str(row.runs), outcome
        )
    common.print_table(table)
    for note in made.notes:
        print(note)
    print(f"Written: {files} ({seconds:.0f} s)\n")
