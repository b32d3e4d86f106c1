"""What a run keeps, beyond the few numbers per rung that RTS needs."""

import dataclasses
from collections.abc import Callable
from typing import Any

MAX_BLOCK_STEPS = 250  # keeps float32 sums exact enough and a lost block short


@dataclasses.dataclass(frozen=True)
class Keep:
    """What a run keeps beyond the few numbers per rung that RTS needs."""

    slopes: bool = False  # for thermodynamic integration
    steps: bool = False  # for stepping stones
    transitions: bool = False  # Rao-Blackwellized, for RSD: K × K numbers a chain
    features: bool = False  # for MBAR and BAR: features of every draw, up to `MAX_KEPT_DRAWS`
    expect: Callable[[Any], Any] | None = None  # g(x), whose mean under the target is wanted
    moves: bool = False  # how often moves are accepted, for those that may be refused
    states: bool = False  # x itself, for draws of the target
    tours: bool = False  # sums between exact draws of the base, where the move makes them


JUST_RTS = Keep()
