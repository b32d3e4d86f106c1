"""One answer from several readings: exact statistics go in, log Z comes out; weights and errors by hand."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import stdtrit

import checks
import exact
import tempering as tp
from samples import UNEVEN, healthy
from tempering.estimators import auto, bridge_sampling, equilibrated_rts
from tempering.estimators.combining import Combination, combination, disagreement, least_variance_weights
from tempering.estimators.uncertainty import interval_around, scatter_of_groups, uncertainty_of_mean
from tempering.stats import BlockedStats, Recording, Travel

TOLERANCE = 1e-10
PATH = exact.small_rbm().path(exact.BASE_FREQUENCIES, UNEVEN)
PER_CHAIN = ("log_sums", "visits", "origins", "num_draws", "num_nonfinite", "num_left_out", "log_bridges")


def unequal_chains(num_chains: int, seed: int = 0) -> Recording:
    """Chains that differ, and together have the statistics of an infinitely long run, each in four blocks."""
    prior = np.log(np.arange(1, 7) / 21)
    law = exact.stats_with_slopes_and_steps(PATH, prior, np.sin(np.arange(6)))
    rng = np.random.default_rng(seed)

    def parts(*shape: int) -> np.ndarray:
        each = 1 + 0.3 * rng.uniform(-1, 1, (num_chains, 4, *shape))
        return each / each.sum(axis=(0, 1))

    ends = np.ones(num_chains, np.int64)
    fields = {
        "log_sums": law.log_sums + np.log(parts(6)),
        "visits": np.rint(law.visits * parts(6)).astype(np.int64),
        "log_bridges": law.log_bridges + np.log(parts(6, 1)),
        "num_draws": np.full((num_chains, 4), 10**15 // (4 * num_chains)),
        "num_nonfinite": np.zeros((num_chains, 4), np.int64),
        "travel": Travel(ends, ends, 40 * ends),
    }
    stats = dataclasses.replace(
        law, counted_slopes=None, weighted_slopes=None, slope_reference=None, log_steps=None, **fields
    )
    return Recording(stats, np.ones((1, 6, 6), np.int64), None)


def reading(value: float, influence: np.ndarray, name: str = "a") -> tp.LogZ:
    influences = np.stack([0 * influence, influence], axis=1)
    uncertainty = uncertainty_of_mean(influences)
    return tp.LogZ.from_uncertainty(name, np.array([0.0, value]), uncertainty, keep_influences=True)


@pytest.mark.parametrize("num_chains", [4, 20, 60])
def test_exact_statistics_give_the_exact_answer(num_chains):
    """At every rung. Kills: weights that do not add up, a base counted twice or in one reading only, Ẑ left out."""
    answer = auto(unequal_chains(num_chains), log_z_base=1.5)
    truth = exact.log_z(PATH)
    np.testing.assert_allclose(answer.values, 1.5 + truth - truth[0], atol=1e-9)
    assert answer.method == "auto"
    assert [each.method for each in answer.readings] == ["rts", "bridge"]
    assert sum(answer.weights) == pytest.approx(1, abs=TOLERANCE)
    assert min(answer.weights) > 0


def test_few_chains_share_equally_and_many_do_not():
    """Kills: weights from 20 units."""
    assert auto(unequal_chains(20)).weights == (0.5, 0.5)
    many = auto(unequal_chains(60))
    assert many.weights != (0.5, 0.5)
    assert many.dof == 58
    assert auto(unequal_chains(20)).dof == 19


def test_the_answer_has_the_least_variance_of_all_weights():
    """Against a fine grid of weights. Kills: a maximum, a variance without its mixed term, weights of another rung."""
    answer = auto(unequal_chains(60))
    by_rts, by_bridge = (each.influences[:, -1] for each in answer.readings)
    grid = np.linspace(0, 1, 2001)[:, None]
    variances = (grid * by_rts + (1 - grid) * by_bridge).var(axis=1)
    assert answer.weights[0] == pytest.approx(grid[variances.argmin(), 0], abs=1e-3)


def test_noise_gets_little_weight_and_copies_change_nothing():
    """Kills: equal weights, a singular matrix."""
    rng = np.random.default_rng(3)
    signal = rng.normal(size=80)
    noise = np.linalg.qr(np.stack([np.ones(80), signal, rng.normal(size=80)], axis=1))[0][:, 2] * 20
    np.testing.assert_allclose(least_variance_weights(np.stack([signal, signal + noise], axis=1)), [1, 0], atol=1e-9)
    same = [reading(2.5, signal), reading(2.5, signal, "b")]
    joined = combination(same)
    np.testing.assert_allclose(joined.values, same[0].values, atol=TOLERANCE)
    np.testing.assert_allclose(joined.influences, same[0].influences, atol=TOLERANCE)
    np.testing.assert_array_equal(least_variance_weights(np.stack([signal, 0 * signal], axis=1)), [0, 1])


@pytest.mark.parametrize("num_readings", [2, 3, 4])
def test_weights_are_those_of_least_squares_without_negative_weights(num_readings):
    """Against SciPy. Kills: the first subset without a negative weight, subsets of one size, a sum that is not 1."""
    rng = np.random.default_rng(7)
    num_inner = 0
    for _ in range(100):
        mixed = rng.normal(size=(40, num_readings)) @ rng.normal(size=(num_readings, num_readings))
        mixed += rng.normal(size=(40, 1))
        centred = mixed - mixed.mean(axis=0)
        scale = np.sqrt((centred**2).sum(axis=0).min())
        expected, _ = nnls(np.vstack([centred / scale, np.ones(num_readings)]), np.append(np.zeros(40), 1.0))
        weights = least_variance_weights(mixed)
        np.testing.assert_allclose(weights, expected / expected.sum(), atol=1e-9)
        num_inner += np.all(weights > 0)
    assert 0 < num_inner < 100


def test_weights_of_readings_that_depend_on_each_other():
    """Copies, opposites and multiples: the variance is the least one, though many weights have it.

    Kills: a matrix that must have an inverse.
    """
    rng = np.random.default_rng(8)
    one, other = rng.normal(size=(2, 60))
    one, other = one - one.mean(), other - other.mean()
    cases = {0.0: [one, -2 * one, other], np.var(one): [one, one, 3 * one]}
    for least, readings in cases.items():
        stacked = np.stack(readings, axis=1)
        weights = least_variance_weights(stacked)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)
        assert np.var(stacked @ weights) == pytest.approx(least, abs=1e-12)


def test_weights_are_never_negative():
    """The least variance would take −0.5 of the second. Kills: weights that magnify small differences."""
    rng = np.random.default_rng(4)
    signal, other = np.linalg.qr(rng.normal(size=(50, 3)) - 0.1)[0][:, :2].T
    signal, other = signal - signal.mean(), other - other.mean()
    weights = least_variance_weights(np.stack([signal, 3 * signal + 0.1 * other], axis=1))
    np.testing.assert_allclose(weights, [1, 0], atol=TOLERANCE)


def test_the_error_counts_skewness():
    """Chains that contribute unequally. Kills: `skewing` left out, which the interval would not show."""
    answer = auto(unequal_chains(60))
    assert abs(answer.skewness[-1]) > 0.1
    low, high = answer.interval
    assert answer.errors.skewing > 1.001
    assert (high - low) / 2 == pytest.approx(stdtrit(answer.dof, 0.975) * answer.std_error, rel=1e-9)


def test_the_order_of_chains_does_not_matter():
    recording = unequal_chains(60)
    order = np.random.default_rng(5).permutation(60)
    shuffled = dataclasses.replace(recording, stats=recording.stats.of_chains(order))
    one, other = auto(recording), auto(shuffled)
    np.testing.assert_allclose(one.values, other.values, atol=TOLERANCE)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-8)
    assert one.errors.chains == pytest.approx(other.errors.chains, rel=1e-8)


def intervals_that_hold(num_runs: int = 2000, num_units: int = 30) -> dict[int, int]:
    """How many 95 % intervals hold, by the number of weights that the error counts as chosen.

    Six readings with normal influences of unequal scale and true value 0.
    """
    rng = np.random.default_rng(6)
    inside, any_reading, last = {6: 0, 1: 0}, reading(0.0, np.arange(30.0)), np.array([0.0, 1.0])
    for _ in range(num_runs):
        parts = rng.normal(size=(num_units, 6)) * np.linspace(1.0, 1.4, 6) + 0.5 * rng.normal(size=(num_units, 1))
        readings = tuple(
            dataclasses.replace(any_reading, values=part.mean() * last, influences=np.outer(part, last))
            for part in parts.T
        )
        weights = least_variance_weights(parts)
        for num_chosen in inside:
            joined = Combination(readings, weights, num_chosen)
            known = joined.uncertainty
            low, high = interval_around(joined.values, known.std_error, 0 * known.skewness, known.dof)  # it has none
            inside[num_chosen] += low[-1] <= 0 <= high[-1]
    return inside


def test_weights_that_were_chosen_widen_the_error():
    """By hand for six of 30 units: √(29/24 · 28/23), and 24 degrees of freedom. Kills: weights taken as given."""
    parts = np.random.default_rng(9).normal(size=(30, 6))
    readings = tuple(reading(0.0, part) for part in parts.T)
    given, chosen = (Combination(readings, np.full(6, 1 / 6), m).uncertainty for m in (1, 6))
    assert (given.dof, chosen.dof) == (29, 24)
    assert chosen.std_error[-1] == pytest.approx(given.std_error[-1] * np.sqrt(29 / 24 * 28 / 23), rel=1e-12)


@pytest.mark.slow  # its factor is above
def test_the_error_counts_the_choice_of_the_weights():
    """2000 runs of 30 units. The broken twin takes the weights as given; it covers 4 % less."""
    inside = intervals_that_hold()
    checks.assert_coverage(inside[6], 2000, 0.95, slack=0.005)
    with pytest.raises(AssertionError, match="nominal"):
        checks.assert_coverage(inside[1], 2000, 0.95, slack=0.005)


def test_readings_that_differ_too_much_are_a_finding():
    """Each has error 1, their difference 0.1. Kills: errors added as if independent, a bias that stays in."""
    rng = np.random.default_rng(7)
    columns = np.concatenate([np.ones((40, 1)), rng.normal(size=(40, 2))], axis=1)
    _, common, own = np.linalg.qr(columns)[0].T * np.sqrt(40 * 39)
    one, other = reading(5.0, common, "one"), reading(5.9, common + 0.1 * own, "other")
    found = disagreement([one, other, one], std_error=0.5)
    assert found is not None
    assert found.verdict is tp.Verdict.DISAGREES
    assert "5.00 by one" in found.seen
    assert "5.90 by other" in found.seen
    assert "± 0.10" in found.seen
    assert disagreement([one, other], std_error=1.2) is None  # within what is claimed
    assert disagreement([one, reading(5.4, common + 0.1 * own)], std_error=0.1) is None  # 4 errors of a difference
    owned_up = dataclasses.replace(other, biases=np.array([0.0, 0.8]))
    assert disagreement([one, owned_up], std_error=0.05) is None


def test_bridges_with_a_fault_get_no_weight():
    """A rung without draws, or a step that one chain makes. Kills: NaN, or a fault that is averaged in."""
    recording = unequal_chains(60)
    visits, bridges = recording.stats.visits.copy(), recording.stats.log_bridges.copy()
    visits[:, :, 3], bridges[:, :, 3] = 0, -np.inf
    decided = recording.stats.log_bridges.copy()
    decided[7, :, 2] += 9.0
    for changed in ({"visits": visits, "log_bridges": bridges}, {"log_bridges": decided}):
        faulty = dataclasses.replace(recording, stats=dataclasses.replace(recording.stats, **changed))
        answer, by_rts = auto(faulty, log_z_base=0.7), equilibrated_rts(faulty, log_z_base=0.7)
        assert answer.weights == (1.0, 0.0)
        np.testing.assert_array_equal(answer.values, by_rts.values)
        np.testing.assert_array_equal(answer.std_errors, by_rts.std_errors)
        assert not answer.readings[1].verdict.is_good
        assert answer.method == "auto"


def test_drift_of_any_reading_is_in_the_error():
    """A step of the second half is 0.5 nats larger, and RTS does not move. Kills: the drift of RTS alone."""
    recording = unequal_chains(60)
    bridges = recording.stats.log_bridges.copy()
    bridges[:, 2:, 2, 0] += 0.25
    bridges[:, 2:, 3, 1] -= 0.25
    drifting = dataclasses.replace(recording, stats=dataclasses.replace(recording.stats, log_bridges=bridges))
    answer = auto(drifting)
    assert equilibrated_rts(drifting).errors.drift == 0
    assert answer.errors.drift > 0.1 * answer.weights[1]
    assert answer.std_error >= answer.errors.drift


def test_groups_are_those_of_the_combination():
    """Against readings of each tenth of the chains. Kills: groups of RTS, a value of the whole run."""
    recording = unequal_chains(60)
    answer = auto(recording)
    parts = [recording.stats.of_chains(np.arange(6 * g, 6 * g + 6)) for g in range(10)]
    each = [[tp.rts(part).log_z, bridge_sampling(part).log_z] for part in parts]
    expected = (np.array(each) @ answer.weights).std(ddof=1) / np.sqrt(10)
    assert answer.errors.groups == pytest.approx(expected, rel=1e-9)
    assert answer.errors.num_groups == 10
    assert np.isnan(scatter_of_groups(recording.stats, lambda part: np.nan)[0])


def pairs_of_runs(seed: int) -> tuple[list[Recording], float]:
    """100 runs of 40 chains, enough for weights."""
    runs, truth = exact.replicates(seed, with_bridges=True)
    joined = []
    for one, other in zip(runs[::2], runs[1::2], strict=True):
        fields = {name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in PER_CHAIN}
        ends = np.ones(40, np.int64)
        joined.append(dataclasses.replace(one, travel=Travel(ends, ends, 8 * ends), **fields))
    return [Recording(stats, np.ones((1, 7, 7), np.int64), None) for stats in joined], truth


@pytest.mark.slow  # each reading in runs is held to the truth in its own file, and their sum exactly above
def test_estimates_and_errors_are_right_in_runs():
    """100 runs: their mean sees half of one run's error; coverage by a binomial test. No two readings disagree."""
    runs, truth = pairs_of_runs(31)
    answers = [auto(run) for run in runs]
    checks.assert_mean(np.array([answer.log_z - answer.biases[-1] for answer in answers]), truth)
    inside = sum(low <= truth <= high for low, high in (answer.interval for answer in answers))
    checks.assert_coverage(inside, len(answers), 0.95, slack=0.03)
    verdicts = {finding.verdict for answer in answers for finding in answer.findings}
    assert tp.Verdict.DISAGREES not in verdicts  # 1e-4 a run


