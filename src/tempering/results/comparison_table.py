"""A comparison as a table of words, for print and for the command line."""

import dataclasses
from typing import TYPE_CHECKING

from tempering._memory import in_bytes

if TYPE_CHECKING:
    from tempering.results.comparison import Comparison, Entry

_LEFT = ("method", "errs", "verdict")  # the columns of words


@dataclasses.dataclass(frozen=True)
class TextTable:
    """Rows of cells under a header. The last cell may be coloured by whether it is good; None: neither."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_good: tuple[bool | None, ...]

    def is_left(self, column: int) -> bool:
        """Whether a column is aligned to the left."""
        return self.header[column] in _LEFT

    def __str__(self) -> str:
        lines = (self.header, *self.rows)
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        return "\n".join(self._aligned(line, widths) for line in lines)

    def _aligned(self, line: tuple[str, ...], widths: list[int]) -> str:
        cells = [
            cell.ljust(width) if self.is_left(column) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()


def comparison_table(comparison: "Comparison") -> TextTable:
    """A row per method: its answer for one seed, or what it did on average over several."""
    table = _answers(comparison) if len(comparison.repeats) == 1 else _summaries(comparison)
    blanks = ("",) * (len(table.header) - 2)
    left_out = tuple((name, *blanks, "left out") for name in comparison.left_out)
    return TextTable(table.header, (*table.rows, *left_out), (*table.is_good, *(None for _ in left_out)))


def _answers(comparison: "Comparison") -> TextTable:
    rows = tuple(
        (
            entry.method.name, f"{entry.answer.log_z:.4f}", f"{entry.answer.std_error:.4f}", entry.method.errs,
            str(entry.num_sweeps), f"{entry.seconds:.1f}", in_bytes(entry.num_bytes), entry.verdict.label,
        )
        for entry in comparison.entries
    )  # fmt: skip
    header = ("method", "log Z", "error", "errs", "sweeps", "seconds", "memory", "verdict")
    return TextTable(header, rows, tuple(entry.verdict.is_good for entry in comparison.entries))


def _summaries(comparison: "Comparison") -> TextTable:
    known = comparison.truth is not None
    header = ("method", "mean", "error", *(("bias", "RMSE", "covers") if known else ()), "sweeps", "seconds", "good")
    rows = tuple(_summary_row(comparison, entry) for entry in comparison.entries)
    return TextTable(header, rows, tuple(True for _ in rows))


def _summary_row(comparison: "Comparison", entry: "Entry") -> tuple[str, ...]:
    found, errors = comparison.summary(entry.method.name), ()
    if comparison.truth is not None:
        errors = (f"{found['bias']:+.3f}", f"{found['rmse']:.3f}", f"{100 * found['coverage']:.0f} %")
    return (
        entry.method.name, f"{found['mean']:.3f}", f"{found['mean_std_error']:.3f}", *errors,
        str(entry.num_sweeps), f"{found['seconds']:.1f}", f"{found['good']} of {len(comparison.repeats)}",
    )  # fmt: skip
