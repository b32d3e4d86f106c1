"""Stepping stones against exact answers: ratios of neighbouring densities by enumeration go in, log Z comes out."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from samples import UNEVEN, noisy_step_stats, step_stats
from tempering.estimators import stepping_stone
from tempering.stats import BlockedStats

TOLERANCE = 1e-10
DIRECTIONS = ("up", "down")


def rbm_path(betas):
    return exact.small_rbm().path(exact.BASE_FREQUENCIES, np.asarray(betas))


def without_chain(stats: BlockedStats, chain: int) -> BlockedStats:
    names = ("log_sums", "visits", "num_draws", "num_nonfinite", "log_steps")
    return dataclasses.replace(stats, **{n: np.delete(getattr(stats, n), chain, axis=0) for n in names})


@pytest.mark.parametrize("betas", [exact.BETAS, UNEVEN], ids=["3 rungs", "6 rungs"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_steps_are_exact_on_exact_ratios(betas, direction):
    """With rungs of unequal weight. Kills: up for down, a missing sign, the count of the rung stepped to."""
    path = rbm_path(betas)
    num_rungs = len(betas)
    prior = np.log(np.arange(1, num_rungs + 1) / np.arange(1, num_rungs + 1).sum())
    stats = exact.stats_with_slopes_and_steps(path, prior, np.sin(np.arange(num_rungs)))
    answer = stepping_stone(stats, direction, log_z_base=1.5)
    truth = exact.log_z(path)
    np.testing.assert_allclose(answer.values, 1.5 + truth - truth[0], atol=TOLERANCE)
    assert answer.method == f"stepping_{direction}"


def test_each_direction_uses_its_own_draws():
    """By hand, from numbers that agree with nothing. Kills: ratios or counts of the other end of a step."""
    stats = step_stats([[3.0, 10.0, 9.0]], [[9.0, 5.0, 7.0]], [[2, 4, 8]])
    np.testing.assert_allclose(stepping_stone(stats, "up").values, np.log([1, 3 / 2, 3 / 2 * 10 / 4]), atol=TOLERANCE)
    np.testing.assert_allclose(stepping_stone(stats, "down").values, np.log([1, 4 / 5, 4 / 5 * 8 / 7]), atol=TOLERANCE)


def test_the_two_directions_enclose_log_z_on_average():
    """With one draw a rung the expectations are sums over states, and miss by KL divergences. Kills: a wrong sign."""
    path = rbm_path(UNEVEN)
    log_f, truth = exact.log_densities(path), np.diff(exact.log_z(path))
    law = np.exp(log_f - exact.log_z(path))
    steps = {direction: [] for direction in DIRECTIONS}
    for row in log_f:
        ratios = np.exp(np.diff(row))
        stats = step_stats([np.append(ratios, 0)], [np.append(0, 1 / ratios)], np.ones((1, 6), np.int64))
        for direction in DIRECTIONS:
            steps[direction].append(np.diff(stepping_stone(stats, direction).values))
    log_ratio = np.diff(log_f - exact.log_z(path))
    up = (law[:, :-1] * np.array(steps["up"])).sum(axis=0)
    down = (law[:, 1:] * np.array(steps["down"])).sum(axis=0)
    np.testing.assert_allclose(up, truth + (law[:, :-1] * log_ratio).sum(axis=0), atol=TOLERANCE)
    np.testing.assert_allclose(down, truth + (law[:, 1:] * log_ratio).sum(axis=0), atol=TOLERANCE)
    assert np.all(up < truth)
    assert np.all(down > truth)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_errors_and_bias_are_what_leaving_out_a_chain_changes(direction):
    """Against the function itself on all chains but one. Kills: counts without noise, steps not added up, n for n−1."""
    stats = noisy_step_stats()
    answer = stepping_stone(stats, direction)
    left = np.array([stepping_stone(without_chain(stats, c), direction).values for c in range(20)])
    expected = np.sqrt(19 / 20 * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(answer.std_errors, expected, atol=TOLERANCE)
    np.testing.assert_allclose(answer.biases, 19 * (left.mean(axis=0) - answer.values), atol=TOLERANCE)
    assert answer.dof == 19
    assert answer.verdict is tp.Verdict.GOOD


def test_jensen_s_bias_has_its_size_and_sign():
    """A ratio that scatters by 5 % over 100 chains: ∓½ σ²/n, to the next order in σ. Kills: a bias without its sign."""
    parts = 1 + 0.05 * scipy_stats.norm.ppf((np.arange(100) + 0.5) / 100)
    stats = step_stats(*(parts[:, None] * [7.0, 7.0] for _ in range(2)), np.full((100, 2), 7))
    expected = np.var(parts, ddof=1) / 100 / 2
    assert stepping_stone(stats, "up").biases[-1] == pytest.approx(-expected, rel=0.02)
    assert stepping_stone(stats, "down").biases[-1] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("direction", "last_known"), [("up", 1), ("down", 0)])
def test_a_rung_without_draws_ends_what_is_known(direction, last_known):
    """Rung 1 of 4 has none. Kills: log 0 or a pseudo-count as a step, an error bar beyond, the wrong rung in words."""
    stats = noisy_step_stats()
    visits, steps = stats.visits.copy(), stats.log_steps.copy()
    visits[:, :, 1], steps[:, :, 1] = 0, -np.inf
    answer = stepping_stone(dataclasses.replace(stats, visits=visits, log_steps=steps), direction)
    assert np.isfinite(answer.values[: last_known + 1]).all()
    assert np.isnan(answer.values[last_known + 1 :]).all()
    assert np.isinf(answer.std_errors[last_known + 1 :]).all()
    findings = {finding.verdict: finding.seen for finding in answer.findings}
    assert "rung 1;" in findings[tp.Verdict.UNREACHED]


@pytest.mark.parametrize(("direction", "rung"), [("up", 1), ("down", 2)])
def test_a_step_that_one_chain_decides_has_no_overlap(direction, rung):
    """One chain of 20 brings 90 % of what one step is made of. Kills: shares of draws, the other rung in words."""
    stats = noisy_step_stats()
    steps = stats.log_steps.copy()
    side = DIRECTIONS.index(direction)
    others = logsumexp(np.delete(steps[:, 0, rung, side], 7))
    steps[7, 0, rung, side] = others + np.log(9)
    answer = stepping_stone(dataclasses.replace(stats, log_steps=steps), direction)
    assert answer.verdict is tp.Verdict.NO_OVERLAP
    assert f"one of 20 independent parts of the run makes 90% of the step from the draws at rung {rung}" in (
        answer.findings[0].seen
    )


def test_a_step_that_one_chain_alone_has_made_has_no_error():
    """Its scatter is unknown, not zero; what lies below it is known as before. Kills: a unit that is sure of itself."""
    stats = noisy_step_stats()
    visits, steps = stats.visits.copy(), stats.log_steps.copy()
    visits[1:, :, 1], steps[1:, :, 1] = 0, -np.inf
    answer = stepping_stone(dataclasses.replace(stats, visits=visits, log_steps=steps))
    assert np.isfinite(answer.values).all()
    np.testing.assert_array_equal(np.isfinite(answer.std_errors), [True, True, False, False])
    assert {finding.verdict for finding in answer.findings} == {tp.Verdict.NO_ERROR, tp.Verdict.NO_OVERLAP}


@pytest.mark.parametrize(("direction", "value"), [("up", -np.inf), ("down", np.inf)])
def test_a_step_that_no_draw_can_make_is_infinite_and_says_so(direction, value):
    """Densities that share no draw at all. Kills: a finite number, an error bar, warnings."""
    stats = noisy_step_stats()
    steps = stats.log_steps.copy()
    steps[:, :, 2, DIRECTIONS.index(direction)] = -np.inf
    answer = stepping_stone(dataclasses.replace(stats, log_steps=steps), direction)
    assert answer.log_z == value
    assert answer.std_error == np.inf
    assert tp.Verdict.NO_OVERLAP in {finding.verdict for finding in answer.findings}
    assert f"none of {stats.visits[..., 2].sum()} draws" in answer.findings[-1].seen


@pytest.mark.parametrize("infinite", [np.inf, np.nan])
def test_an_infinite_ratio_is_no_number_and_says_so(infinite):
    """The device's sum of one such ratio is ∞, of two NaN. Kills: a finite number, warnings, a good verdict."""
    stats = noisy_step_stats()
    steps = stats.log_steps.copy()
    steps[4, 0, 1, 0] = infinite
    answer = stepping_stone(dataclasses.replace(stats, log_steps=steps))
    assert np.isfinite(answer.values[:2]).all()
    assert np.isnan(answer.values[2:]).all()
    assert answer.std_error == np.inf
    assert answer.verdict is tp.Verdict.NONFINITE


