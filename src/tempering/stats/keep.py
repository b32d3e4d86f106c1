"""What a run keeps on request."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Keep:
    """What a run keeps in addition to the few numbers per rung that RTS needs.

    ```python
    record = TemperingRecord.empty(ladder, keep=Keep(slopes=True, expect=lambda x: x.mean()))
    ```

    Attributes:
        slopes: moments of d log f/dβ, for thermodynamic integration.
        steps: ratios of neighbouring densities, for stepping stones.
        bridges: the share of the next density in the sum of two neighbours, for bridge sampling.
        controls: control variates of the bridges, where moves give them; kept with `bridges`.
        transitions: Rao-Blackwellized transition matrices, K × K numbers per chain, for RSD.
        features: the features of every draw, at most `MAX_KEPT_DRAWS` draws of all chains, for MBAR and BAR.
        expect: a function g(x) whose mean under the target is wanted.
        moves: acceptance of moves, for those that may be rejected.
        states: the states themselves, for draws of the target; at most `MAX_KEPT_NUMBERS` numbers.
        tours: sums between exact draws of the base, for moves that make such draws at rung 0.
    """

    slopes: bool = False
    steps: bool = False
    bridges: bool = False
    controls: bool = False
    transitions: bool = False
    features: bool = False
    expect: Callable[[Any], Any] | None = None
    moves: bool = False
    states: bool = False
    tours: bool = False


JUST_RTS = Keep()
