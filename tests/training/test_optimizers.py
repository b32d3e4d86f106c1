"""Spectral optimizers: steps that are optimal in their norms, by singular values that are known beforehand."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import install_import_hook
from scipy.special import expit, logsumexp

from exact import patterns, small_rbm
from tempering._errors import InputError

optax = pytest.importorskip("optax", reason="Optax is not installed")

with install_import_hook("tempering.training", "beartype.beartype"):
    from tempering.training import optimizers
    from tempering.training.optimizers import make_optimizer, rms_spectral, sharp, spectral_descent

FACTORIZATIONS = optimizers.FACTORIZATIONS
EPS = float(np.finfo(np.float32).eps)


def with_singular_values(num_rows: int, num_columns: int, s, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """X = U diag(s) Vᵀ and UVᵀ."""
    rng = np.random.default_rng(seed)
    u = np.linalg.qr(rng.normal(size=(num_rows, num_rows)))[0][:, : len(s)]
    v = np.linalg.qr(rng.normal(size=(num_columns, num_columns)))[0][:, : len(s)]
    return (u * s) @ v.T, u @ v.T


def sharp64(x, method="svd") -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(sharp(jnp.asarray(x, jnp.float64), method))


KNOWN = {
    "tall": ((7, 4), [5.0, 2.0, 1.0, 0.3]),
    "wide": ((3, 6), [4.0, 0.7, 0.2]),
    "square": ((4, 4), [3.0, 2.9, 0.5, 0.01]),
    "rank 2": ((5, 4), [2.0, 0.6]),
    "row": ((1, 5), [1.7]),
    "column": ((4, 1), [0.4]),
}


@pytest.mark.parametrize("method", FACTORIZATIONS)
@pytest.mark.parametrize("name", KNOWN)
def test_sharp_of_known_singular_values(name, method):
    """Kills: a wrong norm (‖s‖₂, ‖s‖_∞), VUᵀ for UVᵀ, directions of zero singular values that are filled."""
    shape, s = KNOWN[name]
    x, factor = with_singular_values(*shape, s)
    # Newton–Schulz leaves rounding, times 1/√eps, where x is zero.
    tolerance = 1e-6 if method == "newton_schulz" and name == "rank 2" else 1e-10
    np.testing.assert_allclose(sharp64(x, method), np.sum(s) * factor, rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", FACTORIZATIONS)
def test_sharp_of_a_diagonal(method):
    x = np.zeros((4, 3))
    x[[0, 1, 2], [0, 1, 2]] = [3.0, -1.0, 0.5]
    np.testing.assert_allclose(sharp64(x, method), 4.5 * np.sign(x), atol=1e-10)


def test_sharp_of_vectors_and_scalars():
    x = np.array([0.5, -2.0, 0.0, 1.0])
    np.testing.assert_array_equal(sharp64(x), [3.5, -3.5, 0.0, 3.5])
    assert sharp64(-0.75) == -0.75


@pytest.mark.parametrize("method", FACTORIZATIONS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_nothing_in_nothing_out(method, dtype):
    """Kills: 0/0 where the scale is zero, a type that changes."""
    for shape in ((3, 2), (2,), (), (0, 3)):
        zero = jnp.zeros(shape, dtype)
        assert sharp(zero, method).dtype == dtype
        np.testing.assert_array_equal(sharp(zero, method), zero)


@pytest.mark.parametrize("method", FACTORIZATIONS)
def test_sharp_keeps_scale_and_shows_what_is_no_number(method):
    """(cx)^# = c x^#, where squares would leave float32. Kills: no division by the largest entry, NaN made 0."""
    x = jnp.asarray(with_singular_values(5, 3, [2.0, 1.0, 0.4])[0], jnp.float32)
    plain = sharp(x, method)
    for scale in (1e-30, 1e30, -1.0):
        np.testing.assert_allclose(sharp(scale * x, method) / scale, plain, rtol=0, atol=2e-5)
    assert np.isnan(sharp(x.at[1, 1].set(jnp.nan), method)).any()


