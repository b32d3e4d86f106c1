"""Thermodynamic integration against exact answers: slopes by enumeration go in, their quadrature comes out."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

import checks
import exact
import tempering as tp
from samples import UNEVEN, noisy_slope_stats, slope_stats
from tempering.estimators import LogZ, ti
from tempering.estimators.inputs import draws_made
from tempering.estimators.thermodynamic import RULES
from tempering.stats import BlockedStats

TOLERANCE = 1e-10


def rbm_path(betas):
    return exact.small_rbm().path(exact.BASE_FREQUENCIES, np.asarray(betas))


def exact_stats(path) -> BlockedStats:
    """A poor guess and an uneven prior, so that rungs weigh differently."""
    num_rungs = path.num_rungs
    prior = np.log(np.arange(1, num_rungs + 1) / np.arange(1, num_rungs + 1).sum())
    return exact.stats_with_slopes_and_steps(path, prior, np.sin(np.arange(num_rungs)))


def exact_curve(path) -> tuple[np.ndarray, np.ndarray]:
    """E[s], and V = Var(s) + E[ds/dβ], by enumeration."""
    law = np.exp(exact.log_densities(path) - exact.log_z(path))
    slopes, curvatures = exact.slope_laws(path)
    mean = (law * slopes).sum(axis=0)
    return mean, (law * (slopes - mean) ** 2).sum(axis=0) + (law * curvatures).sum(axis=0)


def quadrature(rule: str, betas: np.ndarray, slopes: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
    """Each rule at every rung, written out step by step."""
    values = np.zeros(len(betas))
    for j in range(1, len(betas)):
        h = betas[j] - betas[j - 1]
        trapezoid = h * (slopes[j] + slopes[j - 1]) / 2
        if rule == "riemann":
            values[j] = values[j - 1] + h * slopes[j]
        elif rule == "trapezoid":
            values[j] = values[j - 1] + trapezoid
        elif rule == "corrected":
            values[j] = values[j - 1] + trapezoid - h**2 / 12 * (curvatures[j] - curvatures[j - 1])
        else:  # a parabola through each pair of steps; an odd last step takes the one through the last three rungs
            first = min((j - 1) // 2 * 2, len(betas) - 3)
            parabola = np.polyfit(betas[first : first + 3], slopes[first : first + 3], 2)
            area = np.polyint(parabola)
            values[j] = values[j - 1] + np.polyval(area, betas[j]) - np.polyval(area, betas[j - 1])
    return values


def stats_on_curve(betas, slope, curvature, visits=None) -> BlockedStats:
    """One chain whose slopes are exactly a given curve E(β) with derivative V(β)."""
    visits = np.full(len(betas), 100) if visits is None else np.asarray(visits)
    mean = slope(betas)
    sums = np.stack([mean, mean**2, curvature(betas)], axis=1) * visits[:, None]
    return slope_stats(sums[None], visits[None], betas)


def without_chain(stats: BlockedStats, chain: int) -> BlockedStats:
    names = ("log_sums", "visits", "num_draws", "num_nonfinite", "counted_slopes", "weighted_slopes")
    return dataclasses.replace(stats, **{n: np.delete(getattr(stats, n), chain, axis=0) for n in names})


@pytest.mark.parametrize("betas", [exact.BETAS, UNEVEN], ids=["3 rungs", "6 rungs"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rao_blackwell", [False, True])
def test_every_rule_is_the_quadrature_of_exact_slopes(betas, rule, rao_blackwell):
    """Kills: left for right Riemann, h² for h²/12, its sign, V without its mean squared or E[ds/dβ], no reference."""
    path = rbm_path(betas)
    answer = ti(exact_stats(path), rule, rao_blackwell=rao_blackwell, log_z_base=1.5)
    expected = quadrature(rule, np.asarray(path.betas, np.float64), *exact_curve(path))
    np.testing.assert_allclose(answer.values, 1.5 + expected, atol=TOLERANCE)


def test_counted_and_weighted_slopes_are_not_mixed_up():
    """Four different arrays. Kills: counts for posteriors, and weighted sums over counts."""
    betas = np.array([0.0, 0.5, 1.0])
    counted, weighted = np.ones((1, 3, 3)) * [[1.0], [2.0], [3.0]], np.ones((1, 3, 3)) * [[4.0], [7.0], [5.0]]
    visits, posteriors = np.array([[2, 4, 8]]), np.array([[5.0, 1.0, 3.0]])
    stats = slope_stats(counted, visits, betas, posteriors=posteriors, weighted=weighted)
    plain, blackwell = ti(stats), ti(stats, rao_blackwell=True)
    assert plain.log_z == pytest.approx(0.5 * (0.5 + 2 * 0.5 + 0.375) / 2, abs=TOLERANCE)
    assert blackwell.log_z == pytest.approx(0.5 * (0.8 + 2 * 7.0 + 5 / 3) / 2, abs=TOLERANCE)


def test_methods_have_names_of_their_own():
    stats = exact_stats(exact.small_path())
    assert [ti(stats, rule).method for rule in RULES] == [f"ti_{rule}" for rule in RULES]
    names = [ti(stats, rule, rao_blackwell=True).method for rule in RULES]
    assert names == ["ti_rb_riemann", "ti_rb", "ti_rb_simpson", "ti_rb_corrected"]


def test_rules_are_exact_where_theory_says_so():
    """E linear: the trapezoid; quadratic: Simpson on any ladder; cubic: the corrected rule, and Simpson on an even one.

    Kills: cubic terms lost in either rule, a bias where there is none.
    """
    linear = ti(stats_on_curve(UNEVEN, lambda b: 1 - 3 * b, lambda b: -3 + 0 * b))
    np.testing.assert_allclose(linear.values, UNEVEN - 1.5 * UNEVEN**2, atol=TOLERANCE)
    np.testing.assert_allclose(linear.biases, 0, atol=TOLERANCE)
    quadratic = ti(stats_on_curve(UNEVEN, lambda b: 2 * b**2, lambda b: 4 * b), "simpson")
    np.testing.assert_allclose(quadratic.values, 2 / 3 * UNEVEN**3, atol=TOLERANCE)
    cubic = (lambda b: 1 + b**2 - 5 * b**3), (lambda b: 2 * b - 15 * b**2)
    corrected = ti(stats_on_curve(UNEVEN, *cubic), "corrected")
    np.testing.assert_allclose(corrected.values, UNEVEN + UNEVEN**3 / 3 - 1.25 * UNEVEN**4, atol=TOLERANCE)
    np.testing.assert_allclose(corrected.biases, 0, atol=TOLERANCE)
    simpson = ti(stats_on_curve(np.linspace(0, 1, 7), *cubic), "simpson")
    assert simpson.log_z == pytest.approx(1 + 1 / 3 - 1.25, abs=TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
def test_discretisation_errors_are_exact_for_a_quartic(rule):
    """At every rung of an uneven ladder. Kills: the bias with its sign changed, h⁴ for h⁵, the pair of another step."""
    slope, curvature = (lambda b: 2 - b + 3 * b**4), (lambda b: -1 + 12 * b**3)
    answer = ti(stats_on_curve(UNEVEN, slope, curvature), rule)
    truth = 2 * UNEVEN - UNEVEN**2 / 2 + 0.6 * UNEVEN**5
    np.testing.assert_allclose(answer.values - answer.biases, truth, atol=TOLERANCE)
    assert abs(answer.biases[-1]) > 1e-5  # there is something to estimate


def test_a_long_step_beside_a_short_one_is_not_blown_up():
    """Joining a step with one a hundredth as long says little of either, and with one of its length more.

    Kills: the fifth power of their ratio, 19; the narrower pair.
    """
    betas = np.array([0.0, 0.99, 1.0])
    answer = ti(stats_on_curve(betas, lambda b: np.array([0.0, 0.0, 1.0]), lambda b: 0 * b), "corrected")
    assert answer.biases[-1] == pytest.approx(0.5 - 0.005, rel=1e-6)  # what joining them changes, and no more
    betas = np.array([0.0, 0.01, 0.5, 1.0])
    answer = ti(stats_on_curve(betas, lambda b: np.array([0.0, 1.0, 0.0, 0.0]), lambda b: 0 * b), "corrected")
    share = (0.49**5 + 0.5**5) / (0.99**5 - 0.49**5 - 0.5**5)
    assert answer.biases[-1] == pytest.approx((0.495 - 0.245) * share, rel=1e-6)  # the last two joined


@pytest.mark.parametrize(("rule", "order"), [("riemann", 1), ("trapezoid", 2), ("simpson", 4), ("corrected", 4)])
def test_rules_converge_at_their_order_on_an_rbm(rule, order):
    """Halving h, 16 steps to 32: errors fall by 2^order, to a relative O(h), and `biases` follow them.

    The slope of an RBM with h summed out varies with β. Kills: V without E[ds/dβ], which leaves an error of order 2.
    """
    errors, biases = [], []
    for num_steps in (16, 32):
        path = rbm_path(np.linspace(0, 1, num_steps + 1))
        answer = ti(exact_stats(path), rule)
        errors.append(answer.log_z - np.diff(exact.log_z(path)[[0, -1]])[0])
        biases.append(answer.biases[-1])
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)
    assert biases[1] == pytest.approx(errors[1], rel=0.1)


def test_empty_rungs_are_interpolated():
    """One in the middle, one at either end. Kills: zero for an empty rung, neighbours' mean on an uneven ladder."""
    visits = np.array([0, 5, 0, 0, 9, 0])
    slopes = np.array([99.0, 2.0, 99.0, 99.0, -1.0, 99.0])
    stats = stats_on_curve(UNEVEN, lambda b: slopes, lambda b: 0 * b, visits)
    filled = np.interp(UNEVEN, UNEVEN[[1, 4]], [2.0, -1.0])
    for rule in RULES:
        expected = quadrature(rule, UNEVEN, filled, 0 * UNEVEN)
        np.testing.assert_allclose(ti(stats, rule).values, expected, atol=TOLERANCE)


