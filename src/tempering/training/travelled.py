"""How far chains that follow a model have travelled, held against how much the model has changed meanwhile.

The scatter of a run is believed if its chains went through the ladder and back often enough, all together. While a
model learns, that must happen before it has become another one: else hardly a chain has come from the base to the
target, and what they know of it comes from models long past.
"""

import dataclasses
import math

from tempering.diagnosis.checks import MIN_TOTAL_ROUND_TRIPS
from tempering.verdicts import Finding, Verdict

MIN_OVERLAP = 0.3  # effective share of the chains under new parameters; below it, old draws say little of them
_LEAST = 1e-300  # keeps the logarithm finite


@dataclasses.dataclass(frozen=True)
class Travelled:
    """What happened since the chains had last made ten round trips, all together, and in all.

    Log weights between two models that are normal with variance σ² leave an effective share exp(−σ²) of the draws.
    Steps of a walk in the parameters add their σ², steps in one direction would add σ. So the product of the shares is
    the most that can be left.

    Attributes:
        change: −Σ log of the effective share that each update left, since then.
        round_trips: Round trips of all chains since then.
        change_in_all: The same since log Z was last estimated from scratch.
        round_trips_in_all: The same.
    """

    change: float = 0.0
    round_trips: float = 0.0
    change_in_all: float = 0.0
    round_trips_in_all: float = 0.0

    def after(self, overlap: float, num_crossings: float) -> "Travelled":
        """The same after another update.

        Args:
            overlap: The effective share of the draws that the update left.
            num_crossings: Crossings of the ladder in the sweeps of the update, of all chains.
        """
        change = -math.log(overlap if overlap > _LEAST else _LEAST)  # also where it is NaN
        in_all = self.change_in_all + change, self.round_trips_in_all + num_crossings / 2
        round_trips = self.round_trips + num_crossings / 2
        if round_trips >= MIN_TOTAL_ROUND_TRIPS:
            return Travelled(0.0, 0.0, *in_all)
        return Travelled(self.change + change, round_trips, *in_all)

    def finding(self) -> Finding | None:
        """The finding for a model that has become another one while hardly a chain came through the ladder."""
        if self.change <= -math.log(MIN_OVERLAP):
            return None
        meanwhile = f"while the model changed so much that {math.exp(-self.change):.1%} of its draws would still count"
        seen = f"all chains together made {self.round_trips:.3g} round trips {meanwhile}"
        return Finding(Verdict.STUCK, seen, "lower the learning rate, or give the tracker more sweeps")