@pytest.mark.parametrize("method", FACTORIZATIONS)
def test_sharp_is_dual(method):
    """⟨X, X^#⟩ = ‖X‖²_{S1} and ‖X^#‖_{S∞} = ‖X‖_{S1}, in float32, on matrices nobody chose."""
    for shape in ((20, 12), (12, 30)):
        x = np.random.default_rng(5).normal(0.1, 1.0, shape).astype(np.float32)
        nuclear_norm = np.linalg.norm(x.astype(np.float64), "nuc")
        found = np.asarray(sharp(jnp.asarray(x), method), np.float64)
        assert np.sum(x * found) == pytest.approx(nuclear_norm**2, rel=1e-5)
        assert np.linalg.norm(found, 2) == pytest.approx(nuclear_norm, rel=1e-5)


@pytest.mark.parametrize("shape", [(5, 3), (6,)])
def test_the_step_minimises_its_bound(shape):
    """−εX^# has the least ⟨X, d⟩ + ‖d‖²/(2ε), −ε‖X‖²_dual/2; steps along X and of ‖s‖₂ are worse."""
    rng, rate = np.random.default_rng(8), 0.3
    x = rng.normal(0.2, 1.0, shape)
    norm, dual = (2, "nuc") if len(shape) == 2 else (np.inf, 1)

    def bound(d):
        return np.sum(x * d) + np.linalg.norm(d, norm) ** 2 / (2 * rate)

    best = -rate * sharp64(x)
    least = bound(best)
    assert least == pytest.approx(-rate * np.linalg.norm(x, dual) ** 2 / 2, rel=1e-10)
    for size in (1e-3, 0.1, 1.0, 10.0):
        for direction in rng.normal(size=(50, *shape)):
            assert bound(best + size * direction) >= least
            assert bound(size * direction) >= least
    along = -x * np.sum(x**2) * rate / np.linalg.norm(x, norm) ** 2  # the best multiple of X itself
    assert bound(along) > 0.9 * least
    assert bound(best * np.linalg.norm(x) / np.linalg.norm(x, dual)) > 0.95 * least


def test_newton_schulz_iterations_drive_singular_values_to_one():
    """The scalar map, with no matrix: 12 iterations in float32, 25 in float64. Kills: too few, a stretch too far."""
    for eps, expected in ((EPS, 12), (float(np.finfo(np.float64).eps), 25)):
        stretches = optimizers._stretches(eps)
        assert len(stretches) == expected
        y = np.concatenate([np.geomspace(eps**0.5, 1, 4001), np.linspace(0.01, 1, 4001)])
        for stretch in stretches:
            y = stretch * y * (3 - (stretch * y) ** 2) / 2
            assert y.max() <= 1 + 1e-14
        np.testing.assert_allclose(y, 1, atol=4 * eps)


@pytest.mark.parametrize(
    ("s", "tolerance"),
    [
        (np.linspace(1, 2, 24), 5e-6),
        (np.geomspace(1, 1e-3, 24), 1e-4),  # rounding of x alone moves the factor by eps / 1e-3
        (np.r_[1.0, np.full(23, 0.01)], 5e-5),
        (np.array([3.0, 2.0, 0.5]), 3e-3),  # 21 zero directions get eps / √eps, and some
    ],
)
def test_newton_schulz_in_float32(s, tolerance):
    x, factor = with_singular_values(40, 24, s)
    for given, expected in ((x, factor), (x.T, factor.T)):
        found = np.asarray(optimizers.orthogonal_factor(jnp.asarray(given, jnp.float32)), np.float64)
        assert np.linalg.norm(found - expected, 2) < tolerance
        assert np.linalg.norm(found, 2) < 1 + 2e-6


def test_newton_schulz_shrinks_what_is_below_its_floor():
    """And then ⟨X, Q⟩ misses at most the sum of those singular values."""
    s = np.array([1.0, 0.5, 2e-5])
    x, _ = with_singular_values(4, 3, s)
    found = np.asarray(optimizers.orthogonal_factor(jnp.asarray(x, jnp.float32)), np.float64)
    gains = np.linalg.svd(found, compute_uv=False)
    np.testing.assert_allclose(gains[:2], 1, atol=1e-5)
    assert 0.01 < gains[2] < 0.3
    assert 0 <= s.sum() - np.sum(x * found) < 3e-5