def test_the_bias_knows_that_a_rung_was_imputed():
    """E quadratic with rungs missing inside, E linear with an end missing: value − bias is exact at the target.

    Kills: a discretisation error from imputed rungs, which lie on a line; a constant beyond the last rung.
    """
    inside = ti(stats_on_curve(UNEVEN, lambda b: b**2, lambda b: 2 * b, [9, 9, 0, 0, 9, 9]))
    assert inside.log_z - inside.biases[-1] == pytest.approx(1 / 3, abs=TOLERANCE)
    ends = ti(stats_on_curve(UNEVEN, lambda b: 3 * b, lambda b: 3 + 0 * b, [0, 9, 9, 9, 9, 0]))
    assert ends.log_z - ends.biases[-1] == pytest.approx(1.5, abs=TOLERANCE)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rao_blackwell", [False, True])
def test_errors_are_what_leaving_out_a_chain_changes(rule, rao_blackwell):
    """Against the function itself on all chains but one. Kills: V without noise, imputation without noise, n for n − 1.

    Most rungs are visited by few chains and one by a single chain, which alone cannot know its own error.
    """
    stats = noisy_slope_stats(most=3)
    visits, sums = stats.visits.copy(), stats.counted_slopes.copy()
    visits[1:, :, 2], sums[1:, :, 2] = 0, 0.0
    visits[0, 0, 2], sums[0, 0, 2] = 1, [4.0, 16.0, 0.7]
    with np.errstate(divide="ignore"):
        log_sums = np.log(visits.astype(np.float64))
    stats = dataclasses.replace(stats, visits=visits, counted_slopes=sums, weighted_slopes=sums, log_sums=log_sums)
    answer = ti(stats, rule, rao_blackwell=rao_blackwell)
    left = np.array([ti(without_chain(stats, c), rule, rao_blackwell=rao_blackwell).values for c in range(20)])
    expected = np.sqrt(19 / 20 * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(answer.std_errors, expected, atol=TOLERANCE)
    assert answer.dof == 19
    influence = left.mean(axis=0) - left
    skewness = (influence[:, -1] ** 3).mean() / (influence[:, -1] ** 2).mean() ** 1.5
    assert answer.skewness[-1] == pytest.approx(skewness, abs=1e-8)


def test_a_rest_that_is_rounding_is_not_taken_for_a_mean():
    """All weight of a rung in one of 20 chains, but for 1e-16 of it, whose slopes are wild: as if they had none."""
    rng = np.random.default_rng(6)
    weights, means = rng.uniform(1, 2, (20, 3)), rng.normal(size=(20, 3))
    weights[:, 1] = 1e-16
    weights[7, 1] = 0.3
    means[:, 1] *= 1e6
    means[7, 1] = 0.4
    without = weights * [1, 0, 1]
    without[7, 1] = 0.3
    errors = []
    for each in (weights, without):
        sums = np.stack([means, means**2, 0 * means], axis=2) * each[:, :, None]
        stats = slope_stats(sums, np.ones((20, 3), np.int64), exact.BETAS, posteriors=each)
        errors.append(ti(stats, rao_blackwell=True).std_error)
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)


