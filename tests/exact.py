"""Small models whose every state can be listed, see `tempering.verification.enumerated`; and replicates of runs."""

import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp
from tempering.stats import BlockedStats
from tempering.verification.enumerated import BASE_FREQUENCIES as BASE_FREQUENCIES
from tempering.verification.enumerated import BETAS as BETAS
from tempering.verification.enumerated import LOG_PRIOR as LOG_PRIOR
from tempering.verification.enumerated import LOG_Z_GUESS as LOG_Z_GUESS
from tempering.verification.enumerated import gibbs_matrix as gibbs_matrix
from tempering.verification.enumerated import joint_law as joint_law
from tempering.verification.enumerated import log_densities as log_densities
from tempering.verification.enumerated import log_z as log_z
from tempering.verification.enumerated import patterns as patterns
from tempering.verification.enumerated import recording_from_law as recording_from_law
from tempering.verification.enumerated import rung_posterior as rung_posterior
from tempering.verification.enumerated import slope_laws as slope_laws
from tempering.verification.enumerated import small_ladder as small_ladder
from tempering.verification.enumerated import small_path as small_path
from tempering.verification.enumerated import small_rbm as small_rbm
from tempering.verification.enumerated import states_of as states_of
from tempering.verification.enumerated import stats_from_law as stats_from_law
from tempering.verification.enumerated import stats_with_slopes_and_steps as stats_with_slopes_and_steps


def replicates(seed: int, **keep: bool) -> tuple[list[BlockedStats], float]:
    """200 runs of 20 chains × 100 steps on 7 rungs, started in equilibrium, and the exact answer.

    One long row of chains, read as independent runs. `keep` are the options of `TemperingStats.empty`.
    """
    num_runs, num_chains, num_steps = 200, 20, 100
    path = small_rbm().path(BASE_FREQUENCIES, np.linspace(0, 1, 7))
    truth = log_z(path) - log_z(path)[0]
    ladder = tp.Ladder.create(path, None, truth + 0.2 * np.cos(np.arange(7)))
    law = joint_law(log_densities(path), *(np.asarray(a) for a in (ladder.log_prior, ladder.log_z_guess)))
    cells = np.random.default_rng(seed).choice(law.size, size=num_runs * num_chains, p=law.ravel() / law.sum())
    states = tp.Position(states_of(path, patterns(5)[cells // 7]), jnp.asarray(cells % 7, jnp.int32))
    record, kernel = tp.TemperingStats.empty(ladder, **keep), tp.SimulatedTempering(tp.BlockGibbs())
    (block,) = tp.run_chains(
        jax.random.key(seed), ladder, kernel, record, states, num_steps=num_steps, block_steps=num_steps
    )
    whole = block.record.on_host()
    runs = np.arange(num_runs * num_chains).reshape(num_runs, num_chains)
    return [whole.of_chains(chains) for chains in runs], float(truth[-1])
