"""The paper's initial iterations (Section 2.4): short runs, each correcting the guess of log Z."""

import dataclasses
from typing import ClassVar

import jax
import numpy as np
from scipy.special import stdtrit

from tempering import _defaults
from tempering._errors import InputError, check_count
from tempering.estimators import rts, ts
from tempering.estimators.equilibration import drift_between_halves
from tempering.estimators.tempered import log_occupancy
from tempering.estimators.uncertainty import independent_parts, relative_parts
from tempering.findings import FALSE_ALARM, MAX_DRIFT, MIN_EFFECTIVE, unexpectedly_empty
from tempering.kernels import Position, SimulatedTempering
from tempering.sampling import AbstractTemperedKind, AbstractWarmup, Setup, Stage
from tempering.stats import BlockedStats, Recording
from tempering.warmups.starts import base_positions, uniform_rungs

MAX_UNEVENNESS = 0.1  # of ĉ_k/r_k from 1, beyond noise: the paper's 0.1/K, where r_k = 1/K


class Iterating(AbstractTemperedKind):
    """One of the initial iterations, under a guess of log Z that may be wrong by hundreds of nats."""

    label: ClassVar[str] = "initial iterations"
    any_range: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class InitialIterations(AbstractWarmup):
    """The paper's warm-up: short runs from the last x's and fresh uniform rungs, each correcting log Ẑ.

    They end when two of them in a row were even, see `is_even`, or after `max_iterations`. With a `growth` of 2 each is
    twice as long as the one before: short while Ẑ is far from Z, long once it is near.

    Caveats: iterations that are too short to cross the ladder can end nats from the truth, and stay there. The rule
    does not see that; the verdict on the run that follows does.

    Attributes:
        steps: Steps of the first iteration.
        max_iterations: After so many they end, whether the rule is met or not.
        min_iterations: So many there are at least.
        growth: The factor from the length of one iteration to that of the next.
        max_steps: Steps of the longest iteration.
        rao_blackwell: Whether ĉ_k is the mean of q(k | x), eq. 9; otherwise it is the share of visits, with 0.1 added
            to each count, as in Figure 1 of the paper. That is noisier by far, and there for comparison.
    """

    steps: int = _defaults.ITERATION_SWEEPS
    max_iterations: int = _defaults.ITERATIONS
    min_iterations: int = 1
    growth: float = 1.0
    max_steps: int = 5000
    rao_blackwell: bool = True

    def steps_of(self, number: int) -> int:
        """Steps of an iteration, counted from 0."""
        factor = np.exp(min(number * np.log(self.growth), 100.0))  # far beyond `max_steps`, not beyond numbers
        return round(min(self.steps * factor, max(self.steps, self.max_steps)))

    def __post_init__(self) -> None:
        for name in ("steps", "max_iterations", "min_iterations", "max_steps"):
            check_count(f"InitialIterations({name}=...)", getattr(self, name), 1)
        if not 1 <= self.growth < np.inf:
            raise InputError(f"InitialIterations(growth=...) must be 1 or more, got {self.growth}.")

    def first(self, setup: Setup) -> Stage:
        """Ẑ_k = Ẑ_0, and draws of the base."""
        rungs = uniform_rungs(setup.key, setup.ladder.path.num_rungs, setup.num_chains)
        starts = base_positions(setup.key, setup.ladder.path, rungs)
        return Stage.first(Iterating(), setup.ladder, SimulatedTempering(setup.move), starts, self.steps)

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Another iteration until two in a row were even, then sampling."""
        done = stage.number + 1
        # One even iteration says that its Ẑ was right; the next, that the correction since then is right, too.
        was_even, is_now_even = stage.number > 0 and stage.warmup.is_equilibrated, is_even(stage.recording)
        is_equilibrated = was_even and is_now_even and done >= self.min_iterations
        estimator = rts if self.rao_blackwell else ts
        better = stage.ladder.with_log_z(estimator(stage.recording.stats).values)
        rungs = uniform_rungs(jax.random.fold_in(setup.key, done), setup.ladder.path.num_rungs, stage.num_chains)
        positions = Position(stage.states.x, rungs)
        if is_equilibrated or done >= self.max_iterations or setup.is_late:
            return setup.sampling_after(stage.with_found(is_equilibrated=is_equilibrated), better, positions)
        stage = stage.with_found(is_equilibrated=is_now_even)  # for the next look; the last one decides
        return stage.next(Iterating(), better, SimulatedTempering(setup.move), positions, self.steps_of(done))


def is_even(recording: Recording) -> bool:
    """Whether an iteration has visited every rung as often as it should: the stopping rule.

    The paper's is max_k |r_k − ĉ_k| < 0.1/K (Section 2.4), which few short runs meet, however good their Ẑ: the noise
    of ĉ_k alone is larger. So here ĉ_k/r_k may differ from 1 by 0.1 and by noise, as the scatter of chains shows it.
    Student's quantile is allowed, such that with the right Ẑ at most one iteration in a hundred is rejected, all rungs
    together. Three things more are needed, which noise does not excuse:

    - Every ĉ_k is known to a third, as a mean of ten independent numbers of its own size is.
    - The base and the target were visited, and so was every rung that should have had many visits.
    - log Z of the target does not drift from the first half of the iteration to the second.

    Args:
        recording: What the iteration kept.

    Returns:
        True if all this holds; False where a density was NaN everywhere, or the noise cannot be estimated.
    """
    stats = recording.stats
    off, error = _unevenness(stats)
    quantile = stdtrit(max(len(independent_parts(stats)) - 1, 1), 1 - FALSE_ALARM / (2 * len(off)))
    is_within_noise = np.all(np.abs(off) <= MAX_UNEVENNESS + quantile * error)
    is_known = np.all(error * np.sqrt(MIN_EFFECTIVE) <= 1 + off)
    visits = stats.visits.sum(axis=(0, 1))
    empty = unexpectedly_empty(visits == 0, stats.log_rung_mass, float(visits.sum()))
    is_visited = min(visits[0], visits[-1]) > 0 and len(empty) == 0
    return bool(is_within_noise and is_known and is_visited and abs(drift_between_halves(stats)) <= MAX_DRIFT)


def _unevenness(stats: BlockedStats) -> tuple[np.ndarray, np.ndarray]:
    """ĉ_k/r_k − 1, and its standard error from the scatter of chains; NaN where it is unknown."""
    ratio, relative = np.exp(log_occupancy(stats) - stats.log_prior), relative_parts(independent_parts(stats))[1]
    if len(relative) < 2:
        return ratio - 1, np.full(len(ratio), np.nan)
    return ratio - 1, ratio * relative.std(axis=0, ddof=1) / np.sqrt(len(relative))
