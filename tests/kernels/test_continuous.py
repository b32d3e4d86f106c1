"""β as a continuous variable: its posterior, its kernel, and the estimator, against quadrature and enumeration."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

import checks
import exact
import tempering as tp
from tempering.estimators import continuous_rts
from tempering.kernels import ContinuousPosition, ContinuousTempering

NUM_DRAWS = 20_000
KNOTS = np.array([0.0, 0.15, 0.4, 0.8, 1.0])
GUESS = np.array([0.0, 0.3, 0.1, -0.9, -1.4])  # wrong on purpose, and not linear


def _geometric_path(knots=KNOTS):
    """The small RBM's own marginal over v, tempered geometrically from independent bits."""
    rbm = exact.small_rbm()
    weights, vbias, hbias = (jnp.asarray(a, jnp.float32) for a in rbm.on_host())

    def log_f(v):
        with jax.default_matmul_precision("highest"):  # a GPU would round the weights to ten bits
            return v @ vbias + jnp.sum(jax.nn.softplus(v @ weights + hbias))

    return tp.paths.GeometricPath.create(
        log_f, tp.Bernoulli(jnp.asarray(rbm.base_logits(exact.BASE_FREQUENCIES))), knots
    )


def _ends_in_float64() -> tuple[np.ndarray, np.ndarray]:
    """log p_1 and log f of every v."""
    rbm, v = exact.small_rbm(), exact.patterns(5)
    return v @ rbm.base_logits(exact.BASE_FREQUENCIES), rbm.log_density(v)


def _log_joint(beta, log_base, log_target):
    """log of r(β) f_β(x)/Ẑ(β) with log Ẑ linear between knots."""
    return (1 - beta) * log_base + beta * log_target - np.interp(beta, KNOTS, GUESS)


def _log_posterior_at_knots() -> tuple[np.ndarray, np.ndarray]:
    """By quadrature: log q(β_k | x) for every x, and log of q(x)."""
    log_at, log_mass = [], []
    for log_base, log_target in zip(*_ends_in_float64(), strict=True):
        top = max(_log_joint(b, log_base, log_target) for b in KNOTS)
        mass = quad(
            lambda b, *ends: np.exp(_log_joint(b, *ends[:2]) - ends[2]), 0, 1, (log_base, log_target, top),
            points=KNOTS[1:-1], epsabs=1e-13, epsrel=1e-13,
        )[0]  # fmt: skip
        log_mass.append(top + np.log(mass))
        log_at.append([_log_joint(b, log_base, log_target) - log_mass[-1] for b in KNOTS])
    log_mass = np.array(log_mass)
    return np.array(log_at), log_mass - logsumexp(log_mass)


def test_continuous_rts_is_exact_on_exact_densities():
    """ĉ by summing over all x what quadrature gives. Kills: probabilities for densities, the guess left out."""
    log_at, log_q = _log_posterior_at_knots()
    log_c = logsumexp(log_at + log_q[:, None], axis=0)
    stats = exact.stats_from_law(exact.log_densities(exact.small_path()))
    stats = dataclasses.replace(
        stats, betas=KNOTS, log_prior=np.zeros(5), log_z_guess=GUESS, log_sums=log_c[None, None],
        visits=np.ones((1, 1, 5), np.int64), num_draws=np.ones((1, 1), np.int64),
    )  # fmt: skip
    log_base, log_target = _ends_in_float64()
    truth = np.array([logsumexp((1 - b) * log_base + b * log_target) for b in KNOTS])
    answer = continuous_rts(stats, log_z_base=truth[0])
    np.testing.assert_allclose(answer.values, truth, atol=1e-10)
    assert answer.method == "continuous"


def test_the_density_at_knots_is_that_of_quadrature():
    """Kills: a sum over knots for the integral, the width of a stretch left out, a wrong series where log q is flat."""
    path = _geometric_path()
    ladder = tp.Ladder.create(path, log_z_guess=GUESS).continuous()
    log_at, _ = _log_posterior_at_knots()
    found = jax.vmap(lambda x: ladder.log_rung_posterior(path.log_densities(x)))(jnp.asarray(exact.patterns(5)))
    np.testing.assert_allclose(found, log_at, atol=2e-5)
    flat = tp.Ladder.create(tp.paths.GeometricPath.create(lambda x: x, _Same(), KNOTS)).continuous()
    np.testing.assert_allclose(flat.log_rung_posterior(jnp.zeros(5)), 0, atol=1e-6)


