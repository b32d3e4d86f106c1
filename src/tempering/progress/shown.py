"""Whether a run is shown, and as what."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tempering._errors import InputError
from tempering.progress.line import Line
from tempering.progress.progress import Progress, Watch

if TYPE_CHECKING:
    from tempering.progress.bars import PlainLines


def check_progress(progress: object) -> None:
    """Refuse what is neither True, nor False, nor None."""
    if progress is not None and not isinstance(progress, bool):
        raise InputError(f"`progress` must be True, False or None (a bar where one can be seen); got {progress!r}.")


def check_watch(watch: object) -> None:
    """Refuse what cannot be called."""
    if watch is not None and not callable(watch):
        raise InputError(f"`watch` must be a function of a `Progress`; got {watch!r}.")


@contextmanager
def shown(progress: bool | None, watch: Watch | None, *, names_runs: bool = False) -> Iterator[Watch | None]:
    """Show a run while it goes.

    Args:
        progress: True shows it, False does not, and None does where a bar can be seen and nobody watches.
        watch: Who else is told, and may stop the run.
        names_runs: Whether a bar says which run it is, since there are several.

    Yields:
        What is to be called with every `Progress`; None where nobody is.
    """
    check_watch(watch)
    if progress is False or (progress is None and (watch is not None or not _can_be_seen())):
        yield watch
        return
    with _bar(Line(names_runs=names_runs)) as bar:

        def both(found: Progress) -> bool | None:
            bar.show(found)
            return None if watch is None else watch(found)

        yield both


def _bar(line: Line) -> "PlainLines":
    from tempering.progress import bars  # with rich, which is slow to import

    if _is_notebook():
        return bars.NotebookBar(line)
    return bars.TerminalBar(line) if is_terminal() else bars.PlainLines(line)


def _can_be_seen() -> bool:
    """Whether a bar would be seen, and not be mixed up with those of other threads and processes."""
    is_main = threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None
    return is_main and (_is_notebook() or is_terminal())


def is_terminal() -> bool:
    """Whether standard error is a terminal on which a line can be redrawn."""
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _is_notebook() -> bool:
    """Whether this is a Jupyter kernel. IPython on a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
