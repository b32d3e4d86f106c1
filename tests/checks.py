"""Every assertion about random numbers, each with its false-failure rate.

`FALSE_FAILURE` is the probability that a correct program fails one of these: 1e-6 a call.
"""

import numpy as np
from numpy.typing import ArrayLike
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


def assert_within(estimate: ArrayLike, truth: ArrayLike, std_error: ArrayLike, most: float = 5.5) -> None:
    """Each estimate is off by at most `most` of its standard errors.

    The false-failure rate of one normal estimate is 4e-8 at 5.5 (1e-6 by Student with 40 degrees of freedom), 6e-7 at
    5, 7e-6 at 4.5 and 6e-5 at 4; of several estimates it is that many times as much. Seeds are fixed, so that a test
    that has passed goes on passing on the same machine.
    """
    estimate, truth, std_error = np.broadcast_arrays(estimate, truth, std_error)
    off = np.abs(estimate - truth) / std_error
    worst = np.unravel_index(np.argmax(off), off.shape)
    assert np.all(off < most), (
        f"{estimate[worst]:.5g} is {off[worst]:.1f} standard errors of {std_error[worst]:.2g} from {truth[worst]:.5g}"
    )


def assert_coverage(num_inside: int, num_runs: int, level: float, slack: float) -> None:
    """Intervals of nominal `level` cover with a probability within `slack` of it, by two binomial tests."""
    too_few = stats.binom.cdf(num_inside, num_runs, level - slack)
    too_many = stats.binom.sf(num_inside - 1, num_runs, min(level + slack, 1.0))
    assert min(too_few, too_many) > FALSE_FAILURE, f"{num_inside} of {num_runs} inside, nominal {level}"