def gradients(num: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(12)
    shapes = {"W": (4, 3), "b": (3,), "t": ()}
    return [{name: np.asarray(rng.normal(0.1, 0.3, shape)) for name, shape in shapes.items()} for _ in range(num)]


def sharp_by_numpy(x: np.ndarray) -> np.ndarray:
    if x.ndim < 2:
        return np.abs(x).sum() * np.sign(x)
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return s.sum() * u @ vh


def steps_of(optimizer, given, params=None):
    """The updates, one after another, in float64."""
    with jax.enable_x64(True):
        given = [jax.tree.map(jnp.asarray, gradient) for gradient in given]
        state = optimizer.init(given[0] if params is None else params)
        found = []
        for gradient in given:
            updates, state = optimizer.update(gradient, state, params)
            found.append(jax.tree.map(np.asarray, updates))
        return found


@pytest.mark.parametrize("method", FACTORIZATIONS)
def test_rms_spectral_by_hand(method):
    """Three steps under a schedule. Kills: V of the past step, a root left out, D applied once, a sign, λ and 1 − λ."""
    rates, decay, delta = (0.02, 0.01, 0.005), 0.8, 1e-3
    optimizer = rms_spectral(lambda count: 0.02 * 0.5**count, decay, delta, method=method)
    given = gradients(3)
    found = steps_of(optimizer, given)
    for name in given[0]:
        mean_square = np.zeros_like(given[0][name])
        for rate, gradient, step in zip(rates, given, found, strict=True):
            mean_square = decay * mean_square + (1 - decay) * gradient[name] ** 2
            scale = np.sqrt(delta + np.sqrt(mean_square))
            expected = -rate * sharp_by_numpy(gradient[name] / scale) / scale
            np.testing.assert_allclose(step[name], expected, rtol=0, atol=1e-10)


def test_rms_spectral_does_not_see_the_scale_of_the_loss():
    given = gradients(2)
    larger = [jax.tree.map(lambda leaf: 1000 * leaf, gradient) for gradient in given]
    optimizer = rms_spectral(0.1, delta=1e-12)
    for one, other in zip(steps_of(optimizer, given), steps_of(optimizer, larger), strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8), one, other)


@pytest.mark.parametrize("method", FACTORIZATIONS)
def test_spectral_descent_by_hand(method):
    given = gradients(2)
    found = steps_of(spectral_descent(optax.linear_schedule(0.5, 0.25, 1), method=method), given)
    for rate, gradient, step in zip((0.5, 0.25), given, found, strict=True):
        for name in gradient:
            np.testing.assert_allclose(step[name], -rate * sharp_by_numpy(gradient[name]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", FACTORIZATIONS)
@pytest.mark.parametrize("maker", [spectral_descent, rms_spectral])
def test_the_method_is_the_one_asked_for(maker, method):
    """Kills: a method that is not passed on, which no number would show."""
    optimizer, x = maker(0.1, method=method), jnp.ones((3, 2))
    program = jax.make_jaxpr(optimizer.update)(x, optimizer.init(x))
    assert ("svd" in str(program)) == (method == "svd")


@pytest.mark.parametrize("method", FACTORIZATIONS)
def test_new_numbers_do_not_compile_again_and_chains_go_side_by_side(method):
    optimizer, num_traces = rms_spectral(0.1, method=method), 0

    def two_steps(first, second):
        nonlocal num_traces
        num_traces += 1
        _, state = optimizer.update(first, optimizer.init(first))
        return optimizer.update(second, state)

    given = [jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradient) for gradient in gradients(4)]
    jitted = jax.jit(two_steps)
    apart = [jitted(given[0], given[1]), jitted(given[2], given[3])]
    assert num_traces == 1
    stacked = [jax.tree.map(lambda *leaves: jnp.stack(leaves), given[k], given[k + 2]) for k in (0, 1)]
    together = jax.vmap(two_steps)(*stacked)
    expected = jax.tree.map(lambda *leaves: np.stack(leaves), *apart)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), together, expected)


