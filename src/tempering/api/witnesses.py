"""Witnesses: states that are known to matter, and whether a run that has ended knows them.

Chains are started from them at the target, under the law of the run and by its own kernel. If they come to the base as
chains from the run's own draws do, then the run knows the way there, and by reversibility also the way back. If they do
not, a second run is made, from a base around the states where they stayed: it says how much mass is there.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from tempering._errors import InputError
from tempering._types import Key, State
from tempering.api.job import Job
from tempering.api.runs import log_target_weights
from tempering.api.settings import Settings
from tempering.diagnosis import Away, MissingMass, WitnessCheck
from tempering.ladder import AbstractPath
from tempering.results import Result
from tempering.sampling import Homecoming, Stage, walk_home, walk_stages
from tempering.stats import systematic_picks

_WITNESS_CHAINS = 50  # started from witnesses, each witness as often as another
_OWN_CHAINS = 100  # at most, started from draws of the run: as many as those are worth
_FEWEST = 16  # draws are picked more than once where they are worth less than that
_LONGER = 4  # times as long as the run's own draws take, chains from witnesses are waited for
_LEAST_SWEEPS = 500  # that chains are given, where the run is shorter
_SECOND_CHAINS = 100  # of the second run
_KEYS = 2**22  # folded into the key, out of the way of stages and of other runs
_OWN, _FROM_WITNESSES, _AGAIN, _SECOND, _FROM_SECOND = range(_KEYS, _KEYS + 5)


class Witnesses(NamedTuple):
    """What was given, as states of the model.

    Attributes:
        x: Those with a density; leading axis: witness. None where no witness has one.
        num_witnesses: How many were given.
        num_impossible: How many have a density of 0.
    """

    x: State | None
    num_witnesses: int
    num_impossible: int

    @classmethod
    def checked(cls, job: Job, rows: Any) -> "Witnesses":
        """States of the model that a run is to be made of; what cannot be a state is refused."""
        path = job.ladder.path
        try:
            x = job.model.states_of(path, rows)
        except (InputError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise InputError(f"`witnesses` must be states of the model, one in each row. {why}") from error
        is_possible = np.asarray(_has_density(path, x))
        states = jax.tree.map(lambda leaf: np.asarray(leaf)[is_possible], x)
        return cls(states if is_possible.any() else None, len(is_possible), int((~is_possible).sum()))

    def spread(self, key: Key, num_chains: int) -> State:
        """A start for every chain: all witnesses equally often, or some of them where they are more than chains."""
        assert self.x is not None
        number = self.num_witnesses - self.num_impossible
        order = np.asarray(jax.random.permutation(key, number))
        return _picked(self.x, np.resize(order, max(num_chains // number, 1) * min(number, num_chains)))


def asked(job: Job, stage: Stage, result: Result, witnesses: Witnesses) -> WitnessCheck:
    """What chains from the witnesses find in the law of a run that has ended.

    Args:
        job: What the run was made of.
        stage: Its end.
        result: Its answer.
        witnesses: The states.

    Returns:
        How many chains came to the base, and how much mass the run misses where they did not.
    """
    key = job.setup().key
    own_x = _target_draws(stage, job.settings.seed)
    most = max(stage.done, _LEAST_SWEEPS)
    own = walk_home(jax.random.fold_in(key, _OWN), stage.ladder, stage.move, own_x, most)
    num_sweeps = most if own.num_away else min(_LONGER * own.num_steps, most)
    own_away = _away(own)
    if witnesses.x is None:
        return WitnessCheck(witnesses.num_witnesses, witnesses.num_impossible, num_sweeps, None, own_away)
    key_start, key_walk = jax.random.split(jax.random.fold_in(key, _FROM_WITNESSES))
    starts = witnesses.spread(key_start, _WITNESS_CHAINS)
    walked = walk_home(key_walk, stage.ladder, stage.move, starts, num_sweeps)
    check = WitnessCheck(witnesses.num_witnesses, witnesses.num_impossible, num_sweeps, _away(walked), own_away)
    if check.agrees:
        return check
    states = _where_they_stayed(jax.random.fold_in(key, _AGAIN), stage, walked, num_sweeps)
    second = None if states is None else _second_run(job, stage, states, own_x)
    if second is None:
        return check
    x = _target_draws(second.stage, job.settings.seed)
    x = job.model.states_of(stage.ladder.path, second.job.model.rows_of(x))
    again = walk_home(jax.random.fold_in(key, _FROM_SECOND), stage.ladder, stage.move, x, num_sweeps)
    missing = MissingMass.from_runs(result.log_z, result.std_error, own_away, second.log_z, _away(again))
    return dataclasses.replace(check, missing=missing)


class _SecondRun(NamedTuple):
    """A run from a base around witnesses."""

    job: Job
    stage: Stage

    @property
    def log_z(self) -> tuple[float, float]:
        """log Z, and an error that also covers what the warm-up's pass says."""
        answer, annealed = self.job.answer(self.stage), self.stage.warmup.annealed
        between = 0.0 if annealed is None else abs(answer.log_z - annealed.log_z) / 2
        return answer.log_z, float(np.hypot(answer.std_error, between))


