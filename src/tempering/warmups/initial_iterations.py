"""The paper's initial iterations (Section 2.4): short runs, each correcting the guess of log Z."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import stdtrit

from tempering import _defaults
from tempering._errors import InputError, check_count
from tempering.diagnosis import round_trips
from tempering.diagnosis.checks import MIN_ROUND_TRIPS
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

    They end with one that was even, see `is_even`, and in which chains went through the ladder and back, on average
    once. Iterations that are too short for that can be even and nats off, and stay there: their chains do not come far
    from where they began. So after an even one the next is as long as all before it together, and chains go on at the
    rungs where they stand. Where a `growth` above 1 is given each is longer by this factor instead, and where exactly
    `min_iterations` are asked for all have the same length, as in the paper.

    Attributes:
        steps: Steps of the first iteration.
        max_iterations: After so many they end, whether the rule is met or not; or after one of `max_steps`.
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
        """Another iteration until the rule is met, then sampling."""
        done, is_now_even = stage.number + 1, is_even(stage.recording)
        is_equilibrated = is_now_even and has_crossed(stage.recording) and done >= self.min_iterations
        is_spent = done >= self.max_iterations or (done >= self.min_iterations and stage.num_steps >= self.max_steps)
        estimator = rts if self.rao_blackwell else ts
        better = stage.ladder.with_log_z(estimator(stage.recording.stats).values)
        goes_on = is_now_even and self.lengthens
        fresh = uniform_rungs(jax.random.fold_in(setup.key, done), setup.ladder.path.num_rungs, stage.num_chains)
        rungs = jnp.asarray(stage.states.rung) if goes_on else fresh
        positions = Position(stage.states.x, rungs)
        if is_equilibrated or is_spent or setup.is_late:
            return setup.sampling_after(stage.with_found(is_equilibrated=is_equilibrated), better, positions)
        num_steps = self.steps_after(stage, is_now_even) if self.lengthens else self.steps_of(done)
        return stage.next(Iterating(), better, SimulatedTempering(setup.move), positions, num_steps)

    @property
    def lengthens(self) -> bool:
        """Whether an even iteration is followed by a longer one."""
        return self.growth == 1 and self.min_iterations < self.max_iterations

    def steps_after(self, stage: Stage, was_even: bool) -> int:
        """As many as all so far after an even iteration, else as many as in the last."""
        longest = max(self.max_steps, self.steps)
        return min(stage.warmup.num_steps + stage.done, longest) if was_even else stage.num_steps


def has_crossed(recording: Recording) -> bool:
    """Whether chains went from one end of the ladder to the other and back, as often as a run must."""
    return bool(round_trips(recording.stats).mean() >= MIN_ROUND_TRIPS)


def is_even(recording: Recording) -> bool:
    """Whether an iteration has visited every rung as often as it should: the paper's rule, with its noise.

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