def test_the_state_is_arrays_and_survives_a_file(tmp_path):
    params = {"W": jnp.ones((4, 3), jnp.float32), "b": jnp.ones(3, jnp.bfloat16), "none": None}
    gradient = jax.tree.map(lambda leaf: 0.3 * leaf, params)
    optimizer = rms_spectral(optax.constant_schedule(0.1))
    updates, state = optimizer.update(gradient, optimizer.init(params), params)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), updates) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), params
    )
    mean_square = state[0].mean_square
    assert {name: leaf.dtype for name, leaf in mean_square.items() if name != "none"} == {
        "W": jnp.float32,
        "b": jnp.float32,
    }
    np.testing.assert_allclose(mean_square["W"], 0.01 * 0.09, rtol=1e-5)
    leaves, structure = jax.tree.flatten(state)
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    np.savez(tmp_path / "state.npz", *leaves)
    with np.load(tmp_path / "state.npz") as file:
        read = jax.tree.unflatten(structure, [jnp.asarray(file[name]) for name in file.files])
    again, expected = (optimizer.update(gradient, held, params)[0] for held in (read, state))
    jax.tree.map(np.testing.assert_array_equal, again, expected)
    assert not jax.tree.leaves(spectral_descent(0.1).init(params))


ROWS = np.array([[1.0, 0, 1, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 0]])


