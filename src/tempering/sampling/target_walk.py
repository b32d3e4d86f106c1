"""Chains that walk at the target alone: how far its tails reach beyond those of the base."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from tempering._device_arrays import device_array
from tempering._types import Key
from tempering.kernels import AbstractKernel, positions_at_target
from tempering.ladder import Ladder
from tempering.sampling.chains import run_chains
from tempering.stats import MAX_BLOCK_STEPS, WeightedDraws

_VARIED_STEPS = MAX_BLOCK_STEPS  # first moves of each chain, of all lengths
_NUM_STEPS = _VARIED_STEPS + 2 * MAX_BLOCK_STEPS  # with those that follow, of the lengths that the run has
_VARIED = float(np.log(10.0))  # the jitter of log ε at first: steps from a tenth to ten times as long
_APART = 50  # steps between states that are looked at: next to each other they are nearly the same
_ELSEWHERE = -1e5  # log r_k of the other rungs, so low that no chain ever goes there
_KEY = 2**23  # folded into the key of a stage, out of the way of its steps


class TargetWalk(NamedTuple):
    """What chains that walked at the target saw.

    Attributes:
        log_rises: log f at the target less log f at the base, at every state of the last third.
        num_moves: Moves of all chains together.
    """

    log_rises: Float[np.ndarray, "chain step"]
    num_moves: int

    @property
    def rises_apart(self) -> Float[np.ndarray, "chain draw"]:
        """Those of states that are not next to each other."""
        return self.log_rises[:, ::_APART]


def walk_at_target(
    key: Key, ladder: Ladder, kernel: AbstractKernel, record: Any, draws: WeightedDraws, num_chains: int
) -> TargetWalk | None:
    """Walk from draws of the target at its rung, if they leave it open whether the base has lighter tails.

    Let s = log f − log base. If its right tail under the target is heavier than exponential, E[exp(t s)] is infinite
    for every t > 0. The weights exp((1 − β) s) that lead from the density at β to the target then have no variance at
    any β < 1, and a tempered run misses what lies in the tails until it has been there. What it has seen may end
    before. Moves at the target alone do not come back from there to lower rungs, so that they see more of the tails.
    Where s has no tail to the right among the draws of the run, the base is wide enough, and nobody walks.

    Steps that suit most of the target may be too long for a narrow part, or too short to get anywhere. So the first
    steps vary by a factor of ten both ways. Later ones are those of the run, which get farthest in the tails and do not
    leave the narrow parts.

    It is the law of the run with other weights of the rungs, so that the program of its sampling is used again.

    Args:
        key: The key of a stage.
        ladder: The law that was sampled.
        kernel: How chains moved.
        record: What a chain keeps of a block, with states, before any draw.
        draws: The states of the run.
        num_chains: How many chains are to walk.

    Returns:
        What they saw; None where nobody walked.
    """
    if not draws.skewness_of_rises > 0:
        return None
    x = draws.resampled(num_chains)
    states = kernel.prepared(ladder.path, positions_at_target(ladder.path, x))
    log_prior = np.full(ladder.path.num_rungs, _ELSEWHERE)
    log_prior[-1] = 0.0
    alone = dataclasses.replace(ladder, log_prior=device_array(log_prior))
    varied = dataclasses.replace(kernel, move=kernel.move.with_steps_varied(_VARIED))
    key, last = jax.random.fold_in(key, _KEY), None
    for stepping, first_step, num_steps in ((varied, 0, _VARIED_STEPS), (kernel, _VARIED_STEPS, _NUM_STEPS)):
        *_, last = run_chains(
            key, alone, stepping, record, states if last is None else last.states,
            num_steps=num_steps, first_step=first_step, block_steps=MAX_BLOCK_STEPS, joins_chains=True,
        )  # fmt: skip
    assert last is not None
    return TargetWalk(last.record.on_host().states.log_rises, num_chains * _NUM_STEPS)
