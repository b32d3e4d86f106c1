"""Bridge sampling: exact whatever Ẑ is, equal to Bennett's ratio where that is optimal, and decided by no rare draw."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import exact
import tempering as tp
from samples import UNEVEN, gaussian_draws
from tempering.estimators import bar_chain, bridge_sampling, stepping_stone
from tempering.stats import BlockedStats, Travel

PATH = exact.small_rbm().path(exact.BASE_FREQUENCIES, UNEVEN)
PRIOR = np.log(np.arange(1, 7) / 21)


def stats_from(log_steps: np.ndarray, rungs: np.ndarray, guess: np.ndarray) -> BlockedStats:
    """Statistics of draws (chain, draw) with log f_{k+1}/f_k for every step (chain, draw, step)."""
    num_chains, num_rungs = len(rungs), len(guess)
    up = -np.logaddexp(0.0, -(log_steps - np.diff(guess)))
    down = -np.logaddexp(0.0, log_steps - np.diff(guess))
    bridges = np.full((num_chains, 1, num_rungs, 2), -np.inf)
    for chain, rung in np.ndindex(num_chains, num_rungs):
        here = rungs[chain] == rung
        if rung + 1 < num_rungs and here.any():
            bridges[chain, 0, rung, 0] = np.logaddexp.reduce(up[chain, here, rung])
        if rung > 0 and here.any():
            bridges[chain, 0, rung, 1] = np.logaddexp.reduce(down[chain, here, rung - 1])
    visits = np.stack([(rungs == rung).sum(axis=1) for rung in range(num_rungs)], axis=1)[:, None]
    none = np.zeros(num_chains, np.int64)
    return BlockedStats(
        betas=np.linspace(0, 1, num_rungs), log_prior=np.full(num_rungs, -np.log(num_rungs)), log_z_guess=guess,
        log_sums=np.log(np.maximum(visits, 1)), visits=visits, num_draws=np.full((num_chains, 1), rungs.shape[1]),
        num_nonfinite=none[:, None], travel=Travel(none, none, none), block_size=rungs.shape[1], log_bridges=bridges,
    )  # fmt: skip


@pytest.mark.parametrize("guess", [np.zeros(6), np.sin(np.arange(6)), np.linspace(0, 20, 6)])
def test_exact_statistics_give_the_exact_answer_whatever_the_guess(guess):
    """Kills: Ẑ left out or counted twice, up for down, a step of another rung."""
    answer = bridge_sampling(exact.stats_with_slopes_and_steps(PATH, PRIOR, guess - guess[0]), log_z_base=1.5)
    truth = exact.log_z(PATH)
    np.testing.assert_allclose(answer.values, 1.5 + truth - truth[0], atol=1e-9)
    assert answer.method == "bridge"


def test_with_the_ratio_itself_as_guess_it_is_bennetts():
    """As many draws at every rung. Bennett's equation is that the correction vanishes. Kills: another mean."""
    draws, _ = gaussian_draws(np.random.default_rng(4), (20, 40))
    by_bennett = bar_chain(draws)
    log_steps = np.diff(log_f_of(draws), axis=-1)
    answer = bridge_sampling(stats_from(log_steps, draws.rungs, by_bennett.values))
    np.testing.assert_allclose(answer.values, by_bennett.values, atol=1e-9)
    assert answer.std_error == pytest.approx(by_bennett.std_error, rel=0.1)  # to first order in 1/20


def log_f_of(draws) -> np.ndarray:
    return np.einsum("cdf,kf->cdk", draws.features.astype(np.float64), draws.matrix)


def test_the_error_is_that_of_leaving_chains_out():
    """Kills: influences of one side, a wrong sign of one, units that are blocks."""
    draws, _ = gaussian_draws(np.random.default_rng(6), (20, 40))
    stats = stats_from(np.diff(log_f_of(draws), axis=-1), draws.rungs, np.zeros(4))
    whole = bridge_sampling(stats)
    left = np.array([bridge_sampling(stats.of_chains(np.arange(20) != chain)).values for chain in range(20)])
    np.testing.assert_allclose(whole.influences, 19 * (whole.values - left), atol=1e-9)


