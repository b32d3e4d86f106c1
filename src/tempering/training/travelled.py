"""How far chains that follow a model have travelled, held against how much the model has changed meanwhile.

A run is believed if its chains went through the ladder and back. While a model learns, that must happen before it has
become another one: chains that cross more slowly carry draws of models long past, and find no mode that is new.
"""

import dataclasses
import math

from tempering.diagnosis.checks import MIN_ROUND_TRIPS
from tempering.findings import MIN_EFFECTIVE
from tempering.verdicts import Finding, Verdict


@dataclasses.dataclass(frozen=True)
class Travelled:
    """What happened since the chains had made a round trip each, on average.

    Log weights between two models that are normal with variance σ² leave an effective share exp(−σ²) of the draws.
    Steps of a walk in the parameters add their σ², steps in one direction would add σ. So the product of the shares is
    the most that can be left.

    Attributes:
        change: −Σ log of the effective share that each update left.
        crossings: Crossings of the ladder, from one end to the other, of a chain on average.
    """

    change: float = 0.0
    crossings: float = 0.0

    def after(self, overlap: float, crossings: float) -> "Travelled":
        """The same after another update; nothing, once every chain has made a round trip.

        Args:
            overlap: The effective share of the draws that the update left.
            crossings: Crossings of a chain in the sweeps of the update, on average.
        """
        total = self.crossings + crossings
        if total >= 2 * MIN_ROUND_TRIPS:
            return Travelled()
        change = -math.log(overlap) if 0 < overlap < math.inf else math.inf
        return Travelled(self.change + change, total)

    def finding(self, num_chains: int) -> Finding | None:
        """The finding for a model that has become another one before the chains came through the ladder.

        Args:
            num_chains: How many chains follow the model.
        """
        num_effective = num_chains * math.exp(-self.change)
        if num_effective >= MIN_EFFECTIVE:
            return None
        trips = f"{num_chains} chains made {self.crossings / 2:.2g} round trips each"
        seen = f"{trips} while the model changed so much that a draw of each would now count as {num_effective:.2g}"
        return Finding(Verdict.STUCK, seen, "lower the learning rate, or give the tracker more sweeps")
