"""What a bar says about a run, in words. How it looks is in `bars`."""

import time
from collections.abc import Callable

import numpy as np

from tempering.estimators import LogZ
from tempering.progress.pace import Pace, in_hours
from tempering.progress.progress import Progress

_ESTIMATE_SECONDS = 2.0  # between two estimates
_MOST_TIMES_COST = 20.0  # and at least so many times what the last one took, so that they take at most 5 % of a run


class Line:
    """The stage of a run, how far it is, the estimate so far, and the time left.

    A bar draws it from another thread. So what changes is replaced as a whole, and never changed in place.
    """

    def __init__(self, *, names_runs: bool = False, clock: Callable[[], float] = time.monotonic):
        """`names_runs` says which run it is, where there are several; `clock` tells the time in seconds."""
        self._names_runs, self._clock = names_runs, clock
        self._progress: Progress | None = None
        self._pace, self._estimate, self._estimate_due = Pace(clock), "", -np.inf

    def hear(self, progress: Progress) -> None:
        """Take in where the run stands now."""
        if self._progress is None or _place(self._progress) != _place(progress):
            self._pace = Pace(self._clock)
        self._pace.report(progress.done)
        self._look_at_estimate(progress)
        self._progress = progress

    def _look_at_estimate(self, progress: Progress) -> None:
        """Compute the estimate where it is time to, and where that is quick."""
        if progress.answer is None:
            self._estimate, self._estimate_due = "", -np.inf
            return
        started = self._clock()
        if progress.is_slow or started < self._estimate_due or progress.estimate is None:
            return
        self._estimate, now = _in_words(progress.estimate, progress.target_error), self._clock()
        self._estimate_due = now + max(_ESTIMATE_SECONDS, _MOST_TIMES_COST * (now - started))

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is known yet: the compiler is at work."""
        return self._progress is None

    @property
    def place(self) -> str:
        """The stage; with several runs, also which one."""
        if self._progress is None:
            return "compiling"
        found, which = self._progress, ""
        if found.num_repeats > 1:
            which = f"{found.repeat + 1} of {found.num_repeats}: "
        return f"{which}{found.run}, {found.stage}" if self._names_runs else f"{which}{found.stage}"

    @property
    def share(self) -> float:
        """The share of the stage that is done, from 0 to 1."""
        return 0.0 if self._progress is None else self._progress.share

    @property
    def phrases(self) -> list[str]:
        """The sweeps done, the estimate and the time left, as far as they are known."""
        found = self._progress
        if found is None:
            return []
        phrases = [f"{found.done} of {found.num_steps}", self._estimate, self._time_left(found)]
        return [phrase for phrase in phrases if phrase]

    @property
    def note(self) -> str:
        """What else there is to say of the whole run."""
        return "" if self._progress is None else self._progress.note

    def __str__(self) -> str:
        return ", ".join([self.place, *self.phrases, *([self.note] if self.note else [])])

    def _time_left(self, progress: Progress) -> str:
        """Until the end of the stage; whether the run ends there too is said."""
        seconds = self._pace.seconds_left(progress.num_steps - progress.done)
        if seconds is None or progress.done == progress.num_steps:
            return ""
        if progress.answer is None:
            until = "left in this stage"
        else:
            until = "left" if progress.target_error is None else "to the next look"
        return f"{in_hours(seconds)} {until}"


def _place(progress: Progress) -> tuple[int, str, str]:
    return progress.repeat, progress.run, progress.stage


def _in_words(estimate: LogZ, target_error: float | None) -> str:
    error = f" ± {estimate.std_error:.3f}" if np.isfinite(estimate.std_error) else ""
    goal = "" if target_error is None else f" → {target_error:g}"
    return f"log Z {estimate.log_z:.3f}{error}{goal}"
