"""Step sizes for every rung (Appendix E of the paper): found in the warm-up, frozen before the draws that count.

First chains held at β = 0 and β = 1 find the largest and the smallest step by stochastic approximation. Then every
tempered stage of the warm-up tries steps around the present ones; the constrained logistic model of `acceptance` is
fitted to what was accepted, and the step is read off it at each rung. The first such stage also gives the scale of
every coordinate at every rung, from all draws weighted by q(k | x): the roots of the inverse masses.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tempering._device_arrays import device_array
from tempering._types import HostPerRung
from tempering.kernels import AbstractMove, AbstractSizedMove, Held, Position, Schedule
from tempering.ladder import LadderRule
from tempering.sampling import AbstractStageKind, AbstractWarmup, Setup, Stage
from tempering.stats import MoveCounts, MoveSums, TuningCounts
from tempering.warmups.acceptance import fit_acceptance
from tempering.warmups.climb_tuning import coordinates
from tempering.warmups.starts import base_positions

_FIRST_NUMBER = 2**16  # of the tuning stages, out of the way of those that follow
_NUM_HELD = 64  # chains at each end
_NARROW, _WIDE = 0.2, float(np.log(2.0))  # by how much steps are jittered, in logs: while drawing and while trying
_GAIN = 2.0  # of the stochastic approximation, in log ε per acceptance probability
_MAX_MOMENTS = 2**24  # rungs × coordinates × chains; beyond it coordinates are not rescaled, to save memory


class Holding(AbstractStageKind):
    """Moves at the base and at the target, to see how often they are accepted there.

    Acceptance is summed over the whole stage, in one block.
    """

    label: ClassVar[str] = "tuning steps"
    num_blocks: ClassVar[int] = 1
    record: ClassVar[Any] = MoveSums


@dataclasses.dataclass(frozen=True)
class Tuned(AbstractWarmup):
    """Another warm-up, with a move whose step sizes are found on the way.

    Moves without a given step size are tuned by default; this class is for those who want to say how.

    ```python
    tp.estimate(model, warmup=tp.warmups.Tuned(tp.AnnealedStart(), num_updates=40))
    ```

    Attributes:
        inner: The other warm-up.
        num_updates: Updates of the step sizes at the base and at the target, before the other warm-up.
        update_steps: Steps between two of these updates.
        is_fixed: Whether all rungs get the mean of the step sizes that were found, for comparison as in the paper.
        rescales: Whether coordinates are measured in their scales at each rung.
    """

    inner: AbstractWarmup
    num_updates: int = 20
    update_steps: int = 5
    is_fixed: bool = False
    rescales: bool = True

    tunes_moves: ClassVar[bool] = True

    @property
    def can_respace(self) -> bool:
        return self.inner.can_respace

    def respacing(
        self, measure: str | None, chooses_number: bool, rule: LadderRule | None, least_rungs: int = 2
    ) -> "Tuned":
        return dataclasses.replace(self, inner=self.inner.respacing(measure, chooses_number, rule, least_rungs))

    def first(self, setup: Setup) -> Stage:
        """Draws of the base, half of them held at the base and half at the target."""
        path, move = setup.ladder.path, setup.move
        assert isinstance(move, AbstractSizedMove)
        ends = np.repeat([0, path.num_rungs - 1], _NUM_HELD)
        positions = base_positions(jax.random.fold_in(setup.key, _FIRST_NUMBER), path, ends)
        scale = coordinates(positions.x).std(axis=0)
        scale = np.where(scale > 0, scale, 1.0) if self._rescales(setup) else np.ones_like(scale)
        schedule = move.schedule.with_knots(path.betas, scale.size)
        schedule = _scheduled(schedule, np.asarray(schedule.step_sizes), np.tile(scale, (path.num_rungs, 1)))
        return self._held(setup, move.with_schedule(schedule), positions, 0)

    def templates(self, setup: Setup) -> list[Stage]:
        first = self.first(setup)
        move = first.move
        assert isinstance(move, AbstractSizedMove)
        others = self.inner.templates(dataclasses.replace(setup, move=move))
        return [first, *(self._ready(stage, move) for stage in others)]

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """More tuning; then the stages of the other warm-up, each with the steps that the one before it suggests."""
        move = stage.move
        assert isinstance(move, AbstractSizedMove)
        if isinstance(stage.kind, Holding):
            return self._after_held(setup, stage, move)
        following = self.inner.after(setup, stage)
        tuning = stage.recording.tuning if stage.kind.is_tempered else None
        if tuning is not None:
            knots = move.schedule.with_knots(
                stage.ladder.path.betas, move.schedule.scales.shape[1]
            )  # rungs may have moved
            schedule = refitted(knots, tuning, move.target_accept)
            # Not before the draws that count: their steps are fitted in the units they are used in.
            if self._rescales(setup) and not following.is_sampling:
                schedule = rescaled(schedule, tuning.scales())
            move = move.with_schedule(schedule)
        return self._ready(following, move)

    def _after_held(self, setup: Setup, stage: Stage, move: AbstractSizedMove) -> Stage:
        """Larger steps where too many were accepted, smaller where too few; halfway, the target's own scales."""
        done, half = stage.number - _FIRST_NUMBER + 1, self.num_updates // 2
        gain = _GAIN / (1 + ((done - 1) % half) / 3)  # begins anew with new scales
        schedule = approached(move.schedule, stage.recording, move.target_accept, gain)
        if done == half and self._rescales(setup):
            at_target = coordinates(stage.states.x)[_NUM_HELD:].std(axis=0)
            schedule = rescaled(schedule, _between(schedule.betas, schedule.scales[0], at_target))
        move = move.with_schedule(schedule)
        if done < self.num_updates and not setup.is_late:
            following = self._held(setup, move, stage.states, done)
        else:
            following = self._ready(self.inner.first(dataclasses.replace(setup, move=move)), move)
        return dataclasses.replace(following, warmup=stage.spent())

    def _held(self, setup: Setup, move: AbstractSizedMove, positions: Position, done: int) -> Stage:
        stage = Stage.first(Holding(), setup.ladder, Held(move), positions, self.update_steps)
        return dataclasses.replace(stage, number=_FIRST_NUMBER + done)

    def _ready(self, stage: Stage, move: AbstractSizedMove) -> Stage:
        """The stage with this move: trying step sizes where they are still to be chosen, keeping to them elsewhere."""
        schedule, kind = move.schedule, stage.kind
        if stage.is_sampling and self.is_fixed:
            mean = jnp.full_like(schedule.step_sizes, schedule.step_sizes.mean())
            schedule = dataclasses.replace(schedule, step_sizes=mean)
        jitter = device_array(_WIDE if kind.tries_step_sizes else _NARROW)
        if kind.tries_step_sizes:
            kind = kind.tuned_about(coordinates(stage.states.x).mean(axis=0))
        stage = stage.with_move(move.with_schedule(dataclasses.replace(schedule, jitter=jitter)))
        return dataclasses.replace(stage, kind=kind)

    def _rescales(self, setup: Setup) -> bool:
        """Whether coordinates are measured in their scales: if asked for, and if there is memory for their moments."""
        path = setup.ladder.path
        is_affordable = setup.num_chains * path.num_rungs * path.num_dims <= _MAX_MOMENTS
        has_scale = isinstance(setup.move, AbstractSizedMove) and setup.move.has_scale
        return self.rescales and is_affordable and has_scale


