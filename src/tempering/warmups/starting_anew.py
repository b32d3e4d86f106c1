"""A run that starts again from its own states, perhaps with other rung weights."""

import dataclasses

import jax
import numpy as np

from tempering._device_arrays import device_zeros
from tempering._types import HostPerRung
from tempering.ladder import Ladder
from tempering.sampling import Stage
from tempering.stats import systematic_picks


def started_anew(stage: Stage, ladder: Ladder, offset: float) -> Stage:
    """A stage of sampling without its draws, under another law, from where its chains are.

    With other rung weights, chains are picked in proportion to the ratio of r_k / Ẑ_k, new over old, at their rungs:
    draws under the old law become draws under the new one. A chain that is picked several times starts as copies, which
    `families` tells. Chains that began at the base begin there again, where x is drawn.

    Args:
        stage: The stage so far.
        ladder: The new law.
        offset: A uniform random number in [0, 1).

    Returns:
        The stage, ready to go on.
    """
    stage = dataclasses.replace(
        stage.with_found(is_equilibrated=True), recording=None, rest=None, tails=None, rays=None
    )
    if stage.has_whole_tours:
        states = dataclasses.replace(stage.states, rung=device_zeros((stage.num_chains,), np.int32))
        return dataclasses.replace(stage, ladder=ladder, states=states)
    if not np.array_equal(ladder.log_prior, stage.ladder.log_prior):
        stage = _with_picked(stage, _log_weights(ladder) - _log_weights(stage.ladder), offset)
    return dataclasses.replace(stage, ladder=ladder)


def _log_weights(ladder: Ladder) -> HostPerRung:
    return np.asarray(ladder.log_prior, np.float64) - np.asarray(ladder.log_z_guess, np.float64)


def _with_picked(stage: Stage, log_ratio: HostPerRung, offset: float) -> Stage:
    at_rungs = log_ratio[np.asarray(stage.states.rung)]
    weights = np.exp(at_rungs - at_rungs.max())
    picks = systematic_picks(weights / weights.sum(), stage.num_chains, offset)
    before = stage.warmup.families
    families = picks if before is None else np.asarray(before)[picks]
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[picks], stage.states)
    return dataclasses.replace(stage.with_found(families=tuple(families.tolist())), states=states)
