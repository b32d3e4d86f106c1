"""How many independent draws autocorrelated and weighted draws are worth."""

import numpy as np
import pytest
from scipy.signal import lfilter

import checks
from tempering.stats.independence import independent_size

CHAINS, DRAWS, NUMBERS = 100, 400, 40


def autoregressive(memory: float, seed: int = 0) -> np.ndarray:
    """Chains in equilibrium with correlation m^n at distance n; a mean has (1 + m)/(1 − m) the variance."""
    noise = np.random.default_rng(seed).normal(size=(CHAINS, DRAWS + 200, NUMBERS))
    return lfilter([1.0], [1.0, -memory], noise, axis=1)[:, 200:]


@pytest.mark.parametrize("memory", [0.3, 0.8])
def test_autocorrelation_counts(memory):
    """Kills: the scatter of draws in the place of that of chains, a variance that is not divided by that of x.

    1/size is a mean over 40 numbers of χ²/99 each, so that its relative error is √(2/99/40) = 2.2 %. At the ends of a
    chain a correlation is cut off, which changes 1/size by less than 2 % here.
    """
    expected = CHAINS * DRAWS * (1 - memory) / (1 + memory)
    size = independent_size(np.ones((CHAINS, DRAWS)), 3.0 + 2.0 * autoregressive(memory))
    checks.assert_within(expected / size, 1.0, 0.022 + 0.004)


def test_weights_count_too():
    """Half of the draws weigh nothing: independent ones are worth half. At most (Σw)²/Σw²."""
    values = np.random.default_rng(1).normal(size=(CHAINS, DRAWS, NUMBERS))
    weights = np.where(np.arange(DRAWS) % 2, 1.0, 0.0) * np.ones((CHAINS, 1))
    values[weights == 0] = np.nan  # a state without weight may be anything
    size = independent_size(weights, values)
    assert size <= CHAINS * DRAWS / 2
    checks.assert_within(CHAINS * DRAWS / 2 / size, 1.0, 0.022)


def test_a_few_chains_are_cut_into_parts():
    """Kills: an error from two chains, which scatters by a factor."""
    values = np.random.default_rng(2).normal(size=(2, 20_000, NUMBERS))
    size = independent_size(np.ones((2, 20_000)), values)
    checks.assert_within(min(40_000 / size, 1.3), 1.0, (2 / 19 / NUMBERS) ** 0.5)


def test_what_does_not_vary_says_nothing():
    """A constant has no error; with constants alone weights decide."""
    values = np.random.default_rng(3).normal(size=(CHAINS, 30, 2))
    constant = np.full((CHAINS, 30, 1), 5.0)
    weights = np.ones((CHAINS, 30))
    assert independent_size(weights, np.concatenate([values, constant], axis=2)) == independent_size(weights, values)
    assert independent_size(weights, constant) == pytest.approx(3000)
    assert independent_size(np.ones((1, 2)), np.ones((1, 2, 1))) == pytest.approx(2)
