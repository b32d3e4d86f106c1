"""The likelihood behind RTS, and RTS less its bias: exact, without randomness."""

import dataclasses

import numpy as np
import pytest

import exact
from tempering.estimators import bias_corrected_rts, log_likelihood, maximum_likelihood, rts

TOLERANCE = 1e-10


def _stats_with(parts: np.ndarray):
    """A run of len(parts) chains in one block each, with these occupancies."""
    stats = exact.stats_from_law(exact.log_densities(exact.small_path()))
    num_chains = len(parts)
    return dataclasses.replace(
        stats,
        log_sums=np.log(parts)[:, None],
        visits=np.ones((num_chains, 1, 3), np.int64),
        num_draws=np.ones((num_chains, 1), np.int64),
        num_nonfinite=np.zeros((num_chains, 1), np.int64),
    )


@pytest.fixture
def random_stats():
    return _stats_with(np.random.default_rng(3).dirichlet([3.0, 1.0, 2.0], size=20))


def test_the_linear_system_gives_exact_answers_from_exact_statistics():
    """Kills: Ẑ or r left out of the equations, the base not fixed."""
    path = exact.small_path()
    answer = maximum_likelihood(exact.stats_from_law(exact.log_densities(path)), log_z_base=exact.log_z(path)[0])
    np.testing.assert_allclose(answer.values, exact.log_z(path), atol=TOLERANCE)


def test_the_linear_system_equals_rts(random_stats):
    """For any occupancy, and with RTS's error. Kills: Σ_j over all rungs instead of all but the base."""
    by_system, by_formula = maximum_likelihood(random_stats), rts(random_stats)
    np.testing.assert_allclose(by_system.values, by_formula.values, atol=TOLERANCE)
    np.testing.assert_array_equal(by_system.std_errors, by_formula.std_errors)


def test_rts_maximises_the_likelihood(random_stats):
    """The gradient by central differences vanishes there, and the likelihood falls all around; a factor is free.

    Kills: the sign of the second term of eq. 14, Ẑ multiplied instead of divided by.
    """
    best = rts(random_stats).values
    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        slope = (log_likelihood(random_stats, best + step) - log_likelihood(random_stats, best - step)) / 2e-5
        assert slope == pytest.approx(0, abs=1e-9)
        assert log_likelihood(random_stats, best + 1e4 * step) < log_likelihood(random_stats, best)
    shifted = log_likelihood(random_stats, best + 2.5)
    assert shifted == pytest.approx(log_likelihood(random_stats, best), abs=TOLERANCE)


def test_the_bias_that_is_subtracted_is_that_of_equation_15():
    """Written out from the parts. Kills: its sign, σ of one chain instead of their mean."""
    parts = np.random.default_rng(5).dirichlet([3.0, 1.0, 2.0], size=20)
    stats = _stats_with(parts)
    mean, own = parts.mean(axis=0), parts.var(axis=0, ddof=1) / 20
    bias = (own[0] / mean[0] ** 2 - own / mean**2) / 2
    corrected = bias_corrected_rts(stats, log_z_base=1.5)
    np.testing.assert_allclose(corrected.values, rts(stats, log_z_base=1.5).values - bias, atol=TOLERANCE)
    assert not corrected.biases.any()
    path = exact.small_path()
    exactly = bias_corrected_rts(exact.stats_from_law(exact.log_densities(path)))
    np.testing.assert_allclose(exactly.values, exact.log_z(path) - exact.log_z(path)[0], atol=TOLERANCE)
