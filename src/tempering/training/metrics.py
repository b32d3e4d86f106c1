"""The rows of a training run: in memory, as lines of JSON, and as TensorBoard events."""

import json
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tempering._errors import InputError, RecoveryWarning
from tempering.sampling.directory import unwritable, write_atomically

_CURVES = ("train", "valid", "log_z", "ais_log_z")


class Metrics:
    """Rows of plain values, one per evaluated update, in the order of updates."""

    def __init__(self, directory: Path | None, log_events: bool = False):
        """Without a directory, rows are kept in memory only."""
        if log_events and directory is None:
            raise InputError("`log_events` needs a `directory` for TensorBoard's events: give one.")
        self.rows: list[dict[str, Any]] = []
        self.checks: list[int] = []  # a checksum of every row
        self._directory, self._make_writer = directory, _writer_class() if log_events else None
        self._lines = self._events = None
        self._file = Path("metrics.jsonl")

    def open(self, num_updates: int, num_rows: int | None = None, checks: Sequence[int] | None = None) -> None:
        """Begin to write after so many updates; rows of later ones are dropped, since they will be made again.

        Args:
            num_updates: Updates so far.
            num_rows: How many rows there must be by then, where that is known; `RecoveryWarning` says if some are lost.
            checks: `checks` of these rows, where they are known: a row with any other is damaged.
        """
        if self._directory is None:
            return
        file = self._file = self._directory / "metrics.jsonl"
        found = _read_rows(file)
        self.rows = [row for row in found if row["update"] <= num_updates]
        if checks is not None:
            self.rows = [row for row in self.rows if _check(row) in set(checks)]
        self.checks = [_check(row) for row in self.rows]
        if num_rows is not None and len(self.rows) < num_rows:
            lost = f"{num_rows - len(self.rows)} of {num_rows} rows of {file} are damaged or missing."
            warnings.warn(RecoveryWarning(f"{lost} The run goes on; its plot and summary lack them."), stacklevel=2)
        write_atomically(file, "".join(map(_line, self.rows)).encode())
        self._lines = open(file, "a", encoding="utf-8")  # noqa: SIM115  open until `close`
        if self._make_writer is not None:
            self._events = self._make_writer(str(self._directory / "events"), purge_step=num_updates + 1)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        self.rows.append(row)
        self.checks.append(_check(row))
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


def _read_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a file that can be read; a line that was cut short or damaged is left out."""
    rows = []
    for line in file.read_bytes().split(b"\n") if file.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:  # also where bytes are no text
            continue
        if isinstance(row, dict) and isinstance(row.get("update"), int):
            rows.append(row)
    return rows


def _check(row: dict[str, Any]) -> int:
    """Changes with any digit of a row; the file itself has none, so that it stays plain lines of JSON."""
    return zlib.crc32(_line(row).encode())


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise InputError(f"`log_events` needs tensorboardX ({error}): pip install 'tempering[events]'.") from error
    return SummaryWriter
