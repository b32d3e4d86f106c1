"""Heavy tails of what chains contribute: a threshold that is pinned, and bases that are too light."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import checks
import tempering as tp
from tempering.diagnosis.tails import beyond_the_run, heavy_contributions, heavy_target
from tempering.estimators import LogZ
from tempering.estimators.uncertainty import uncertainty_of_mean
from tempering.stats import WeightedDraws
from tempering.verdicts import Verdict


def answer(num_large: int, num_chains: int, sign: float = 1.0) -> LogZ:
    """Chains of which so many contribute 1 and the others nothing."""
    parts = sign * (np.arange(num_chains) < num_large)
    influences = np.stack([np.zeros(num_chains), parts], axis=1)
    return LogZ.from_uncertainty("rts", np.zeros(2), uncertainty_of_mean(influences))


def run_with(rises: np.ndarray) -> WeightedDraws:
    """Draws of a run, half of which have no weight: they are of lower rungs, and far out."""
    log_weights = np.stack([np.zeros(rises.shape), np.full(rises.shape, -np.inf)], axis=-1).reshape(len(rises), -1)
    log_rises = np.stack([rises, np.full(rises.shape, 1e3)], axis=-1).reshape(len(rises), -1)
    return WeightedDraws(log_rises, log_weights, np.zeros(log_rises.shape, np.int32), 1, log_rises=log_rises)


def draws_whose_rises_are(skewed_to: str) -> WeightedDraws:
    rises = np.random.default_rng(0).exponential(size=(10, 50))
    return run_with(rises if skewed_to == "the right" else -rises)


@pytest.mark.parametrize(("num_large", "num_chains", "is_heavy"), [
    (15, 100, False),  # skewness 1.96
    (14, 100, True),  # 2.08; with twice or half the threshold these two are told apart no more
    (3, 20, False),  # 1.96
    (2, 20, True),  # 2.67; of 20 normal variables 2.13 is the most that chance allows
    (25, 200, True),  # 2.27, more than chance allows (0.67)
    (2, 12, False),  # 1.79
])  # fmt: skip
def test_contributions_may_be_as_skewed_as_exponential_ones(num_large, num_chains, is_heavy):
    # Kills: the threshold halved or doubled, no allowance for chance, one that grows with the chains.
    found = heavy_contributions(answer(num_large, num_chains), 1000)
    assert (found is not None) is is_heavy
    if found is not None:
        assert found.verdict is Verdict.HEAVY_TAILS
        assert "num_sweeps=2000" in found.cure


def test_chains_that_contribute_little_are_not_a_heavy_tail():
    # Kills: the absolute value of the skewness.
    assert heavy_contributions(answer(10, 100, sign=-1.0), 1000) is None


@pytest.mark.parametrize(("num_large", "num_chains", "is_heavy", "is_heavy_under_a_wide_base"), [
    (8, 100, True, False),  # skewness 3.10, where √(100/10) is the most
    (7, 100, True, True),  # 3.37
    (10, 1000, True, False),  # 9.85, where 10 is the most
    (9, 1000, True, True),  # 10.4
    (2, 20, True, True),  # 2.67: so few chains may be as skewed as exponential variables, and no more
])  # fmt: skip
def test_rare_modes_under_a_wide_base_may_be_more_skewed(num_large, num_chains, is_heavy, is_heavy_under_a_wide_base):
    # Kills: the same rule for all bases, the sign of the rises' skewness, a limit that does not grow with the chains.
    contributions = answer(num_large, num_chains)
    light, wide = (draws_whose_rises_are(to) for to in ("the right", "the left"))
    assert (heavy_contributions(contributions, 1000, light) is not None) is is_heavy
    assert (heavy_contributions(contributions, 1000, wide) is not None) is is_heavy_under_a_wide_base


@pytest.mark.parametrize("num_chains", [100, 1000])
def test_twenty_visits_to_a_rare_mode_are_enough_for_an_interval(num_chains):
    """Chains of which few find a mode that has a fifth of the mass, for a time that varies: Poisson counts.

    Kills: a limit that forgets how many chains there are, which finds nearly all runs of 1000 chains.
    """
    rng, share, number = np.random.default_rng(5), 0.2, 1000
    wide, num_quiet, num_held = draws_whose_rises_are("the left"), 0, 0
    for _ in range(number):
        visits = rng.poisson(20 / num_chains, num_chains)
        time_there = np.where(visits > 0, rng.gamma(np.maximum(3 * visits, 1)), 0.0) / 3
        contributions = 1 + 0.3 * rng.normal(size=num_chains) + time_there * num_chains / 20 * share / (1 - share)
        influences = np.stack([np.zeros(num_chains), contributions / contributions.mean() - 1], axis=1)
        found = LogZ.from_uncertainty(
            "rts", np.array([0.0, np.log(contributions.mean())]), uncertainty_of_mean(influences)
        )
        if heavy_contributions(found, 1000, wide) is None:
            num_quiet += 1
            num_held += found.interval[0] <= -np.log(1 - share) <= found.interval[1]
    assert num_quiet > number / 2
    checks.assert_coverage(num_held, num_quiet, 0.96, 0.03)


QUANTILES = (np.arange(500) + 0.5) / 500


@pytest.mark.parametrize(("rises", "is_heavy"), [
    (-stats.chi2.ppf(QUANTILES, 5) / 2, False),  # a normal target under a wide normal base
    (stats.chi2.ppf(QUANTILES, 1), False),  # under a narrower one, in one dimension
    (stats.t.ppf(QUANTILES, 2) ** 2 / 18, True),  # Student's t under a normal base
    (stats.cauchy.ppf(QUANTILES) ** 2 / 18, True),
    (-np.log1p(stats.cauchy.ppf(QUANTILES) ** 2), False),  # under a base with heavier tails
    (np.zeros(500), False),  # the base itself
])  # fmt: skip
def test_targets_with_heavier_tails_than_their_base_are_found(rises, is_heavy):
    """By quantiles, without noise. Kills: the left tail, the tail of f over the base instead of its logarithm."""
    found = heavy_target(np.append(rises, [np.nan, -np.inf])[:, None])
    assert (found is not None) is is_heavy
    if found is not None:
        assert found.verdict is Verdict.HEAVY_TAILS
        assert "tp.Student" in found.cure
        assert "sweeps" not in found.cure  # none would do


def test_no_state_with_a_density_is_no_evidence():
    assert heavy_target(np.full((2, 3), np.nan)) is None


def walks_beyond(share: float) -> np.ndarray:
    """100 walks, a share of which is beyond 0 all the time."""
    return np.where(np.arange(100)[:, None] < 100 * share, 1.0, np.full(1000, -1.0))


def test_walks_that_are_farther_in_the_tails_than_the_run_are_found():
    """A hundredth of a run's draws, alike for all chains, against a fiftieth and a quarter of 100 walks.

    Kills: draws without weights, an error that is that of independent steps, fewer counted as more.
    """
    run = run_with(np.where(np.arange(100) < 1, 1.0, -1.0)[None] + np.linspace(-0.1, 0.1, 10_000).reshape(100, 100))
    for share, is_found in ((0.0, False), (0.02, False), (0.25, True)):
        found = beyond_the_run(walks_beyond(share), run, 0.0)
        assert (found is not None) is is_found
        if found is not None:
            assert found.verdict is Verdict.HEAVY_TAILS
            assert "0.25 of their time in tails where the run had 0.01 of its draws" in found.seen
            assert "tp.Student" in found.cure


def test_what_walks_see_beyond_the_run_is_held_against_the_error():
    """A quarter of the walks where a hundredth of the run was: log Z is too low by 0.24 or more.

    Kills: a finding about what is much less than the error; an error counted twice, or not at all.
    """
    run = run_with(np.where(np.arange(100) < 1, 1.0, -1.0)[None] + np.linspace(-0.1, 0.1, 10_000).reshape(100, 100))
    for std_error, is_found in ((0.02, True), (0.47, True), (0.49, False)):
        assert (beyond_the_run(walks_beyond(0.25), run, std_error) is not None) is is_found


def test_walks_that_forget_faster_than_the_run_are_no_evidence():
    """The same law, with draws of the run that are the same for ten steps: luck finds one in 30.

    Kills: how far a walk gets at all, held against the run in as many draws; an error without that of the run.
    """
    rng, number = np.random.default_rng(4), 1000
    quiet = 0
    for _ in range(number):
        run, walks = np.repeat(rng.exponential(size=(100, 20)), 10, axis=1), rng.exponential(size=(100, 50))
        quiet += beyond_the_run(walks, run_with(run), 0.0) is None
    checks.assert_coverage(quiet, number, 0.9675, 0.01)  # more than one in 50: the run chooses the level


def test_a_single_chain_and_rises_that_are_nowhere_finite_are_no_evidence():
    nowhere = np.full((30, 5), np.nan)
    assert beyond_the_run(nowhere, run_with(np.zeros((30, 5))), 0.0) is None
    assert beyond_the_run(np.ones((30, 5)), run_with(nowhere), 0.0) is None
    assert beyond_the_run(np.zeros((30, 5)), run_with(np.zeros((30, 5))), 0.0) is None
    assert beyond_the_run(np.arange(5.0)[None], run_with(np.zeros((1, 5))), 0.0) is None


@pytest.mark.slow  # ten runs; the rule itself is tested above
def test_a_normal_base_is_too_light_for_cauchy_tails_and_a_student_base_is_not():
    """Under a normal base most runs are off by several claimed errors; nothing but a wider base cures that."""

    def log_f(x):
        return -jnp.sum(jnp.log1p((x - jnp.linspace(-1.0, 1.5, 5)) ** 2))

    truth, off = 5 * np.log(np.pi), []
    for seed in range(5):
        light = tp.estimate(tp.LogDensity(log_f, tp.Normal(np.zeros(5), 3.0)), seed=seed, num_sweeps=1000)
        wide = tp.estimate(tp.LogDensity(log_f, tp.Student(1.0, np.zeros(5), 2.0)), seed=seed, num_sweeps=1000)
        assert wide.verdict.is_good
        assert abs(wide.log_z - truth) < 5 * wide.std_error
        off.append(light.verdict.is_good and abs(light.log_z - truth) > 5 * light.std_error)
    assert sum(off) <= 1
