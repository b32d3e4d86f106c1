"""A warm-up for paths with a knot: passes up and down, slower where the two disagree, and rungs where they are slow."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from tempering._errors import check_count
from tempering._types import HostPerRung
from tempering.estimators import Annealed, ais, rts
from tempering.estimators.both_ways import log_z_from_both_ways
from tempering.kernels import AbstractMove, AnnealState, AnnealUp, Position, SimulatedTempering
from tempering.kernels.anneal_back import AnnealBack
from tempering.ladder import Ladder, StepLengths
from tempering.ladder.betas import respaced_betas
from tempering.sampling import AbstractStageKind, Setup, Stage
from tempering.stats import AnnealRecord, AnnealWeights
from tempering.warmups.annealed_start import Equilibrating, annealing_ladder
from tempering.warmups.measuring import AbstractMeasuringWarmup, rungs_by_weight
from tempering.warmups.starts import start_chains

_STRETCHES = 50  # of equal time, into which a pass is cut to see where it loses work
_BY_LENGTH = 0.5  # of the rungs lie in equal steps of length; the others in equal steps of the passes' time


class Rising(AbstractStageKind):
    """A pass up.

    Attributes:
        betas: The rungs of the tempered run, as far as they are known.
    """

    betas: HostPerRung
    label: ClassVar[str] = "annealing"
    is_whole: ClassVar[bool] = True  # the weights of half a pass say nothing about the target
    record: ClassVar[Any] = AnnealRecord


class Falling(AbstractStageKind):
    """A pass back down from where a pass up has arrived.

    Attributes:
        betas: The rungs of the tempered run, as far as they are known.
        up: The log weights of the pass up.
        kept: The states that it kept on the way.
    """

    betas: HostPerRung
    up: AnnealWeights
    kept: Any
    label: ClassVar[str] = "annealing back"
    is_whole: ClassVar[bool] = True
    record: ClassVar[Any] = AnnealRecord


@dataclasses.dataclass(frozen=True)
class HysteresisStart(AbstractMeasuringWarmup):
    """Rounds of annealing up and back down, each slower where the round before it lost work.

    Where the typical states change abruptly at one β, a *knot*, passes lag behind on both ways: a hysteresis. Between
    the places where the pass up and the pass down cross the knot, their mean increments of log weight differ. That
    difference is the work that is lost. The next round is twice as long, and spends its time in proportion to the root
    of the work lost in equal times, which makes the loss least (Sivak and Crooks 2012). log Ẑ is from both passes of
    the last round together, see `log_z_from_both_ways`. Each chain has kept a state on its last way up and one on its
    last way down, and begins with the one that has more weight at its rung, so that few begin on the wrong side.

    An adaptive ladder has half of its rungs where the passes are slow. Chains then spend half of their time where they
    can cross the knot.

    ```python
    tp.estimate(rbm, "uniform", warmup=tp.HysteresisStart())
    ```

    Attributes:
        anneal_steps: Steps of each of the first two passes.
        num_rounds: Rounds of a pass up and a pass down. Each is twice as long as the one before.
        equilibration_steps: Steps of each tempered run before sampling.

    Caveats: Moves must be reversible. On a path without a knot `SequentialStart` is as good and takes fewer sweeps.
    """

    anneal_steps: int = 250
    num_rounds: int = 3
    equilibration_steps: tuple[int, ...] = (100,)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("anneal_steps", "num_rounds"):
            check_count(f"HysteresisStart({name}=...)", getattr(self, name), 1)

    @property
    def num_warmup_steps(self) -> int:
        """Steps of all passes and tempered runs together."""
        return 2 * (2**self.num_rounds - 1) * self.anneal_steps + sum(self.equilibration_steps)

    def scaled(self, factor: float) -> "HysteresisStart":
        """Shorter or longer in all its parts, each of which keeps a step at least."""
        anneal, *rest = (max(1, round(factor * steps)) for steps in (self.anneal_steps, *self.equilibration_steps))
        return dataclasses.replace(self, anneal_steps=anneal, equilibration_steps=tuple(rest))

    def first(self, setup: Setup) -> Stage:
        """Draws of the base, about to be annealed up in steps that are spaced as the ladder's."""
        fine = annealing_ladder(setup.ladder, self.anneal_steps)
        kind, states = Rising(_betas(setup.ladder)), _starts(setup, 0, fine, setup.ladder)
        return Stage.first(kind, fine, AnnealUp(setup.move), states, self.anneal_steps)

    def templates(self, setup: Setup) -> list[Stage]:
        first = self.first(setup)
        walked = dataclasses.replace(first, recording=AnnealWeights(np.zeros((first.num_chains, first.num_steps))))
        return [first, _back(setup.move, walked, first.kind), setup.tempered_template(Equilibrating())]

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Back down, up again, and so on; then short tempered runs; then sample."""
        if isinstance(stage.kind, Rising):
            return _back(setup.move, stage, stage.kind)
        if isinstance(stage.kind, Falling):
            is_last = stage.number + 1 == 2 * self.num_rounds or setup.is_late
            if not is_last:
                return self._again(setup, stage, stage.kind)
            stage, ladder = self._from_both_ways(setup, stage, stage.kind)
        else:
            ladder = stage.ladder.with_log_z(rts(stage.recording.stats).values)
        done = stage.number + 1 - 2 * self.num_rounds
        if done == len(self.equilibration_steps) or setup.is_late:
            return setup.sampling_after(stage, ladder, stage.states)
        steps = self.equilibration_steps[done]
        return stage.next(Equilibrating(), ladder, SimulatedTempering(setup.move), stage.states, steps)

    def _again(self, setup: Setup, stage: Stage, kind: Falling) -> Stage:
        """Up once more, at a better pace; the rungs of the tempered run follow that pace."""
        num_steps, lost = 2 * stage.num_steps, lost_work(kind.up, stage.recording)
        fine = Ladder.create(stage.ladder.path.with_betas(better_pace(_betas(stage.ladder), lost, num_steps)))
        ladder = self.reshaped(setup.ladder, self._lengths(stage, kind).seen_at(_betas(fine), _BY_LENGTH))
        states = _starts(setup, stage.number + 1, fine, ladder)
        return stage.next(Rising(_betas(ladder)), fine, AnnealUp(setup.move), states, num_steps)

    def _from_both_ways(self, setup: Setup, stage: Stage, kind: Falling) -> tuple[Stage, Ladder]:
        """The finished passes with the states that they kept, and the ladder with Ẑ from their weights."""
        ladder, up, down = self._ladder_of(setup, kind), kind.up.log_weights(), stage.recording.log_weights_down()
        log_z = log_z_from_both_ways(up, down)
        log_z = log_z if np.isfinite(log_z).all() else ais(up).values
        annealed = Annealed.from_weights(up, ladder.path.log_z_base())
        length = self._lengths(stage, kind).length(_betas(ladder))
        is_down = is_heavier_down(up, down, log_z[-1], np.asarray(stage.states.kept_at))
        kept = jax.tree.map(
            lambda a, b: np.where(is_down.reshape(-1, *[1] * (np.ndim(a) - 1)), b, a), kind.kept, stage.states.kept
        )
        states = Position(kept, jnp.asarray(rungs_by_weight(ladder, stage.num_chains)))
        stage = dataclasses.replace(stage.with_found(annealed=annealed, length=length), states=states)
        return stage, ladder.with_log_z(np.interp(_betas(ladder), _betas(stage.ladder), log_z))

    def _lengths(self, stage: Stage, kind: Falling) -> StepLengths:
        """Distances along the path, as the chains of both passes see it."""
        both = np.concatenate([kind.up.log_increments, -stage.recording.log_increments[:, ::-1]])
        return StepLengths.from_increments(_betas(stage.ladder), both, self.measure)

    def _ladder_of(self, setup: Setup, kind: Falling) -> Ladder:
        """The ladder of the tempered run, whose guess of log Z is still missing."""
        log_prior = None if self.rule is None else self.rule.log_prior_of(kind.betas)
        return setup.ladder.with_betas(kind.betas, log_prior)


def lost_work(up: AnnealWeights, down: AnnealWeights) -> Float[np.ndarray, " step"]:
    """The work that a pass up and a pass down lose together at each step, in nats: 0 on average for slow passes.

    A pass up gains ⟨log f_{k+1} − log f_k⟩ at a step, and a pass down must give back as much. What it gives back beyond
    that is lost: to steps that are too wide, and to states that lag behind.

    Args:
        up: of the pass up.
        down: of the pass down, whose first step is the last of the pass up.

    Returns:
        One number per step, from the base upwards; increments that are not finite are left out.
    """
    return -_mean_increments(down)[::-1] - _mean_increments(up)


def better_pace(
    betas: Float[np.ndarray, " place"],
    lost: Float[np.ndarray, " step"],
    num_steps: int,
    num_stretches: int = _STRETCHES,
) -> HostPerRung:
    """Where the steps of the next pass are, so that it loses less work.

    A pass that takes the time t(β) dβ at β loses ζ(β)/t(β) there. For a given total time the loss is least for t ∝ √ζ.
    In stretches of equal time the best time is in proportion to the root of the work that each has lost.

    Args:
        betas: the inverse temperatures of the pass.
        lost: what it lost at each step.
        num_steps: of the next pass.
        num_stretches: into which the pass is cut.

    Returns:
        `num_steps` + 1 inverse temperatures.
    """
    places = np.linspace(0, len(lost), min(num_stretches, len(lost)) + 1)
    until = np.interp(places, np.arange(len(betas)), np.concatenate([[0.0], np.cumsum(lost)]))
    in_stretch = np.sqrt(np.maximum(np.diff(until), 0.0))
    return respaced_betas(np.interp(places, np.arange(len(betas)), betas), in_stretch, num_steps + 1)


def is_heavier_down(
    up: Float[np.ndarray, "chain rung"],
    down: Float[np.ndarray, "chain rung"],
    log_ratio: float,
    kept_at: Int[np.ndarray, " chain"],
) -> Bool[np.ndarray, " chain"]:
    """Whether the state that a chain kept on its way down has more weight at its rung than the one from its way up.

    The weights are those of `log_z_from_both_ways`.

    Args:
        up: log weights of passes up, 0 at rung 0.
        down: log weights of passes down, 0 at the target.
        log_ratio: the estimate of log Z_{K−1} − log Z_0.
        kept_at: the rung at which each chain kept its states.

    Returns:
        One answer per chain; no where a weight is NaN.
    """
    chains = np.arange(len(up))
    by_up = up[chains, kept_at] - np.logaddexp(0.0, up[:, -1] - log_ratio)
    by_down = down[chains, kept_at] - down[:, 0] - np.logaddexp(0.0, -down[:, 0] - log_ratio)
    return by_down > by_up


def _mean_increments(weights: AnnealWeights) -> Float[np.ndarray, " step"]:
    known = np.isfinite(weights.log_increments)
    return np.where(known, weights.log_increments, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)


def _back(move: AbstractMove, stage: Stage, kind: Any) -> Stage:
    """The pass back down from the ends of a pass up, which keeps states at the same places."""
    down = Falling(kind.betas, stage.recording, jax.tree.map(np.asarray, stage.states.kept))
    return stage.next(down, stage.ladder, AnnealBack(move), stage.states, stage.num_steps)


def _starts(setup: Setup, number: int, fine: Ladder, ladder: Ladder) -> AnnealState:
    """Fresh draws of the base, each of which is to be kept next to one rung of the tempered run."""
    rungs = rungs_by_weight(ladder, setup.num_chains)
    kept_at = np.abs(_betas(fine) - _betas(ladder)[rungs][:, None]).argmin(axis=1)
    return start_chains(jax.random.fold_in(setup.key, number), fine.path, AnnealState.start, kept_at)


def _betas(ladder: Ladder) -> HostPerRung:
    return np.asarray(ladder.path.betas, np.float64)
