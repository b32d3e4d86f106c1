"""Estimators against exact answers, without randomness: statistics by enumeration go in, log Z comes out."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

import exact
import tempering as tp
from tempering.estimators.equilibration import drift_between_halves
from tempering.estimators.stationary import stationary_law
from tempering.estimators.uncertainty import (
    Errors,
    independent_parts,
    uncertainty_by_jackknife,
    uncertainty_of_log_ratio,
    widening_by_skewness,
)
from tempering.stats import TransitionSums

TOLERANCE = 1e-10


@pytest.fixture
def path():
    return exact.small_path()


@pytest.fixture
def truth(path):
    return exact.log_z(path) - exact.log_z(path)[0]


def test_rts_is_exact_on_exact_statistics(path, truth):
    """Kills: no prior in eq. 12, its sign, no Ẑ, ĉ_0 left out, log of a mean of logs."""
    answer = tp.rts(exact.stats_from_law(exact.log_densities(path)))
    np.testing.assert_allclose(answer.values, truth, atol=TOLERANCE)
    shifted = tp.rts(exact.stats_from_law(exact.log_densities(path)), log_z_base=3.5)
    assert shifted.log_z == pytest.approx(truth[-1] + 3.5, abs=TOLERANCE)


def test_rts_solves_the_likelihood_equations(path):
    """The maximiser of eq. 14 by its linear system, for an arbitrary ĉ, is eq. 12. Kills: r_k for r_0 and so on."""
    c = np.array([0.21, 0.46, 0.33])
    stats = exact.stats_from_law(exact.log_densities(path))
    stats = _with_log_sums(stats, np.log(c))
    r, guess = np.exp(exact.LOG_PRIOR), np.exp(exact.LOG_Z_GUESS)
    matrix = (np.diag(1 / c[1:]) - 1) * (r[1:] / guess[1:])
    z = np.linalg.solve(matrix, np.full(2, r[0]))
    np.testing.assert_allclose(tp.rts(stats).values[1:], np.log(z), atol=TOLERANCE)


def test_ts_is_exact_on_exact_counts(path, truth):
    """Kills: posteriors instead of visits, a pseudo-count that is not added per rung."""
    stats = exact.stats_from_law(exact.log_densities(path))
    np.testing.assert_allclose(tp.estimators.ts(stats, pseudo_count=0.0).values, truth, atol=TOLERANCE)
    with_empty = _with_visits(stats, np.array([4, 0, 6]))
    law = np.log(np.array([4.1, 0.1, 6.1])) - exact.LOG_PRIOR + exact.LOG_Z_GUESS
    np.testing.assert_allclose(tp.estimators.ts(with_empty).values, law - law[0], atol=TOLERANCE)


@pytest.mark.parametrize("estimator", [tp.estimators.sd, tp.estimators.rsd])
def test_stationary_estimators_are_exact_on_exact_transitions(path, truth, estimator):
    """Kills: the right eigenvector for the left one, columns normalised instead of rows."""
    answer = estimator(exact.recording_from_law(path))
    np.testing.assert_allclose(answer.values, truth, atol=TOLERANCE)


def test_what_was_not_kept_is_named_in_one_sentence(path):
    """The same error from siblings: what to keep, and the call that keeps it."""
    recording = dataclasses.replace(exact.recording_from_law(path), transition_sums=None)
    stats = dataclasses.replace(recording.stats, log_steps=None, log_bridges=None, slope_reference=None)
    for method, keep, ask in (
        ("rsd", "transitions", lambda: tp.estimators.rsd(recording)),
        ("ti_trapezoid", "slopes", lambda: tp.estimators.ti(stats)),
        ("stepping_down", "steps", lambda: tp.estimators.stepping_stone(stats, "down")),
        ("bridge", "bridges", lambda: tp.estimators.bridge_sampling(stats)),
    ):
        with pytest.raises(tp.InputError, match=rf"keep=tp\.stats\.Keep\({keep}=True\)") as refused:
            ask()
        assert f'`tp.estimate(model, method="{method}")`' in str(refused.value)
        assert "\n" not in str(refused.value)


def test_answers_print_as_a_line():
    """Kills: arrays in a notebook, more digits than the error leaves."""
    ones = np.ones(3)
    answer = tp.LogZ("rts", 68.40612 * ones, 0.0222 * ones, ones, ones, dof=9)
    assert str(answer) == repr(answer) == "log Z = 68.406 ± 0.022 (rts)"
    assert str(dataclasses.replace(answer, std_errors=np.inf * ones)) == "log Z = 68.4061 ± inf (rts)"
    assert str(dataclasses.replace(answer, std_errors=123.0 * ones)) == "log Z = 68 ± 123 (rts)"
    high = dataclasses.replace(answer, method="reverse_ais", values=69.5 * ones)
    assert str(tp.estimators.Sandwich(answer, high)) == "68.4061 (rts) ≤ log Z ≤ 69.5 (reverse_ais)"
    scalar = tp.Expectation(np.array(0.51234), np.array(0.0031), (np.array(0.5), np.array(0.52)), 96.0)
    assert str(scalar) == "E[g(x)] = 0.5123 ± 0.0031"
    pixels = tp.Expectation(ones, 0.1 * ones, (ones, ones), 96.0)
    assert str(pixels) == "E[g(x)] of shape (3,), largest standard error 0.1"


def test_stationary_law_of_a_known_chain():
    """A 3-cycle with unequal rates has π ∝ 1/rate. Kills: the uniform vector, which is the right eigenvector."""
    rates = np.array([0.1, 0.5, 0.25])
    matrix = np.diag(1 - rates) + np.roll(np.diag(rates), 1, axis=1)
    np.testing.assert_allclose(stationary_law(matrix), (1 / rates) / (1 / rates).sum(), atol=1e-12)


def test_rao_blackwellized_transitions_go_in_the_row_of_the_origin(path):
    """Fed every x with its exact weight, the device's sums are those of Appendix G. Kills: rung for origin."""
    ladder = exact.small_ladder()
    states = exact.states_of(path, exact.patterns(5))
    draw = jax.vmap(lambda x: tp.ladder.Draw(x, jnp.int32(2), jnp.int32(1), path.log_densities(x)))(states)
    sums = jax.vmap(lambda d: TransitionSums.empty(ladder).update(ladder, d).sums)(draw)
    posterior = exact.rung_posterior(exact.log_densities(path), exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    np.testing.assert_allclose(sums[:, 2], posterior, atol=2e-6)
    assert not np.any(sums[:, :2])


def test_delta_method_is_equations_15_and_16():
    """Kills: a missing covariance, its sign, n for n − 1, the bias with its ends exchanged."""
    parts = np.random.default_rng(1).gamma(3.0, size=(12, 4))
    uncertainty = uncertainty_of_log_ratio(np.log(parts))
    covariance = np.cov(parts.T) / 12
    mean = parts.mean(axis=0)
    own = np.diag(covariance) / mean**2
    variance = own[0] + own - 2 * covariance[0] / (mean[0] * mean)
    np.testing.assert_allclose(uncertainty.std_error, np.sqrt(variance), atol=TOLERANCE)
    np.testing.assert_allclose(uncertainty.bias, (own[0] - own) / 2, atol=TOLERANCE)
    assert uncertainty.dof == 11


def test_drift_is_the_change_between_halves_in_its_own_errors(path):
    """Written out from sums in float64. Kills: the second half against nothing, the uncertainty of one half alone,

    Student's law with as many degrees of freedom as there are chains, or none of it.
    """
    parts = np.random.default_rng(4).gamma(3.0, size=(20, 6, 3)) * [1.0, 2.0, 7.0]
    stats = _with_log_sums(exact.stats_from_law(exact.log_densities(path)), np.log(parts))
    early, late = parts[:, :3].sum(axis=1), parts[:, 3:].sum(axis=1)
    change = np.log(late[:, 2].sum() / late[:, 0].sum()) - np.log(early[:, 2].sum() / early[:, 0].sum())
    each = [half[:, 2] / half[:, 2].mean() - half[:, 0] / half[:, 0].mean() for half in (early, late)]
    in_own_errors = change / (np.std(each[1] - each[0], ddof=1) / np.sqrt(20))
    expected = scipy_stats.norm.ppf(scipy_stats.t.cdf(in_own_errors, 19))
    assert drift_between_halves(stats) == pytest.approx(expected, abs=TOLERANCE)
    same_twice = _with_log_sums(stats, np.log(np.concatenate([parts, parts], axis=1)))
    assert drift_between_halves(same_twice) == pytest.approx(0, abs=TOLERANCE)


def test_jackknife_of_a_mean_is_its_standard_error():
    """Kills: the factor (n − 1)/n, and a bias where there is none."""
    values = np.random.default_rng(2).normal(size=(9, 3))
    left_out = (values.sum(axis=0) - values) / 8
    uncertainty = uncertainty_by_jackknife(values.mean(axis=0), left_out)
    np.testing.assert_allclose(uncertainty.std_error, values.std(axis=0, ddof=1) / 3, atol=TOLERANCE)
    np.testing.assert_allclose(uncertainty.bias, 0, atol=TOLERANCE)


def test_few_chains_are_cut_into_stretches(path):
    """One chain still has an error bar, from its blocks; one chain in one block has none, and says so."""
    stats = exact.stats_from_law(exact.log_densities(path))
    assert np.isinf(tp.rts(stats).std_error)
    assert tp.rts(stats).interval == (-np.inf, np.inf)
    rng = np.random.default_rng(3)
    blocks = _with_log_sums(stats, np.log(rng.gamma(5.0, size=(1, 32, 3))))
    assert independent_parts(blocks).shape == (16, 3)
    assert np.isfinite(tp.rts(blocks).std_error)


def test_student_interval():
    """Against the tabulated quantile t(0.975, 4) = 2.776. Kills: a normal interval, one-sided levels."""
    answer = tp.LogZ("rts", np.array([0.0, 7.0]), np.array([0.0, 0.5]), np.zeros(2), np.zeros(2), dof=4)
    low, high = answer.interval
    assert (high - low) / 2 / 0.5 == pytest.approx(2.776, abs=5e-4)
    assert (low + high) / 2 == pytest.approx(7.0)
    assert answer.intervals().shape == (2, 2)


@pytest.mark.parametrize("skewness", [-3.0, -0.4, 0.4, 3.0])
def test_the_longer_side_of_an_interval_inverts_halls_transformation(skewness):
    """g at its end gives back the Student quantile; the other side is Student's.

    Kills: λ with the wrong sign, n for √n, ends exchanged, a side that is made shorter.
    """
    dof, level, quantile = 24, 0.9, 1.7109  # t(0.95, 24) from a table
    answer = tp.LogZ("rts", np.array([0.0, 7.0]), np.full(2, 0.5), np.zeros(2), np.full(2, skewness), dof)
    t = (7.0 - np.array(answer.interval_at(level))) / 0.5
    k = skewness / np.sqrt(dof + 1)
    g = t + k * t**2 / 3 + k**2 * t**3 / 27 + k / 6
    longer = 1 if skewness > 0 else 0  # rare large contributions: the truth may well lie above
    assert abs(g[longer]) == pytest.approx(quantile, abs=1e-4)
    assert abs(t[1 - longer]) == pytest.approx(quantile, abs=1e-4)
    assert abs(t[longer]) > quantile


@pytest.mark.parametrize("skewness", [0.0, 2.5, np.nan])
def test_a_reported_error_is_half_its_interval_in_student_quantiles(skewness):
    """Kills: an interval that is widened twice, a standard error that does not count skewness, NaN for no skewness."""
    dof = 99
    errors = Errors(0.5, 0.5, 0.5, 0.0, 0.0, skewing=widening_by_skewness(skewness, dof))
    total = errors.total(np.full(2, 0.5), np.zeros(2), np.zeros(2))
    answer = tp.LogZ("rts", np.array([0.0, 7.0]), total, np.zeros(2), np.full(2, skewness), dof, errors=errors)
    low, high = answer.interval
    assert (high - low) / 2 == pytest.approx(1.9842 * answer.std_error, abs=1e-4)  # t(0.975, 99) from a table
    assert (high - low) / 2 == pytest.approx(1.9842 * 0.5, abs=1e-4) or skewness > 0
    assert 7.0 - low == pytest.approx(1.9842 * 0.5, abs=1e-4)


def test_skewness_is_that_of_what_each_unit_contributes():
    """One unit far above the others at the last rung only. Kills: skewness of the parts instead of their ratio."""
    parts = np.ones((10, 3))
    parts[0, 2] = 5.0
    uncertainty = uncertainty_of_log_ratio(np.log(parts))
    influence = parts[:, 2] / parts[:, 2].mean() - 1
    expected = (influence**3).mean() / (influence**2).mean() ** 1.5
    np.testing.assert_allclose(uncertainty.skewness, [0.0, 0.0, expected], atol=1e-12)


def _with_log_sums(stats, log_sums):
    log_sums = np.broadcast_to(log_sums, (1, 1, 3)) if np.ndim(log_sums) == 1 else log_sums
    shape = log_sums.shape[:2]
    return dataclasses.replace(
        stats,
        log_sums=np.array(log_sums),
        visits=np.ones(log_sums.shape, np.int64),
        num_draws=np.ones(shape, np.int64),
        num_nonfinite=np.zeros(shape, np.int64),
    )


def _with_visits(stats, visits):
    return dataclasses.replace(stats, visits=visits[None, None])
