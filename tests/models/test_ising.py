"""Spins, bits and colours: exact answers against plain enumeration, and the Gibbs sweep against its exact matrix."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.special import logsumexp

import checks
import tempering as tp
from tempering.models import BoltzmannMachine, Ising, Potts
from tempering.models.pairwise import pair_path
from tempering.models.pairwise.elimination import log_z_by_elimination
from tempering.models.pairwise.graph import Graph, checked_graph, colour_classes, find_torus, square_edges
from tempering.models.pairwise.kaufman import kaufman_log_z

BETAS = np.array([0.0, 0.4, 1.0])
EDGES = np.array([[0, 1], [2, 1], [0, 2], [3, 2], [3, 4]])  # a triangle with a tail: three classes, unequal ones
COUPLINGS = np.array([0.9, -0.6, 0.4, 1.1, -0.8])
FIELDS = np.array([0.3, -0.7, 0.2, 0.5, -0.4])
CRITICAL = np.log1p(np.sqrt(2)) / 2
NUM_DRAWS = 20_000


def _ising():
    return Ising(COUPLINGS, FIELDS, edges=EDGES)


def _machine():
    return BoltzmannMachine(COUPLINGS, FIELDS, edges=EDGES)


def _potts():
    fields = np.random.default_rng(3).normal(0, 0.6, (4, 3))
    return Potts(3, [0.9, -0.6, 0.7, 1.2], fields, edges=EDGES[:4])


MODELS = {"ising": (_ising, np.linspace(-0.6, 0.5, 5)), "machine": (_machine, np.array([0.2, 0.7, 0.6, 0.35, 0.9]))}
MODELS["potts"] = (_potts, np.random.default_rng(4).normal(0, 0.5, (4, 3)))


def _patterns(model) -> np.ndarray:
    return np.array(list(itertools.product(model.values, repeat=model.num_sites)))


def _log_f(model, x: np.ndarray) -> float:
    """Written out pair by pair, independently of the package."""
    pair = (lambda a, b: float(a == b)) if isinstance(model, Potts) else (lambda a, b: float(a * b))
    alone = (lambda i: model.fields[i, x[i]]) if isinstance(model, Potts) else (lambda i: model.fields[i] * x[i])
    bonds = sum(k * pair(x[i], x[j]) for (i, j), k in zip(model.edges, model.couplings, strict=True))
    return bonds + sum(alone(i) for i in range(model.num_sites))


def _log_base(model, path, x: np.ndarray) -> float:
    h = np.asarray(path.base.fields, np.float64)
    return sum(h[i, v] if isinstance(model, Potts) else h[i, 0] * v for i, v in enumerate(x))


def _log_densities(model, path) -> np.ndarray:
    """(state, rung)."""
    betas = np.asarray(path.betas, np.float64)
    ends = np.array([[_log_f(model, x), _log_base(model, path, x)] for x in _patterns(model)])
    return ends @ np.stack([betas, 1 - betas])


def _laws(model, path) -> np.ndarray:
    log_f = _log_densities(model, path)
    return np.exp(log_f - logsumexp(log_f, axis=0))


def _sweep_matrix(model, path, rung: int, tour: list[list[int]]) -> np.ndarray:
    """The exact transition matrix of redrawing classes of sites in a row, from the law alone."""
    law, states = _laws(model, path)[:, rung], _patterns(model)
    matrix = np.eye(len(states))
    for sites in tour:
        others = np.delete(np.arange(model.num_sites), sites)
        same = (states[:, None, others] == states[None, :, others]).all(axis=2)
        given = same * law
        matrix = matrix @ (given / given.sum(axis=1, keepdims=True))
    return matrix


def _there_and_back(model) -> list[list[int]]:
    classes = colour_classes(model.graph)
    return [*classes, *classes[-2::-1]]


@pytest.fixture(params=["dense", "sparse"])
def layout(request, monkeypatch):
    if request.param == "sparse":
        monkeypatch.setattr(pair_path, "_DENSE_BELOW", 0)
    return request.param


@pytest.fixture(params=MODELS)
def case(request, layout):
    model, base = MODELS[request.param][0](), MODELS[request.param][1]
    path = model.path(base, BETAS)
    assert isinstance(path.bonds, pair_path.DenseBonds if layout == "dense" else pair_path.SparseBonds)
    return model, path


def _as_states(model, rows: np.ndarray):
    return model.states_of(model.path(None, BETAS), rows)


@eqx.filter_jit
def _told(path, states):
    """All that a path says of each state: log f at all rungs and one by one, slopes, features, curvatures."""

    def of_one(x):
        one_by_one = jax.vmap(lambda rung: path.log_density(x, rung))(jnp.arange(3))
        return path.log_densities(x), one_by_one, path.slopes(x), path.features(x), path.curvatures(x)

    return jax.vmap(of_one)(states)


def test_log_densities_slopes_and_features(case):
    """Kills: a bond counted twice, φ of the wrong end, padding that interacts, fields in the order of the classes."""
    model, path = case
    states = _as_states(model, _patterns(model))
    expected = _log_densities(model, path)
    log_f, one_by_one, slopes, features, curvatures = _told(path, states)
    np.testing.assert_allclose(log_f, expected, atol=2e-6)
    np.testing.assert_allclose(one_by_one, expected, atol=2e-6)
    rise = expected[:, 2] - expected[:, 0]
    np.testing.assert_allclose(slopes, np.repeat(rise[:, None], 3, 1), atol=4e-6)
    from_features = np.asarray(features, np.float64) @ path.feature_matrix().T
    np.testing.assert_allclose(from_features - from_features[:, :1], expected - expected[:, :1], atol=4e-6)
    np.testing.assert_allclose(curvatures, 0)
    np.testing.assert_allclose(model.log_density(_patterns(model)), expected[:, 2], atol=1e-12)
    np.testing.assert_allclose(path.log_z_base(), logsumexp(expected[:, 0]), atol=1e-10)
    finer = path.with_betas(np.linspace(0, 1, 7))
    np.testing.assert_allclose(finer.log_densities(states[3])[jnp.array([0, 6])], expected[3, [0, 2]], atol=2e-6)


@eqx.filter_jit
def _sweep(path, rung, keys, states):
    return jax.vmap(lambda key, x: path.gibbs_sweep(key, rung, x))(keys, states)


def _moved(path, model, rung: int, rows: np.ndarray, seed: int) -> np.ndarray:
    """The numbers of the states after one sweep, from those before."""
    keys = jax.random.split(jax.random.key(seed), len(rows))
    after = _sweep(path, jnp.int32(rung), keys, _as_states(model, _patterns(model)[rows]))
    return _numbers(model, np.asarray(after).astype(int))


def _numbers(model, states: np.ndarray) -> np.ndarray:
    places = np.searchsorted(model.values, states)
    return places @ (len(model.values) ** np.arange(model.num_sites)[::-1])


def _draw(law: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(law.size, size=NUM_DRAWS, p=law)


def _flow_counts(before: np.ndarray, after: np.ndarray, num_states: int) -> np.ndarray:
    return np.bincount(before * num_states + after, minlength=num_states**2)


@pytest.mark.parametrize("rung", [0, 1, 2])
def test_a_sweep_follows_its_exact_matrix(case, rung):
    """Pairs (before, after) from exact draws: sees more than that the law stays."""
    model, path = case
    law = _laws(model, path)[:, rung]
    before = _draw(law, rung)
    after = _moved(path, model, rung, before, seed=rung)
    checks.assert_law(np.bincount(after, minlength=len(law)), law)
    flow = law[:, None] * _sweep_matrix(model, path, rung, _there_and_back(model))
    checks.assert_law(_flow_counts(before, after, len(law)), flow)


@pytest.mark.parametrize("name", MODELS)
def test_the_sweep_is_reversible_and_one_way_is_not(name):
    """Annealing downwards needs it, whatever the temperature."""
    make, base = MODELS[name]
    model, path = make(), make().path(base, BETAS)
    for rung in (1, 2):
        law = _laws(model, path)[:, rung]
        flow = law[:, None] * _sweep_matrix(model, path, rung, _there_and_back(model))
        np.testing.assert_allclose(flow, flow.T, atol=1e-14)
        np.testing.assert_allclose(flow.sum(axis=0), law, atol=1e-14)
        one_way = law[:, None] * _sweep_matrix(model, path, rung, colour_classes(model.graph))
        np.testing.assert_allclose(one_way.sum(axis=0), law, atol=1e-14)
        assert np.abs(one_way - one_way.T).max() > 1e-4


def test_a_sweep_one_way_would_be_seen():
    """The broken twin of the test of the exact matrix."""
    model = _ising()
    path = model.path(None, BETAS)
    law = _laws(model, path)[:, 2]
    before = _draw(law, 5)
    after = _moved(path, model, 2, before, seed=5)
    one_way = law[:, None] * _sweep_matrix(model, path, 2, colour_classes(model.graph))
    checks.assert_not_law(_flow_counts(before, after, len(law)), one_way)


def _all_at_once(graph: Graph) -> list[list[int]]:
    return [list(range(graph.num_sites))]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("broken", ["neighbours together", "no base", "bonds without beta"])
def test_broken_sweeps_are_rejected(name, broken, monkeypatch):
    make, base = MODELS[name]
    model = make()
    if broken == "neighbours together":
        monkeypatch.setattr(pair_path, "colour_classes", _all_at_once)
    path = model.path(base, BETAS)
    law = _laws(model, path)[:, 1]
    if broken == "no base":
        path = eqx.tree_at(lambda p: p.base.fields, path, jnp.zeros_like(path.base.fields))
    if broken == "bonds without beta":
        path = eqx.tree_at(lambda p: p.bonds.matrix, path, path.bonds.matrix / BETAS[1])
    after = _moved(path, model, 1, _draw(law, 8), seed=8)
    checks.assert_not_law(np.bincount(after, minlength=len(law)), law)


@pytest.mark.parametrize("name", MODELS)
def test_the_base_is_drawn_exactly(name):
    make, base = MODELS[name]
    model, path = make(), make().path(base, BETAS)
    draws = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(3), NUM_DRAWS))
    assert draws.dtype == (jnp.int32 if name == "potts" else jnp.float32)
    law = _laws(model, path)[:, 0]
    checks.assert_law(np.bincount(_numbers(model, np.asarray(draws).astype(int)), minlength=len(law)), law)


@pytest.mark.parametrize("name", MODELS)
def test_bases_by_name_and_from_data(name):
    model = MODELS[name][0]()
    own = "bias" if name == "machine" else "field"
    shape = (model.num_sites, -1)
    np.testing.assert_array_equal(model.base_fields("uniform"), 0)
    np.testing.assert_allclose(model.base_fields(own), model.fields.reshape(shape))
    data = _patterns(model)[[0, 1, 5, 7, 11]]
    sites = model.sites(jnp.asarray(model.base_fields(data), jnp.float32))
    means = np.array([[np.mean(row == value) for value in model.values] for row in data.T])
    weights = np.exp(model.base_fields(data) @ model.codes.T)
    expected = 0.98 * means + 0.02 / len(model.values)
    np.testing.assert_allclose(weights / weights.sum(axis=1, keepdims=True), expected, atol=1e-12)
    assert sites.log_z() == pytest.approx(np.log(weights.sum(axis=1)).sum(), abs=1e-5)


def _brute(model) -> float:
    return float(logsumexp([_log_f(model, x) for x in _patterns(model)]))


def _elimination(model) -> float:
    return log_z_by_elimination(model.graph, *model._tables())


@pytest.mark.parametrize("name", MODELS)
def test_exact_log_z_of_small_graphs(name):
    model = MODELS[name][0]()
    exact = pytest.approx(_brute(model), abs=1e-10)
    assert model.exact_log_z() == exact
    assert model.quick_log_z() == exact


@pytest.mark.parametrize("sides", [(2, 2), (2, 3), (3, 2), (3, 4), (4, 3)])
@pytest.mark.parametrize("coupling", [0.0, 1e-5, 0.25, CRITICAL, 1.3, -0.5])
def test_the_torus_three_ways(sides, coupling):
    """Kaufman, transfer matrix and enumeration. Kills: the sign of γ_0, rows for columns, odd for even products."""
    model = Ising.square(*sides, coupling)
    exact = pytest.approx(_brute(model), abs=1e-10)
    assert _elimination(model) == exact
    assert model.quick_log_z() == exact
    known = kaufman_log_z(*sides, coupling)
    if coupling < 0 and (sides[0] % 2 or sides[1] % 2):
        assert known is None
    else:
        assert known == exact


@pytest.mark.parametrize("sides", [(5, 30), (30, 5), (6, 11)])
@pytest.mark.parametrize("coupling", [0.3, CRITICAL, 0.8])
def test_strips_by_transfer_matrix_and_kaufman(sides, coupling):
    assert _elimination(Ising.square(*sides, coupling)) == pytest.approx(kaufman_log_z(*sides, coupling), abs=1e-10)


@pytest.mark.parametrize("periodic", [False, (True, False), (False, True), True])
def test_strips_with_fields_and_colours(periodic):
    """Free and periodic sides, against enumeration."""
    fields = np.linspace(-0.5, 0.6, 12)
    ising = Ising.square(3, 4, 0.45, field=fields, periodic=periodic)
    assert ising.quick_log_z() == pytest.approx(_brute(ising), abs=1e-10)
    potts = Potts.square(3, 2, 3, 0.7, field=[0.2, -0.3, 0.6], periodic=periodic)
    assert potts.quick_log_z() == pytest.approx(_brute(potts), abs=1e-10)
    assert len(ising.edges) == 17 + (4 if periodic in (True, (True, False)) else 0) + (
        3 if periodic in (True, (False, True)) else 0
    )


def test_two_colours_are_spins():
    """δ(s, t) = (1 + st)/2, so that Potts with q = 2 at 2K is Ising at K, up to K a bond."""
    potts, ising = Potts.square(2, 4, 7, 0.8), Ising.square(4, 7, 0.4)
    assert potts.quick_log_z() == pytest.approx(ising.quick_log_z() + 0.4 * 56, abs=1e-10)


def test_a_large_torus_tends_to_onsager():
    """log Z / N, away from the critical point; the ordered phase adds log 2."""
    for coupling, degeneracy in ((0.3, 1), (0.6, 2)):
        k = 2 * np.sinh(2 * coupling) / np.cosh(2 * coupling) ** 2
        inside = integrate.quad(lambda t, k=k: np.log((1 + np.sqrt(1 - (k * np.sin(t)) ** 2)) / 2), 0, np.pi / 2)[0]
        per_site = np.log(2 * np.cosh(2 * coupling)) + inside / np.pi
        expected = 200 * 240 * per_site + np.log(degeneracy)
        assert kaufman_log_z(200, 240, coupling) == pytest.approx(expected, abs=1e-6)


def test_kaufman_at_its_extremes():
    """A cold lattice is its two ordered states; the two formulas for it meet; signs do not matter on even sides."""
    assert kaufman_log_z(6, 4, 500.0) == pytest.approx(np.log(2) + 2 * 24 * 500.0)
    assert kaufman_log_z(6, 4, 99.9) == pytest.approx(np.log(2) + 2 * 24 * 99.9, rel=1e-14)
    assert kaufman_log_z(6, 4, -0.37) == kaufman_log_z(6, 4, 0.37)
    assert kaufman_log_z(64, 48, 1e-9) == pytest.approx(64 * 48 * np.log(2), abs=1e-8)


def test_the_torus_is_recognised_whoever_built_it():
    square = Ising.square(4, 6, 0.3)
    assert find_torus(Ising(0.3, edges=square_edges(4, 6, True)).graph) == (4, 6, 0.3)
    assert find_torus(Ising.square(2, 5, 0.3).graph) == (2, 5, 0.3)
    assert find_torus(Ising.square(4, 6, 0.3, periodic=(True, False)).graph) is None
    assert find_torus(_with_one_weak_bond(square)) is None
    with_field = Ising.square(2, 3, 0.3, field=0.2)
    assert with_field.quick_log_z() == pytest.approx(_brute(with_field), abs=1e-10)


def _with_one_weak_bond(model: Ising) -> Graph:
    couplings = model.couplings.copy()
    couplings[7] = 0.1
    return Graph(model.num_sites, model.edges, couplings)


def test_wide_graphs_have_no_quick_answer():
    wide = Ising.square(16, 16, 0.4, field=0.1)
    assert wide.quick_log_z() is None
    with pytest.raises(tp.InputError, match="too wide"):
        wide.exact_log_z()


def test_classes_hold_no_neighbours_and_lattices_have_two():
    """Even sides need two classes, an odd periodic one three; a complete graph one for each site."""
    for graph, expected in (
        (Ising.square(6, 8, 1.0).graph, 2),
        (Ising.square(5, 7, 1.0, periodic=False).graph, 2),
        (Ising.square(5, 6, 1.0).graph, None),
        (Ising(np.ones((6, 6)) - np.eye(6)).graph, 6),
        (Ising(0.5, np.zeros(4), edges=np.zeros((0, 2), int)).graph, 1),
    ):
        classes = colour_classes(graph)
        colour = {site: c for c, sites in enumerate(classes) for site in sites}
        assert sorted(colour) == list(range(graph.num_sites))
        assert all(colour[i] != colour[j] for i, j in graph.edges.tolist())
        assert len(classes) == expected or expected is None
        assert len(classes) <= 4 or expected == 6


def test_new_couplings_do_not_recompile():
    traces = 0

    @eqx.filter_jit
    def sweep(path, key, x):
        nonlocal traces
        traces += 1
        return path.gibbs_sweep(key, jnp.int32(1), x)

    for coupling in (0.2, 0.5):
        path = Ising.square(4, 6, coupling).path(None, BETAS)
        sweep(path, jax.random.key(0), path.sample_base(jax.random.key(1)))
    assert traces == 1


LESS = {"num_chains": 50, "num_sweeps": 300, "num_rungs": 30}


@pytest.mark.parametrize(("sides", "coupling", "settings"), [
    ((6, 4), 0.44, LESS), *(pytest.param((16, 16), c, {}, marks=pytest.mark.slow) for c in (0.30, 0.44, 0.60)),
])  # fmt: skip
def test_estimates_on_the_torus(sides, coupling, settings):
    """Against Kaufman; 16 × 16 with default settings in a disordered, a critical and an ordered state."""
    result = tp.estimate(Ising.square(*sides, coupling), **settings)
    assert result.exact_log_z == kaufman_log_z(*sides, coupling)
    checks.assert_within(result.log_z, result.exact_log_z, result.std_error)
    assert result.std_error < 0.1
    assert result.verdict is tp.Verdict.GOOD


MATRIX = np.array([[0.0, 1.0, 0.2], [1.0, 0.0, 0.0], [0.2, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ising(MATRIX + np.triu(np.ones((3, 3)), 1)), "symmetric"),
        (lambda: BoltzmannMachine(MATRIX + np.eye(3)), "zero diagonal"),
        (lambda: Ising(MATRIX[:2]), "matrix of shape"),
        (lambda: Ising(0.5), "matrix of shape"),
        (lambda: Ising(MATRIX, np.zeros(4)), "matrix of shape"),
        (lambda: Ising(MATRIX * np.nan), "finite"),
        (lambda: Ising(MATRIX, [0.0, np.inf, 0.0]), "finite"),
        (lambda: Ising(0.5, np.zeros(3), edges=[[0, 3]]), "sites from 0 to 2"),
        (lambda: Ising(0.5, edges=[[-1, 1]]), "sites from 0"),
        (lambda: Ising(0.5, edges=[[1, 1]]), "itself"),
        (lambda: Ising([0.5, 0.2], edges=[[0, 1]]), "one for each of 1 edges"),
        (lambda: Ising(0.5, edges=[[0.0, 1.0]]), "whole numbers"),
        (lambda: Ising.square(1, 4, 0.3), "periodic=False"),
        (lambda: Ising.square(0, 4, 0.3, periodic=False), "1 or more"),
        (lambda: Potts(1, MATRIX), "2 or more"),
        (lambda: Potts(3, MATRIX, np.zeros((3, 2))), "shape"),
        (lambda: _ising().path("bias", BETAS), "uniform"),
        (lambda: _machine().path(np.full(5, 1.5), BETAS), "frequencies"),
        (lambda: _potts().path(np.zeros(3), BETAS), "rows of colours"),
        (lambda: _ising().log_density(np.zeros((2, 5))), "only -1, 1"),
        (lambda: _machine().log_density(np.zeros((2, 4))), "shape"),
    ],
)
def test_wrong_inputs(make, message):
    with pytest.raises(tp.InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [Ising, BoltzmannMachine])
def test_a_matrix_is_read_as_a_quadratic_form(kind):
    """½ xᵀWx + b·x, each pair once."""
    matrix = np.random.default_rng(6).normal(size=(5, 5))
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    model = kind(matrix, FIELDS)
    x = _patterns(model)
    expected = 0.5 * np.einsum("ri,ij,rj->r", x, matrix, x) + x @ FIELDS
    np.testing.assert_allclose(model.log_density(x), expected, atol=1e-12)
    assert model.quick_log_z() == pytest.approx(logsumexp(expected), abs=1e-10)


def test_frequencies_of_zero_and_one_are_smoothed():
    odds = np.exp(_machine().base_fields(np.array([0.0, 1.0, 0.5, 0.25, 0.0]))[:, 0])
    np.testing.assert_allclose(odds / (1 + odds), [0.01, 0.99, 0.5, 0.255, 0.01], atol=1e-12)


def test_repeated_edges_add_up_and_zeros_are_no_edges():
    graph = checked_graph("couplings", [0.5, 0.25, 1.0], [[0, 1], [1, 0], [1, 2]], None)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.couplings.tolist() == [0.75, 1.0]
    assert Ising(MATRIX).edges.tolist() == [[0, 1], [0, 2]]


@eqx.filter_jit
def _seen_and_swept(path, key, x):
    return path.log_densities(x), path.gibbs_sweep(key, jnp.int32(1), x)


@pytest.mark.parametrize("sides", [(4, 6), (6, 4), pytest.param((8, 10), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("kind", ["ising", "potts"])
def test_shifts_on_a_torus_find_the_neighbours_that_its_edges_name(sides, kind, monkeypatch):
    """Kills: a half row shifted to the wrong side, colours exchanged, rows taken for columns.

    The coupling is a power of 2, and fields are quarters, so that sums are exact in any order.
    """
    monkeypatch.setattr(pair_path, "_DENSE_BELOW", 0)
    rng, num_sites = np.random.default_rng(0), sides[0] * sides[1]
    if kind == "ising":
        model = tp.Ising(0.5, rng.integers(-3, 4, num_sites) / 4, edges=square_edges(*sides, periodic=True))
    else:
        model = tp.Potts(3, 0.5, rng.integers(-3, 4, (num_sites, 3)) / 4, edges=square_edges(*sides, periodic=True))
    path = model.path(None, BETAS)
    assert isinstance(path.bonds, pair_path.TorusBonds)
    monkeypatch.setattr(pair_path, "find_torus", lambda graph: None)
    gathered = model.path(None, BETAS)
    assert isinstance(gathered.bonds, pair_path.SparseBonds)
    np.testing.assert_array_equal(path.site_at, gathered.site_at)
    for seed in range(5):
        key, key_x = jax.random.split(jax.random.key(seed))
        x = eqx.filter_jit(path.sample_base)(key_x)
        for shifted, named in zip(_seen_and_swept(path, key, x), _seen_and_swept(gathered, key, x), strict=True):
            np.testing.assert_array_equal(shifted, named)


@pytest.mark.parametrize("coupling", [0.37, -0.52])
@pytest.mark.parametrize("kind", [Ising, BoltzmannMachine])
def test_odds_from_a_table_are_those_of_each_site(kind, coupling):
    """The same spins, for either sign of the coupling. Mutants: the last sum left out; no sign."""
    model = kind(coupling, np.full(200, 0.3), edges=square_edges(10, 20, periodic=True))
    path = model.path("uniform", BETAS)
    assert path.has_one_field
    one_by_one = dataclasses.replace(path, has_one_field=False)
    keys = jax.random.split(jax.random.key(8), 50)
    x = jax.vmap(path.sample_base)(keys)
    for rung in range(3):
        by_table, by_site = (_sweep(each, jnp.int32(rung), keys, x) for each in (path, one_by_one))
        np.testing.assert_array_equal(by_table, by_site)


def test_fields_that_differ_need_odds_of_each_site():
    """Mutant: a table wherever the coupling is one."""
    edges = square_edges(10, 20, periodic=True)
    fields = np.where(np.arange(200) == 7, 0.2, 0.3)
    assert not Ising(0.4, fields, edges=edges).path("uniform", BETAS).has_one_field
    assert not Ising(0.4, 0.3 * np.ones(200), edges=edges).path(fields, BETAS).has_one_field
