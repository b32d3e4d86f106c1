"""The default warm-up: one annealing pass, then short tempered runs that correct the guess of log Z."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from tempering._errors import InputError
from tempering.estimators import Annealed, ais
from tempering.kernels import AnnealState, AnnealUp, Position, SimulatedTempering
from tempering.ladder import Ladder, LadderRule, StepLengths
from tempering.ladder.step_lengths import check_measure
from tempering.sampling import AbstractWarmup, Setup, Stage, block_steps
from tempering.warmups.starts import _starts, _with_estimate


@dataclasses.dataclass(frozen=True)
class AnnealedStart(AbstractWarmup):
    """One annealing pass gives Ẑ at every rung and a state at every rung; short tempered runs then correct Ẑ.

    The default, because it has not been seen to get stuck. Its estimate stays in the result as a check.
    """

    anneal_steps: int = 150
    equilibration_steps: tuple[int, ...] = (100, 250)
    respaces: bool = False  # whether rungs are spaced anew, by what the annealing pass saw
    measure: str = "kl"  # equal steps of √KL, or of "rejection", see `StepLengths`
    chooses_number: bool = False  # whether that also says how many rungs there are; needs a rule
    rule: LadderRule | None = None  # where rungs that are not spaced anew lie, and what new ones weigh

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_measure(self.measure)
        if self.chooses_number and self.rule is None:
            raise InputError(
                "AnnealedStart(chooses_number=True) needs a `rule` for the weights of any number of rungs."
            )

    @property
    def shapes_the_run(self) -> bool:
        """Where rungs are spaced anew, or counted."""
        return self.respaces or self.chooses_number

    @property
    def num_steps(self) -> int:
        """Steps per chain before the draws that count."""
        return self.anneal_steps + sum(self.equilibration_steps)

    def scaled(self, factor: float) -> "AnnealedStart":
        """Shorter or longer in all its parts, a step each at least."""
        anneal, *settle = (max(1, round(factor * steps)) for steps in (self.anneal_steps, *self.equilibration_steps))
        return dataclasses.replace(self, anneal_steps=anneal, equilibration_steps=tuple(settle))

    def first(self, setup: Setup) -> Stage:
        """Anneal along the same path, seen at as many inverse temperatures as there are steps."""
        ladder = setup.ladder
        fine = annealing_ladder(ladder, self.anneal_steps)
        betas = np.asarray(fine.path.betas)
        rungs = _spread_over_rungs(ladder, setup.num_chains)
        kept_at = np.abs(betas - np.asarray(ladder.path.betas)[rungs][:, None]).argmin(axis=1)
        starts = _starts(setup.key, fine.path, AnnealState.start, kept_at)
        return Stage(
            "anneal", 0, fine, AnnealUp(setup.move), starts, self.anneal_steps, block_steps("anneal", self.anneal_steps)
        )

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Anneal, settle once or more, sample; each with the Ẑ that the one before found."""
        if stage.name == "anneal":
            stage, better = self._from_weights(stage, setup.ladder)
        else:
            better = _with_estimate(stage)
        is_last = stage.number == len(self.equilibration_steps)
        name, steps = (
            ("sample", setup.num_steps) if is_last else ("equilibrate", self.equilibration_steps[stage.number])
        )
        return stage.next(name, better, SimulatedTempering(setup.move), stage.states, steps)

    def _from_weights(self, stage: Stage, ladder: Ladder) -> tuple[Stage, Ladder]:
        """The finished annealing stage with its summary and its kept states; the ladder with Ẑ from its weights."""
        log_weights = stage.recording.log_weights()
        fine = np.asarray(stage.ladder.path.betas, np.float64)
        spacing = StepLengths.from_increments(fine, stage.recording.log_increments, self.measure)
        rungs = _spread_over_rungs(ladder, stage.num_chains)
        if self.shapes_the_run:
            kept_betas = np.asarray(ladder.path.betas)[rungs]
            ladder = self._reshaped(ladder, spacing)
            rungs = np.abs(np.asarray(ladder.path.betas) - kept_betas[:, None]).argmin(axis=1).astype(np.int32)
        betas = np.asarray(ladder.path.betas, np.float64)
        guess = np.asarray(np.interp(betas, fine, ais(log_weights).values))
        found = {
            "states": Position(stage.states.kept, jnp.asarray(rungs)),
            "annealed": Annealed.from_weights(log_weights, ladder.path.log_z_base()),
            "length": spacing.length(betas),
        }
        return dataclasses.replace(stage, **found), ladder.with_log_z(guess)

    def _reshaped(self, ladder: Ladder, spacing: StepLengths) -> Ladder:
        """The rungs where they are wanted, as many as are wanted."""
        betas_of = spacing.betas if self.respaces or self.rule is None else self.rule.betas_of
        num_rungs = spacing.num_rungs(betas_of) if self.chooses_number else ladder.path.num_rungs
        betas = betas_of(num_rungs)
        return ladder.with_betas(betas, None if self.rule is None else self.rule.log_prior_of(betas))


def annealing_ladder(ladder: Ladder, num_steps: int) -> Ladder:
    """The same path seen at as many inverse temperatures as a pass of `num_steps` needs, spaced as the ladder's are."""
    betas = np.asarray(ladder.path.betas, np.float64)
    fine = np.interp(np.linspace(0, len(betas) - 1, num_steps + 1), np.arange(len(betas)), betas)
    return Ladder.create(ladder.path.with_betas(fine))


def _spread_over_rungs(ladder: Ladder, num_chains: int) -> Int[np.ndarray, " chain"]:
    """One rung a chain, in the proportions of the prior."""
    below = np.cumsum(np.exp(np.asarray(ladder.log_prior, np.float64)))
    middle = (np.arange(num_chains) + 0.5) / num_chains
    return np.minimum(np.searchsorted(below, middle), len(below) - 1).astype(np.int32)
