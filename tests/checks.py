"""Every assertion about random numbers, each with its false-failure rate.

`FALSE_FAILURE` is the probability that a correct program fails one of these: 1e-6 a call.
"""

import numpy as np
from scipy import stats

FALSE_FAILURE = 1e-6


def chi_square_p_value(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The probability of counts at least this far from the law; cells with fewer than 5 expected are pooled."""
    counts, expected = np.ravel(counts), np.ravel(probabilities) * np.sum(counts)
    is_rare = expected < 5
    if is_rare.any():
        counts = np.append(counts[~is_rare], counts[is_rare].sum())
        expected = np.append(expected[~is_rare], expected[is_rare].sum())
    statistic = np.sum((counts - expected) ** 2 / expected)
    return float(stats.chi2.sf(statistic, len(counts) - 1))


def assert_law(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """Independent draws, counted, follow the law. With n draws it sees a change of about √(60/n) in χ² distance."""
    p_value = chi_square_p_value(counts, probabilities)
    assert p_value > FALSE_FAILURE, f"chi-square p-value {p_value:.1e}"


def assert_not_law(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """A broken twin must be seen: the same test that passes the right thing rejects it."""
    p_value = chi_square_p_value(counts, probabilities)
    assert p_value < FALSE_FAILURE, f"the broken twin passed, with p-value {p_value:.1e}"


def assert_mean(samples: np.ndarray, expected: float) -> None:
    """Independent samples have this mean, by a two-sided Student test; sees a shift of 5 standard errors."""
    samples = np.asarray(samples, np.float64)
    p_value = stats.ttest_1samp(samples, expected).pvalue
    assert p_value > FALSE_FAILURE, f"mean {samples.mean():.5g}, expected {expected:.5g}, p-value {p_value:.1e}"


def assert_within(estimate: float, truth: float, std_error: float) -> None:
    """One estimate is off by at most 5.5 of its standard errors: 4e-8 if normal, 1e-6 by Student with 40 degrees."""
    off = abs(estimate - truth) / std_error
    assert off < 5.5, f"{estimate:.5g} is {off:.1f} standard errors of {std_error:.2g} from {truth:.5g}"


def assert_coverage(num_inside: int, num_runs: int, level: float, slack: float) -> None:
    """Intervals of nominal `level` cover with a probability within `slack` of it, by two binomial tests."""
    too_few = stats.binom.cdf(num_inside, num_runs, level - slack)
    too_many = stats.binom.sf(num_inside - 1, num_runs, min(level + slack, 1.0))
    assert min(too_few, too_many) > FALSE_FAILURE, f"{num_inside} of {num_runs} inside, nominal {level}"
