"""Invariance without mixing: exact draws, one step, and the same law again. Each broken twin is rejected."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import exact
import tempering as tp
from tempering.kernels import AbstractMove
from tempering.models.rbm.binary import RBMProducts
from tempering.models.rbm.cpu_products import InBytes

NUM_DRAWS = 20_000


def _draw_states(law: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(law.size, size=NUM_DRAWS, p=law.ravel() / law.sum())


def _number_of(v) -> np.ndarray:
    """The row of `exact.patterns` that a pattern is."""
    v = np.asarray(v, np.int64)
    return v @ (1 << np.arange(v.shape[1])[::-1])


def _step_x(move: AbstractMove, path, rung: int, rows: np.ndarray, to_state) -> np.ndarray:
    keys = jax.random.split(jax.random.key(rung), NUM_DRAWS)
    states = to_state(exact.patterns(5)[rows])
    moved, _ = eqx.filter_jit(jax.vmap(lambda k, x: move(k, path, jnp.int32(rung), x)))(keys, states)
    return moved


class _ForgetsBase(AbstractMove):
    """Broken: a sweep of the RBM at inverse temperature β that leaves out (1 − β) c_A."""

    def __call__(self, key, path, rung, x):
        without = eqx.tree_at(lambda p: p.base_logits, path, jnp.zeros_like(path.base_logits))
        return without.gibbs_sweep(key, rung, x), tp.ladder.MoveInfo.accepted()


class _NextRung(AbstractMove):
    """Broken: sweeps at the neighbouring rung."""

    def __call__(self, key, path, rung, x):
        return path.gibbs_sweep(key, jnp.where(rung == 0, 1, rung - 1), x), tp.ladder.MoveInfo.accepted()


class _FlipOneBit(AbstractMove):
    """Metropolis on one random bit, for any path over bits; `sign` = −1 breaks its acceptance rule."""

    sign: int = 1

    def __call__(self, key, path, rung, x):
        key_site, key_accept = jax.random.split(key)
        proposal = x.at[jax.random.randint(key_site, (), 0, x.shape[0])].add(1) % 2
        log_ratio = self.sign * (path.log_density(proposal, rung) - path.log_density(x, rung))
        accepted = jnp.log(jax.random.uniform(key_accept)) < log_ratio
        return jnp.where(accepted, proposal, x), tp.ladder.MoveInfo.accepted()


def test_several_sweeps_are_sweeps_in_a_row():
    """From one state, three sweeps follow the cube of the transition matrix, and one sweep does not."""
    path, rung = exact.small_path(), 2
    law = np.linalg.matrix_power(exact.gibbs_matrix(path, rung), 3)[7]
    starts = np.full(NUM_DRAWS, 7)
    moved = _step_x(tp.BlockGibbs(num_sweeps=3), path, rung, starts, lambda v: exact.states_of(path, v))
    checks.assert_law(np.bincount(_number_of(moved.v), minlength=32), law)
    once = _step_x(tp.BlockGibbs(), path, rung, starts, lambda v: exact.states_of(path, v))
    checks.assert_not_law(np.bincount(_number_of(once.v), minlength=32), law)


@pytest.mark.parametrize("rung", [0, 1, 2])
def test_block_gibbs_leaves_every_rung_invariant(rung):
    path = exact.small_path()
    law = np.exp(exact.log_densities(path) - exact.log_z(path))[:, rung]
    moved = _step_x(tp.BlockGibbs(), path, rung, _draw_states(law, rung), lambda v: exact.states_of(path, v))
    checks.assert_law(np.bincount(_number_of(moved.v), minlength=32), law)
    field = np.asarray(moved.v) @ np.asarray(path.weights) + np.asarray(path.hbias)
    np.testing.assert_allclose(moved.field, field, atol=1e-5)


@pytest.mark.parametrize(
    ("broken", "rung"), [(_ForgetsBase(), 0), (_ForgetsBase(), 1), (_NextRung(), 1), (_NextRung(), 2)]
)
def test_broken_gibbs_is_rejected(broken, rung):
    path = exact.small_path()
    law = np.exp(exact.log_densities(path) - exact.log_z(path))[:, rung]
    moved = _step_x(broken, path, rung, _draw_states(law, rung), lambda v: exact.states_of(path, v))
    checks.assert_not_law(np.bincount(_number_of(moved.v), minlength=32), law)


def _geometric_path():
    """A target over five bits with pair interactions, tempered from independent bits."""
    coupling = np.random.default_rng(4).normal(0, 0.9, (5, 5))
    base = tp.Bernoulli(jnp.asarray([0.8, -0.5, 0.2, -1.0, 0.4]))
    return tp.paths.GeometricPath.create(lambda x: x @ jnp.asarray(coupling, jnp.float32) @ x, base, exact.BETAS)


def _law_of(path) -> np.ndarray:
    log_f = np.asarray(jax.vmap(path.log_densities)(jnp.asarray(exact.patterns(5), jnp.float32)), np.float64)
    return np.exp(log_f) / np.exp(log_f).sum(axis=0)


@pytest.mark.parametrize("rung", [0, 1, 2])
def test_a_users_move_on_a_geometric_path(rung):
    path = _geometric_path()
    law = _law_of(path)[:, rung]
    rows = _draw_states(law, rung)
    moved = _step_x(_FlipOneBit(), path, rung, rows, lambda v: jnp.asarray(v, jnp.float32))
    checks.assert_law(np.bincount(_number_of(moved), minlength=32), law)
    broken = _step_x(_FlipOneBit(sign=-1), path, rung, rows, lambda v: jnp.asarray(v, jnp.float32))
    checks.assert_not_law(np.bincount(_number_of(broken), minlength=32), law)


@pytest.fixture
def form(request):
    """A form of the products of an RBM; that of bytes is one of CPUs, also where JAX has a GPU."""
    with jax.default_device(jax.devices("cpu")[0] if request.param == "bytes" else None):
        yield request.param


@pytest.mark.parametrize("form", ["float32", "bytes", "gpu"], indirect=True)
@pytest.mark.parametrize("forget_guess", [False, True])
def test_simulated_tempering_leaves_the_joint_law_invariant(forget_guess, form):
    """Over (x, k) at once, also in other forms of products; its broken twin draws rungs as if all Ẑ_k were the same."""
    ladder, is_on_gpu = exact.small_ladder(), form == "gpu"
    if is_on_gpu:
        ladder = dataclasses.replace(ladder, path=ladder.path.on_gpu())
        assert ladder.path.limbs is not None
    if form == "bytes":
        matrices = RBMProducts(*(InBytes.of(matrix) for matrix in (ladder.path.weights, ladder.path.weights.T)))
        ladder = dataclasses.replace(ladder, path=dataclasses.replace(ladder.path, products=matrices))
    law = exact.joint_law(exact.log_densities(ladder.path), exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    cells = _draw_states(law, 7)[:: 8 if is_on_gpu else 1]  # a CPU takes a millisecond for a draw of that form
    used = tp.Ladder.create(ladder.path, exact.LOG_PRIOR) if forget_guess else ladder
    states = tp.Position(exact.states_of(ladder.path, exact.patterns(5)[cells // 3]), jnp.asarray(cells % 3, jnp.int32))
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    keys = jax.random.split(jax.random.key(9), cells.size)
    moved, draw = eqx.filter_jit(jax.vmap(lambda k, s: kernel(k, used, s)))(keys, states)
    counts = np.bincount(_number_of(moved.x.v) * 3 + np.asarray(moved.rung), minlength=96)
    (checks.assert_not_law if forget_guess else checks.assert_law)(counts, law)
    np.testing.assert_array_equal(draw.origin, states.rung)
    np.testing.assert_array_equal(draw.rung, moved.rung)


@pytest.mark.parametrize("num_rungs", [2, 7, 100, 101, 1000])
def test_rungs_are_drawn_from_their_posterior(num_rungs):
    """The table of rungs is read the right way, with and without padding."""
    rng = np.random.default_rng(num_rungs)
    log_f = rng.normal(0, 1.5, num_rungs)
    path = tp.paths.GeometricPath.create(
        lambda x: x, tp.Unnormalised(lambda x: x, lambda key: jnp.zeros(())), np.linspace(0, 1, num_rungs)
    )
    ladder = tp.Ladder.create(path, log_z_guess=rng.normal(0, 0.5, num_rungs))
    keys = jax.random.split(jax.random.key(1), 50_000)
    rungs = jax.jit(jax.vmap(lambda k: ladder.sample_rung(k, jnp.asarray(log_f, jnp.float32))))(keys)
    law = np.exp(log_f - np.asarray(ladder.log_z_guess, np.float64))
    checks.assert_law(np.bincount(rungs, minlength=num_rungs), law / law.sum())


def test_a_rung_of_probability_zero_is_never_drawn():
    """Neither the first nor the last, whatever the uniform number: the inverse of a flat stretch is its end."""
    path = tp.paths.GeometricPath.create(
        lambda x: x, tp.Unnormalised(lambda x: x, lambda key: jnp.zeros(())), np.linspace(0, 1, 9)
    )
    ladder = tp.Ladder.create(path)
    log_f = jnp.full(9, -jnp.inf).at[4].set(0.0)
    rungs = jax.vmap(lambda k: ladder.sample_rung(k, log_f))(jax.random.split(jax.random.key(2), 1000))
    assert np.all(np.asarray(rungs) == 4)
