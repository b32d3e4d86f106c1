"""The rows of a training run: in memory, as lines of JSON, and as TensorBoard events.

Each line carries a checksum of itself, so that a digit that has changed on the disk is noticed.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tempering._errors import InputError, RecoveryWarning
from tempering.sampling.directory import sealed, unsealed, unwritable, write_atomically

_CURVES = ("train", "valid", "log_z", "ais_log_z")


class Metrics:
    """Rows of plain values, one per evaluated update, in the order of updates.

    Attributes:
        num_rows: How many there are.
    """

    def __init__(self, directory: Path | None, log_events: bool = False):
        """With a directory, rows are in its file alone, so that memory does not grow with a run; else in memory."""
        if log_events and directory is None:
            raise InputError("`log_events` needs a `directory` for TensorBoard's events: give one.")
        self.num_rows, self._kept = 0, list[dict[str, Any]]()
        self._directory, self._make_writer = directory, _writer_class() if log_events else None
        self._lines = self._events = None
        self._file = Path("metrics.jsonl")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, read from the file where there is one."""
        if self._directory is None:
            return self._kept
        self.flush()
        return read_metrics(self._file)

    def open(self, num_updates: int, num_rows: int | None = None) -> None:
        """Begin to write after so many updates; rows of later ones are dropped, since they will be made again.

        Args:
            num_updates: Updates so far.
            num_rows: How many rows there must be by then, where that is known; `RecoveryWarning` says if some are lost.
        """
        if self._directory is None:
            return
        file = self._file = self._directory / "metrics.jsonl"
        rows = [row for row in read_metrics(file) if row["update"] <= num_updates]
        self.num_rows = len(rows)
        if num_rows is not None and self.num_rows < num_rows:
            lost = f"{num_rows - self.num_rows} of {num_rows} rows of {file} are damaged or missing."
            warnings.warn(RecoveryWarning(f"{lost} The run goes on; its plot and summary lack them."), stacklevel=2)
        write_atomically(file, "".join(map(_line, rows)).encode())
        self._lines = open(file, "a", encoding="utf-8")  # noqa: SIM115  open until `close`
        if self._make_writer is not None:
            self._events = self._make_writer(str(self._directory / "events"), purge_step=num_updates + 1)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        self.num_rows += 1
        if self._directory is None:
            self._kept.append(row)
        with self._named_errors():
            if self._lines is not None:
                self._lines.write(_line(row))
            if self._events is not None:
                for name in _CURVES:
                    if row.get(name) is not None:
                        self._events.add_scalar(name, row[name], row["update"])

    def flush(self) -> None:
        """Write to the disk what is buffered."""
        with self._named_errors():
            for file in filter(None, (self._lines, self._events)):
                file.flush()

    def close(self) -> None:
        """Close the files."""
        files, self._lines, self._events = (self._lines, self._events), None, None
        with self._named_errors():
            for file in filter(None, files):
                file.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """A full disk in the words of the library."""
        try:
            yield
        except OSError as error:
            raise unwritable(self._file, error) from error


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """The rows of a file as they were written; a line that was cut short or damaged is left out.

    Args:
        file: A metrics.jsonl; there need not be one.

    Returns:
        The rows, without their checksums.
    """
    lines = file.read_bytes().split(b"\n") if file.exists() else []
    rows = (unsealed(line) for line in lines)
    return [row for row in rows if row is not None and isinstance(row.get("update"), int)]


def _line(row: dict[str, Any]) -> str:
    return sealed(row) + "\n"


def _writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise InputError(f"`log_events` needs tensorboardX ({error}): pip install 'tempering[events]'.") from error
    return SummaryWriter
