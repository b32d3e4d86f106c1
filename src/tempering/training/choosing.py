"""Which parameters a run keeps, and when it may stop: by the validation likelihood, smoothed over some updates.

A tracked likelihood is noisy, and its errors at neighbouring updates are alike. The largest of many such values is too
good, and the first dip is no decline. So the line is smoothed before its maximum is taken, and it must stay below the
error band of its maximum for many updates before a run stops.
"""

from typing import Any, NamedTuple

import numpy as np

from tempering.models.rbm.batch import Parameters
from tempering.results import MeanLogLikelihood

SMOOTHED_UPDATES = 20  # four times as many as eq. 24 takes to forget, by default
MIN_BELOW = 3  # evaluations below the band before a run stops, however far apart they are


class Best(NamedTuple):
    """The update at which the smoothed likelihood of the validation rows was highest so far.

    Attributes:
        num_updates: The last update of the stretch that was averaged.
        value: The mean over the stretch.
        interval: The mean 95 % band over the stretch. Errors of neighbouring updates are alike, so that averaging
            hardly narrows it.
        score: The mean less a part of its band, larger where few values were averaged.
        parameters: W, c and b at that update.
    """

    num_updates: int
    value: float
    interval: tuple[float, float]
    score: float
    parameters: Parameters


class Choosing:
    """Follows the validation likelihood of a run.

    Attributes:
        best: Where the smoothed line was highest; None before there is any of it.
        below_since: The update since which the line has been below the band of its maximum; None where it is not.
        num_below: How many evaluations that is.
    """

    def __init__(self) -> None:
        """Each value of the smoothed line is a mean over the last `SMOOTHED_UPDATES` updates."""
        self._recent: list[tuple[int, float, float, float]] = []  # update, value, and both ends of its band
        self.best: Best | None = None
        self.below_since: int | None = None
        self.num_below = 0

    def add(self, num_updates: int, valid: MeanLogLikelihood, parameters: Parameters) -> None:
        """Take in the likelihood after an update, if it can be believed.

        Args:
            num_updates: Updates so far.
            valid: The likelihood of the validation rows.
            parameters: The parameters of which it is.
        """
        self._recent.append((num_updates, valid.value, *valid.interval))
        self._recent = [each for each in self._recent if each[0] > num_updates - SMOOTHED_UPDATES]
        value, low, high = (float(mean) for mean in np.mean(self._recent, axis=0)[1:])
        score = value - (value - low) / np.sqrt(len(self._recent))  # a mean of few values must be that much better
        if self.best is None or score > self.best.score:
            self.best = Best(num_updates, value, (low, high), float(score), parameters)
        if high >= self.best.interval[0]:
            self.below_since, self.num_below = None, 0
            return
        self.below_since = num_updates if self.below_since is None else self.below_since
        self.num_below += 1

    def has_fallen(self, num_updates: int, patience: int) -> bool:
        """Whether the line has been below the band of its maximum for so many updates.

        Args:
            num_updates: Updates so far.
            patience: How many updates it must have been there.

        Returns:
            True where a run may stop.
        """
        since = self.below_since
        return since is not None and self.num_below >= MIN_BELOW and num_updates - since >= patience

    def snapshot(self) -> tuple[dict[str, Any], Parameters | None]:
        """What a later run needs to go on: plain numbers, and the best parameters."""
        best = None if self.best is None else self.best._asdict()
        parameters = None if best is None else best.pop("parameters")
        numbers = {"recent": list(self._recent), "below_since": self.below_since, "num_below": self.num_below}
        return numbers | {"best": best}, parameters

    def restore(self, numbers: dict[str, Any], parameters: Parameters | None) -> None:
        """Go on from a snapshot.

        Args:
            numbers: Its plain numbers.
            parameters: Its best parameters.
        """
        self._recent = [(int(update), value, low, high) for update, value, low, high in numbers["recent"]]
        self.below_since, self.num_below = numbers["below_since"], numbers["num_below"]
        if numbers["best"] is not None and parameters is not None:
            self.best = Best(**numbers["best"], parameters=parameters)
