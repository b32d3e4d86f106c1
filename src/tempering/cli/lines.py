"""What training says of itself in words, and plain lines of it for files and pipes."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tempering.training.settings import TrainSettings

NAMES = ("train", "valid")
_RATE_SECONDS = 30.0  # how far back the updates per second look

Samples = Callable[[int], np.ndarray]  # how many -> (sample, visible), probabilities


class View(Protocol):
    """Sees every update."""

    note: str  # such as that a stop was asked for

    def __enter__(self) -> "View":
        """Begin to show."""
        ...

    def __exit__(self, *_: Any) -> None:
        """Leave the terminal as it was."""
        ...

    def show(self, row: Any, samples: Samples) -> None:
        """After an update; `samples` is asked for pictures now and then."""
        ...


class NoView:
    """Shows nothing."""

    note = ""

    def __enter__(self) -> "NoView":
        """Nothing to begin."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing to end."""

    def show(self, row: Any, samples: Samples) -> None:
        """Nothing."""


class Lines(NoView):
    """A plain line every so many updates, for files and pipes."""

    def __init__(self, say: Callable[[str], None], how: TrainSettings, every: int):
        """`say` takes a line."""
        self._say, self._how, self._every = say, how, every
        self._speed = Speed()

    def show(self, row: Any, samples: Samples) -> None:
        """The likelihoods with their standard errors, and the time left."""
        self._speed.count()
        total = num_updates_in_all(self._how, row)
        if row.num_updates % self._every == 0 or row.num_updates == total or row.ais_check is not None:
            parts = [f"{stage_of(row)} {row.num_updates} of {total}"]
            parts += [_likelihood(name, getattr(row, name)) for name in NAMES if getattr(row, name) is not None]
            parts += [check_in_words(row)] if row.ais_check is not None else []
            parts += [trouble] if (trouble := trouble_in_words(row)) else []
            self._say(", ".join([*parts, self._speed.in_words(total - row.num_updates)]))


class Speed:
    """Updates a second over the last half minute, and the time that the rest will take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        """`clock` gives seconds."""
        self._clock = clock
        self._ends: deque[float] = deque()

    def count(self) -> None:
        """An update has ended."""
        now = self._clock()
        self._ends.append(now)
        while len(self._ends) > 2 and now - self._ends[0] > _RATE_SECONDS:
            self._ends.popleft()

    @property
    def per_second(self) -> float | None:
        """None until two updates have ended: the first one waits for the compiler."""
        if len(self._ends) < 2:
            return None
        return (len(self._ends) - 1) / max(self._ends[-1] - self._ends[0], 1e-9)

    def in_words(self, num_left: int) -> str:
        """Of updates still to come."""
        rate = self.per_second
        if rate is None:
            return "no speed yet"
        speed = f"{rate:.1f} updates/s" if rate >= 1 else f"{1 / rate:.1f} s per update"
        return f"{speed}, {_hours(num_left / rate)} left"


def num_updates_in_all(how: TrainSettings, row: Any) -> int:
    """Of the pretraining while it lasts, then of the training proper: each counts its own."""
    return how.pretraining.num_updates if row.is_pretraining and how.pretraining else how.num_updates


def stage_of(row: Any) -> str:
    """What an update belongs to."""
    return "pretraining" if row.is_pretraining else "update"


def _likelihood(name: str, likelihood: Any) -> str:
    return f"{name} {likelihood.value:.3f} ± {likelihood.std_error:.3f}"


def check_in_words(row: Any) -> str:
    """What an annealing pass of its own says of log Z, and what was followed."""
    followed = "" if row.tracked is None else f", followed {row.tracked.log_z:.3f} ± {row.tracked.std_error:.3f}"
    return f"log Z by AIS {row.ais_check.log_z:.3f} ± {row.ais_check.std_error:.3f}{followed}"


def trouble_in_words(row: Any) -> str:
    """Why the numbers are not to be believed; nothing where they are."""
    if row.tracked is None or row.tracked.verdict.is_good:
        return ""
    seen = "; ".join(finding.seen for finding in row.tracked.findings)
    return f"{row.tracked.verdict.label}: {seen}"


def _hours(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
