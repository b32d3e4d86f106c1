"""Whether weights may be believed: the tail fit, how many count, and what is flagged."""

import numpy as np
import pytest
from scipy.stats import genpareto, norm

import checks
import tempering as tp
from tempering.estimators import effective_sample_size, pareto_k, reverse_ais
from tempering.estimators.pareto import fit_pareto_k, foreseen_sample_size, heavy_tails

TOLERANCE = 1e-10


def test_effective_sample_size_is_its_definition():
    """Kills: squares exchanged, weights that overflow. Equal weights all count, one weight alone counts once."""
    weights = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 0.0], [1.0, 4.0, 5.0]])
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights) + 800
    np.testing.assert_allclose(effective_sample_size(log_weights), [3.0, 49 / 21, 1.0], atol=TOLERANCE)
    np.testing.assert_array_equal(effective_sample_size(np.full((5, 1), -np.inf)), [0.0])


@pytest.mark.parametrize("k", [-0.3, 0.2, 0.7, 1.5])
def test_pareto_fit_of_exact_quantiles(k):
    """Within a twentieth of its sampling error (1 + k)/√n, after ten weights' worth of belief in 1/2.

    Kills: the sign of k, a flat likelihood, its maximum on another grid, no such belief.
    """
    num = 2000
    excesses = genpareto.ppf((np.arange(num) + 0.5) / num, k)
    assert fit_pareto_k(excesses) == pytest.approx((num * k + 5) / (num + 10), abs=0.05 * (1 + abs(k)) / np.sqrt(num))


@pytest.mark.parametrize(("num_weights", "num_tail"), [(100, 20), (400, 60)])
def test_the_tail_is_the_largest_few_weights(num_weights, num_tail):
    """A fifth of the weights, or 3√S of many, above the largest of the rest. Kills: another tail, another cut."""
    weights = np.sort(np.random.default_rng(9).gamma(0.5, size=num_weights))
    expected = fit_pareto_k(weights[-num_tail:] - weights[-num_tail - 1])
    shuffled = np.random.default_rng(10).permutation(np.log(weights)) - 700
    assert pareto_k(shuffled) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("k", [0.3, 0.9])
def test_pareto_k_of_draws_from_a_known_tail(k):
    """Weights U^(−k) have a tail of exactly k, whatever their scale. Kills: all weights fitted, logs fitted."""
    log_weights = 1e3 - k * np.log(np.random.default_rng(7).uniform(size=(40, 40_000)))
    checks.assert_mean(np.array([pareto_k(row) for row in log_weights]), k + 10 * (0.5 - k) / 600)


def test_degenerate_tails():
    """Kills: division by 0, warnings, and a number where there is nothing to fit."""
    rng = np.random.default_rng(8)
    assert pareto_k(np.zeros(100)) == -np.inf
    assert np.isnan(pareto_k(rng.normal(size=20)))
    assert np.isnan(pareto_k(np.full(100, -np.inf)))
    assert np.isnan(pareto_k(np.where(np.arange(100) < 3, 1.0, -np.inf)))  # three weights, no tail
    assert pareto_k(np.where(np.arange(100) < 80, 0.0, 1.0)) < 0  # twenty equal weights above the rest
    assert np.isfinite(pareto_k(np.where(np.arange(100) < 30, rng.normal(size=100), -np.inf)))
    assert fit_pareto_k(np.ones(100)) < 0  # the grid for b then holds exactly 0


def test_foreseen_sample_size_is_that_of_a_normal_law():
    """On exact quantiles S exp(−σ²), whatever lies below the median. Kills: σ for σ², the whole variance, no scale."""
    quantiles = norm.ppf((np.arange(1001) + 0.5) / 1001)
    for sigma in (0.5, 1.5):
        assert foreseen_sample_size(sigma * quantiles) == pytest.approx(1001 * np.exp(-(sigma**2)), rel=0.02)
    harmless = np.where(quantiles < -0.1, -np.inf, quantiles)
    assert foreseen_sample_size(harmless) == foreseen_sample_size(quantiles)
    assert foreseen_sample_size(np.zeros(7)) == 7
    assert np.isnan(foreseen_sample_size(np.where(quantiles < 0.1, -np.inf, quantiles)))


def test_heavy_tails_are_named_by_what_was_seen():
    """Any sign is enough: a fat tail, too few weights that count, or a spread that says that the tail is missing."""
    fat = -1.2 * np.log((np.arange(1000) + 0.5) / 1000)
    assert "Pareto k 1.1" in heavy_tails(fat).seen
    few = np.where(np.arange(100) < 7, 0.0, -30.0)
    assert "count as 7" in heavy_tails(few).seen
    cut_off = np.minimum(3 * norm.ppf((np.arange(200) + 0.5) / 200), 3.5)  # those that would carry the mean are missing
    assert "such spread count as 0.02" in heavy_tails(cut_off).seen
    assert heavy_tails(np.zeros(10)) is None
    assert heavy_tails(np.zeros(9)) is not None
    assert tp.estimators.ais(np.column_stack([np.zeros(100), few])).verdict is tp.Verdict.HEAVY_TAILS
    assert reverse_ais(np.column_stack([few, np.zeros(100)])).verdict is tp.Verdict.HEAVY_TAILS


def test_hopeless_weights_are_flagged():
    """100 chains, logarithms normal with variance 9: at most 2 in 100 runs are called good, each several nats low.

    Kills: no foreseen sample size, which lets 6 in 100 pass.
    """
    runs = np.random.default_rng(11).normal(0, 3, (600, 100))
    checks.assert_coverage(sum(heavy_tails(log_weights) is not None for log_weights in runs), 600, 1.0, slack=0.02)


def test_intervals_from_honest_weights_cover():
    """100 chains, logarithms normal with variance 1, as a good pass has: intervals cover at nearly their level."""
    num_inside = 0
    for log_weights in np.random.default_rng(12).normal(-0.5, 1, (400, 100)):
        low, high = tp.estimators.ais(np.column_stack([np.zeros(100), log_weights])).interval
        num_inside += low <= 0 <= high
    checks.assert_coverage(num_inside, 400, 0.95, slack=0.03)