def test_a_part_that_the_next_density_hardly_sees_is_not_lost():
    """f_1 falls off at a wall where f_0 has a tenth of its mass. Stones down never see it, and are 0.1 too high.

    Draws are the quantiles of both laws, so that there is no noise. Kills: ratios in the place of shares.
    """
    number = 2000
    places = (np.arange(number) + 0.5) / number
    behind = places > 0.9  # of the base: f_1/f_0 is e^-50 there, and 1 elsewhere
    log_steps = np.stack([np.where(behind, -50.0, 0.0), np.zeros(number)])[None]
    rungs = np.repeat([0, 1], number)[None]
    guess = np.array([0.0, -0.3])
    answer = bridge_sampling(stats_from(log_steps.reshape(1, -1, 1), rungs, guess))
    assert answer.log_z == pytest.approx(np.log(0.9), abs=1e-3)
    down = -np.log(np.exp(-log_steps[0, 1]).mean())
    assert down == 0


def test_a_rare_state_does_not_decide_a_step():
    """One draw in 20 × 30 whose next density is e^400 times its own. Kills: a sum that it decides."""
    rng = np.random.default_rng(3)
    log_steps, rungs = rng.normal(0.2, 0.3, (20, 30, 1)), np.tile(np.arange(30) % 2, (20, 1))
    plain = bridge_sampling(stats_from(log_steps, rungs, np.zeros(2)))
    log_steps[4, 6] = 400.0
    assert abs(bridge_sampling(stats_from(log_steps, rungs, np.zeros(2))).log_z - plain.log_z) < 0.01


def test_rungs_without_draws_and_steps_of_one_chain_are_found():
    """Kills: NaN without a word, an error that is known."""
    rng = np.random.default_rng(8)
    log_steps, rungs = rng.normal(0.0, 0.1, (10, 60, 2)), np.tile(np.arange(60) % 3, (10, 1))
    empty = np.where(rungs == 1, 0, rungs)
    answer = bridge_sampling(stats_from(log_steps, empty, np.zeros(3)))
    assert np.isnan(answer.log_z)
    assert tp.Verdict.UNREACHED in {finding.verdict for finding in answer.findings}
    far = np.where(np.arange(10)[:, None, None] == 2, log_steps, -30.0)  # one chain sees the next density
    decided = bridge_sampling(stats_from(far, rungs, np.zeros(3)))
    assert [finding.verdict for finding in decided.findings] == [tp.Verdict.NO_OVERLAP]


def test_the_sums_are_those_of_the_draws():
    """200 draws, recomputed in float64. Kills: the new rung for the origin, up for down, a guess of another rung."""
    ladder = tp.Ladder.create(PATH, None, np.linspace(0, 3, 6))
    rng = np.random.default_rng(7)
    rows, rungs = rng.integers(0, 32, 200), rng.integers(0, 6, 201)
    states = exact.states_of(PATH, exact.patterns(5)[rows])
    log_f = jax.vmap(PATH.log_densities)(states)
    draws = tp.ladder.Draw(states, jnp.asarray(rungs[:-1], jnp.int32), jnp.asarray(rungs[1:], jnp.int32), log_f)

    def add(stats, draw):
        return stats.update(ladder, draw), None

    stats = jax.jit(lambda draws: jax.lax.scan(add, tp.TemperingStats.empty(ladder, with_bridges=True), draws)[0])(
        draws
    )
    log_steps = np.diff(exact.log_densities(PATH)[rows], axis=1)
    expected = bridge_sampling(stats_from(log_steps[None], rungs[None, :-1], np.linspace(0, 3, 6)))
    np.testing.assert_allclose(bridge_sampling(stats).values, expected.values, atol=3e-5)


def test_estimates_and_errors_are_right_in_runs():
    """200 runs: their mean sees half of one run's error; coverage by a binomial test. False-failure rate 1e-6 each."""
    runs, truth = exact.replicates(37, with_bridges=True, with_steps=True)
    answers = [bridge_sampling(stats) for stats in runs]
    checks.assert_mean(np.array([answer.log_z - answer.biases[-1] for answer in answers]), truth)
    inside = sum(low <= truth <= high for low, high in (answer.interval for answer in answers))
    checks.assert_coverage(inside, len(answers), 0.95, slack=0.03)
    up = np.array([stepping_stone(stats).log_z for stats in runs])
    assert np.std([answer.log_z for answer in answers]) < 1.2 * np.std(up)


def test_what_a_run_did_not_keep_is_asked_for():
    stats = dataclasses.replace(exact.stats_with_slopes_and_steps(PATH, PRIOR, np.zeros(6)), log_bridges=None)
    with pytest.raises(tp.InputError, match=r"Keep\(bridges=True\)"):
        bridge_sampling(stats)
    with pytest.raises(tp.InputError, match="improper"):
        bridge_sampling(stats, log_z_base=np.inf)
