"""A warm-up without resampling: one annealing pass, then short tempered runs that correct the guess of log Z."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tempering.estimators import Annealed, ais, rts
from tempering.estimators.both_ways import log_z_from_both_ways
from tempering.kernels import AnnealDown, AnnealState, AnnealUp, Position, SimulatedTempering, positions_at_target
from tempering.ladder import Ladder, StepLengths
from tempering.sampling import AbstractStageKind, AbstractTemperedKind, Setup, Stage
from tempering.stats import AnnealRecord, AnnealWeights
from tempering.warmups.measuring import AbstractMeasuringWarmup, rungs_by_weight
from tempering.warmups.starts import start_chains


class Annealing(AbstractStageKind):
    """A pass along the ladder, up or down, whose log weights are recorded."""

    label: ClassVar[str] = "annealing"
    is_whole: ClassVar[bool] = True  # the weights of half a pass say nothing about the target
    record: ClassVar[Any] = AnnealRecord


class Returning(AbstractStageKind):
    """A pass back down from where the pass up has arrived.

    Attributes:
        up: The log weights of the pass up.
        kept: The states that it kept on the way.
    """

    up: AnnealWeights
    kept: Any
    label: ClassVar[str] = "annealing back"
    is_whole: ClassVar[bool] = True
    record: ClassVar[Any] = AnnealRecord


class Equilibrating(AbstractTemperedKind):
    """A short tempered run that corrects the guess of log Z."""

    label: ClassVar[str] = "equilibrating"


@dataclasses.dataclass(frozen=True)
class AnnealedStart(AbstractMeasuringWarmup):
    """One annealing pass gives log Ẑ at every rung and a state at every rung; short tempered runs then correct log Ẑ.

    The pass has as many steps for a long ladder as for a short one. `SequentialStart` is the default because its length
    follows the ladder's. The estimate of the pass stays in the result as a check.

    ```python
    tp.estimate(model, warmup=tp.AnnealedStart(anneal_steps=600, equilibration_steps=(200, 500)))
    ```

    Attributes:
        anneal_steps: Steps of the annealing pass.
        equilibration_steps: Steps of each tempered run before sampling.
        returns: Whether the chains then anneal back down in as many steps, and log Ẑ is from both passes. Where
            the typical states change abruptly at one β, a pass lags behind on the way up and on the way down, and the
            two errors cancel in part. Moves must be reversible.
    """

    anneal_steps: int = 150
    equilibration_steps: tuple[int, ...] = (100, 250)
    returns: bool = False

    def scaled(self, factor: float) -> "AnnealedStart":
        """Shorter or longer in all its parts, each of which keeps a step at least."""
        anneal, *rest = (max(1, round(factor * steps)) for steps in (self.anneal_steps, *self.equilibration_steps))
        return dataclasses.replace(self, anneal_steps=anneal, equilibration_steps=tuple(rest))

    def first(self, setup: Setup) -> Stage:
        """Anneal along the same path, seen at as many inverse temperatures as there are steps."""
        ladder = setup.ladder
        fine = annealing_ladder(ladder, self.anneal_steps)
        betas = np.asarray(fine.path.betas)
        rungs = rungs_by_weight(ladder, setup.num_chains)
        kept_at = np.abs(betas - np.asarray(ladder.path.betas)[rungs][:, None]).argmin(axis=1)
        starts = start_chains(setup.key, fine.path, AnnealState.start, kept_at)
        return Stage.first(Annealing(), fine, AnnealUp(setup.move), starts, self.anneal_steps)

    def templates(self, setup: Setup) -> list[Stage]:
        first = self.first(setup)
        back = [self._back(setup, dataclasses.replace(first, recording=_no_weights(first)))] if self.returns else []
        return [first, *back, setup.tempered_template(Equilibrating())]

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Anneal, equilibrate once or more, sample; each with the Ẑ that the stage before found."""
        if isinstance(stage.kind, Annealing) and self.returns and not setup.is_late:
            return self._back(setup, stage)
        num_passes = 2 if self.returns else 1
        if stage.kind.is_tempered:
            better = stage.ladder.with_log_z(rts(stage.recording.stats).values)
        else:
            stage, better = self._from_weights(stage, setup.ladder)
        done = stage.number + 1 - num_passes
        if done == len(self.equilibration_steps) or setup.is_late:
            return setup.sampling_after(stage, better, stage.states)
        steps = self.equilibration_steps[done]
        return stage.next(Equilibrating(), better, SimulatedTempering(setup.move), stage.states, steps)

    def _back(self, setup: Setup, stage: Stage) -> Stage:
        """The pass back down from the ends of the pass up."""
        kind = Returning(stage.recording, jax.tree.map(np.asarray, stage.states.kept))
        positions = positions_at_target(stage.ladder.path, stage.states.x)
        return stage.next(kind, stage.ladder, AnnealDown(setup.move), positions, self.anneal_steps)

    def _from_weights(self, stage: Stage, ladder: Ladder) -> tuple[Stage, Ladder]:
        """The finished annealing stage with its summary and its kept states; the ladder with Ẑ from its weights."""
        fine = np.asarray(stage.ladder.path.betas, np.float64)
        back = stage.kind if isinstance(stage.kind, Returning) else None
        up, kept = (stage.recording, stage.states.kept) if back is None else (back.up, back.kept)
        log_weights = up.log_weights()
        log_z = ais(log_weights).values
        if back is not None:
            both = log_z_from_both_ways(log_weights, stage.recording.log_weights_down())
            log_z = both if np.isfinite(both).all() else log_z
        lengths = StepLengths.from_increments(fine, up.log_increments, self.measure)
        rungs = rungs_by_weight(ladder, stage.num_chains)
        if self.shapes_the_run:
            kept_betas = np.asarray(ladder.path.betas)[rungs]
            ladder = self.reshaped(ladder, lengths)
            rungs = np.abs(np.asarray(ladder.path.betas) - kept_betas[:, None]).argmin(axis=1).astype(np.int32)
        betas = np.asarray(ladder.path.betas, np.float64)
        guess = np.asarray(np.interp(betas, fine, log_z))
        annealed = Annealed.from_weights(log_weights, ladder.path.log_z_base())
        stage = stage.with_found(annealed=annealed, length=lengths.length(betas))
        states = Position(kept, jnp.asarray(rungs))
        return dataclasses.replace(stage, states=states), ladder.with_log_z(guess)


def annealing_ladder(ladder: Ladder, num_steps: int) -> Ladder:
    """The same path at as many inverse temperatures as an annealing pass needs, spaced as the ladder's are.

    Args:
        ladder: The ladder.
        num_steps: Steps of the pass.

    Returns:
        A ladder of `num_steps` + 1 rungs with uniform weights.
    """
    betas = np.asarray(ladder.path.betas, np.float64)
    fine = np.interp(np.linspace(0, len(betas) - 1, num_steps + 1), np.arange(len(betas)), betas)
    return Ladder.create(ladder.path.with_betas(fine))


def _no_weights(stage: Stage) -> AnnealWeights:
    """Of the form that a pass will have."""
    return AnnealWeights(np.zeros((stage.num_chains, stage.num_steps)))
