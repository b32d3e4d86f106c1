"""Paths through RBMs with averaged moments: exact densities, invariant sweeps, matched moments, right answers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from tempering.models import MomentAveragedRBM
from tempering.models.rbm import averaged, moment_matching
from tempering.models.rbm.moment_matching import Moments, Parameters, fit_knots, target_moments

NUM_DRAWS = 20_000
VISIBLE, HIDDEN = exact.patterns(5), exact.patterns(3)
KNOT_BETAS = np.array([0.3, 0.75])
BETAS = np.array([0.0, 0.1, 0.3, 0.6, 0.75, 0.9, 1.0])  # on knots and between them


def _model(shift: float = 0.0) -> MomentAveragedRBM:
    """Knots that have nothing to do with either end, so that every one of them is seen."""
    rng = np.random.default_rng(7)
    knots = [tp.RBM(rng.normal(shift, 1.1, (5, 3)), rng.normal(0.3, 0.9, 5), rng.normal(-0.4, 0.8, 3)) for _ in "ab"]
    return MomentAveragedRBM(exact.small_rbm(), exact.BASE_FREQUENCIES, knots, KNOT_BETAS)


def _parameters(model: MomentAveragedRBM) -> list[np.ndarray]:
    """W, c and b of all knots, the base first: (place, …) each."""
    knots = [(np.zeros((5, 3)), model.base_logits, np.zeros(3)), *(k.on_host() for k in (*model.knots, model.rbm))]
    return [np.stack(arrays) for arrays in zip(*knots, strict=True)]


def _exponents(weights, vbias, hbias) -> np.ndarray:
    """log f(v, h) of all v and h, or its derivative where the parameters are derivatives: (v, h)."""
    return (VISIBLE @ vbias)[:, None] + VISIBLE @ weights @ HIDDEN.T + HIDDEN @ hbias


def _between(model: MomentAveragedRBM, beta: float) -> list[np.ndarray]:
    """θ(β) by plain interpolation of every parameter."""
    places = np.concatenate([[0.0], model.knot_betas, [1.0]])
    return [np.apply_along_axis(lambda y: np.interp(beta, places, y), 0, a) for a in _parameters(model)]


def _log_densities(model: MomentAveragedRBM, betas: np.ndarray) -> np.ndarray:
    """(v, rung), with h summed out one by one."""
    return np.stack([logsumexp(_exponents(*_between(model, beta)), axis=1) for beta in betas], axis=1)


def _slopes_and_curvatures(model: MomentAveragedRBM, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance, given v, of the exponent's derivative in β; on a knot the mean of those of both stretches."""
    places, parameters = np.concatenate([[0.0], model.knot_betas, [1.0]]), _parameters(model)
    slopes, curvatures = [], []
    for beta in betas:
        exponents = _exponents(*_between(model, beta))
        given_v = np.exp(exponents - logsumexp(exponents, axis=1, keepdims=True))
        touching = [m for m in range(len(places) - 1) if places[m] <= beta <= places[m + 1]]
        rates = [_exponents(*((a[m + 1] - a[m]) / (places[m + 1] - places[m]) for a in parameters)) for m in touching]
        means = [(given_v * rate).sum(axis=1) for rate in rates]
        variances = [(given_v * (r - m[:, None]) ** 2).sum(axis=1) for r, m in zip(rates, means, strict=True)]
        slopes.append(np.mean(means, axis=0))
        curvatures.append(np.mean(variances, axis=0))
    return np.stack(slopes, axis=1), np.stack(curvatures, axis=1)


def _states(path, visible: np.ndarray):
    return jax.vmap(path.state_of)(jnp.asarray(visible, path.betas.dtype))


def test_densities_slopes_and_curvatures_in_float64():
    """Kills: hats of the wrong stretch or side, a base without its share, t′ not squared, a pad that counts."""
    model = _model()
    with jax.enable_x64(True):
        arrays = {"base_logits": model.base_logits, "knot_betas": np.append(KNOT_BETAS, 1.0), "betas": BETAS}
        weights, vbias, hbias = (a[1:] for a in _parameters(model))
        arrays |= {"weights": weights.swapaxes(0, 1), "vbias": vbias, "hbias": hbias}
        path = type(model.path(None, BETAS))(**{name: jnp.asarray(a, jnp.float64) for name, a in arrays.items()})
        states = _states(path, VISIBLE)
        rungs = jnp.arange(len(BETAS))
        answers = [
            jax.vmap(path.log_densities)(states),
            jax.vmap(lambda x: jax.vmap(path.log_density, (None, 0))(x, rungs))(states),
            jax.vmap(path.slopes)(states),
            jax.vmap(path.curvatures)(states),
        ]
    log_f = _log_densities(model, BETAS)
    for answer, expected in zip(answers, (log_f, log_f, *_slopes_and_curvatures(model, BETAS)), strict=True):
        np.testing.assert_allclose(answer, expected, atol=1e-10)