class _Same(tp.Unnormalised):
    def __init__(self):
        super().__init__(lambda x: x, lambda key: jnp.zeros(()))


@pytest.mark.parametrize("rise", [-60.0, -2.0, -1e-5, 0.0, 1e-5, 2.0, 60.0])
def test_beta_is_drawn_from_a_piecewise_exponential(rise):
    """One stretch of log q, from flat to steep either way, in 20 bins. Kills: the two ends exchanged."""
    ladder = tp.Ladder.create(tp.paths.GeometricPath.create(lambda x: x, _Same(), np.array([0.0, 1.0]))).continuous()
    keys = jax.random.split(jax.random.key(3), NUM_DRAWS)
    betas = jax.jit(jax.vmap(lambda k: ladder.sample_beta(k, jnp.asarray([0.0, rise]))))(keys)
    edges = np.linspace(0, 1, 21)
    below = edges if rise == 0 else np.expm1(rise * edges) / np.expm1(rise)
    checks.assert_law(np.histogram(betas, edges)[0], np.diff(below))


@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("kind", ["rbm", "geometric"])
def test_the_kernel_leaves_the_joint_law_invariant(kind, correct):
    """Exact draws of (x, β), one step, the same law over v × ten bins of β.

    The RBM's log f is not linear in β between its two knots, so the broken twin, which drops the Metropolis step,
    fails. On a geometric path the twin takes another guess.
    """
    knots = np.array([0.0, 1.0]) if kind == "rbm" else np.array([0.0, 0.5, 1.0])
    guess = np.array([0.0, -0.7]) if kind == "rbm" else np.array([0.0, 0.8, -0.7])
    path = exact.small_rbm().path(exact.BASE_FREQUENCIES, knots) if kind == "rbm" else _geometric_path(knots)
    ladder = tp.Ladder.create(path, log_z_guess=guess).continuous()
    grid = (np.arange(1000) + 0.5) / 1000
    log_f = _log_f_on(kind, path, grid) - np.interp(grid, knots, guess)
    law = np.exp(log_f - logsumexp(log_f))  # (v, β)
    cells = np.random.default_rng(5).choice(law.size, size=NUM_DRAWS, p=law.ravel())
    visible = exact.patterns(5)[cells // 1000]
    x = exact.states_of(path, visible) if kind == "rbm" else jnp.asarray(visible, jnp.float32)
    states = ContinuousPosition(x, jnp.asarray(grid[cells % 1000], jnp.float32))
    kernel = ContinuousTempering(tp.BlockGibbs() if kind == "rbm" else _Stay())
    if not correct:
        kernel = _Uncorrected(kernel.move) if kind == "rbm" else kernel
        ladder = ladder if kind == "rbm" else ladder.with_log_z(np.array([0.0, -0.2, -0.7]))
    keys = jax.random.split(jax.random.key(6), NUM_DRAWS)
    moved, _ = eqx.filter_jit(jax.vmap(lambda k, s: kernel(k, ladder, s)))(keys, states)
    v = np.asarray(moved.x.v if kind == "rbm" else moved.x, np.int64) @ (1 << np.arange(5)[::-1])
    bins = np.minimum((np.asarray(moved.beta) * 10).astype(int), 9)
    counts = np.bincount(v * 10 + bins, minlength=320)
    expected = law.reshape(32, 10, 100).sum(axis=2)
    (checks.assert_law if correct else checks.assert_not_law)(counts, expected)


def _log_f_on(kind, path, grid):
    if kind == "rbm":
        betas = np.concatenate([[0.0], grid, [1.0]])
        return exact.log_densities(exact.small_rbm().path(exact.BASE_FREQUENCIES, betas))[:, 1:-1]
    log_base, log_target = _ends_in_float64()
    return (1 - grid) * log_base[:, None] + grid * log_target[:, None]


class _Stay(tp.AbstractMove):
    def __call__(self, key, path, rung, x):
        return x, tp.ladder.MoveInfo.accepted()


class _Uncorrected(tp.kernels.AbstractKernel):
    """Broken where log f is curved in β: the draw between knots is always taken."""

    move: tp.AbstractMove

    def __call__(self, key, ladder, state):
        from tempering.kernels.continuous import _path_at_beta

        key_move, key_beta, _ = jax.random.split(key, 3)
        x, _ = self.move(key_move, _path_at_beta(ladder.path, state.beta), jnp.int32(0), state.x)
        beta = ladder.sample_beta(key_beta, ladder.path.log_densities(x))
        return ContinuousPosition(x, beta), None
