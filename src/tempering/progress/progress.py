"""Where a run stands, for whoever watches it."""

import dataclasses
import functools
from collections.abc import Callable
from typing import TypeAlias

from tempering.estimators import LogZ
from tempering.sampling import Stage


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands. The estimate so far is computed when it is first asked for, and not before.

    ```python
    tp.estimate(model, watch=lambda progress: print(progress))
    ```

    Attributes:
        stage: What the chains are doing, such as "annealing" or "sampling".
        done: Sweeps per chain of this stage so far.
        num_steps: Sweeps per chain of the whole stage; with a `target_error`, up to the next look at the error.
        run: Which run of a comparison this is, such as "simulated tempering".
        repeat: The number of the repeat in a comparison, from 0.
        num_repeats: How many repeats there are.
        target_error: The standard error at which the run may end, where one was asked for.
        note: A sentence about the whole run, such as how long it is expected to be.
        is_slow: Whether the estimate so far takes seconds, since its method reads every draw; bars leave it out.
        answer: Makes the estimate so far; None while there is none.
    """

    stage: str
    done: int
    num_steps: int
    run: str = "simulated tempering"
    repeat: int = 0
    num_repeats: int = 1
    target_error: float | None = None
    note: str = ""
    is_slow: bool = False
    answer: Callable[[], LogZ] | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def from_stage(cls, stage: Stage, **about: object) -> "Progress":
        """The progress that a stage has made."""
        return cls(stage.kind.label, stage.done, stage.num_steps, **about)  # pyright: ignore[reportArgumentType]

    @functools.cached_property
    def estimate(self) -> LogZ | None:
        """log Z from the draws that count so far; None while there are none."""
        return None if self.answer is None else self.answer()

    @property
    def share(self) -> float:
        """The share of the stage that is done, from 0 to 1."""
        return self.done / self.num_steps

    def __str__(self) -> str:
        return f"{self.run}, {self.stage}: {self.done} of {self.num_steps} sweeps"


Watch: TypeAlias = Callable[[Progress], bool | None]
