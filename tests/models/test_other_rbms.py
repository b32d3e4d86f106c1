"""RBMs over real numbers and over categories: exact answers, invariance with broken twins, and estimates."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from tempering.ladder import AbstractPath
from tempering.models import CategoricalRBM, GaussianRBM
from tempering.models.rbm import arrays

BETAS = np.array([0.0, 0.4, 1.0])
MANY = np.linspace(0, 1, 100)
NUM_DRAWS = 20_000
CATEGORIES = np.array(list(itertools.product(range(3), repeat=3)))  # of three units with three categories each
HIDDEN = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
DATA = CATEGORIES[[0, 4, 5, 13, 25]]


def _categorical() -> CategoricalRBM:
    rng = np.random.default_rng(5)
    return CategoricalRBM(rng.normal(0, 1.1, (3, 3, 2)), rng.normal(0.2, 0.7, (3, 3)), [0.6, -0.9])


def _gaussian() -> GaussianRBM:
    return GaussianRBM([[0.8, -0.5], [-0.4, 1.1]], [0.3, -0.6], [0.7, -0.2], [0.8, 1.3])


def _joint(rbm: CategoricalRBM) -> np.ndarray:
    """log f(v, h) of all (v, h), term by term."""
    return np.array(
        [
            [sum(rbm.vbias[i, k] + rbm.weights[i, k] @ h for i, k in enumerate(v)) + h @ rbm.hbias for h in HIDDEN]
            for v in CATEGORIES
        ]
    )


def _log_densities(rbm: CategoricalRBM, path) -> np.ndarray:
    """(v, rung) with h summed out one by one."""
    betas, logits = np.asarray(path.betas, np.float64), np.asarray(path.base_logits, np.float64)
    base = np.array([sum(logits[i, k] for i, k in enumerate(v)) for v in CATEGORIES])
    mixed = (1 - betas) * base[:, None, None] + betas * _joint(rbm)[:, :, None]
    return logsumexp(mixed, axis=1)


def _laws(rbm: CategoricalRBM, path) -> np.ndarray:
    log_f = _log_densities(rbm, path)
    return np.exp(log_f - logsumexp(log_f, axis=0))


@eqx.filter_jit
def _told(path, states):
    """What a path says of each state: log f at all rungs and one by one, and features."""

    def of_one(x):
        one_by_one = jax.vmap(lambda rung: path.log_density(x, rung))(jnp.arange(path.num_rungs))
        return path.log_densities(x), one_by_one, path.features(x)

    return jax.vmap(of_one)(states)


def _identities(path, states, expected: np.ndarray, tolerance: float) -> None:
    """All ways to ask a path for log f, its slopes and its features agree."""
    log_f, one_by_one, features = _told(path, states)
    np.testing.assert_allclose(log_f, expected, atol=tolerance)
    np.testing.assert_allclose(one_by_one, expected, atol=tolerance)
    from_features = np.asarray(features, np.float64) @ path.feature_matrix().T
    np.testing.assert_allclose(from_features - from_features[:, :1], expected - expected[:, :1], atol=tolerance)


@pytest.mark.parametrize(
    ("base", "betas"),
    [("uniform", BETAS), ("bias", BETAS), (DATA, BETAS), (DATA, MANY)],
    ids=["uniform", "bias", "data", "data, 100 rungs"],
)
def test_categorical_log_densities(base, betas):
    rbm = _categorical()
    path = rbm.path(base, betas)
    assert path.sums is not None
    states = rbm.states_of(path, CATEGORIES)
    expected = _log_densities(rbm, path)
    _identities(path, states, expected, 5e-6)
    _identities(eqx.tree_at(lambda p: p.sums, path, None), states, expected, 5e-6)
    np.testing.assert_allclose(rbm.log_density(CATEGORIES), expected[:, -1], atol=1e-12)
    assert path.log_z_base() == pytest.approx(logsumexp(expected[:, 0]), abs=1e-5)  # logits are float32
    slopes = (expected[:, 2:] - expected[:, :-2]) / (betas[2:] - betas[:-2])
    if len(betas) == 100:
        np.testing.assert_allclose(jax.vmap(path.slopes)(states)[:, 1:-1], slopes, atol=2e-3)
    np.testing.assert_allclose(
        path.with_betas(betas).log_densities(jax.tree.map(lambda a: a[7], states)), expected[7], atol=5e-6
    )


def test_categorical_base_from_data_is_smoothed():
    weights = np.exp(_categorical().base_logits(DATA))
    counted = np.array([[np.mean(DATA[:, i] == k) for k in range(3)] for i in range(3)])
    np.testing.assert_allclose(weights, 0.98 * counted + 0.02 / 3, atol=1e-12)


@pytest.mark.parametrize("shift", [-5.0, 5.0])
def test_the_largest_categorical_field_is_reached(shift):
    """Either end: the sums over hidden units are right up to there only."""
    rbm = eqx.tree_at(lambda r: r.hbias, _categorical(), np.array([0.6, -0.9]) + shift)
    fields = np.eye(3)[CATEGORIES].reshape(27, 9) @ rbm.weights.reshape(9, 2) + rbm.hbias
    assert rbm.largest_field() == pytest.approx(np.abs(fields).max(), abs=1e-12)


def test_categorical_exact_log_z():
    rbm = _categorical()
    assert rbm.exact_log_z() == pytest.approx(logsumexp(_joint(rbm)), abs=1e-10)
    assert rbm.quick_log_z() == pytest.approx(logsumexp(_joint(rbm)), abs=1e-10)


def test_two_categories_are_a_binary_rbm():
    """With categories off and on, and nothing for off; 12 hidden units, so that patterns come in several tables."""
    rng = np.random.default_rng(1)
    weights, vbias, hbias = rng.normal(0, 1, (7, 12)), rng.normal(size=7), rng.normal(size=12)
    off_and_on = np.stack([np.zeros((7, 12)), weights], axis=1), np.stack([np.zeros(7), vbias], axis=1)
    rbm = CategoricalRBM(*off_and_on, hbias)
    assert rbm.exact_log_z() == pytest.approx(tp.RBM(weights, vbias, hbias).exact_log_z(), abs=1e-10)


@eqx.filter_jit
def _sweep(path, rung, keys, states):
    return jax.vmap(lambda key, x: path.gibbs_sweep(key, rung, x))(keys, states)


def _numbers(v) -> np.ndarray:
    return np.asarray(v, np.int64) @ np.array([9, 3, 1])


def _swept(rbm: CategoricalRBM, path, rung: int, law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    before = np.random.default_rng(rung).choice(27, size=NUM_DRAWS, p=law)
    states = rbm.states_of(path, CATEGORIES[before])
    moved = _sweep(path, jnp.int32(rung), jax.random.split(jax.random.key(rung), NUM_DRAWS), states)
    field = np.eye(3)[np.asarray(moved.v)].reshape(NUM_DRAWS, 9) @ np.asarray(path.weights).reshape(9, 2)
    np.testing.assert_allclose(moved.field, field + np.asarray(path.hbias), atol=1e-5)
    return before, _numbers(moved.v)


@pytest.mark.parametrize("rung", [0, 1, 2])
def test_categorical_sweeps_leave_every_rung_invariant(rung):
    """And are reversible: pairs (before, after) follow a symmetric law, that of going through h and back."""
    rbm = _categorical()
    path = rbm.path(DATA, BETAS)
    law = _laws(rbm, path)[:, rung]
    before, after = _swept(rbm, path, rung, law)
    checks.assert_law(np.bincount(after, minlength=27), law)
    logits = np.asarray(path.base_logits, np.float64)
    base = np.array([sum(logits[i, k] for i, k in enumerate(v)) for v in CATEGORIES])
    joint = np.exp(BETAS[rung] * _joint(rbm) + (1 - BETAS[rung]) * base[:, None])
    joint /= joint.sum()
    flow = joint @ (joint / joint.sum(axis=0)).T  # Σ_h p(v, h) p(v′ | h)
    np.testing.assert_allclose(flow, flow.T, atol=1e-14)
    checks.assert_law(np.bincount(before * 27 + after, minlength=27**2), flow)


@pytest.mark.parametrize("broken", ["no base", "weights without beta", "no hidden bias"])
def test_broken_categorical_sweeps_are_rejected(broken):
    rbm = _categorical()
    path = rbm.path(DATA, BETAS)
    law = _laws(rbm, path)[:, 1]
    if broken == "no base":
        path = eqx.tree_at(lambda p: p.base_logits, path, jnp.zeros((3, 3)))
    if broken == "weights without beta":
        path = eqx.tree_at(lambda p: p.weights, path, path.weights / BETAS[1])
    if broken == "no hidden bias":
        path = eqx.tree_at(lambda p: p.hbias, path, jnp.zeros(2) - 2)
    checks.assert_not_law(np.bincount(_swept(rbm, path, 1, law)[1], minlength=27), law)


def test_the_categorical_base_is_drawn_exactly():
    rbm = _categorical()
    path = rbm.path(DATA, BETAS)
    draws = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(3), NUM_DRAWS))
    checks.assert_law(np.bincount(_numbers(draws.v), minlength=27), _laws(rbm, path)[:, 0])


def _gaussian_log_joint(rbm: GaussianRBM, v: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Term by term, of rows v and one h."""
    total = np.full(len(v), h @ rbm.hbias)
    for i, sigma in enumerate(rbm.sigmas):
        total += -((v[:, i] - rbm.vbias[i]) ** 2) / (2 * sigma**2) + v[:, i] * (rbm.weights[i] @ h) / sigma**2
    return total


