"""Heavy tails of what chains contribute: a threshold that is pinned, and bases that are too light."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

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
    """20 chains each; twelve in a row are odds of 2¹³ / 13 to 1. Kills: run and walks swapped, the nearest first."""
    run = np.linspace(-7.0, 3.0, 20)
    for num_beyond, is_found in ((11, False), (12, True), (20, True)):
        walks = np.where(np.arange(20) < num_beyond, 3.5 + np.arange(20), -8.0)
        found = beyond_the_run(walks, run)
        assert (found is not None) is is_found
        assert beyond_the_run(run, walks) is None
        if found is not None:
            assert found.verdict is Verdict.HEAVY_TAILS
            assert f"of the {num_beyond} chains that got farthest into the tails, only 0 are of the run" in found.seen
            assert "tp.Student" in found.cure


def test_as_many_walks_as_chains_are_compared():
    """Of many more walks some would be farthest anyhow. Kills: no limit to either side."""
    rng = np.random.default_rng(4)
    many, few = rng.normal(size=4000), rng.normal(size=20)
    assert beyond_the_run(many, few) is None
    assert beyond_the_run(few, many) is None


def test_chains_without_a_density_got_nowhere():
    nowhere = np.full(30, -np.inf)
    assert beyond_the_run(nowhere, nowhere) is None
    assert beyond_the_run(np.arange(30.0), nowhere) is not None


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
