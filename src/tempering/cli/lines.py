"""How training is shown: not at all, or as plain lines for files and pipes. `live` has the panel for terminals."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tempering.training import Row, RunSettings

_RATE_SECONDS = 30.0  # over which the updates per second are averaged

Samples = Callable[[int], np.ndarray]  # number of samples -> (sample, visible), probabilities


class View:
    """Sees every update, and shows nothing. The base class of the other views.

    Attributes:
        note: a message for the user, such as that the run will stop.
    """

    note = ""

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def show(self, row: Row, samples: Samples) -> None:
        """Show an update; `samples` draws from the model, for pictures."""


class Lines(View):
    """A line every so many updates: likelihoods with their standard errors, the speed and the time left."""

    def __init__(self, say: Callable[[str], None], settings: RunSettings, every: int):
        self._say, self._settings, self._every = say, settings, every
        self._speed = Speed()

    def show(self, row: Row, samples: Samples) -> None:
        self._speed.count()
        total = total_updates(self._settings, row)
        if row.num_updates % self._every == 0 or row.num_updates == total or row.ais_check is not None:
            progress = f"{row.stage} {row.num_updates} of {total}"
            self._say(", ".join([progress, *row.phrases, self._speed.in_words(total - row.num_updates)]))


class Speed:
    """Updates per second over the last half minute, and the time that the remaining ones will take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._ends: deque[float] = deque()

    def count(self) -> None:
        """Note the end of an update."""
        now = self._clock()
        self._ends.append(now)
        while len(self._ends) > 2 and now - self._ends[0] > _RATE_SECONDS:
            self._ends.popleft()

    def in_words(self, num_left: int) -> str:
        """The speed, and the time for so many updates."""
        if len(self._ends) < 2:  # the first update waits for the compiler
            return "no speed yet"
        rate = (len(self._ends) - 1) / max(self._ends[-1] - self._ends[0], 1e-9)
        speed = f"{rate:.1f} updates/s" if rate >= 1 else f"{1 / rate:.1f} s per update"
        hours, rest = divmod(round(num_left / rate), 3600)
        return f"{speed}, {hours}:{rest // 60:02d}:{rest % 60:02d} left"


def total_updates(settings: RunSettings, row: Row) -> int:
    """The number of updates of the stage that a row belongs to: the pretraining counts its own."""
    pretraining = settings.pretraining if row.is_pretraining else None
    return settings.num_updates if pretraining is None else pretraining.num_updates