@eqx.filter_jit
def folded(stats, ladder, draws):
    return jax.lax.scan(lambda stats, draw: (stats.update(ladder, draw), None), stats, draws)[0]


def test_sums_on_the_device_are_those_of_the_draws():
    """300 draws, one of them not finite and left at rung 0, recomputed in float64 from enumerated densities.

    log f of size 10 in float32 is off by some 1e-6, and a sum of n terms by n·6e-8 of itself. Kills: rung for origin,
    up for down, and a mean that counts the draw that was left out.
    """
    path, ladder = rbm_path(UNEVEN), tp.Ladder.create(rbm_path(UNEVEN), None, np.linspace(0, 3, 6))
    rng = np.random.default_rng(7)
    rows, rungs = rng.integers(0, 32, 300), rng.integers(0, 6, 301)
    rungs[101] = 0
    states = exact.states_of(path, exact.patterns(5)[rows])
    log_f = jax.vmap(path.log_densities)(states).at[100].set(jnp.nan)
    draws = tp.ladder.Draw(states, jnp.asarray(rungs[:-1], jnp.int32), jnp.asarray(rungs[1:], jnp.int32), log_f)
    stats = folded(tp.TemperingStats.empty(ladder, with_steps=True), ladder, draws)
    is_used = np.arange(300) != 100
    exact_log_f = exact.log_densities(path)[rows[is_used]]
    at = [exact_log_f[rungs[:-1][is_used] == k] for k in range(6)]
    up = [np.log(np.exp(at[k][:, k + 1] - at[k][:, k]).mean()) for k in range(5)]
    down = [-np.log(np.exp(at[k][:, k - 1] - at[k][:, k]).mean()) for k in range(1, 6)]
    for direction, steps in (("up", up), ("down", down)):
        answer = stepping_stone(stats, direction)
        np.testing.assert_allclose(np.diff(answer.values), steps, atol=3e-5)
        assert tp.Verdict.NONFINITE in {finding.verdict for finding in answer.findings}