def _gaussian_log_densities(rbm: GaussianRBM, mean, variance, betas, v: np.ndarray) -> np.ndarray:
    base = -((v - mean) ** 2 / (2 * variance)).sum(axis=1)
    joint = np.stack([_gaussian_log_joint(rbm, v, h) for h in HIDDEN], axis=1)
    return logsumexp((1 - betas) * base[:, None, None] + betas * joint[:, :, None], axis=1)


ROWS = np.random.default_rng(2).normal([0.5, -1.0], [0.7, 2.0], (40, 2))


@pytest.mark.parametrize(
    ("base", "betas"),
    [(None, BETAS), (ROWS, BETAS), (ROWS, MANY), (tp.Normal([0.2, 0.1], [1.5, 0.7]), BETAS)],
    ids=["own", "data", "data, 100 rungs", "normal"],
)
def test_gaussian_log_densities(base, betas):
    rbm = _gaussian()
    path, (mean, variance) = rbm.path(base, betas), rbm.base_moments(base)
    assert path.sums is not None
    states = rbm.states_of(path, ROWS)
    expected = _gaussian_log_densities(rbm, mean, variance, betas, ROWS)
    _identities(path, states, expected, 2e-5)
    _identities(eqx.tree_at(lambda p: p.sums, path, None), states, expected, 2e-5)
    np.testing.assert_allclose(rbm.log_density(ROWS), expected[:, -1], atol=1e-12)
    np.testing.assert_allclose(
        path.with_betas(betas).log_densities(jax.tree.map(lambda a: a[7], states)), expected[7], atol=2e-5
    )
    assert path.log_z_base() == pytest.approx(np.log(2 * np.pi) + np.log(variance).sum() / 2 + 2 * np.log(2), abs=1e-5)