def test_errors_of_equal_chains_are_those_of_their_means():
    """Equal visits make E a plain mean, and the delta method exact. Kills: a jackknife without its factor."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=(20, 3))
    sums = np.stack([means, means**2 + 1, 0 * means], axis=2) * 5
    betas = np.array([0.0, 0.3, 1.0])
    answer = ti(slope_stats(sums, np.full((20, 3), 5), betas))
    each = means @ np.array([0.15, 0.5, 0.35])
    assert answer.log_z == pytest.approx(each.mean(), abs=TOLERANCE)
    assert answer.std_error == pytest.approx(each.std(ddof=1) / np.sqrt(20), abs=TOLERANCE)


def test_too_coarse_a_ladder_is_called_so():
    """The numbers of both errors are in the words. Kills: noise compared with the bias of another rung, or never."""
    stats = noisy_slope_stats(most=400)
    riemann, corrected = ti(stats, "riemann"), ti(stats, "corrected")
    assert corrected.verdict is tp.Verdict.GOOD
    assert riemann.verdict is tp.Verdict.COARSE
    assert f"{riemann.biases[-1]:+.2g}" in riemann.findings[0].seen
    assert f"{riemann.std_error:.2g}" in riemann.findings[0].seen


@pytest.mark.parametrize("rule", RULES)
def test_what_is_rounding_between_rungs_is_not_coarse(rule):
    """Slopes without noise, as where the base is the target. Kills: the rule's error against noise alone."""
    betas = np.linspace(0, 1, 11)

    def answer(size: float) -> LogZ:
        means = 3 + size * np.sin(9 * betas) + 1e-12 * np.random.default_rng(4).normal(size=(20, 11))
        sums = np.stack([means, means**2, 9 * size * np.cos(9 * betas) + 0 * means], axis=2) * 5
        return ti(slope_stats(sums, np.full((20, 11), 5), betas), rule, log_z_base=7.7)

    assert answer(1e-6).verdict is tp.Verdict.GOOD
    assert answer(3e-1).verdict is tp.Verdict.COARSE


