"""What the commands that write reports and pictures share."""

import io
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tempering._errors import InputError
from tempering.cli.common import say

if TYPE_CHECKING:
    import numpy as np

    from tempering.models import AbstractModel

_MAX_KEPT_SIZE = 4000  # numbers in a state that is kept for the pictures of a report

ReportFlag = Annotated[Path | None, Option(help="Write a report to this file, such as report.html.")]
ImageFlag = Annotated[
    str | None,
    Option(help="Size of a row as an image, HEIGHTxWIDTH, or none. Default: a square where that is possible."),
]


def read_image(image: str | None) -> tuple[int, int] | None:
    """Height and width; None where they are not given."""
    if image is None or image == "none":
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", image)
    if found is None:
        raise InputError(f"--image must be HEIGHTxWIDTH, as in 28x28, or none, got {image!r}.")
    return int(found[1]), int(found[2])


def check_file(flag: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before the run rather than after it."""
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{flag} {path} is in a directory that does not exist. Make it first.")
    if path.is_dir():
        raise InputError(f"{flag} {path} is a directory. Give a file, such as {path / 'report.html'}.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{flag} {path} is in a directory that cannot be written to. Choose another.")


def can_keep_draws(model: "AbstractModel", base: Any) -> bool:
    """Whether a state is small enough to be kept often."""
    import numpy as np

    return model.path(base, np.array([0.0, 1.0])).num_dims <= _MAX_KEPT_SIZE


def this_command() -> str:
    """The command line, so that it can be typed again; a run that was resumed is made again from its start."""
    return shlex.join(["tempering", *(argument for argument in sys.argv[1:] if argument != "--resume")])


def write(document: str, path: Path) -> None:
    """Write a report, and say where it is."""
    from tempering.report import write_report

    write_report(document, path)
    say(f"Report: {path}")


def save_training(summary: dict[str, Any], samples: "np.ndarray | None", directory: Path) -> None:
    """Leave in the directory of a training run what its report is made of."""
    import numpy as np

    from tempering.report.directory_page import SAMPLES_FILE, SUMMARY_FILE
    from tempering.sampling.directory import sealed, write_atomically

    if samples is not None:
        archive = io.BytesIO()
        np.savez_compressed(archive, v=samples)
        write_atomically(directory / SAMPLES_FILE, archive.getvalue())
    write_atomically(directory / SUMMARY_FILE, (sealed(summary) + "\n").encode())
