"""A table of numbers from a text file."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tempering.frontends._array_files import ArrayFile
from tempering.frontends._guard import FileError, check_size, open_file, parse_errors_named, short_reason

_NAME = "the table"  # there is only one
_DELIMITERS = (",", ";", "\t")  # else spaces
_BYTES_PER_LETTER = 8  # in memory: a float64 takes at least two letters, and both are there at once
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


@contextmanager
def open_csv(path: Path) -> Iterator[ArrayFile]:
    """The rows of a table with commas, semicolons, tabs or spaces between numbers; one line of titles may come first.

    The table holds integers if none of its numbers has a decimal point or an exponent.
    """
    with open_file(path) as stream:
        label = f"{_NAME} in {path}"
        check_size(label, path.stat().st_size * _BYTES_PER_LETTER)
        with parse_errors_named(str(path), cure="Save it as UTF-8"):
            text = stream.read().decode("utf-8-sig")
    table = _parsed(path, text)
    yield ArrayFile((_NAME,), lambda name: table.shape, lambda name, item_bytes: table)


def _parsed(path: Path, text: str) -> np.ndarray:
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((mark for mark in _DELIMITERS if mark in first), None)
    cells = [cell.strip(' "') for cell in first.split(delimiter)]
    has_titles = not all(_NUMBER.fullmatch(cell) for cell in cells)
    numbers = text[text.index(first) + len(first) :] if has_titles else text
    if not numbers.strip():
        raise FileError(f"{path} holds no row of numbers. Save at least one.")
    kind = np.float64 if re.search(r"[.eEnN]", numbers) else np.int64
    try:
        return np.loadtxt(io.StringIO(numbers), kind, delimiter=delimiter, quotechar='"', ndmin=2)
    except (ValueError, OverflowError) as error:
        reason = short_reason(error).partition("; use `")[0]  # what follows is an argument of NumPy's
        raise FileError(
            f"{path} is not a table of numbers: {reason}. Write as many numbers in each line, with commas between them."
        ) from error