@pytest.mark.parametrize("rule", ["trapezoid", "corrected"])
def test_a_jump_between_rungs_does_not_go_unseen(rule):
    """E jumps by 50 in a step where V is small at both ends: no higher derivative shows it, but the rise of E does.

    Kills: a verdict from the estimated bias alone, which is below the noise here.
    """
    betas = np.linspace(0, 1, 11)
    slopes = np.where(betas < 0.55, -20.0, 30.0)
    means = slopes + 3.0 * (-1.0) ** np.arange(30)[:, None]
    sums = np.stack([means, np.broadcast_to(slopes**2 + 0.01, means.shape), 0 * means], axis=2) * 40
    answer = ti(slope_stats(sums, np.full((30, 11), 40), betas), rule)
    assert abs(answer.biases[-1]) < answer.std_error < 2.5
    assert answer.verdict is tp.Verdict.COARSE
    assert "may hide 2.5" in answer.findings[0].seen  # 0.1 · 50 / 2


def test_rungs_that_should_have_had_draws_are_reported():
    """20 expected and none seen: unreached. Fewer expected: chance. Kills: a threshold on the wrong side."""
    for per_rung, expected in ((30, tp.Verdict.UNREACHED), (15, None)):
        visits = np.full(6, per_rung)
        visits[3] = 0
        answer = ti(stats_on_curve(UNEVEN, lambda b: b, lambda b: 1 + 0 * b, visits))
        assert (tp.Verdict.UNREACHED in {f.verdict for f in answer.findings}) == (expected is not None)
    nobody = ti(stats_on_curve(UNEVEN, lambda b: b, lambda b: 1 + 0 * b, np.zeros(6, np.int64)))
    assert np.isnan(nobody.log_z)
    assert nobody.std_error == np.inf
    assert {tp.Verdict.UNREACHED, tp.Verdict.NONFINITE, tp.Verdict.NO_ERROR} == {f.verdict for f in nobody.findings}


