"""One call of `estimate` before, while and after it runs: all that it is made of, and what its stages say."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._compiling import compiled_quickly
from tempering.api.expecting import check_expect
from tempering.api.memory import check_chains
from tempering.api.settings import Settings, check_model, check_move
from tempering.diagnosis import Decision, Diagnosis, Goal, Look, decide
from tempering.diagnosis.checks import missing_length, round_trips
from tempering.diagnosis.stopping import END, UNTEMPERED, cut_off, expected_length, too_short
from tempering.estimators import LogZ, expectation
from tempering.estimators.methods import METHODS, TemperedRun
from tempering.kernels import AbstractMove
from tempering.ladder import AbstractPath, Ladder, LearnedWeights, least_variance_weights
from tempering.models import AbstractModel
from tempering.progress import Progress
from tempering.results import Result
from tempering.sampling import Setup, Stage
from tempering.sampling.directory import digest
from tempering.stats import MAX_BLOCK_STEPS
from tempering.verdicts import Finding, without_none
from tempering.warmups import tuned_if_needed

_MAX_KEPT_SIZE = 1000  # numbers in a state that is kept unasked
_NUM_PROBES = 4  # base draws whose log densities tell one model from another, whatever it is made of
# What may differ between a run and its continuation, or is told by a digest.
_NOT_IDENTITY = ("betas", "rung_weights", "warmup", "chunk_sweeps", "num_sweeps", "target_error", "max_sweeps")


class Job:
    """All that a run is made of."""

    def __init__(
        self,
        model: AbstractModel,
        base: Any,
        settings: Settings,
        *,
        move: AbstractMove | None = None,
        expect: Callable[[Any], Any] | None = None,
        keep_draws: bool | None = None,
    ):
        check_model(model)
        check_move(move)
        self.model, self.settings = model, settings.with_spacing(model.spacing())
        betas = self.settings.make_betas()
        self.ladder = Ladder.create(model.path(base, betas), self.settings.make_log_prior(betas))
        check_expect(expect, self.ladder.path)
        self.move = model.move() if move is None else move
        self.warmup = tuned_if_needed(self.settings.make_warmup(), self.move)
        self.method = METHODS[settings.method]
        keep_draws = keeps_states(model, self.ladder.path) if keep_draws is None else keep_draws
        may_refuse = not self.move.always_accepts
        self.keep = dataclasses.replace(self.method.keep, expect=expect, moves=may_refuse, states=keep_draws)
        check_chains(self.ladder, self.keep, settings.num_chains)

    def setup(self, seed: int | None = None) -> Setup:
        """What the warm-up is given; with another seed, for a replicate of the run."""
        key = jax.random.key(self.settings.seed if seed is None else seed)
        keeps_draws = self.keep.features or self.keep.states
        return Setup(
            key, self.ladder, self.move, self.settings.num_chains, self.settings.num_sweeps,
            may_begin_at_base=not keeps_draws,
        )  # fmt: skip

    def goal(self, stage: Stage) -> Goal | None:
        """What the run was asked for; None where it has a fixed length. It depends on the ladder that was found."""
        asked = self.settings
        return Goal.from_settings(asked.target_error, asked.num_sweeps, asked.max_sweeps, stage.warmup.length)

    def answer(self, stage: Stage) -> LogZ:
        """log Z from the draws that count so far."""
        run = TemperedRun(stage.ladder.path, stage.complete_recording, families=stage.families)
        answer, annealed = self.method.answer(run, log_z_base=self.ladder.path.log_z_base()), stage.warmup.annealed
        if stage.kind.moves_chains or annealed is None:
            return answer
        return answer.with_least_error(annealed.error_alone)  # copies of particles scatter less than particles err

    def progress(self, stage: Stage) -> Progress:
        """Where the run stands."""
        answer, goal = (lambda: self.answer(stage)) if stage.is_sampling else None, self.goal(stage)
        return Progress.from_stage(
            stage,
            target_error=None if goal is None else goal.target_error,
            is_slow=self.method.keep.features,
            note="" if goal is None else expected_length(stage.warmup.length, goal.max_sweeps),
            answer=answer,
        )

    def decision(self, stage: Stage) -> Decision:
        """What to do at the end of a stretch of sampling. It depends on the stage alone, as resuming needs."""
        return END if self.goal(stage) is None else self._decide(stage, self._seen(stage)[2])

    def result(self, stage: Stage, seconds: float, *, is_late: bool = False) -> Result:
        """The answer from the draws that count; `is_late` says that the time allowed was up."""
        (answer, diagnosis, look), goal, spent = self._seen(stage), self.goal(stage), stage.spent()
        recording = stage.complete_recording
        is_complete = is_late or (stage.is_finished and self._decide(stage, look).ends)
        if is_complete:
            diagnosis = diagnosis.with_findings(without_none(self._too_short(stage, look, is_late)))
        return Result(
            log_z_by_rung=answer,
            betas=np.asarray(stage.ladder.path.betas, np.float64),
            diagnosis=diagnosis.with_advice(self.model.advice),
            recording=recording,
            annealed=stage.warmup.annealed,
            num_chains=self.settings.num_chains,
            num_sweeps=look.num_sweeps,
            num_warmup_sweeps=stage.warmup.num_steps + look.num_discarded,
            seed=self.settings.seed,
            seconds=seconds,
            is_complete=is_complete,
            exact_log_z=self.model.quick_log_z(),
            model=self.model,
            expectation=None if recording.target is None else expectation(recording.target),
            target_error=None if goal is None else goal.target_error,
            length=stage.warmup.length,
            evaluations=spent.evaluations,
            settings=self._settings_in_words(),
        )

    def _settings_in_words(self) -> tuple[tuple[str, str], ...]:
        """The arguments of `estimate` that decide the run, and their values."""
        asked = {field.name: getattr(self.settings, field.name) for field in dataclasses.fields(self.settings)}
        return tuple((name, _in_words(value)) for name, value in (asked | {"move": self.move}).items())

    def identity(self) -> dict[str, Any]:
        """What a run and its continuation must share."""
        settings = {
            f"`{name}`": value for name, value in dataclasses.asdict(self.settings).items() if name not in _NOT_IDENTITY
        }
        return settings | {
            "`warmup`": digest(np.frombuffer(repr(self.warmup).encode(), np.uint8)),
            "`model` or `base`": digest(*_arrays(self.model), _probed(self.ladder.path)),
            "`move`": digest(np.frombuffer(type(self.move).__name__.encode(), np.uint8), *_arrays(self.move)),
            "`betas` or `rung_weights`": digest(self.ladder.path.betas, self.ladder.log_prior),
            "the device": jax.default_backend(),
            # What is kept of draws cannot change: those before the checkpoint would lack it.
            "`keep_draws`": self.keep.states,
            "`expect`": self.keep.expect is not None,
        }

    def _decide(self, stage: Stage, look: Look) -> Decision:
        goal = self.goal(stage)
        if goal is None:
            return END
        return decide(look, goal, min(stage.recording.stats.block_sweeps, MAX_BLOCK_STEPS))

    def _too_short(self, stage: Stage, look: Look, is_late: bool) -> Finding | None:
        """The finding for a run that its budget or the clock ended early."""
        goal = self.goal(stage)
        if not stage.kind.moves_chains:
            return UNTEMPERED
        return cut_off(look, stage.num_steps) if goal is None else too_short(look, goal, is_late=is_late)

    def _seen(self, stage: Stage) -> tuple[LogZ, Diagnosis, Look]:
        """The answer so far; what its statistics, the estimator and the warm-up say of it; what a rule may go by."""
        answer = self.answer(stage)
        diagnosis = stage.diagnosis(self.ladder.path.log_z_base(), answer.std_error).with_findings(answer.findings)
        num_sweeps = stage.recording.stats.num_sweeps
        errors, trips = answer.errors, round_trips(stage.complete_recording.stats)
        look = Look(
            num_sweeps, stage.done - num_sweeps, answer.std_error, diagnosis.findings,
            None if errors is None else errors.skewing * errors.chains, missing_length(trips),
            self._learned(stage, answer),
        )  # fmt: skip
        return answer, diagnosis, look

    def _learned(self, stage: Stage, answer: LogZ) -> LearnedWeights | None:
        """Rung weights by the scatter of chains, where nobody asked for others."""
        if answer.influences is None or not self.settings.learns_weights:
            return None
        return least_variance_weights(answer.influences.var(axis=0), np.asarray(stage.ladder.log_prior, np.float64))


def keeps_states(model: AbstractModel, path: AbstractPath) -> bool:
    """Whether states are kept unasked: where people want them, and a state is not too large to be kept often."""
    return model.keeps_draws() and path.num_dims <= _MAX_KEPT_SIZE


def _in_words(value: Any) -> str:
    if isinstance(value, eqx.Module):  # whose arrays would fill pages
        return type(value).__name__
    if isinstance(value, str) or np.ndim(value) == 0:
        return str(value)
    return f"{len(value)} numbers from {value[0]:.6g} to {value[-1]:.6g}"


@compiled_quickly
def _probed(path: AbstractPath) -> jax.Array:
    """log f at both ends at a few draws of the base: functions have no digest, but their values have."""
    keys, ends = jax.random.split(jax.random.key(0), _NUM_PROBES), jnp.array([0, path.num_rungs - 1])
    return jax.lax.map(lambda key: jax.vmap(path.log_density, (None, 0))(path.sample_base(key), ends), keys)


def _arrays(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, np.ndarray | jax.Array)]
