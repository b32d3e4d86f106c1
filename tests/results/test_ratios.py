"""Ratios of two answers: values, errors and lopsided intervals against hand-made ones."""

import numpy as np
import pytest

import checks
import tempering as tp
from tempering.api import log_ratio
from tempering.results import LogRatio
from tempering.verdicts import Finding, Verdict

STUCK = Finding(Verdict.STUCK, "0.1 round trips per chain", "run more sweeps")
UNEVEN = Finding(Verdict.UNEVEN, "rung 3 is rare", "run a longer warm-up")


def answer(log_z: float, std_error: float, skewness: float = 0.0, dof: int = 99, findings=()) -> tp.LogZ:
    values, errors, skew = (np.array([0.0, number]) for number in (log_z, std_error, skewness))
    return tp.LogZ("rts", values, errors, np.zeros(2), skew, dof, tuple(findings))


def test_errors_and_distances_to_the_ends_add_in_quadrature():
    """Zou and Donner's rule, eq. by eq.; kills ends that are swapped, added plainly, or taken from one side only."""
    a, b = answer(-3.0, 0.3, skewness=6.0), answer(-5.5, 0.4, skewness=-9.0)
    ratio = log_ratio(a, b)
    assert ratio.value == pytest.approx(2.5, abs=1e-12)
    assert ratio.std_error == pytest.approx(0.5, abs=1e-12)
    (low_a, high_a), (low_b, high_b) = a.interval, b.interval
    assert abs((high_a + 3.0) - (-3.0 - low_a)) > 0.05  # the intervals are lopsided, and not alike
    below, above = 2.5 - ratio.interval[0], ratio.interval[1] - 2.5
    assert below**2 == pytest.approx((-3.0 - low_a) ** 2 + (high_b + 5.5) ** 2, rel=1e-10)
    assert above**2 == pytest.approx((high_a + 3.0) ** 2 + (-5.5 - low_b) ** 2, rel=1e-10)


def test_turning_it_round_changes_the_sign_alone():
    a, b = answer(-3.0, 0.3, skewness=6.0), answer(-5.5, 0.4, skewness=-9.0)
    one, other = log_ratio(a, b), log_ratio(b, a)
    assert other.value == -one.value
    np.testing.assert_allclose(other.interval, (-one.interval[1], -one.interval[0]), rtol=1e-12)


def test_symmetric_intervals_stay_so():
    """Equal errors and many chains: 1.96·√2 of the error on both sides, to the Student quantile."""
    ratio = log_ratio(answer(1.0, 0.1, dof=10**6), answer(0.5, 0.1, dof=10**6))
    np.testing.assert_allclose(ratio.interval, 0.5 + 0.1 * 2**0.5 * 1.959964 * np.array([-1, 1]), rtol=1e-5)


def test_the_interval_covers():
    """19 of 20 differences of normal errors of very unequal size; 4000 pairs see a shift of 0.02."""
    rng = np.random.default_rng(3)
    inside = 0
    for first, second in rng.normal(0, [0.1, 0.02], (4000, 2)):
        low, high = log_ratio(answer(first, 0.1, dof=500), answer(second - 1, 0.02, dof=500)).interval
        inside += low <= 1.0 <= high
    checks.assert_coverage(inside, 4000, 0.95, 0.005)


def test_the_graver_verdict_decides_and_both_are_named():
    ratio = log_ratio(answer(0.0, 0.1, findings=[UNEVEN]), answer(1.0, 0.1, findings=[STUCK, UNEVEN]))
    assert ratio.verdict is Verdict.STUCK
    assert [finding.seen for finding in ratio.findings] == [
        "in the first run, rung 3 is rare",
        "in the second run, 0.1 round trips per chain",
        "in the second run, rung 3 is rare",
    ]
    assert log_ratio(answer(0.0, 0.1), answer(1.0, 0.1)).verdict is Verdict.GOOD


def test_one_run_has_no_ratio():
    a = answer(-3.0, 0.3)
    for b in (a, answer(-3.0, 0.3)):
        with pytest.raises(tp.InputError, match="two runs"):
            log_ratio(a, b)


def test_no_error_bar_is_not_made_one():
    ratio = log_ratio(answer(1.0, np.inf, dof=0), answer(0.0, 0.1))
    assert ratio.interval == (-np.inf, np.inf)
    assert ratio.std_error == np.inf
    assert "any number of" in ratio.summary()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.log(8.0), "Z of the first is 8 times that of the other (4 to 16)"),
        (-np.log(8.0), "Z of the second is 8 times that of the other (4 to 16)"),
        (1000 * np.log(10.0), "10^1000.0 times that of the other (10^999.7 to 10^1000.3)"),
    ],
)
def test_words(value, words):
    half = np.log(2.0)
    assert words in LogRatio(value, half / 2, (value - half, value + half), ()).summary()


def test_results_are_taken_as_they_are():
    rbm, frequencies = tp.load_example()
    settings = {"num_chains": 16, "num_sweeps": 20, "num_rungs": 5}
    a, b = (tp.estimate(rbm, base=frequencies, seed=seed, **settings) for seed in (0, 1))
    ratio = log_ratio(a, b)
    assert ratio.value == a.log_z - b.log_z
    assert len(ratio.findings) == len(a.diagnosis.findings) + len(b.diagnosis.findings) > 0
    with pytest.raises(tp.InputError, match="two runs"):
        log_ratio(a, tp.estimate(rbm, base=frequencies, seed=0, **settings))