@pytest.fixture(scope="module")
def replicates() -> tuple[list[BlockedStats], float]:
    return exact.replicates(31, with_steps=True)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_estimates_and_errors_are_right_in_runs(replicates, direction):
    """200 runs: their mean, less Jensen's bias, sees 0.3 of one run's error; their scatter sees 25 %."""
    runs, truth = replicates
    answers = [stepping_stone(stats, direction) for stats in runs]
    checks.assert_mean(np.array([a.log_z - a.biases[-1] for a in answers]), truth)
    scores = np.array([(a.log_z - a.biases[-1] - truth) / a.std_error for a in answers])
    # z² of Student's t with 19 degrees of freedom has mean 19/17 and variance 3.0.
    z = (np.sum(scores**2) - len(scores) * 19 / 17) / np.sqrt(3.0 * len(scores))
    assert abs(z) < scipy_stats.norm.isf(checks.FALSE_FAILURE / 2)


def test_what_has_no_steps_is_refused():
    """Each with its cure in one line."""
    stats = noisy_step_stats()
    with pytest.raises(tp.InputError, match='"up" or "down"'):
        stepping_stone(stats, "sideways")
    for base in (np.inf, np.nan):
        with pytest.raises(tp.InputError, match="base is improper"):
            stepping_stone(stats, log_z_base=base)
    with pytest.raises(tp.InputError, match=r"Keep\(steps=True\)"):
        stepping_stone(tp.TemperingStats.empty(exact.small_ladder()))
