"""Standard output and standard error, where they are closed, full, or no longer read."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from tempering._errors import InputError


@contextmanager
def open_outlets() -> Iterator[None]:
    """Let a command print whatever becomes of standard output, so that its status still tells the verdict.

    A reader may leave early, as `head` does: what is printed after that goes nowhere. A stream that was closed before
    the start is opened on the null device. A disk that is full is refused in one line.
    """
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    outlet: Any = _Outlet(sys.stdout)
    with redirect_stdout(outlet):
        try:
            yield
        finally:
            sys.stdout.flush()  # here, and not at the interpreter's end, where nobody could be told


class _Outlet:
    """A stream that a reader may leave."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._tried(self._stream.write, text) or len(text)

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def _tried(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BrokenPipeError:
            self._forget()
            return None
        except OSError as error:
            self._forget()
            raise InputError(f"Standard output cannot be written to: {error.strerror}. Make room.") from error

    def _forget(self) -> None:
        """Send what waits to be written, and all that follows, nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