def test_densities_in_float32():
    model, other = _model(), np.linspace(0, 1, 40)
    path = model.path(None, BETAS)
    for betas, seen in ((BETAS, path), (other, path.with_betas(other))):
        states = model.states_of(seen, VISIBLE)
        np.testing.assert_allclose(jax.vmap(seen.log_densities)(states), _log_densities(model, betas), atol=1e-5)
    assert path.num_dims == 5
    features = np.asarray(jax.vmap(path.features)(_states(path, VISIBLE)))
    np.testing.assert_allclose(features @ path.feature_matrix().T, _log_densities(model, BETAS), atol=1e-5)


def test_slopes_are_derivatives_between_knots():
    """By the path's own `log_density`, which knows nothing of rates."""
    path = _model().path(None, BETAS)
    between = [1, 3, 5]
    x = path.state_of(jnp.asarray(VISIBLE[19], jnp.float32))
    for name, tolerance in (("slopes", 1e-5), ("curvatures", 1e-4)):
        ours, plain = getattr(path, name)(x), getattr(tp.AbstractPath, name)(path, x)
        np.testing.assert_allclose(np.asarray(ours)[between], np.asarray(plain)[between], rtol=tolerance)


@pytest.mark.parametrize("num_hidden", [1, 99, 100, 101, 730])
def test_softplus_by_products(num_hidden):
    """However many units: no overflow where all factors are 2, no unit lost or counted twice; float32, 3e-7 of it."""
    rng = np.random.default_rng(num_hidden)
    t = np.concatenate([np.zeros((num_hidden, 1)), rng.normal(0, [0.1, 3, 40], (num_hidden, 3))], axis=1)
    t = t.astype(np.float32)
    expected = np.logaddexp(0, t.astype(np.float64)).sum(axis=0)
    np.testing.assert_allclose(averaged._sum_softplus(jnp.asarray(t.T)), expected, rtol=3e-7, atol=1e-6)


def test_the_ends_are_the_base_and_the_target():
    """Exactly, whatever the knots are; and with no knot between it is the RBM's own path at every rung."""
    model, own = _model(), exact.small_rbm().path(exact.BASE_FREQUENCIES, BETAS)
    expected = np.asarray(exact.log_densities(own))
    path = model.path(None, BETAS)
    log_f = jax.vmap(path.log_densities)(_states(path, VISIBLE))
    np.testing.assert_allclose(log_f[:, [0, -1]], expected[:, [0, -1]], atol=1e-5)
    assert np.abs(log_f - expected)[:, 1:-1].max() > 0.5
    straight = MomentAveragedRBM(exact.small_rbm(), exact.BASE_FREQUENCIES).path(None, BETAS)
    np.testing.assert_allclose(jax.vmap(straight.log_densities)(_states(straight, VISIBLE)), expected, atol=1e-5)
    assert path.log_z_base() == own.log_z_base()
    assert model.quick_log_z() == model.exact_log_z() == exact.small_rbm().exact_log_z()
    np.testing.assert_array_equal(model.log_density(VISIBLE), exact.small_rbm().log_density(VISIBLE))


def _number_of(v) -> np.ndarray:
    return np.asarray(v, np.int64) @ (1 << np.arange(5)[::-1])


_sweep = eqx.filter_jit(jax.vmap(lambda path, rung, key, x: path.gibbs_sweep(key, rung, x), (None, None, 0, 0)))


def _swept(path, rung: int, law: np.ndarray) -> np.ndarray:
    """Counts of v after one sweep from exact draws; the fields that are carried along are right too."""
    rows = np.random.default_rng(rung).choice(32, size=NUM_DRAWS, p=law / law.sum())
    keys = jax.random.split(jax.random.key(rung), NUM_DRAWS)
    moved = _sweep(path, jnp.int32(rung), keys, _states(path, VISIBLE[rows]))
    fields = np.einsum("cv,vkh->ckh", np.asarray(moved.v), np.asarray(path.weights)) + np.asarray(path.hbias)
    np.testing.assert_allclose(moved.fields, fields, atol=1e-5)
    return np.bincount(_number_of(moved.v), minlength=32)


