"""How training is shown: not at all, or as plain lines for files and pipes. `live` has the panel for terminals."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tempering.cli.common import EXIT_TERMINATED, Interrupts, say
from tempering.progress import Pace, in_hours
from tempering.training import Row, RunSettings

Samples = Callable[[int], np.ndarray]  # number of samples -> (sample, visible), probabilities


class View(Interrupts):
    """Sees every update and Ctrl-C, and shows nothing. The base class of the other views.

    Attributes:
        note: a message for the user, such as that the run will stop.
    """

    note = ""

    def __init__(self, settings: RunSettings):
        super().__init__()
        self._settings, self._speed = settings, Speed()

    def show(self, row: Row, samples: Samples) -> None:
        """Show an update; `samples` draws from the model, for pictures."""
        self._speed.count()

    def _progress(self, row: Row) -> tuple[str, float, str]:
        """The place in the run, the share of updates that are made, and the speed. A pretraining counts its own."""
        pretraining = self._settings.pretraining if row.is_pretraining else None
        total = (pretraining or self._settings).num_updates
        speed = self._speed.in_words(total - row.num_updates)
        return f"{row.stage} {row.num_updates} of {total}", min(1.0, row.num_updates / total), speed

    def say_that(self, what: str) -> None:
        """Note what goes on beside the updates, such as a check that takes minutes; an empty text ends it."""
        if not self.asked:
            self.note = what

    def _interrupt(self, number: int, *_: Any) -> None:
        super()._interrupt(number)
        again = "" if self.status == EXIT_TERMINATED else "; Ctrl-C again stops at once"
        self.note = f"stopping after this update{again}"


class Lines(View):
    """A line every so many updates: likelihoods with their standard errors, the speed and the time left."""

    def __init__(self, settings: RunSettings, every: int):
        super().__init__(settings)
        self._every = every

    def show(self, row: Row, samples: Samples) -> None:
        super().show(row, samples)
        progress, share, speed = self._progress(row)
        if row.num_updates % self._every == 0 or share == 1 or row.ais_check is not None:
            say(", ".join([progress, *row.phrases, speed]))


class Speed:
    """Updates per second over the last half minute, and the time that the remaining ones will take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._pace, self._num_updates = Pace(clock), 0

    def count(self) -> None:
        """Note the end of an update."""
        self._num_updates += 1
        self._pace.report(self._num_updates)

    def in_words(self, num_left: int) -> str:
        """The speed, and the time for so many updates."""
        rate = self._pace.per_second
        if rate is None:  # the first update waits for the compiler
            return "no speed yet"
        speed = f"{rate:.1f} updates/s" if rate >= 1 else f"{1 / rate:.1f} s per update"
        return f"{speed}, {in_hours(num_left / rate)} left"
