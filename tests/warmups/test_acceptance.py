"""The constrained logistic fit of Appendix E: its order holds to the last bit, and nothing feasible is more likely."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, logit

import checks
import tempering as tp
from tempering.warmups.acceptance import AcceptanceFit, fit_acceptance

LOW, HIGH = 0.2, 1.7
TARGET = 0.651


def random_rows(seed: int) -> dict:
    """Data that mostly break the order that is asked for: the fit has to pool rungs, flatten lines, or both."""
    rng = np.random.default_rng(seed)
    num_rungs, per_rung = int(rng.choice([1, 2, 3, 5, 20, 100])), int(rng.choice([1, 3, 12]))
    rungs = np.repeat(np.arange(num_rungs), per_rung)
    steps = rng.uniform(LOW, HIGH * rng.choice([0.5, 1.0, 1.4]), rungs.size)  # too few, all, and too many
    line = 3 - 4 * rungs / num_rungs * rng.choice([-1, 1]) - 2 * steps * rng.choice([-1, 1])
    shares = expit(line + rng.normal(0, 2, rungs.size))
    accepted = (shares > rng.random(rungs.size)).astype(float) if rng.random() < 0.5 else shares
    weights = rng.integers(0, 3, rungs.size) * float(rng.choice([1, 50, 1e5]))
    return {"rungs": rungs, "steps": steps, "accepted": accepted, "weights": weights, "num_rungs": num_rungs}


def fitted(**rows):
    return fit_acceptance(rows.pop("rungs"), rows.pop("steps"), rows.pop("accepted"), low=LOW, high=HIGH, **rows)


def with_prior(rungs, steps, accepted, weights, ends, known):
    """The rows of the likelihood: the data, and half an observation at either end of every rung that has some."""
    return (
        np.concatenate([rungs, known, known]),
        np.concatenate([steps, np.full(len(known), ends[0]), np.full(len(known), ends[1])]),
        np.concatenate([accepted, np.full(len(known), 0.75), np.full(len(known), 0.25)]),
        np.concatenate([weights, np.full(2 * len(known), 0.5)]),
    )


def slope_at_ends(fit, rows, known) -> np.ndarray:
    """The gradient of minus the log-likelihood in the logits at both ends, for rungs with data: (rung, end)."""
    rungs, steps, accepted, weights = rows
    share = (steps - fit.ends[0]) / (fit.ends[1] - fit.ends[0])
    pull = weights * (expit(fit.intercepts[rungs] + fit.slopes[rungs] * steps) - accepted)
    sums = [np.bincount(rungs, pull * part, len(fit.logits)) for part in (1 - share, share)]
    return np.stack(sums, axis=1)[known]


@pytest.mark.parametrize("seed", range(100))
def test_the_order_is_exact_and_the_fit_is_optimal(seed):
    """The optimality conditions are complete: logits x in order form a cone, so that with the gradient g of a convex
    function x is best if and only if g·x = 0 and g·r ≥ 0 for every r that spans the cone. Those are ± a constant, and 1
    on the first i rungs at the lower end and on the first l ≤ i at the upper end.

    Kills: a constraint left out or reversed, a wrong sign in gradient or curvature, t and 1 − t exchanged.
    """
    rows = random_rows(seed)
    fit = fitted(**dict(rows))
    assert np.all(fit.slopes <= 0)
    for step in (LOW, HIGH, *fit.ends, 0.5 * (LOW + HIGH)):
        assert np.all(np.diff(fit.logit(np.arange(rows["num_rungs"]), step)) <= 0)
    best = fit.best_steps(TARGET)
    assert np.all(np.diff(best) <= 0)
    assert np.all((best >= LOW) & (best <= HIGH))

    is_real = rows["weights"] > 0
    known = np.unique(rows["rungs"][is_real])
    if len(known) == 0:
        return
    data = [rows[name][is_real] for name in ("rungs", "steps", "accepted", "weights")]
    gradient = slope_at_ends(fit, with_prior(*data, fit.ends, known), known)
    tolerance = 1e-7 * (1 + rows["weights"].sum())
    assert abs(np.sum(gradient * fit.logits[known])) < tolerance
    assert abs(gradient.sum()) < tolerance
    first, second = np.cumsum(np.concatenate([[[0, 0]], gradient]), axis=0).T
    along_rays = np.tril(first[:, None] + second[None, :])
    assert along_rays.min() > -tolerance


def reference_loss(rungs, steps, accepted, weights):
    """Minus the log-likelihood in w0 and w1, and its gradient."""
    num_rungs = rungs.max() + 1

    def loss(w):
        line = w[:num_rungs][rungs] + w[num_rungs:][rungs] * steps
        value = np.sum(weights * (np.logaddexp(0, line) - accepted * line))
        pull = weights * (expit(line) - accepted)
        return value, np.concatenate([np.bincount(rungs, pull), np.bincount(rungs, pull * steps)])

    return loss


@pytest.mark.parametrize("seed", range(8))
def test_a_general_solver_finds_nothing_better(seed):
    """SLSQP, in w0 and w1 with the constraints as the paper writes them, to 1e-5 of the objective."""
    rng = np.random.default_rng(seed)
    rungs = np.repeat(np.arange(5), 12)
    steps, accepted = rng.uniform(LOW, HIGH, 60), rng.random(60)
    weights = rng.integers(1, 40, 60).astype(float)
    fit = fitted(rungs=rungs, steps=steps, accepted=accepted, weights=weights, num_rungs=5)
    loss = reference_loss(*with_prior(rungs, steps, accepted, weights, (LOW, HIGH), np.arange(5)))
    fall = -np.diff(np.eye(5), axis=0)
    falls = np.block([[fall, LOW * fall], [fall, HIGH * fall], [np.zeros((5, 5)), -np.eye(5)]])
    rule = {"type": "ineq", "fun": lambda w: falls @ w, "jac": lambda w: falls}
    start = np.concatenate([np.linspace(1, 0, 5), -np.ones(5)])
    found = minimize(loss, start, jac=True, method="SLSQP", constraints=rule, options={"maxiter": 500, "ftol": 1e-10})
    ours = loss(np.concatenate([fit.intercepts, fit.slopes]))[0]
    assert ours == pytest.approx(found.fun, rel=1e-5)
    assert ours <= found.fun * (1 + 1e-9)


def test_lines_that_are_in_order_are_recovered():
    """From probabilities without noise, and so many of them that the two half observations weigh nothing."""
    intercepts, slopes = np.array([4.0, 3.5, 2.0, 1.9]), np.array([-1.0, -1.5, -2.5, -3.0])
    rungs, steps = np.repeat(np.arange(4), 12), np.tile(np.linspace(LOW, HIGH, 12), 4)
    accepted = expit(intercepts[rungs] + slopes[rungs] * steps)
    fit = fitted(rungs=rungs, steps=steps, accepted=accepted, weights=np.full(48, 1e9), num_rungs=4)
    np.testing.assert_allclose(fit.intercepts, intercepts, atol=1e-7)
    np.testing.assert_allclose(fit.slopes, slopes, atol=1e-7)
    np.testing.assert_allclose(fit.probability(rungs, steps), accepted, atol=1e-7)
    wanted = np.clip((logit(TARGET) - intercepts) / slopes, LOW, HIGH)
    np.testing.assert_allclose(fit.best_steps(TARGET), wanted, atol=1e-6)
    inside = (wanted > LOW) & (wanted < HIGH)
    assert inside.any()
    assert not inside.all()
    np.testing.assert_allclose(fit.probability(np.arange(4), wanted)[inside], TARGET, atol=1e-6)


def test_lines_are_recovered_within_the_error_of_the_data():
    """(ŵ − w)ᵀ I (ŵ − w), with Fisher's information I, is χ² with two degrees of freedom a rung: false failure 1e-6."""
    rng = np.random.default_rng(11)
    intercepts, slopes = np.array([4.0, 2.5, 1.0]), np.array([-1.5, -2.0, -2.5])
    rungs, steps = np.repeat(np.arange(3), 20_000), rng.uniform(LOW, HIGH, 60_000)
    probability = expit(intercepts[rungs] + slopes[rungs] * steps)
    accepted = (rng.random(rungs.size) < probability).astype(float)
    fit = fitted(rungs=rungs, steps=steps, accepted=accepted, num_rungs=3)
    total = 0.0
    for rung in range(3):
        design = np.stack([np.ones(20_000), steps[rungs == rung]])
        own = probability[rungs == rung]
        off = np.array([fit.intercepts[rung] - intercepts[rung], fit.slopes[rung] - slopes[rung]])
        total += off @ ((design * own * (1 - own)) @ design.T) @ off
    assert stats.chi2.sf(total, 6) > checks.FALSE_FAILURE
    assert stats.chi2.cdf(total, 6) > checks.FALSE_FAILURE  # an error far too small would be a wrong test