def _law(rung: int) -> np.ndarray:
    log_f = _log_densities(_model(), BETAS)[:, rung]
    return np.exp(log_f - logsumexp(log_f))


@pytest.mark.parametrize("rung", range(len(BETAS)))
def test_sweeps_leave_every_rung_invariant(rung):
    checks.assert_law(_swept(_model().path(None, BETAS), rung, _law(rung)), _law(rung))


@pytest.mark.parametrize(
    ("broken", "rung"), [("no base", 1), ("wrong knot", 3), ("next rung", 5), ("knots elsewhere", 3)]
)
def test_broken_sweeps_are_rejected(broken, rung):
    path = _model().path(None, BETAS)
    if broken == "no base":
        path = eqx.tree_at(lambda p: p.base_logits, path, jnp.zeros(5))
    if broken == "wrong knot":
        path = eqx.tree_at(lambda p: p.vbias, path, jnp.roll(path.vbias, 1, axis=0))
    if broken == "next rung":
        path = eqx.tree_at(lambda p: p.betas, path, jnp.roll(path.betas, 2))
    if broken == "knots elsewhere":
        path = eqx.tree_at(lambda p: p.knot_betas, path, jnp.asarray([0.55, 0.95, 1.0]))
    checks.assert_not_law(_swept(path, rung, _law(rung)), _law(rung))


def test_the_base_is_drawn_exactly():
    path = _model().path(None, BETAS)
    draws = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(3), NUM_DRAWS))
    checks.assert_law(np.bincount(_number_of(draws.v), minlength=32), _law(0))


def test_new_knots_do_not_recompile():
    traces = 0

    @eqx.filter_jit
    def step(path, key, x):
        nonlocal traces
        traces += 1
        return path.log_densities(path.gibbs_sweep(key, jnp.int32(1), x))

    for shift in (0.0, 0.5):
        path = _model(shift).path(None, BETAS)
        step(path, jax.random.key(0), path.sample_base(jax.random.key(1)))
    assert traces == 1


def _exact_moments(weights, vbias, hbias) -> Moments:
    law = np.exp(_exponents(weights, vbias, hbias) - logsumexp(_exponents(weights, vbias, hbias)))
    means = (law.sum(axis=1) @ VISIBLE, law.sum(axis=0) @ HIDDEN, VISIBLE.T @ law @ HIDDEN)
    return Moments(*(jnp.asarray(mean, jnp.float32) for mean in means))


def test_knots_have_averaged_moments():
    """Exact moments in, and the moments of what was trained against the averages, by enumeration.

    A moment averaged over 400 chains × 200 sweeps is off by at most 0.5/√80 000 · √3 = 0.003, with a correlation
    between sweeps of about one half; 0.02 is six times that. Moments of base and target differ by up to 0.4.
    """
    rbm = exact.small_rbm()
    logits = rbm.base_logits(exact.BASE_FREQUENCIES)
    base, target = _exact_moments(np.zeros((5, 3)), logits, np.zeros(3)), _exact_moments(*rbm.on_host())
    places = np.array([0.3, 0.75])
    knots, mismatches = fit_knots(
        jax.random.key(1), jnp.asarray(logits, jnp.float32), target, places, num_chains=400, num_steps=400
    )
    assert np.all(mismatches < 0.04)
    for beta, knot in zip(places, knots, strict=True):
        have = _exact_moments(*(np.asarray(a, np.float64) for a in knot))
        for got, low, high in zip(have, base, target, strict=True):
            np.testing.assert_allclose(got, (1 - beta) * low + beta * high, atol=0.02)
            assert np.abs(got - low).max() > 0.05


@pytest.mark.parametrize("is_annealed", [True, False])
def test_moments_of_the_target(is_annealed):
    """From base draws by annealing, or by sweeps alone. 400 chains × 300 sweeps: 0.015 is six standard errors."""
    rbm = exact.small_rbm()
    target = Parameters(*(jnp.asarray(a, jnp.float32) for a in rbm.on_host()))
    start = Parameters(*(0 * a for a in target)) if is_annealed else target
    v = jnp.asarray(np.random.default_rng(0).integers(0, 2, (400, 5)), jnp.float32)
    moments = target_moments(jax.random.key(2), start, target, v, 900)
    for got, expected in zip(moments, _exact_moments(*rbm.on_host()), strict=True):
        np.testing.assert_allclose(got, expected, atol=0.015)