@pytest.mark.parametrize("betas", [BETAS, MANY], ids=["3 rungs", "100 rungs"])
@pytest.mark.parametrize("kind", ["binary", "gaussian", "categorical", "gaussian, large fields"])
def test_fast_slopes_and_curvatures_are_the_plain_derivatives(kind, betas):
    """Against jax.jvp of the log density. Kills: slopes of another rung, a missing visible part, and, for a Gaussian
    RBM, derivatives at β = 0 that stop growing where the basis ends, which is at fields of 42 for 3 rungs."""
    rbm, base, rows = {
        "binary": lambda: (exact.small_rbm(), exact.BASE_FREQUENCIES, exact.patterns(5)),
        "gaussian": lambda: (_gaussian(), ROWS, ROWS),
        "categorical": lambda: (_categorical(), DATA, CATEGORIES),
        "gaussian, large fields": lambda: (GaussianRBM([[80.0, -5.0], [-4.0, 61.0]], [0.3, 0.6], [1, -2]), ROWS, ROWS),
    }[kind]()
    path = rbm.path(base, betas)
    assert path.sums is not None
    states = rbm.states_of(path, rows)
    field = np.abs(np.asarray(states.field, np.float64))
    plain = jax.jit(jax.vmap(lambda x: (AbstractPath.slopes(path, x), AbstractPath.curvatures(path, x))))(states)
    found = jax.jit(jax.vmap(lambda x: (path.slopes(x), path.curvatures(x))))(states)
    # The basis is made for values: its derivatives are off by up to 1e-4 and 0.02 a unit here, float32 by 1e-6 of |a|.
    sizes = np.abs(np.asarray(plain[0])).max(axis=1, keepdims=True) + field.sum(axis=1, keepdims=True)
    assert np.all(np.abs(found[0] - plain[0]) < 2e-4 + 2e-6 * sizes)
    assert np.all(np.abs(found[1] - plain[1]) < 0.05 + 2e-4 * (field**2).sum(axis=1, keepdims=True))