def test_a_rung_of_vanishing_weight_counts_as_unreached():
    """Products below 1e-38 are lost in the device's float32, so their ratio would be 0/tiny = 0, not the slope."""
    weights = np.full((1, 6), 50.0)
    weights[0, 2] = 1e-40
    slopes = np.ones((1, 6, 3)) * 50.0 * [[[2.0, 4.0, 0.0]]]
    slopes[0, 2] = 0.0
    stats = slope_stats(slopes, np.full((1, 6), 50), UNEVEN, posteriors=weights)
    answer = ti(stats, rao_blackwell=True)
    assert answer.log_z == pytest.approx(2.0, abs=TOLERANCE)
    assert tp.Verdict.UNREACHED in {finding.verdict for finding in answer.findings}


def test_all_that_one_chain_has_seen_has_no_error():
    """Two chains, of which one saw nothing. Kills: an error of 0, or NaN."""
    sums, visits = np.zeros((2, 3, 3)), np.zeros((2, 3), np.int64)
    sums[0], visits[0] = 12.0, 4
    answer = ti(slope_stats(sums, visits, exact.BETAS))
    assert answer.log_z == pytest.approx(3.0)
    assert answer.std_error == np.inf
    assert answer.verdict is tp.Verdict.NO_ERROR


def test_an_infinite_slope_is_no_number_and_says_so():
    """A target that is 0 at some draw of the base: E_0 is −∞. Kills: a finite answer, warnings, a good verdict."""
    stats = noisy_slope_stats()
    sums = stats.counted_slopes.copy()
    sums[3, 0, 0] = [-np.inf, np.inf, 0.0]
    answer = ti(dataclasses.replace(stats, counted_slopes=sums))
    assert np.isnan(answer.log_z)
    assert answer.std_error == np.inf
    assert answer.verdict is tp.Verdict.NONFINITE


@eqx.filter_jit
def folded(stats, ladder, draws):
    return jax.lax.scan(lambda stats, draw: (stats.update(ladder, draw), None), stats, draws)[0]