def test_two_rungs_in_the_wrong_order_are_pooled():
    """Where the colder one accepts more at both ends, the best fit in order is that of one rung with all data."""
    steps = np.linspace(LOW, HIGH, 6)
    hot, cold = expit(0.5 - steps), expit(2.5 - steps)
    fit = fitted(
        rungs=np.repeat([0, 1], 6), steps=np.tile(steps, 2), accepted=np.append(hot, cold), num_rungs=2,
        weights=np.full(12, 30.0),
    )  # fmt: skip
    second_prior = {"steps": [LOW, HIGH], "accepted": [0.75, 0.25], "weights": [0.5, 0.5]}
    one = fitted(
        rungs=np.zeros(14, int),
        steps=np.concatenate([steps, steps, second_prior["steps"]]),
        accepted=np.concatenate([hot, cold, second_prior["accepted"]]),
        weights=np.concatenate([np.full(12, 30.0), second_prior["weights"]]),
        num_rungs=1,
    )
    np.testing.assert_allclose(fit.logits, np.repeat(one.logits, 2, axis=0), atol=1e-6)


def test_acceptance_that_grows_with_the_step_gives_a_flat_line():
    """And then the whole interval is good enough, or none of it is."""
    steps = np.linspace(LOW, HIGH, 12)
    for offset, expected in ((0.0, HIGH), (-3.0, LOW)):
        fit = fitted(
            rungs=np.zeros(12, int), steps=steps, accepted=expit(offset + steps), num_rungs=1, weights=np.full(12, 1e3)
        )
        assert abs(fit.slopes[0]) < 1e-6
        assert fit.best_steps(TARGET)[0] == pytest.approx(expected)