def test_estimate_lists_the_readings():
    """From the door to the dictionary. Kills: readings of another run, weights in another order."""
    result = tp.estimate(
        exact.small_rbm(), exact.BASE_FREQUENCIES, method="auto", num_chains=40, num_sweeps=60, num_rungs=5
    )
    answer = result.log_z_by_rung
    listed = result.to_dict()["readings"]
    assert [each["name"] for each in listed] == ["rts", "bridge"]
    assert sum(each["weight"] * each["log_z"] for each in listed) == pytest.approx(result.log_z, abs=1e-9)
    by_rts = equilibrated_rts(result.recording, log_z_base=answer.values[0])
    assert listed[0]["log_z"] == pytest.approx(by_rts.log_z, abs=1e-9)
    checks.assert_within(result.log_z, exact.small_rbm().exact_log_z(), result.std_error)


def test_what_was_not_kept_is_asked_for():
    with pytest.raises(tp.InputError, match=r"Keep\(bridges=True\)"):
        auto(healthy())


def test_an_estimate_without_influences_cannot_be_combined():
    bare = dataclasses.replace(reading(1.0, np.arange(40.0)), influences=None)
    with pytest.raises(ValueError, match="kept no influences"):
        _ = Combination((bare,), np.ones(1)).influences


def test_part_of_the_chains_and_one_block_keep_their_sums():
    """Kills: a travel of other chains, logarithms added as numbers."""
    stats: BlockedStats = unequal_chains(6).stats
    part = stats.of_chains(np.array([4, 1]))
    np.testing.assert_array_equal(part.log_bridges, stats.log_bridges[[4, 1]])
    assert len(part.travel.num_crossings) == 2
    one = stats.in_one_block()
    assert one.num_blocks == 1
    np.testing.assert_allclose(one.log_sums[:, 0], np.log(np.exp(stats.log_sums).sum(axis=1)), atol=TOLERANCE)
    np.testing.assert_array_equal(one.num_draws[:, 0], stats.num_draws.sum(axis=1))
    assert bridge_sampling(one).log_z == pytest.approx(bridge_sampling(stats).log_z, abs=TOLERANCE)
