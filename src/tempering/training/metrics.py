"""The rows of a training run: in memory, as lines of JSON, and as TensorBoard events."""

import json
from pathlib import Path
from typing import Any

from tempering._errors import InputError

_CURVES = ("train", "valid", "log_z", "ais_log_z")


class Metrics:
    """Rows of plain values, one per evaluated update, in the order of updates."""

    def __init__(self, directory: Path | None, log_events: bool = False):
        """Without a directory, rows are kept in memory only."""
        if log_events and directory is None:
            raise InputError("`log_events` needs a `directory` for TensorBoard's events: give one.")
        self.rows: list[dict[str, Any]] = []
        self._directory, self._make_writer = directory, _writer_class() if log_events else None
        self._lines = self._events = None

    def open(self, num_updates: int) -> None:
        """Begin to write after so many updates; rows of later ones are dropped, since they will be made again."""
        if self._directory is None:
            return
        file = self._directory / "metrics.jsonl"
        if file.exists():
            whole = [line for line in file.read_text().split("\n")[:-1] if line]
            self.rows = [row for line in whole if (row := json.loads(line))["update"] <= num_updates]
        self._lines = open(file, "w", encoding="utf-8")  # noqa: SIM115  open until `close`
        self._lines.writelines(map(_line, self.rows))
        if self._make_writer is not None:
            self._events = self._make_writer(str(self._directory / "events"), purge_step=num_updates + 1)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        self.rows.append(row)
        if self._lines is not None:
            self._lines.write(_line(row))
        if self._events is not None:
            for name in _CURVES:
                if row.get(name) is not None:
                    self._events.add_scalar(name, row[name], row["update"])

    def flush(self) -> None:
        """Write to the disk what is buffered."""
        for file in filter(None, (self._lines, self._events)):
            file.flush()

    def close(self) -> None:
        """Close the files."""
        for file in filter(None, (self._lines, self._events)):
            file.close()
        self._lines = self._events = None


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise InputError(f"`log_events` needs tensorboardX ({error}): pip install 'tempering[events]'.") from error
    return SummaryWriter