def test_the_best_step_of_a_line_that_is_exactly_flat():
    fit = AcceptanceFit(LOW, HIGH, (LOW, HIGH), np.array([[2.0, 2.0], [-1.0, -1.0]]))
    np.testing.assert_array_equal(fit.best_steps(TARGET), [HIGH, LOW])


def test_weights_are_repetitions():
    rows = random_rows(4)
    weights = np.arange(rows["rungs"].size) % 4
    assert weights.sum() > 20
    repeated = [np.repeat(rows[name], weights) for name in ("rungs", "steps", "accepted")]
    one = fit_acceptance(*repeated, num_rungs=rows["num_rungs"], low=LOW, high=HIGH)
    other = fitted(**(rows | {"weights": weights}))
    np.testing.assert_allclose(one.logits, other.logits, atol=1e-6)


def test_rungs_without_data_lie_between_their_neighbours():
    steps = np.tile(np.linspace(LOW, HIGH, 12), 2)
    rungs = np.repeat([2, 6], 12)
    accepted = expit(np.where(rungs == 2, 3.0, 1.0) - 2 * steps)
    weights = np.full(24, 100.0)
    fit = fitted(rungs=rungs, steps=steps, accepted=accepted, weights=weights, num_rungs=9)
    alone = fitted(rungs=(rungs == 6).astype(int), steps=steps, accepted=accepted, weights=weights, num_rungs=2)
    np.testing.assert_allclose(fit.logits[[2, 6]], alone.logits, atol=1e-9)
    np.testing.assert_allclose(fit.logits[4], alone.logits.mean(axis=0), atol=1e-9)
    np.testing.assert_array_equal(fit.logits[:2], np.tile(fit.logits[2], (2, 1)))
    np.testing.assert_array_equal(fit.logits[7:], np.tile(fit.logits[6], (2, 1)))
    weightless = fitted(rungs=[2, 3], steps=[1.0, 1.0], accepted=[1.0, 0.0], weights=[5.0, 0.0], num_rungs=9)
    without = fitted(rungs=[2], steps=[1.0], accepted=[1.0], weights=[5.0], num_rungs=9)
    np.testing.assert_array_equal(weightless.logits, without.logits)