def test_gaussian_base_from_data():
    rbm = _gaussian()
    mean, variance = rbm.base_moments(ROWS)
    np.testing.assert_allclose(mean, ROWS.mean(axis=0))
    np.testing.assert_allclose(variance, 0.98 * ROWS.var(axis=0) + 0.02 * rbm.sigmas**2)


def test_sums_hold_for_fields_of_any_size():
    """A Gaussian unit can be anywhere: log f is right at fields of 0, of 10⁵, and in between."""
    sums = arrays.sums_for_any_field(MANY)
    assert sums is not None
    fields = np.concatenate([np.linspace(0, 40, 200), np.geomspace(40, 1e5, 300)])
    modes = jax.vmap(lambda a: sums.modes(a[None]))(jnp.asarray(fields, jnp.float32))
    values = np.asarray(modes, np.float64) @ np.asarray(sums.expand, np.float64).T
    np.testing.assert_allclose(values, np.log1p(np.exp(-np.outer(fields, MANY))), atol=1e-6)
    assert arrays.sums_for_any_field(np.linspace(0, 1, 1000)) is None  # the plain way, not a wrong one


def test_gaussian_exact_log_z():
    """Against numerical integration of the density with h summed out."""
    rbm = _gaussian()
    x, y = np.arange(-8, 9, 0.05), np.arange(-13, 14, 0.05)  # equal steps are exact to rounding for smooth densities
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    log_f = _gaussian_log_densities(rbm, 0.0, 1.0, np.ones(1), grid)
    assert rbm.exact_log_z() == pytest.approx(logsumexp(log_f) + 2 * np.log(0.05), abs=1e-10)
    assert rbm.quick_log_z() == rbm.exact_log_z()


def _gaussian_cells(rbm: GaussianRBM, path, rung: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Given h the tempered law is normal: weights of each h, and means and deviations of v."""
    beta, mean, precision = BETAS[rung], np.asarray(path.base_mean), np.asarray(path.base_precisions)
    total = (1 - beta) * precision + beta / rbm.sigmas**2
    linear = (1 - beta) * precision * mean + beta * (rbm.vbias + HIDDEN @ rbm.weights.T) / rbm.sigmas**2
    log_weights = beta * HIDDEN @ rbm.hbias + (linear**2 / (2 * total)).sum(axis=1)
    return np.exp(log_weights - logsumexp(log_weights)), linear / total, total**-0.5


EDGES = np.linspace(-4, 4, 9)


def _cell_law(weights: np.ndarray, centers: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Probabilities of a grid of cells of v, the outer ones infinite."""
    cuts = np.concatenate([[-np.inf], EDGES, [np.inf]])
    across = np.diff(stats.norm.cdf(cuts, centers[:, :, None], spread[:, None]), axis=2)  # (h, unit, cell)
    return np.einsum("h,hi,hj->ij", weights, across[:, 0], across[:, 1])


def _cells(v: np.ndarray) -> np.ndarray:
    places = np.searchsorted(EDGES, v)
    return np.bincount(places[:, 0] * 10 + places[:, 1], minlength=100)


def _swept_gaussian(rbm: GaussianRBM, path, rung: int, parts) -> np.ndarray:
    weights, centers, spread = parts
    rng = np.random.default_rng(rung)
    which = rng.choice(4, size=NUM_DRAWS, p=weights)
    start = centers[which] + spread * rng.normal(size=(NUM_DRAWS, 2))
    states = rbm.states_of(path, start)
    moved = _sweep(path, jnp.int32(rung), jax.random.split(jax.random.key(rung), NUM_DRAWS), states)
    return np.asarray(moved.v)


@pytest.mark.parametrize("rung", [0, 1, 2])
def test_gaussian_sweeps_leave_every_rung_invariant(rung):
    rbm = _gaussian()
    path = rbm.path(ROWS, BETAS)
    parts = _gaussian_cells(rbm, path, rung)
    checks.assert_law(_cells(_swept_gaussian(rbm, path, rung, parts)), _cell_law(*parts))


@pytest.mark.parametrize("broken", ["base precision", "hidden field", "sigma of the model"])
def test_broken_gaussian_sweeps_are_rejected(broken):
    rbm = _gaussian()
    path = rbm.path(ROWS, BETAS)
    parts = _gaussian_cells(rbm, path, 1)
    if broken == "base precision":
        path = eqx.tree_at(lambda p: p.base_precisions, path, path.base_precisions**-1)
    if broken == "hidden field":
        path = eqx.tree_at(lambda p: p.hbias, path, path.hbias - 4)
    if broken == "sigma of the model":
        path = eqx.tree_at(lambda p: p.precisions, path, jnp.sqrt(path.precisions))
    checks.assert_not_law(_cells(_swept_gaussian(rbm, path, 1, parts)), _cell_law(*parts))


def test_the_gaussian_base_is_drawn_exactly():
    rbm = _gaussian()
    path = rbm.path(ROWS, BETAS)
    draws = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(3), NUM_DRAWS))
    checks.assert_law(_cells(np.asarray(draws.v)), _cell_law(*_gaussian_cells(rbm, path, 0)))


