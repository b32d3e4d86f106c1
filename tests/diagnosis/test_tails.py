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
from tempering.verdicts import Verdict


def answer(num_large: int, num_chains: int, sign: float = 1.0) -> LogZ:
    """Chains of which so many contribute 1 and the others nothing."""
    parts = sign * (np.arange(num_chains) < num_large)
    influences = np.stack([np.zeros(num_chains), parts], axis=1)
    return LogZ.from_uncertainty("rts", np.zeros(2), uncertainty_of_mean(influences))


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


def test_walks_that_get_farther_than_the_run_are_found():
    """20 walks; twelve that rise in a row are odds of 2¹³ / 13 to 1. Kills: both ends swapped, small changes first."""
    first = np.linspace(-7.0, 3.0, 20)
    for num_beyond, is_found in ((11, False), (12, True), (20, True)):
        last = first + np.where(np.arange(20) < num_beyond, 20.0 + np.arange(20), -np.arange(1.0, 21.0))
        found = beyond_the_run(first, last)
        assert (found is not None) is is_found
        assert beyond_the_run(last, first) is None
        if found is not None:
            assert found.verdict is Verdict.HEAVY_TAILS
            told = f"of the {num_beyond} walks at the target on which log f over the base changed most, it rose on"
            assert f"{told} {num_beyond}, " in found.seen
            assert "tp.Student" in found.cure


def test_walks_in_equilibrium_are_no_evidence_however_much_they_change():
    """The ends of reversible walks may be swapped; luck exceeds odds of 500 in at most one of 500 sets of them.

    Kills: how far a walk gets at any time, held against where it began; the order of walks by where they ended.
    """
    rng = np.random.default_rng(4)
    first = rng.standard_cauchy((2000, 100))
    last = np.where(rng.random(first.shape) < 0.7, rng.standard_cauchy(first.shape), first)
    quiet = sum(beyond_the_run(*pair) is None for pair in zip(first, last, strict=True))
    checks.assert_coverage(quiet, 2000, 1 - 1 / 500, 0.0)


def test_walks_without_a_density_at_an_end_are_no_evidence():
    nowhere = np.full(30, -np.inf)
    assert beyond_the_run(nowhere, nowhere) is None
    assert beyond_the_run(nowhere, np.arange(30.0)) is None
    assert beyond_the_run(np.zeros(30), np.zeros(30)) is None


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