@pytest.mark.parametrize(("accepted", "expected"), [(1.0, HIGH), (0.0, LOW)])
def test_when_all_are_accepted_or_none_is(accepted, expected):
    """Finite, by the half observations, and at the right end of the interval."""
    rungs, steps = np.repeat(np.arange(3), 50), np.tile(np.linspace(LOW, HIGH, 50), 3)
    fit = fitted(rungs=rungs, steps=steps, accepted=np.full(150, accepted), num_rungs=3)
    assert np.all(np.isfinite(fit.logits))
    np.testing.assert_allclose(fit.best_steps(TARGET), expected)


def test_without_data_the_half_observations_decide():
    fit = fitted(rungs=np.zeros(0, int), steps=[], accepted=[], num_rungs=3)
    np.testing.assert_allclose(fit.logits, np.tile([np.log(3), -np.log(3)], (3, 1)))
    np.testing.assert_allclose(fit.best_steps(0.5), (LOW + HIGH) / 2)
    assert np.all((fit.best_steps(TARGET) > LOW) & (fit.best_steps(TARGET) < HIGH))


def test_an_interval_that_is_a_point_or_nearly():
    """One step was tried: its acceptance is known and its slope is not. Data around it give the slope again."""
    point = fit_acceptance([0, 0, 1], [0.5, 0.5, 0.5], [1.0, 0.5, 0.1], num_rungs=2, low=0.5, high=0.5)
    assert np.all(point.slopes == 0)
    assert np.all(point.best_steps(TARGET) == 0.5)
    assert np.all(np.diff(point.probability([0, 1], 0.5)) < 0)
    steps = np.linspace(0.1, 0.9, 9)
    for high in (0.5, 0.5 * (1 + 1e-12)):
        fit = fit_acceptance(
            np.zeros(9, int), steps, expit(2 - 3 * steps), num_rungs=1, low=0.5, high=high, weights=np.full(9, 1e8)
        )
        assert fit.slopes[0] == pytest.approx(-3, abs=1e-5)
        assert 0.5 <= fit.best_steps(TARGET)[0] <= high


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rungs": [0, 2]}, "whole numbers from 0 to 1"),
        ({"rungs": [0.0, 1.0]}, "whole numbers"),
        ({"rungs": [-1, 0]}, "whole numbers"),
        ({"accepted": [0.5, 1.5]}, "probabilities"),
        ({"accepted": [0.5, np.nan]}, "probabilities"),
        ({"steps": [1.0, np.inf]}, "finite steps"),
        ({"weights": [1.0, -1.0]}, "not negative"),
        ({"weights": [1.0]}, "one length"),
        ({"low": 2.0}, "low ≤ high"),
        ({"low": 0.0}, "low ≤ high"),
        ({"num_rungs": 0}, "1 or more"),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, message):
    given = {"rungs": [0, 1], "steps": [0.5, 1.0], "accepted": [0.0, 1.0]} | change
    options = {"num_rungs": 2, "low": LOW, "high": HIGH} | {
        name: given.pop(name) for name in ("weights", "low", "num_rungs") if name in given
    }
    with pytest.raises(tp.InputError, match=message):
        fit_acceptance(**given, **options)


@pytest.mark.parametrize("target", [0.0, 1.0, np.nan])
def test_a_target_that_is_no_probability_is_refused(target):
    with pytest.raises(tp.InputError, match="between 0 and 1"):
        fitted(rungs=[0], steps=[1.0], accepted=[1.0], num_rungs=1).best_steps(target)