@pytest.mark.parametrize("bad", [[np.nan, -np.inf, np.nan], [0.0, 0.0, np.inf], [-np.inf] * 3])
def test_draws_that_are_not_finite_are_in_no_mean(bad):
    """Not counted at the rung where they were made, nor at rung 0, where the ladder leaves them.

    Kills: a mean over all draws made at a rung, or over all visits where only these were counted.
    """
    path, ladder = exact.small_path(), exact.small_ladder()
    rung = ladder.sample_rung(jax.random.key(0), jnp.asarray(bad))
    states = exact.states_of(path, exact.patterns(5)[:8])
    log_f = jax.vmap(path.log_densities)(states).at[3].set(jnp.asarray(bad))
    origins, rungs = (jnp.asarray(r, jnp.int32) for r in ([1, 0, 2, 1, 2, 1, 0, 1], [0, 1, 2, rung, 0, 2, 1, 2]))
    draws = tp.ladder.Draw(states, origins, rungs, log_f)
    stats = folded(tp.TemperingStats.empty(ladder, with_slopes=True), ladder, draws).on_host()
    np.testing.assert_array_equal(draws_made(stats)[0, 0], [2, 3, 2])
    np.testing.assert_array_equal(draws_made(dataclasses.replace(stats, origins=None))[0, 0], [2, 2, 3])
    slopes = exact.slope_laws(path)[0][:8]
    counted = [np.array([slopes[i, k] for i in range(8) if i != 3 and origins[i] == k]).mean() for k in range(3)]
    answer = ti(stats)
    expected = quadrature("trapezoid", stats.betas, np.array(counted), np.zeros(3))
    np.testing.assert_allclose(answer.values, expected, atol=1e-4)  # float32 slopes of size 10
    assert tp.Verdict.NONFINITE in {finding.verdict for finding in answer.findings}


def test_sums_on_the_device_are_those_of_the_draws():
    """300 draws in float32, recomputed in float64 from enumerated slopes.

    A float32 sum of n terms is off by at most n·2⁻²⁴ of Σ|terms|, and each term by some 50 roundings. Kills: rung
    for origin, a slope at another rung, s² for (s − reference)², counted and weighted exchanged.
    """
    path, ladder = rbm_path(UNEVEN), tp.Ladder.create(rbm_path(UNEVEN), None, np.linspace(0, 3, 6))
    rng = np.random.default_rng(7)
    rows, rungs = rng.integers(0, 32, 300), rng.integers(0, 6, 301)
    states = exact.states_of(path, exact.patterns(5)[rows])
    log_f = jax.vmap(path.log_densities)(states)
    draws = tp.ladder.Draw(states, jnp.asarray(rungs[:-1], jnp.int32), jnp.asarray(rungs[1:], jnp.int32), log_f)
    stats = folded(tp.TemperingStats.empty(ladder, with_slopes=True), ladder, draws).on_host()
    slopes, curvatures = (law[rows] for law in exact.slope_laws(path))
    off = slopes - stats.slope_reference
    moments = np.stack([off, off**2, curvatures], axis=2)
    law = exact.rung_posterior(exact.log_densities(path), np.asarray(stats.log_prior), np.asarray(stats.log_z_guess))
    stands = np.eye(6)[rungs[:-1]]
    for weights, sums in ((stands, stats.counted_slopes), (law[rows], stats.weighted_slopes)):
        terms = weights[:, :, None] * moments
        error = np.abs(sums[0, 0] - terms.sum(axis=0))
        assert np.all(error <= 350 * 2.0**-24 * np.abs(terms).sum(axis=0))


def rts_and_ti_rb(num_steps: int, rule: str = "trapezoid") -> tuple[float, float, np.ndarray]:
    """Both estimators from 40 fixed draws known by Δ alone, on an even ladder; and the weights of the draws.

    q(k | x_i) ∝ exp(β_k Δ_i) / Ẑ(β_k) with log Ẑ = 3β − β², normalised over the rungs at hand.
    """
    delta = np.random.default_rng(8).gamma(2.0, 2.0, 40) - 3.0
    betas = np.linspace(0, 1, num_steps + 1)
    guess = 3 * betas - betas**2
    log_joint = np.multiply.outer(delta, betas) - guess
    log_norm = np.logaddexp.reduce(log_joint, axis=1)
    posterior = np.exp(log_joint - log_norm[:, None])
    moments = np.stack([delta, delta**2, 0 * delta], axis=1)
    stats = slope_stats(
        np.zeros((1, len(betas), 3)),
        np.ones((1, len(betas)), np.int64),
        betas,
        posteriors=posterior.sum(axis=0)[None],
        weighted=np.einsum("ik,im->km", posterior, moments)[None],
    )
    stats = dataclasses.replace(stats, log_z_guess=guess)
    return tp.rts(stats).log_z, ti(stats, rule, rao_blackwell=True).log_z, np.exp(-log_norm + log_norm.min())


