"""`tempering report`: the page of a run that is finished."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from tempering.cli import common, reporting
from tempering.cli.flags import in_flags


def report_command(
    directory: Annotated[Path, Argument(help="What `estimate` or `train` wrote with --out DIR.", show_default=False)],
    out: Annotated[Path | None, Option(help="The file to write; by default report.html in the directory.")] = None,
    image: reporting.ImageFlag = None,
) -> None:
    """Write the report of a run as one page of HTML that needs nothing else.

    The model is not needed. Exit status: 0 written, 2 there is nothing to report.
    """
    from tempering.report import directory_report

    out = directory / "report.html" if out is None else out
    shape = reporting.read_image(image)
    if not directory.is_dir():
        common.refuse(f"{directory} is not a directory. Give one that --out of estimate or train wrote.")
    reporting.check_file("--out", out)
    reporting.write(directory_report(directory, shape=shape, words=in_flags), out)