def tuned_if_needed(warmup: AbstractWarmup, move: AbstractMove) -> AbstractWarmup:
    """The warm-up, with tuning where the move has a step size that nobody gave.

    Args:
        warmup: The warm-up that was asked for.
        move: How x moves.

    Returns:
        The warm-up itself, or wrapped in `Tuned`.
    """
    needs_tuning = isinstance(move, AbstractSizedMove) and not move.is_tuned
    return Tuned(warmup) if needs_tuning and not warmup.tunes_moves else warmup


def approached(schedule: Schedule, moves: MoveCounts, target: float, gain: float) -> Schedule:
    """Steps at both ends after one step of stochastic approximation, log ε += gain · (acceptance − target)."""
    ends = [0, -1]
    moved = np.asarray(schedule.step_sizes, np.float64)[ends] * np.exp(gain * (moves.acceptance[ends] - target))
    return _scheduled(schedule, _between(schedule.betas, *moved))


def refitted(schedule: Schedule, tuning: TuningCounts, target: float) -> Schedule:
    """Steps read off the logistic model of what was accepted, at every rung.

    Rung 0 is left out: no step is taken there, and a base that is narrower than the next rungs in some direction would
    bend theirs, since by the model they accept less than it does.
    """
    rungs, bins = np.nonzero(tuning.num_moves)
    rungs, bins = rungs[rungs > 0], bins[rungs > 0]
    counts = tuning.num_moves[rungs, bins]
    steps = tuning.steps[bins]
    low, high = tuning.steps[[0, -1]]
    fit = fit_acceptance(
        rungs, steps, tuning.accepted[rungs, bins] / counts,
        num_rungs=len(tuning.weight), low=float(low), high=float(high), weights=counts,
    )  # fmt: skip
    return _scheduled(schedule, fit.best_steps(target))


def rescaled(schedule: Schedule, scales: Float[np.ndarray, "rung dim"]) -> Schedule:
    """The same steps in units of new scales, as far as the tightest coordinate allows; unknown scales stay."""
    old = np.asarray(schedule.scales, np.float64)
    new = np.where(np.isfinite(scales) & (scales > 0), scales, old)
    return _scheduled(schedule, np.asarray(schedule.step_sizes, np.float64) * (old / new).max(axis=1), new)


def _between(betas: Any, at_base: Any, at_target: Any) -> np.ndarray:
    """At every β, with 1/value² linear in it; see `Schedule`."""
    betas = np.asarray(betas, np.float64)
    low, high = np.asarray(at_base, np.float64), np.asarray(at_target, np.float64)
    betas = betas if low.ndim == 0 else betas[:, None]
    with np.errstate(divide="ignore"):  # a scale of zero is refused by `rescaled`
        return ((1 - betas) * low**-2 + betas * high**-2) ** -0.5


def _scheduled(schedule: Schedule, step_sizes: HostPerRung, scales: np.ndarray | None = None) -> Schedule:
    schedule = dataclasses.replace(schedule, step_sizes=device_array(step_sizes))
    return schedule if scales is None else dataclasses.replace(schedule, scales=device_array(scales))