def cumulants(weights: np.ndarray, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The second and fifth derivative of F(β) = log Σ w_i exp(βΔ_i), whose difference of ends RTS is."""
    delta = np.random.default_rng(8).gamma(2.0, 2.0, 40) - 3.0
    law = weights * np.exp(np.multiply.outer(betas, delta))
    law /= law.sum(axis=1, keepdims=True)
    centred = delta - (law @ delta)[:, None]
    second, third, fifth = ((law * centred**p).sum(axis=1) for p in (2, 3, 5))
    return second, fifth - 10 * third * second


def test_ti_rb_tends_to_rts_as_rungs_are_added():
    """Appendix C for fixed draws: TI-RB − RTS = h²/12 [F''(1) − F''(0)], up to h⁴/720 ∫ |F⁽⁵⁾| (Euler–Maclaurin).

    RTS is F(1) − F(0) on any ladder, TI-RB is the trapezoid of F'. Only the weights w_i depend on the ladder, by a
    relative O(h), so the rate is 2 + O(h), and twice one rate less the one before it is 2 + O(h²). Kills: slopes
    weighted by counts, a left for a right end.
    """
    steps = 2 ** np.arange(3, 10)  # 8 … 512
    differences, leading = [], []
    for num_steps in steps:
        by_rts, by_ti, weights = rts_and_ti_rb(int(num_steps))
        h = 1 / num_steps
        second, _ = cumulants(weights, np.array([0.0, 1.0]))
        _, fifth = cumulants(weights, np.linspace(0, 1, 2001))
        differences.append(by_ti - by_rts)
        leading.append(h**2 / 12 * (second[1] - second[0]))
        assert abs(differences[-1] - leading[-1]) < h**4 / 720 * np.abs(fifth).mean() + 1e-12
    rates = -np.diff(np.log2(np.abs(differences)))
    assert np.all(np.abs(rates - 2) < 1 / steps[:-1])
    assert np.all(np.abs(2 * rates[1:] - rates[:-1] - 2) < 1 / steps[:-2] ** 2)
    riemann = [np.subtract(*rts_and_ti_rb(int(n), "riemann")[:2]) for n in steps]
    rates = -np.diff(np.log2(np.abs(riemann)))
    assert np.all(np.abs(rates - 1) < 1 / steps[:-1])


ESTIMATES = {
    "ti_trapezoid": lambda stats: ti(stats),
    "ti_simpson": lambda stats: ti(stats, "simpson"),
    "ti_corrected": lambda stats: ti(stats, "corrected"),
    "ti_rb": lambda stats: ti(stats, rao_blackwell=True),
    "ti_rb_corrected": lambda stats: ti(stats, "corrected", rao_blackwell=True),
}


@pytest.fixture(scope="module")
def replicates() -> tuple[list[BlockedStats], float]:
    return exact.replicates(21, with_slopes=True)


@pytest.mark.parametrize("method", ESTIMATES)
def test_estimates_and_errors_are_right_in_runs(replicates, method):
    """200 runs: their mean, less the discretisation, sees 0.3 of one run's error; their scatter sees 25 %."""
    runs, truth = replicates
    answers = [ESTIMATES[method](stats) for stats in runs]
    assert answers[0].method == method
    checks.assert_mean(np.array([a.log_z - a.biases[-1] for a in answers]), truth)
    scores = np.array([(a.log_z - a.biases[-1] - truth) / a.std_error for a in answers])
    # z² of Student's t with 19 degrees of freedom has mean 19/17 and variance 3.0.
    z = (np.sum(scores**2) - len(scores) * 19 / 17) / np.sqrt(3.0 * len(scores))
    assert abs(z) < scipy_stats.norm.isf(checks.FALSE_FAILURE / 2)


def test_what_cannot_be_integrated_is_refused():
    """Each with its cure in one line."""
    stats = exact_stats(exact.small_path())
    with pytest.raises(tp.InputError, match="riemann, trapezoid, simpson, corrected"):
        ti(stats, "gauss")
    for base in (np.inf, -np.inf, np.nan):
        with pytest.raises(tp.InputError, match="base is improper"):
            ti(stats, log_z_base=base)
    for name in ("slope_reference", "counted_slopes", "weighted_slopes"):
        with pytest.raises(tp.InputError, match=r"Keep\(slopes=True\)"):
            ti(dataclasses.replace(stats, **{name: None}))
    with pytest.raises(tp.InputError, match=r"Keep\(slopes=True\)"):
        ti(tp.TemperingStats.empty(exact.small_ladder()))


def test_the_mean_of_slopes_over_the_density_of_beta_is_the_trapezoid():
    """Section 3.4: (1/N) Σ s_i/p(β_i), with p(β_k) the share of visits per half of the two steps around β_k.

    Kills: a trapezoid whose rungs weigh by how often they were visited.
    """
    rng, betas = np.random.default_rng(7), UNEVEN
    rungs = rng.integers(0, len(betas), 400)
    slopes = 3 * betas[rungs] ** 2 + rng.normal(size=400)
    widths = np.diff((betas[1:] + betas[:-1]) / 2, prepend=betas[0], append=betas[-1])
    counts = np.bincount(rungs, minlength=len(betas))
    mean = np.mean(slopes / (counts[rungs] / 400 / widths[rungs]))
    sums = np.zeros((len(betas), 3))
    sums[:, 0] = np.bincount(rungs, slopes, minlength=len(betas))
    stats = exact_stats(rbm_path(betas))
    stats = dataclasses.replace(
        stats, betas=betas, slope_reference=np.zeros(len(betas)), counted_slopes=sums[None, None],
        visits=counts[None, None], num_draws=np.array([[400]]),
    )  # fmt: skip
    assert ti(stats).log_z == pytest.approx(mean, abs=TOLERANCE)


class _Separate(tp.kernels.AbstractKernel):
    """A kernel of one's own: x moves at a rung that stays the same, and statistics see it."""

    def __call__(self, key, ladder, state):
        x, info = self.move(key, ladder.path, state.rung, state.x)
        log_f = ladder.path.log_densities(x)
        return tp.Position(x, state.rung), tp.ladder.Draw(x, state.rung, state.rung, log_f, info)


def test_separate_chains_at_fixed_rungs_can_be_integrated():
    """Five chains at each of seven rungs, from exact draws; against the trapezoid of exact slopes."""
    path = rbm_path(np.linspace(0, 1, 7))
    law = np.exp(exact.log_densities(path) - exact.log_z(path))
    rng, rungs = np.random.default_rng(3), np.tile(np.arange(7), 5)
    rows = np.array([rng.choice(32, p=law[:, k] / law[:, k].sum()) for k in rungs])
    states = tp.Position(exact.states_of(path, exact.patterns(5)[rows]), jnp.asarray(rungs, jnp.int32))
    ladder = tp.Ladder.create(path)
    record = tp.TemperingStats.empty(ladder, with_slopes=True)
    (block,) = tp.run_chains(
        jax.random.key(3), ladder, _Separate(tp.BlockGibbs()), record, states, num_steps=250, block_steps=250
    )
    expected = quadrature("trapezoid", np.asarray(path.betas), *exact_curve(path))[-1]
    rounds = [block.record.on_host().of_chains(np.arange(7) + 7 * i) for i in range(5)]  # one chain a rung in each
    checks.assert_mean(np.array([ti(part).log_z for part in rounds]), expected)