def test_moments_come_from_annealing_and_not_from_a_quench():
    """Five pairs of bits that copy each other behind a barrier of e⁻¹¹: no sweep at the target moves them.

    Ones have log-odds 2. Started at random they stay at ½; annealed, they follow until they freeze, where the barrier
    is e⁻⁶ or so and the log-odds about 1, and σ(1) = 0.73. The mean of 2000 pairs is known to 0.01.
    """
    target = Parameters(24 * jnp.eye(5), jnp.full(5, -11.0), jnp.full(5, -11.0))
    start = Parameters(*(jnp.zeros_like(a) for a in target))
    v = jnp.asarray(np.random.default_rng(0).integers(0, 2, (400, 5)), jnp.float32)
    annealed = target_moments(jax.random.key(2), start, target, v, 900)
    quenched = target_moments(jax.random.key(2), target, target, v, 900)
    assert 0.65 < np.mean(annealed.v) < 0.88
    assert abs(np.mean(quenched.v) - 0.5) < 0.06


def test_steps_that_are_too_long_are_shortened(monkeypatch):
    """With a first step of 40 a knot is lost; a sixteenth of it finds it."""
    monkeypatch.setattr(moment_matching, "_FIRST_STEP", 40.0)
    rbm = exact.small_rbm()
    args = jax.random.key(1), jnp.zeros(5), _exact_moments(*rbm.on_host()), np.array([0.8])
    _, mismatches = fit_knots(*args, num_chains=200, num_steps=200)
    monkeypatch.setattr(moment_matching, "_MAX_TRIALS", 1)
    _, lost = fit_knots(*args, num_chains=200, num_steps=200)
    assert mismatches[0] < 0.2 < lost[0]


@pytest.mark.parametrize("num_steps", [4, 5])
def test_steps_of_no_length_change_nothing(num_steps):
    """Whether the mean over the second half adds up to one, for an odd number of steps too."""
    start = Parameters(*(jnp.asarray(a, jnp.float32) for a in exact.small_rbm().on_host()))
    wanted, v = _exact_moments(*exact.small_rbm().on_host()), jnp.zeros((3, 5))
    knot, _, _ = moment_matching._matched(jax.random.key(0), start, wanted, v, jnp.zeros(()), num_steps)
    for got, expected in zip(knot, start, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "data", [pytest.param(None, marks=pytest.mark.slow), VISIBLE[[3, 9, 18, 30]]], ids=["annealed", "data"]
)  # the command line's path of averaged moments is annealed
def test_estimates(data):
    rbm = exact.small_rbm()
    fit = {"data": data, "num_knots": 4, "num_chains": 100, "num_steps": 100}
    model, again = (MomentAveragedRBM.fitted(rbm, "uniform", **fit) for _ in range(2))
    for one, other in zip(model.knots, again.knots, strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)
    assert len(model.knots) == len(model.mismatches) == 2
    assert np.all(model.mismatches < 0.2)
    assert np.all(model.mismatches > 0)
    result = tp.estimate(model, data=VISIBLE[:9], num_chains=50, num_sweeps=300, num_rungs=20)
    assert result.exact_log_z == rbm.exact_log_z()
    checks.assert_within(result.log_z, result.exact_log_z, result.std_error)
    assert result.std_error < 0.1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MomentAveragedRBM.fitted(exact.small_rbm(), num_knots=1), "num_knots"),
        (lambda: MomentAveragedRBM.fitted(exact.small_rbm(), num_steps=2), "num_steps"),
        (lambda: MomentAveragedRBM.fitted(exact.small_rbm(), "data"), "uniform"),
        (lambda: MomentAveragedRBM.fitted(exact.small_rbm(), data=np.zeros((0, 5))), "shape"),
        (lambda: MomentAveragedRBM.fitted(exact.small_rbm(), data=np.full((9, 5), 0.5)), "0 and 1"),
        (lambda: MomentAveragedRBM(exact.small_rbm(), knots=[tp.RBM(np.ones((2, 2)), [0, 0], [0, 0])]), "shape"),
        (lambda: MomentAveragedRBM(exact.small_rbm(), knots=[exact.small_rbm()], knot_betas=[1.0]), "knot_betas"),
        (lambda: MomentAveragedRBM(exact.small_rbm(), knots=[], knot_betas=[0.5]), "knot_betas"),
        (lambda: _model().path("uniform", BETAS), "fitted"),
    ],
)
def test_wrong_inputs(make, words):
    with pytest.raises(tp.InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
