"""The default warm-up: sequential Monte Carlo up the ladder, then a short tempered run that corrects log Ẑ."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._compiling import compiled_hastily, compiled_quickly
from tempering._continuity import is_continuous
from tempering._device_arrays import device_array, device_full, device_zeros
from tempering._errors import InputError, check_count
from tempering.estimators import bridge_sampling, controlled_bridge, rts
from tempering.estimators.equilibration import equilibrated
from tempering.kernels import AbstractMove, AbstractSizedMove, ClimbUp, Position, SimulatedTempering
from tempering.kernels.moves.carried import Carried
from tempering.kernels.moves.stay import Stay
from tempering.ladder import AbstractPath, AbstractTwoEndedPath, Ladder, StepLengths
from tempering.ladder.step_lengths import root_kl_lengths
from tempering.sampling import AbstractStageKind, AbstractTemperedKind, Sampling, Setup, Stage, Standing
from tempering.stats import ClimbRecord, Keep, Recording, TemperingRecord
from tempering.warmups.climb_tuning import Tuning, aimed_acceptance, with_acceptance
from tempering.warmups.measuring import AbstractMeasuringWarmup, rungs_by_weight
from tempering.warmups.population import Population
from tempering.warmups.starts import base_positions

_MOST_NUMBERS = 2**22  # in the states of all particles, where chains are very many
_ENOUGH_PARTICLES = 1000  # however large their states
_MOST_SLOPES = 1000  # of particles at the base, which give the first step's length
_OFFSETS = 2**30  # told apart from other uses of the key: the random numbers of resampling
_ENDS = np.array([0.0, 1.0])  # of a path, by β
_COUNTS = (
    "stretch_steps", "num_particles", "num_gibbs_particles", "max_steps", "min_equilibration",
    "min_gibbs_equilibration",
)  # fmt: skip


class AtBase(AbstractStageKind):
    """Draws of the base before their first step: where a run looks at the clock before it compiles more."""

    label: ClassVar[str] = "drawing the base"
    may_be_left_out: ClassVar[bool] = True


class Climbing(AbstractStageKind):
    """A stretch of sequential Monte Carlo between two looks at the weights.

    Attributes:
        past: What the particles have found before this stretch.
        tuning: What was learned about the move before it; None for a move without a step size.
    """

    past: Population
    tuning: Tuning | None
    label: ClassVar[str] = "climbing"
    num_blocks: ClassVar[int] = 1
    record: ClassVar[Any] = ClimbRecord
    may_be_left_out: ClassVar[bool] = True


class Correcting(AbstractTemperedKind):
    """A short tempered run that corrects the guess of log Z, from the draws at every rung."""

    label: ClassVar[str] = "equilibrating"
    tries_step_sizes: ClassVar[bool] = False
    may_be_left_out: ClassVar[bool] = True

    def empty_record(self, stage: Stage, keep: Keep) -> TemperingRecord:
        # With the bridges that `method="auto"` keeps too, this stage and sampling share one compiled program.
        return Sampling().empty_record(stage, dataclasses.replace(keep, bridges=True))


@dataclasses.dataclass(frozen=True)
class SequentialStart(AbstractMeasuringWarmup):
    """Sequential Monte Carlo from the base to the target gives log Ẑ, states and step sizes at every rung.

    Particles start as draws of the base. Every step in β has about the same length in √KL, so that a longer ladder
    takes more steps. The particles are drawn anew in proportion to their weights when too few of them are effective
    (Del Moral, Doucet and Jasra 2006). Scales, correlations and step sizes of the move are learned on the way. A
    tempered run follows, whose length grows with the square of the ladder's, as the time to cross it does. Its
    bridges correct log Ẑ.

    ```python
    tp.estimate(model, warmup=tp.SequentialStart(step_length=0.1, num_particles=1000))
    ```

    Attributes:
        step_length: The length of a step in √KL.
        stretch_steps: Steps between two looks at the weights.
        least_effective: The effective share of the particles below which they are drawn anew.
        num_particles: The least number of particles; there are as many as chains, while memory allows.
        num_gibbs_particles: The least number for moves that always accept. They decorrelate slowly, so few families
            survive, and chains that start from them are alike.
        max_steps: The most steps of the pass, and of the tempered run after it. Of a longer ladder the rest
            is climbed in one stretch; the verdict on the run says whether that was enough.
        equilibration: Sweeps of the tempered run per squared length of the ladder.
        min_equilibration: The least number of these sweeps.
        min_gibbs_equilibration: The least number for moves that always accept, such as Gibbs sweeps. Steps and leaps
            are tuned so that a state is forgotten within a few moves; nobody knows how long Gibbs sweeps take for that.
    """

    step_length: float = 0.2
    stretch_steps: int = 6
    least_effective: float = 0.5
    num_particles: int = 100
    num_gibbs_particles: int = 400
    max_steps: int = 5000
    equilibration: float = 0.2
    min_equilibration: int = 10
    min_gibbs_equilibration: int = 350

    tunes_moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _COUNTS:
            check_count(f"SequentialStart({name}=...)", getattr(self, name), 1)
        if not 0 < self.step_length < np.inf:
            raise InputError(f"SequentialStart(step_length=...) must be positive, got {self.step_length!r}.")

    def scaled(self, factor: float) -> "SequentialStart":
        """Shorter or longer in all its parts."""
        return dataclasses.replace(
            self,
            step_length=self.step_length / factor,
            equilibration=self.equilibration * factor,
            min_gibbs_equilibration=max(1, round(self.min_gibbs_equilibration * factor)),
        )

    def first(self, setup: Setup) -> Stage:
        """Draws of the base."""
        most = max(_MOST_NUMBERS // setup.ladder.path.num_dims, _ENOUGH_PARTICLES)
        least = self.num_gibbs_particles if setup.move.always_accepts else self.num_particles
        num_particles = max(min(setup.num_chains, most), least)
        x = base_positions(setup.key, setup.ladder.path, np.zeros(num_particles, np.int32)).x
        positions = Position(jax.tree.map(np.asarray, x), device_zeros((num_particles,), np.int32))
        return Stage.first(AtBase(), setup.ladder, SimulatedTempering(Stay(has_carried=False)), positions, 0)

    def templates(self, setup: Setup) -> list[Stage]:
        first = self._first_stretch(setup, self.first(setup))
        moves = [first.move]
        if isinstance(first.kind, Climbing) and first.kind.tuning is not None:
            moves.append(_without_factors(first.move))  # correlations may turn out not to be worth their cost
            moves = [_with_flow(move, setup.ladder.path, first.kind.tuning) for move in moves]
        return [first, *(dataclasses.replace(setup, move=move).tempered_template(Correcting()) for move in moves)]

    def after(self, setup: Setup, stage: Stage) -> Stage:
        """Climb; then correct the guess of log Z once; then sample. What the time was up for is left out."""
        if stage.done == 0 and setup.is_late:
            return _as_they_stand(stage) if isinstance(stage.kind, Correcting) else _weighed_at_base(setup, stage)
        if isinstance(stage.kind, AtBase):
            return self._first_stretch(setup, stage)
        if isinstance(stage.kind, Climbing):
            return self._after_stretch(setup, stage, stage.kind)
        better = stage.ladder.with_log_z(corrected_guess(stage.recording, stage.ladder))
        stage = _with_corrected_error(stage, better)
        return setup.sampling_after(stage.with_move(_refined(stage)), better, stage.states)

    def _first_stretch(self, setup: Setup, stage: Stage) -> Stage:
        x, move = stage.states.x, setup.move
        tuning = Tuning.at_base(move, x) if isinstance(move, AbstractSizedMove) and not move.is_tuned else None
        kind = Climbing(Population.at_base(x), tuning)
        some = jax.tree.map(lambda leaf: leaf[:_MOST_SLOPES], x)
        slopes = np.asarray(_base_slopes(setup.ladder.path.with_betas(np.array([0.0, 0.5, 1.0])), some), np.float64)
        stretch = self._stretch(setup, kind.past, float(root_kl_lengths(slopes[:, None])[0]))
        return stage.next(kind, *self._ready(setup, kind, stage.states, stretch), self.stretch_steps)

    def _after_stretch(self, setup: Setup, stage: Stage, kind: Climbing) -> Stage:
        rung, steps = int(np.asarray(stage.states.rung)[0]), stage.recording
        betas = np.asarray(stage.ladder.path.betas, np.float64)[rung - stage.num_steps : rung + 1]
        words = np.asarray(jax.random.key_data(setup.key)).tolist()
        offsets = np.random.default_rng([*words, _OFFSETS, stage.number]).random(2)
        past, tuning, move = kind.past.climbed(betas[1:], steps), kind.tuning, setup.move
        if tuning is not None and isinstance(move, AbstractSizedMove):
            tuning = tuning.after(move, past.beta, steps.acceptance, stage.states.x, past.weights)
        past, positions = past.resampled(stage.states, offsets[0], self.least_effective)
        past = past.keeping(positions.x, offsets[1])
        if past.beta == 1:
            return self._at_target(setup, stage, Climbing(past, tuning))
        speed = root_kl_lengths(steps.log_increments)[-1] / (betas[-1] - betas[-2])
        kind = Climbing(past, tuning)
        ready = self._ready(setup, kind, positions, self._stretch(setup, past, speed))
        return stage.next(kind, *ready, self.stretch_steps)

    def _stretch(self, setup: Setup, past: Population, speed: float) -> np.ndarray:
        """The inverse temperatures of the next steps, where √KL grows by `speed` per unit of β."""
        here, num_steps = past.beta, self.stretch_steps
        wanted = num_steps * self.step_length / speed if speed > 0 else np.inf
        most = 0.5 if here == 0 else 1 - here  # two stretches at least
        wanted = np.inf if setup.is_late or len(past.betas) > self.max_steps else wanted
        width = most if wanted > most / 1.5 and here > 0 else min(wanted, most)
        betas = here + width * np.arange(num_steps + 1) / num_steps
        if width == 1 - here:
            betas[-1] = 1.0
        return betas

    def _ready(
        self, setup: Setup, kind: Climbing, positions: Position, stretch: np.ndarray
    ) -> tuple[Ladder, ClimbUp, Position]:
        """The ladder, the kernel and the positions of a stretch; the ladder has the same number of rungs for all."""
        low, high = stretch[0], stretch[-1]
        if low == 0:
            betas, start = np.concatenate([stretch, [(high + 1) / 2, 1.0]]), 0
        elif high == 1:
            betas, start = np.concatenate([[0.0, low / 2], stretch]), 2
        else:
            betas, start = np.concatenate([[0.0], stretch, [1.0]]), 1
        rungs = device_full((kind.past.num_particles,), start, np.int32)
        ladder = Ladder.create(setup.ladder.path.with_betas(betas))
        positions = dataclasses.replace(positions, rung=rungs)  # what they carry holds for any rung
        return ladder, ClimbUp(_locally_tuned(setup.move, kind.tuning)), positions

    def _at_target(self, setup: Setup, stage: Stage, kind: Climbing) -> Stage:
        """The tempered run from states all along the way, on the rungs that were asked for or measured."""
        past, ladder = kind.past, setup.ladder
        lengths = StepLengths.from_increments(past.betas, past.log_increments, self.measure)
        ladder = self.reshaped(ladder, lengths)
        betas = np.asarray(ladder.path.betas, np.float64)
        ladder = ladder.with_log_z(np.interp(betas, past.betas, past.log_z))
        move = setup.move
        if kind.tuning is not None and isinstance(move, AbstractSizedMove):
            move = _with_flow(move.with_schedule(kind.tuning.schedule(betas)), ladder.path, kind.tuning)
        rungs = rungs_by_weight(ladder, setup.num_chains)
        x, families = past.states_near(betas[rungs])
        states = Position(x, device_array(rungs, np.int32))
        length = lengths.length(betas)
        least = self.min_gibbs_equilibration if move.always_accepts else self.min_equilibration
        num_steps = max(least, round(min(self.equilibration * length.root_kl**2, self.max_steps)))
        annealed = past.estimate(ladder.path.log_z_base())
        stage = stage.with_found(annealed=annealed, length=length, families=tuple(families.tolist()))
        following = stage.next(Correcting(), ladder, SimulatedTempering(move), states, num_steps)
        return _as_they_stand(following) if setup.is_late else following


def _as_they_stand(stage: Stage) -> Stage:
    """The states of a stage weighed at every rung, instead of its steps: it may take long to compile their program."""
    kernel = SimulatedTempering(Stay(has_carried=stage.states.carried is not None))
    return dataclasses.replace(stage, num_steps=0).next(Standing(), stage.ladder, kernel, stage.states, 1)


def _weighed_at_base(setup: Setup, stage: Stage) -> Stage:
    """Draws of the base weighed by the target, where there was no time for a step: importance sampling."""
    path, x = setup.ladder.path, jax.tree.map(lambda leaf: leaf[:_MOST_SLOPES], stage.states.x)
    log_weights, carried = jax.tree.map(np.asarray, _weights_at_base(path.with_betas(_ENDS), x))
    past = Population.at_base((x, carried)).weighed(log_weights.astype(np.float64))
    betas, rungs = np.asarray(path.betas, np.float64), rungs_by_weight(setup.ladder, setup.num_chains)
    (x, carried), _ = past.states_near(betas[rungs])
    stage = dataclasses.replace(
        stage.with_found(annealed=past.estimate(path.log_z_base())),
        ladder=setup.ladder.with_log_z(betas * past.log_z[-1]),
        states=Position(x, device_array(rungs, np.int32), carried),
    )
    return _as_they_stand(stage)


def corrected_guess(recording: Recording, ladder: Ladder) -> np.ndarray:
    """A better guess of log Z, from bridges, or from RTS where a rung has no draws; else the old one.

    Bridges use the draws at each rung for themselves, so they do not wait for chains to cross the ladder. RTS would:
    before that it sees where the chains started, and claims a small error. Controls are used if there are any. No draw
    counts for more than another in a bridge, not even one whose chain was started at a rung at which its state is next
    to impossible.

    Args:
        recording: What a tempered run kept, with bridges.
        ladder: The ladder with the guess so far.
    """
    guess = np.asarray(ladder.log_z_guess, np.float64)
    stats = equilibrated(recording.stats)
    bridged = bridge_sampling if stats.controls is None else controlled_bridge
    candidates = (bridged(stats).values, rts(stats).values, guess)
    return next(values for values in candidates if np.isfinite(values).all())


def _locally_tuned(move: AbstractMove, tuning: Tuning | None) -> AbstractMove:
    """The move for a stretch, with what was learned so far."""
    if tuning is None or not isinstance(move, AbstractSizedMove):
        return move
    return move.with_schedule(tuning.local_schedule())


def _without_factors(move: AbstractMove) -> AbstractMove:
    assert isinstance(move, AbstractSizedMove)
    return move.with_schedule(dataclasses.replace(move.schedule, factor_betas=None, factors=None))


def _with_flow(move: AbstractMove, path: AbstractPath, tuning: Tuning) -> AbstractMove:
    """The move with what was learned about how x moves with β, where that has mean 0 for certain: nothing jumps."""
    assert isinstance(move, AbstractSizedMove)
    if not (isinstance(path, AbstractTwoEndedPath) and move.carries(path)):
        return move
    x = jax.eval_shape(path.sample_base, jax.random.key(0))
    flow = tuning.flow() if is_continuous(path.log_ends, x) else None
    return eqx.tree_at(lambda move: move.schedule.flow, move, flow, is_leaf=lambda leaf: leaf is None)


def _with_corrected_error(stage: Stage, better: Ladder) -> Stage:
    """The stage with the error of the pass widened by what its log Z was corrected by.

    Where moves decorrelate slowly, the weights of the pass scatter less than they err.
    """
    if stage.warmup.annealed is None:
        return stage
    correction = float(np.asarray(better.log_z_guess)[-1] - np.asarray(stage.ladder.log_z_guess)[-1])
    error = float(np.hypot(stage.warmup.annealed.std_error, correction))
    return stage.with_found(annealed=dataclasses.replace(stage.warmup.annealed, std_error=error))


def _refined(stage: Stage) -> AbstractMove:
    """The move with step sizes corrected by what was accepted at each rung."""
    move = stage.move
    if not isinstance(move, AbstractSizedMove) or move.is_tuned or stage.recording.moves is None:
        return move
    acceptance = stage.recording.moves.acceptance
    return move.with_schedule(with_acceptance(move.schedule, acceptance, aimed_acceptance(move)))


@compiled_quickly
def _base_slopes(path: AbstractPath, x: Any) -> jax.Array:
    """d log f/dβ at the base, one state at a time: all at once they would round differently for another number."""
    return jax.lax.map(lambda state: path.slopes(state)[0], x)


@compiled_hastily
def _weights_at_base(path: AbstractPath, x: Any) -> tuple[jax.Array, Carried | None]:
    """log f_1 − log f_0 of a path whose rungs are its two ends, and what states that stay carry; no gradients."""

    def weighed(state):
        if not isinstance(path, AbstractTwoEndedPath):
            log_f = path.log_densities(state)
            return log_f[1] - log_f[0], None
        log_ends = jnp.stack(path.log_ends(state))
        log_f = path.log_density_from(path.betas, log_ends)
        return log_f[1] - log_f[0], Carried(log_ends, jnp.zeros((2, 1)))  # slopes that nobody looks at

    return jax.lax.map(weighed, x)