def _second_run(job: Job, stage: Stage, x: State, own_x: State) -> _SecondRun | None:
    """As long as its ladder asks for; None where no base can be made of these states."""
    rows, others = (job.model.rows_of(states) for states in (x, own_x))
    try:
        model, base = job.model.based_at(stage.ladder.path, rows, others)
        second = Job(model, base, Settings(num_chains=_SECOND_CHAINS), move=job.move)
    except InputError:
        return None
    setup = dataclasses.replace(second.setup(), key=jax.random.fold_in(job.setup().key, _SECOND))
    *_, ended = walk_stages(second.warmup, setup, second.keep)
    return _SecondRun(second, ended)


def _where_they_stayed(key: Key, stage: Stage, walked: Homecoming, num_sweeps: int) -> State | None:
    """The states of chains that are still away. Where they are few, they are spread in a second walk from there."""
    states = _picked(walked.x, np.flatnonzero(walked.is_away))
    if walked.num_away >= _WITNESS_CHAINS // 2:
        return states
    starts = _picked(states, np.resize(np.arange(walked.num_away), _WITNESS_CHAINS))
    again = walk_home(key, stage.ladder, stage.move, starts, num_sweeps)
    return _picked(again.x, np.flatnonzero(again.is_away)) if again.num_away else None


def _target_draws(stage: Stage, seed: int) -> State:
    """Draws of the target from a run, as many as it has independent ones, up to a bound."""
    kept = stage.recording.states
    if kept is not None and np.isfinite(kept.log_weights.max(initial=-np.inf)):
        return kept.resampled(_number_of_draws(kept.independent_size), seed=seed)
    log_weights = np.asarray(log_target_weights(stage.ladder, stage.states.x), np.float64)
    log_weights = np.nan_to_num(log_weights, nan=-1e300, neginf=-1e300)  # never picked, unless all are like that
    weights = np.exp(log_weights - log_weights.max())
    number = _number_of_draws(float(weights.sum() ** 2 / (weights**2).sum()))
    return _picked(stage.states.x, systematic_picks(weights, number, np.random.default_rng(seed).random()))


def _number_of_draws(worth: float) -> int:
    return int(np.clip(worth, _FEWEST, _OWN_CHAINS)) if np.isfinite(worth) else _FEWEST


def _away(walked: Homecoming) -> Away:
    return Away(walked.num_away, len(walked.is_away))


def _picked(x: State, picks: np.ndarray) -> State:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[picks], x)


@eqx.filter_jit
def _has_density(path: AbstractPath, x: State) -> Bool[Array, " witness"]:
    """Whether log f at the target is finite, one state at a time."""
    return jax.lax.map(lambda state: jnp.isfinite(path.log_density(state, jnp.int32(path.num_rungs - 1))), x)