def loss_and_gradient(theta: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
    """Minus the mean log-likelihood of ROWS, and its gradient, by listing every state."""
    v = patterns(5)
    log_f = v @ theta["c"] + np.logaddexp(0, v @ theta["W"] + theta["b"]).sum(axis=1)
    p = np.exp(log_f - logsumexp(log_f))
    rows = ROWS @ theta["c"] + np.logaddexp(0, ROWS @ theta["W"] + theta["b"]).sum(axis=1)

    def moments(states, weights):
        h = expit(states @ theta["W"] + theta["b"])
        return {"W": (states * weights[:, None]).T @ h, "c": weights @ states, "b": weights @ h}

    model, data = moments(v, p), moments(ROWS, np.full(len(ROWS), 1 / len(ROWS)))
    return logsumexp(log_f) - rows.mean(), {name: model[name] - data[name] for name in theta}


RATES = {"W": 1 / 15, "c": 4 / 25, "b": 4 / 9}  # 1/(MN) and 4/M² of 5 × 3 units


@pytest.mark.parametrize("names", [["W"], ["c"], ["b"], ["W", "c", "b"]], ids="".join)
def test_the_likelihood_of_an_rbm_rises_as_the_bound_says(names):
    """At the rates of the docstring, and a third of them for all at once, by ε‖G‖²_dual/2 and more at every step."""
    weights, vbias, hbias = small_rbm().on_host()
    theta = {"W": weights, "c": vbias, "b": hbias}
    rates = {name: RATES[name] / len(names) if name in names else 0.0 for name in theta}
    optimizer = optax.partition({name: spectral_descent(rate) for name, rate in rates.items()}, {n: n for n in theta})
    with jax.enable_x64(True):
        state = optimizer.init(theta)
        for _ in range(8):
            loss, gradient = loss_and_gradient(theta)
            promised = sum(rates[n] / 2 * np.linalg.norm(g, "nuc" if n == "W" else 1) ** 2 for n, g in gradient.items())
            updates, state = optimizer.update(jax.tree.map(jnp.asarray, gradient), state)
            theta = {name: theta[name] + np.asarray(updates[name]) for name in theta}
            assert promised > 1e-4
            assert loss_and_gradient(theta)[0] <= loss - promised


@pytest.mark.parametrize("name", ["sgd", "adam", "ssd", "rmsspectral"])
def test_every_name_descends_a_quadratic(name):
    """½‖AW − T‖² + ½‖b − t‖², badly scaled, with rates that fall to zero."""
    rng = np.random.default_rng(4)
    a = jnp.asarray(np.linalg.qr(rng.normal(size=(5, 5)))[0] * [1.0, 0.8, 0.5, 0.3, 0.2], jnp.float32)
    wanted = {"W": jnp.asarray(rng.normal(0.5, 1, (5, 3)), jnp.float32), "b": jnp.asarray([2.0, -1.0, 0.3])}

    def loss(theta):
        return jnp.sum((a @ (theta["W"] - wanted["W"])) ** 2) / 2 + jnp.sum((theta["b"] - wanted["b"]) ** 2) / 2

    rate = {"sgd": 0.1, "adam": 0.1, "ssd": 0.3, "rmsspectral": 0.03}[name]
    optimizer = make_optimizer(name, optax.linear_schedule(rate, 0.0, 300))

    @jax.jit
    def descend(theta):
        def step(carry, _):
            theta, state = carry
            updates, state = optimizer.update(jax.grad(loss)(theta), state, theta)
            return (optax.apply_updates(theta, updates), state), None

        return jax.lax.scan(step, (theta, optimizer.init(theta)), length=300)[0][0]

    start = jax.tree.map(jnp.zeros_like, wanted)
    assert loss(descend(start)) < 1e-3 * loss(start)


def test_names_are_the_functions_they_name():
    given = gradients(2)
    for made, meant in (
        (make_optimizer("ssd", 0.2, method="newton_schulz"), spectral_descent(0.2, method="newton_schulz")),
        (make_optimizer("rmsspectral", 0.2, decay=0.5, delta=0.1), rms_spectral(0.2, 0.5, 0.1)),
        (make_optimizer("sgd", 0.2), optax.sgd(0.2, momentum=0.9)),
        (make_optimizer("sgd", 0.2, momentum=0.5), optax.sgd(0.2, momentum=0.5)),
        (make_optimizer("adam", 0.2, b1=0.5), optax.adam(0.2, b1=0.5)),
    ):
        for one, other in zip(steps_of(made, given), steps_of(meant, given), strict=True):
            jax.tree.map(np.testing.assert_array_equal, one, other)


def test_it_joins_with_the_rest_of_optax():
    """Rates that change from outside, momentum before the #, and clipping: nothing needs its own version."""
    gradient = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradients(1)[0])
    optimizer = optax.chain(
        optax.clip_by_global_norm(1e9), optax.trace(0.9), optax.inject_hyperparams(rms_spectral)(learning_rate=0.1)
    )
    state = optimizer.init(gradient)
    state[2].hyperparams["learning_rate"] = jnp.asarray(0.2)
    updates, _ = jax.jit(optimizer.update)(gradient, state)
    plain = rms_spectral(0.2)
    expected, _ = plain.update(gradient, plain.init(gradient))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), updates, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_optimizer("lbfgs", 0.1), 'Unknown optimizer "lbfgs". Choose one of: sgd, adam, ssd, rmsspectral'),
        (lambda: make_optimizer("ssd", 0.1, momentum=0.9), 'no option "momentum". It takes: method'),
        (lambda: make_optimizer("adam", 0.1, decay=0.1), 'no option "decay". It takes: b1, b2, eps'),
        (lambda: make_optimizer("adam", 0.1, learning_rates=1), "Did you mean `learning_rate`?"),
        (lambda: make_optimizer("sgd", -0.1), "`learning_rate` must be a finite number"),
        (lambda: spectral_descent(np.inf), "`learning_rate` must be"),
        (lambda: spectral_descent(np.ones(2)), "`learning_rate` must be"),
        (lambda: rms_spectral(np.nan), "`learning_rate` must be"),
        (lambda: rms_spectral(0.1, decay=1.0), r"`decay` must be a number in \[0, 1\), got 1.0"),
        (lambda: rms_spectral(0.1, delta=0), "`delta` must be a positive number, got 0"),
        (lambda: rms_spectral(0.1, method="qr"), '`method` must be one of svd, newton_schulz, got "qr"'),
        (lambda: spectral_descent(0.1, method="qr"), "`method` must be"),
        (lambda: sharp(jnp.ones(2), "qr"), "`method` must be"),
        (lambda: sharp(jnp.ones((2, 2, 2))), r"got shape \(2, 2, 2\) of float32: reshape it"),
    ],
)
def test_what_cannot_be_meant_is_refused(call, message):
    with pytest.raises(InputError, match=message) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_optax_is_loaded_only_here_and_asked_for_in_one_line():
    code = (
        "import sys, tempering; assert 'optax' not in sys.modules; sys.modules['optax'] = None\n"
        "try: import tempering.training.optimizers\n"
        "except tempering.InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Training needs Optax (")
    assert done.stdout.endswith("pip install 'tempering[train]'.\n")
    assert done.stdout.count("\n") == 1
