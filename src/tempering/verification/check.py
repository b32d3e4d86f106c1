"""The outcome of a check, and the two ways to judge one."""

import dataclasses

import numpy as np
from scipy import stats
from scipy.special import stdtrit

FALSE_FAILURE = 1e-6
"""The probability that a right program fails one check of random numbers."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that was checked.

    Attributes:
        name: The estimator, move or kernel.
        how: What it was held against.
        is_passed: Whether it holds.
        seen: How far it was off, and how far it may be.
    """

    name: str
    how: str
    is_passed: bool
    seen: str


def check_equal(name: str, how: str, found: np.ndarray, expected: np.ndarray, tolerance: float) -> Check:
    """Whether numbers are those of an exact formula, at every entry.

    Args:
        name: What made them.
        how: The formula, in words.
        found: The numbers.
        expected: What they should be.
        tolerance: The largest difference that rounding may cause.

    Returns:
        The outcome.
    """
    off = float(np.max(np.abs(np.asarray(found, np.float64) - expected)))
    return Check(name, how, off <= tolerance, f"off by {off:.1e}, at most {tolerance:.0e}")  # NaN fails


def check_law(name: str, how: str, counts: np.ndarray, probabilities: np.ndarray) -> Check:
    """Whether independent draws follow a law, by a chi-square test; cells with fewer than 5 expected are pooled.

    Args:
        name: What made the draws.
        how: The law, in words.
        counts: How many draws fell into each cell.
        probabilities: Of the cells.

    Returns:
        The outcome.
    """
    counts, expected = np.ravel(counts), np.ravel(probabilities) * np.sum(counts)
    is_rare = expected < 5
    if is_rare.any():
        counts = np.append(counts[~is_rare], counts[is_rare].sum())
        expected = np.append(expected[~is_rare], expected[is_rare].sum())
    p_value = float(stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1))
    return Check(name, how, p_value > FALSE_FAILURE, f"p-value {p_value:.1e}, at least {FALSE_FAILURE:.0e}")


def check_estimate(name: str, how: str, answer: tuple[float, float, int], truth: float, bias: float = 0.0) -> Check:
    """Whether an estimate is as near to the truth as its own standard error says, by Student's law.

    Args:
        name: The estimator.
        how: What it was made from, in words.
        answer: The estimate, its standard error and the degrees of freedom of that error.
        truth: What is estimated.
        bias: What the estimator itself says that it may be off on average.

    Returns:
        The outcome.
    """
    value, std_error, dof = answer
    most = float(stdtrit(max(dof, 1), 1 - FALSE_FAILURE / 2))
    off = max(abs(value - truth) - abs(bias), 0.0) / std_error if std_error > 0 else np.inf
    return Check(
        name, how, bool(off <= most), f"off by {off:.1f} standard errors of {std_error:.2g}, at most {most:.1f}"
    )
