"""The time that a run may take, and whether it is up."""

import time

from tempering.sampling import AbstractStageKind

# A stage is left out if its program, by this guess of how long it takes, would be ready later than this.
_TIMES_LONGER = 2  # a new program than the longest stretch so far, which is mostly compiling
_MOST_OVER = 1.8  # times the time allowed: what a run may take with what is under way when it is up


class Clock:
    """Tells a run when its time is up.

    A program that is being compiled cannot be stopped. So before a stage of a new kind, whose program is yet to be
    compiled, the clock also looks ahead, where the warm-up can do without that stage.

    ```python
    clock = Clock(max_seconds=60)
    clock.is_up(stage.kind, stage.done)    # after every stretch, and when a stage begins
    ```
    """

    def __init__(self, max_seconds: float | None):
        """`max_seconds` is None where a run may take all the time."""
        self.max_seconds, self._started = max_seconds, time.perf_counter()
        self._last_look, self._longest = 0.0, 0.0
        self._kind: type[AbstractStageKind] | None = None

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.perf_counter() - self._started

    def is_up(self, kind: AbstractStageKind, done: int) -> bool:
        """Whether the time is up, as far as this process knows.

        Args:
            kind: The kind of the present stage.
            done: Its steps so far.
        """
        now, is_new = self.seconds, type(kind) is not self._kind
        self._longest = max(self._longest, now - self._last_look)
        self._last_look, self._kind = now, type(kind)
        if self.max_seconds is None:
            return False
        if done > 0:
            return now >= self.max_seconds
        is_over = now + _TIMES_LONGER * self._longest >= _MOST_OVER * self.max_seconds
        return is_new and kind.may_be_left_out and is_over
