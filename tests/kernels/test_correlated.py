"""Steps along correlated coordinates: one linear map and its transpose, which leave every rung as it is."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from plane import BETAS, NUM_DRAWS, SPREAD, counts_after
from tempering.kernels.moves import Schedule, StepSize
from tempering.kernels.moves.carried import carried_at

FACTOR = np.array([[1.0, 0.0], [-0.8, 0.6]])  # a correlation of −0.8
OTHER = np.array([[1.0, 0.0], [0.6, 0.8]])
SIZE = StepSize(jnp.float32(0.9), SPREAD, jnp.asarray(FACTOR, jnp.float32))
MOVES = {"hmc": tp.HMC(num_leaps=4), "walk": tp.RandomWalk(num_steps=3)}


def dense_schedule() -> Schedule:
    """Another step size, other scales and another factor at either end."""
    return Schedule(
        jnp.array([0.0, 1.0]),
        jnp.array([1.1, 0.7]),
        jnp.array([[1.8, 1.5], [0.7, 1.0]]),
        jnp.float32(0.2),
        jnp.array([0.4, 1.0]),
        jnp.asarray([OTHER, FACTOR], jnp.float32),
    )


@pytest.mark.parametrize("name", MOVES)
def test_a_step_with_a_factor_leaves_every_rung_invariant(name):
    move = MOVES[name]
    for counts, law in counts_after(lambda *where: move.step(*where, SIZE)[0], seed=3):
        checks.assert_law(counts, law)


@pytest.mark.parametrize("name", MOVES)
def test_a_move_with_factors_in_its_schedule_leaves_every_rung_invariant(name):
    """Both ways of calling it, where there are two."""
    move = MOVES[name].with_schedule(dense_schedule())
    calls = [lambda *where: move(*where)[0]]
    if name == "hmc":
        calls.append(lambda key, path, rung, x: move.carried_call(key, path, rung, x, carried_at(path, x))[0])
    for call in calls:
        for counts, law in counts_after(call, seed=4):
            checks.assert_law(counts, law)


def hmc_with_the_wrong_energy(key, path, rung, x):
    """Broken: momenta have the correlations of the factor, but their energy is that of independent ones."""
    key_momentum, key_accept = jax.random.split(key)
    slope = jax.grad(lambda q: path.log_density(q, rung))
    q, p = x, FACTOR @ jax.random.normal(key_momentum, x.shape)
    kinetic = jnp.sum(p**2) / 2
    for _ in range(4):
        p = p + 0.5 * 0.9 * SPREAD * slope(q)
        q = q + 0.9 * SPREAD * p
        p = p + 0.5 * 0.9 * SPREAD * slope(q)
    log_ratio = path.log_density(q, rung) - path.log_density(x, rung) + kinetic - jnp.sum(p**2) / 2
    return jnp.where(jnp.log(jax.random.uniform(key_accept)) < log_ratio, q, x)


def walk_along_its_position(key, path, rung, x):
    """Broken: the correlation of a proposal depends on where x is, so that it is no longer symmetric."""
    key_propose, key_accept = jax.random.split(key)
    factor = jnp.where(x[0] * x[1] > 0, FACTOR, OTHER * jnp.array([1.0, 0.5]))
    proposal = x + 1.5 * SPREAD * (factor @ jax.random.normal(key_propose, x.shape))
    log_ratio = path.log_density(proposal, rung) - path.log_density(x, rung)
    return jnp.where(jnp.log(jax.random.uniform(key_accept)) < log_ratio, proposal, x)


@pytest.mark.parametrize("broken", [hmc_with_the_wrong_energy, walk_along_its_position])
def test_broken_steps_with_a_factor_are_rejected(broken):
    for counts, law in counts_after(broken, seed=3):
        checks.assert_not_law(counts, law)


@pytest.mark.parametrize("factor", [None, np.tril(np.random.default_rng(0).normal(size=(4, 4)))])
def test_spread_and_gathered_are_transposes_of_each_other(factor):
    """As matrices, column by column; and what `spread` is: ε s C."""
    scale = np.array([0.5, 1.0, 2.0, 3.0])
    size = StepSize(
        jnp.float32(0.7), jnp.asarray(scale, jnp.float32), factor if factor is None else jnp.asarray(factor)
    )
    size = size.with_dtype(jnp.float32)
    spread, gathered = (np.stack([f(row) for row in jnp.eye(4)], axis=1) for f in (size.spread, size.gathered))
    np.testing.assert_allclose(spread, gathered.T, rtol=1e-6)
    np.testing.assert_allclose(spread, 0.7 * scale[:, None] * (np.eye(4) if factor is None else factor), rtol=1e-6)


def test_proposals_have_the_covariance_of_the_factor():
    """Where nothing is refused: ε² s C Cᵀ s. Kills: Cᵀ C, scales within the factor."""
    base = tp.Unnormalised(lambda x: 0.0 * jnp.sum(x), lambda key: jnp.zeros(2))
    path = tp.paths.GeometricPath.create(lambda x: 0.0 * jnp.sum(x), base, BETAS)
    keys = jax.random.split(jax.random.key(7), NUM_DRAWS)
    step = jax.jit(
        jax.vmap(lambda key: tp.RandomWalk(num_steps=1).step(key, path, jnp.int32(1), jnp.zeros(2), SIZE)[0])
    )
    unit = np.asarray(step(keys), np.float64) / (0.9 * np.asarray(SPREAD, np.float64))
    for i, j, expected in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, -0.8)):
        checks.assert_mean(unit[:, i] * unit[:, j], expected)


def test_the_factor_of_the_next_higher_place_counts():
    """Beyond the last the last one does. With other knots the factors stay where they are."""
    schedule = dense_schedule()
    for moved in (schedule, schedule.with_knots(np.linspace(0, 1, 7), 2)):
        for beta, expected in ((0.0, OTHER), (0.4, OTHER), (0.41, FACTOR), (1.0, FACTOR)):
            np.testing.assert_allclose(moved.at_beta(jnp.float32(beta)).factor, expected, rtol=1e-6)
    early = dataclasses.replace(schedule, factor_betas=jnp.array([0.2, 0.3]))
    np.testing.assert_allclose(early.at_beta(jnp.float32(0.9)).factor, FACTOR, rtol=1e-6)
    assert Schedule.constant(1.0).at_beta(jnp.float32(0.5)).factor is None
