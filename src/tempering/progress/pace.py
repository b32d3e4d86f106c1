"""How fast a run goes, and how long the rest will take."""

import time
from collections import deque
from collections.abc import Callable

_SECONDS = 30.0  # over which the pace is averaged


class Pace:
    """Steps per second over the last half minute.

    The first report only starts the clock: what comes before it is compiled.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        """`clock` tells the time in seconds."""
        self._clock, self._reports = clock, deque[tuple[float, int]]()  # when, and how many steps were done

    def report(self, done: int) -> None:
        """Note that so many steps are done."""
        now = self._clock()
        self._reports.append((now, done))
        while len(self._reports) > 2 and now - self._reports[0][0] > _SECONDS:
            self._reports.popleft()

    @property
    def per_second(self) -> float | None:
        """Steps per second; None before the second report."""
        if len(self._reports) < 2:
            return None
        (first, before), (last, after) = self._reports[0], self._reports[-1]
        return (after - before) / max(last - first, 1e-9)

    def seconds_left(self, num_left: int) -> float | None:
        """The time for so many more steps, counted from now; None where the pace is not known."""
        rate = self.per_second
        if not rate:
            return None
        return max(0.0, num_left / rate - (self._clock() - self._reports[-1][0]))


def in_hours(seconds: float) -> str:
    """3650 as 1:00:50."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
