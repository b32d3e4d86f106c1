"""A warm-up without resampling: one annealing pass, then short tempered runs that correct the guess of log Z."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from tempering.estimators import Annealed, ais, rts
from tempering.kernels import AnnealState, AnnealUp, Position, SimulatedTempering
from tempering.ladder import Ladder, StepLengths
from tempering.sampling import AbstractStageKind, AbstractTemperedKind, Setup, Stage
from tempering.stats import AnnealRecord
from tempering.warmups.measuring import AbstractMeasuringWarmup, rungs_by_weight
from tempering.warmups.starts import start_chains


class Annealing(AbstractStageKind):
    """A pass along the ladder, up or down, whose log weights are recorded."""

    label: ClassVar[str] = "annealing"
    is_whole: ClassVar[bool] = True  # the weights of half a pass say nothing about the target
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
    """

    anneal_steps: int = 150
    equilibration_steps: tuple[int, ...] = (100, 250)

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
        return [self.first(setup), setup.tempered_template(Equilibrating())]

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Anneal, equilibrate once or more, sample; each with the Ẑ that the stage before found."""
        if stage.kind.is_tempered:
            better = stage.ladder.with_log_z(rts(stage.recording.stats).values)
        else:
            stage, better = self._from_weights(stage, setup.ladder)
        if stage.number == len(self.equilibration_steps) or setup.is_late:
            return setup.sampling_after(stage, better, stage.states)
        steps = self.equilibration_steps[stage.number]
        return stage.next(Equilibrating(), better, SimulatedTempering(setup.move), stage.states, steps)

    def _from_weights(self, stage: Stage, ladder: Ladder) -> tuple[Stage, Ladder]:
        """The finished annealing stage with its summary and its kept states; the ladder with Ẑ from its weights."""
        log_weights = stage.recording.log_weights()
        fine = np.asarray(stage.ladder.path.betas, np.float64)
        lengths = StepLengths.from_increments(fine, stage.recording.log_increments, self.measure)
        rungs = rungs_by_weight(ladder, stage.num_chains)
        if self.shapes_the_run:
            kept_betas = np.asarray(ladder.path.betas)[rungs]
            ladder = self.reshaped(ladder, lengths)
            rungs = np.abs(np.asarray(ladder.path.betas) - kept_betas[:, None]).argmin(axis=1).astype(np.int32)
        betas = np.asarray(ladder.path.betas, np.float64)
        guess = np.asarray(np.interp(betas, fine, ais(log_weights).values))
        annealed = Annealed.from_weights(log_weights, ladder.path.log_z_base())
        stage = stage.with_found(annealed=annealed, length=lengths.length(betas))
        states = Position(stage.states.kept, jnp.asarray(rungs))
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