@pytest.mark.parametrize(
    ("make", "data"), [(_gaussian, ROWS), pytest.param(_categorical, DATA, marks=pytest.mark.slow)]
)
def test_estimates_and_likelihoods(make, data):
    """In one call, with data; |z| > 5 once in 10⁶ runs or less."""
    rbm = make()
    result = tp.estimate(rbm, data=data, num_chains=50, num_sweeps=300, num_rungs=30)
    assert result.exact_log_z == rbm.exact_log_z()
    checks.assert_within(result.log_z, result.exact_log_z, result.std_error, most=5)
    assert result.std_error < 0.1
    assert result.mean_log_likelihood is not None
    exact = rbm.log_density(data).mean() - rbm.exact_log_z()
    checks.assert_within(result.mean_log_likelihood.value, exact, result.mean_log_likelihood.std_error, most=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianRBM(np.ones(3), np.ones(3), np.ones(1)), "visible, hidden"),
        (lambda: GaussianRBM(np.ones((3, 2)), np.ones(2), np.ones(2)), "vbias"),
        (lambda: GaussianRBM(np.ones((3, 2)), np.ones(3), np.ones(2), [1.0, 0.0, 1.0]), "positive"),
        (lambda: GaussianRBM(np.full((3, 2), np.nan), np.ones(3), np.ones(2)), "finite"),
        (lambda: _gaussian().path("uniform", BETAS), "rows of data"),
        (lambda: _gaussian().path(tp.Normal(np.zeros(3)), BETAS), "independent normals"),
        (lambda: _gaussian().log_density(np.full((2, 2), np.inf)), "finite real"),
        (lambda: _gaussian().log_density(np.zeros((2, 3))), "shape"),
        (lambda: CategoricalRBM(np.ones((3, 2)), np.ones(3), np.ones(2)), "visible, category, hidden"),
        (lambda: CategoricalRBM(np.ones((3, 2, 4)), np.ones((3, 3)), np.ones(4)), "vbias"),
        (lambda: _categorical().path("field", BETAS), "uniform"),
        (lambda: _categorical().log_density(np.full((2, 3), 3)), "0 to 2"),
        (lambda: _categorical().log_density(np.zeros((2, 4), int)), "shape"),
        (lambda: _categorical().exact_log_z(max_hidden=1), "max_hidden"),
        (lambda: tp.RBM(np.zeros((0, 3)), np.zeros(0), np.zeros(3)), "units on every axis"),
        (lambda: CategoricalRBM(np.zeros((2, 0, 3)), np.zeros((2, 0)), np.zeros(3)), "units on every axis"),
    ],
)
def test_wrong_inputs(make, message):
    with pytest.raises(tp.InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
