"""What moves pass on: it is what the new state has, and chains that use it keep the law of every rung."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from plane import (
    BASE_MEAN,
    BASE_STD,
    BETAS,
    NUM_CELLS,
    NUM_DRAWS,
    cells_of,
    counts_after,
    exact_draws,
    log_target,
    plane_law,
    plane_log_z,
    plane_path,
)
from tempering.kernels import ClimbUp
from tempering.kernels.moves.carried import carried_at
from tempering.kernels.moves.stay import Stay

NUM_STEPS = 5


class NeverUpdated(tp.HMC):
    """Broken: the next move starts from what was known about the first state."""

    def carried_call(self, key, path, rung, x, carried, *, may_be_base=True):
        moved, _, info = tp.HMC.carried_call(self, key, path, rung, x, carried)
        return moved, carried, info


class NotUpdatedAtTheBase(tp.HMC):
    """Broken: after an exact draw of the base, what is passed on belongs to the state before it."""

    def carried_call(self, key, path, rung, x, carried, *, may_be_base=True):
        moved, new, info = tp.HMC.carried_call(self, key, path, rung, x, carried)
        is_base = path.betas[rung] == 0
        return moved, jax.tree.map(lambda old, new: jnp.where(is_base, old, new), carried, new), info


class UpdatedThoughRejected(tp.HMC):
    """Broken: what is passed on belongs to another state than the one to which the chain returned."""

    def carried_call(self, key, path, rung, x, carried, *, may_be_base=True):
        moved, new, info = tp.HMC.carried_call(self, key, path, rung, x, carried)
        elsewhere = carried_at(path, jnp.zeros_like(x))
        return moved, jax.tree.map(lambda a, b: jnp.where(jnp.all(moved == x), a, b), elsewhere, new), info


def after_steps(move, num_steps: int):
    """So many moves at one rung, each of which starts from what the one before has passed on."""

    def go(key, path, rung, x):
        def once(carry, key):
            x, carried = carry
            x, carried, _ = move.carried_call(key, path, rung, x, carried)
            return (x, carried), None

        return jax.lax.scan(once, (x, carried_at(path, x)), jax.random.split(key, num_steps))[0][0]

    return go


# One step is the first of five. Alone it is left to the study: what a chain starts with is held to a trajectory below.
@pytest.mark.parametrize("num_steps", [pytest.param(1, marks=pytest.mark.slow), NUM_STEPS])
def test_moves_that_carry_leave_every_rung_invariant(num_steps):
    for counts, law in counts_after(after_steps(tp.HMC(0.8, num_leaps=3), num_steps), seed=2):
        checks.assert_law(counts, law)


@pytest.mark.parametrize("broken", [NeverUpdated, UpdatedThoughRejected])
def test_moves_that_pass_on_what_is_old_are_rejected(broken):
    """Where β > 0: at the base every draw is exact, whatever was known."""
    after = list(counts_after(after_steps(broken(0.8, num_leaps=3), NUM_STEPS), seed=2))
    checks.assert_law(*after[0])
    for counts, law in after[1:]:
        checks.assert_not_law(counts, law)


def counts_after_tempering(move) -> np.ndarray:
    """Exact draws of all rungs after a few steps of simulated tempering, counted by rung and cell.

    All rungs are equally likely, as log Z is known.
    """
    ladder = tp.Ladder.create(plane_path(), None, plane_log_z() - plane_log_z()[0])
    rungs = np.random.default_rng(9).integers(0, len(BETAS), NUM_DRAWS)
    x = np.stack([exact_draws(rung) for rung in range(len(BETAS))])[rungs, np.arange(NUM_DRAWS)]
    kernel = tp.SimulatedTempering(move)
    positions = tp.Position(jnp.asarray(x, jnp.float32), jnp.asarray(rungs, jnp.int32))
    positions = kernel.prepared(plane_path(), positions)
    assert positions.carried is not None
    step = eqx.filter_jit(eqx.filter_vmap(lambda key, state: kernel(key, ladder, state)[0]))
    for key in jax.random.split(jax.random.key(4), NUM_STEPS):
        positions = step(jax.random.split(key, NUM_DRAWS), positions)
    cells = np.asarray(positions.rung) * NUM_CELLS + cells_of(positions.x)
    return np.bincount(cells, minlength=len(BETAS) * NUM_CELLS)


@pytest.mark.parametrize("kind", [tp.HMC, NeverUpdated, NotUpdatedAtTheBase, UpdatedThoughRejected])
def test_tempering_with_what_is_carried_keeps_the_joint_law(kind):
    """Rungs are drawn from what is carried, too, and it goes along from rung to rung."""
    law = np.concatenate([plane_law(rung) for rung in range(len(BETAS))]) / len(BETAS)
    check = checks.assert_law if kind is tp.HMC else checks.assert_not_law
    check(counts_after_tempering(kind(0.8, num_leaps=3)), law)


def holed(x):
    """log f that is −inf in one place, and NaN in another."""
    return jnp.where(x[0] > 1.5, -jnp.inf, jnp.where(x[1] > 1, jnp.nan, log_target(x)))


BASE = tp.Normal(BASE_MEAN, BASE_STD)
PARTS = tp.Product({"a": tp.Normal(np.array(0.3), np.array(1.8)), "b": tp.Normal(np.array([-0.2]), np.array([1.5]))})
PATHS = {
    "geometric": tp.paths.GeometricPath.create(log_target, BASE, BETAS),
    "likelihood": tp.paths.LikelihoodPath.create(log_target, BASE, BETAS),
    "with holes": tp.paths.GeometricPath.create(holed, BASE, BETAS),
    "pytree": tp.paths.GeometricPath.create(lambda x: log_target(jnp.append(x["a"], x["b"])), PARTS, BETAS),
}


@functools.cache
def twice_moved(kind, name):
    """Two moves along a path, compiled once for all rungs."""
    move, path = kind(1.1, num_leaps=3), PATHS[name]

    def go(key, rung, x):
        first, second = jax.random.split(key)
        moved, carried, _ = move.carried_call(first, path, rung, x, carried_at(path, x))
        moved, carried, info = move.carried_call(second, path, rung, moved, carried)
        return moved, carried, carried_at(path, moved), info

    return jax.jit(jax.vmap(go, in_axes=(0, None, 0)))


def carried_and_anew(kind, name: str, rung: int, num: int = 400):
    """After two moves: the states before and after, what was passed on, and the same evaluated from the states."""
    x = jax.vmap(PATHS[name].sample_base)(jax.random.split(jax.random.key(1), num))
    return x, *twice_moved(kind, name)(jax.random.split(jax.random.key(2), num), jnp.int32(rung), x)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("rung", [0, 1, 2])
def test_what_is_carried_is_what_the_new_state_has(name, rung):
    """Both ends and both gradients, to float32. Of proposals that were taken, and of those that were not."""
    before, after, carried, anew, info = carried_and_anew(tp.HMC, name, rung)
    for ours, theirs in zip(jax.tree.leaves(carried), jax.tree.leaves(anew), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    leaves = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    moved = np.all([np.all((old != new).reshape(len(old), -1), axis=1) for old, new in leaves], axis=0)
    assert np.mean(moved) > 0.1
    if rung == 0:
        assert np.all(np.asarray(info.accept_prob) == 1)
        assert not np.any(info.is_divergent)
        assert np.all(moved)
    else:
        assert np.mean(moved) < 0.9
    if name == "geometric":  # what is broken does not depend on the path
        broken = carried_and_anew(NeverUpdated, name, rung)
        assert not np.allclose(broken[2].slopes, broken[3].slopes, rtol=1e-2, equal_nan=True)


def test_a_trajectory_from_what_is_carried_is_the_trajectory():
    """Acceptance and end as the leapfrog has them when it evaluates everything anew, with the same numbers."""
    move, path = tp.HMC(0.9, num_leaps=1), plane_path()
    x, key = jnp.array([0.4, -0.9]), jax.random.key(6)
    carried = eqx.filter_jit(carried_at)(path, x)
    moved, _, info = eqx.filter_jit(move.carried_call)(key, path, jnp.int32(1), x, carried)
    key_size, key_momentum, _, key_accept, _ = jax.random.split(key, 5)
    size = float(move.jittered(key_size, path.betas[1]).step_size)
    log_f = jax.jit(lambda q: path.log_density(jnp.asarray(q, jnp.float32), jnp.int32(1)))
    slope = jax.jit(jax.grad(log_f))
    p = np.asarray(jax.random.normal(key_momentum, (2,)), np.float64)
    half = p + size / 2 * np.asarray(slope(x))
    q = np.asarray(x) + size * half
    last = half + size / 2 * np.asarray(slope(jnp.asarray(q, jnp.float32)))
    change = float(log_f(q) - log_f(x))
    accept_prob = min(1.0, np.exp(change + (p @ p - last @ last) / 2))
    assert float(info.accept_prob) == pytest.approx(accept_prob, rel=1e-4)
    assert 0.01 < accept_prob < 1
    taken = float(jax.random.uniform(key_accept)) < accept_prob
    np.testing.assert_allclose(moved, q if taken else x, rtol=1e-5)


def test_a_base_whose_gradient_is_nan_is_drawn_from_all_the_same():
    """Kills: steps of size 0 times a force that is NaN, which leave no state at all."""
    base = tp.Unnormalised(
        lambda x: -0.5 * jnp.sum(jnp.sqrt(x**4) + 0 * jnp.sqrt(0 * x)), lambda key: jax.random.normal(key, (2,))
    )
    path, move = tp.paths.GeometricPath.create(log_target, base, BETAS), tp.HMC(0.5, num_leaps=4)
    x = jnp.ones(2)
    assert np.isnan(carried_at(path, x).slopes).any()
    moved, carried, info = eqx.filter_jit(move.carried_call)(
        jax.random.key(0), path, jnp.int32(0), x, carried_at(path, x)
    )
    assert np.all(np.isfinite(moved))
    np.testing.assert_allclose(carried.log_ends, jnp.stack(path.log_ends(moved)), rtol=1e-5)
    assert not bool(info.is_divergent)


def test_what_carries_costs_one_gradient_less():
    """And one density less, that of the new state. A move that has nothing to pass on is left as it is."""
    hmc, walk = (tp.SimulatedTempering(move) for move in (tp.HMC(0.3, num_leaps=7), tp.RandomWalk(0.3, num_steps=7)))
    assert hmc.evaluations(plane_path()) == (0, 7)
    assert walk.evaluations(plane_path()) == (9, 0)
    positions = tp.Position(jnp.zeros((3, 2)), jnp.zeros(3, jnp.int32))
    assert walk.prepared(plane_path(), positions).carried is None
    carrying = hmc.prepared(plane_path(), positions)
    assert carrying.carried.slopes.shape == (3, 2, 2)
    assert walk.prepared(plane_path(), carrying).carried is None


def without_base_draws() -> tp.paths.GeometricPath:
    """A path whose base cannot be drawn from."""

    def refuse(key):
        raise AssertionError("the base is drawn from")

    base = tp.Unnormalised(lambda x: -0.5 * jnp.sum(x**2), lambda key: jax.random.normal(key, (2,)))
    path = tp.paths.GeometricPath.create(log_target, base, BETAS)
    return eqx.tree_at(lambda path: path.base, path, tp.Unnormalised(base.log_f, refuse))


def test_a_climb_holds_no_draw_of_the_base():
    """Its rungs are above 0. Guards the time that it takes to compile: draws of a prior may be most of a program.

    Kills: a climb that draws the base all the same, and a tempered chain that does not.
    """
    path = without_base_draws()
    ladder, x = tp.Ladder.create(path), jnp.array([0.4, -0.9])
    state = tp.Position(x, jnp.int32(0), carried_at(path, x))
    climbed, _ = eqx.filter_jit(ClimbUp(tp.HMC(0.5, num_leaps=2)))(jax.random.key(3), ladder, state)
    assert int(climbed.rung) == 1
    with pytest.raises(AssertionError, match="drawn from"):
        eqx.filter_jit(tp.SimulatedTempering(tp.HMC(0.5, num_leaps=2)))(jax.random.key(3), ladder, state)


def test_what_is_carried_is_compiled_once_for_all_rungs_and_moves():
    """Guards compiling: a warm-up prepares states on ladders of several lengths, with moves of several forms."""
    traces = []

    def log_f(x):
        traces.append(1)
        return log_target(x)

    path = tp.paths.GeometricPath.create(log_f, BASE, BETAS)
    positions = tp.Position(jnp.zeros((3, 2)), jnp.zeros(3, jnp.int32))
    first = ClimbUp(tp.HMC()).prepared(path, positions)
    num_traces = len(traces)
    longer = path.with_betas(np.linspace(0, 1, 7))
    again = tp.SimulatedTempering(tp.HMC(0.3, num_leaps=5)).prepared(longer, positions)
    assert num_traces == len(traces) > 0
    np.testing.assert_array_equal(first.carried.slopes, again.carried.slopes)


def test_a_state_that_stays_is_weighed_from_what_is_carried():
    """Guards a run whose time is up: to weigh its states, no density is evaluated, and none is compiled.

    Kills: a state that moves, one that is evaluated again.
    """
    evaluated = []

    def log_f(x):
        evaluated.append(1)
        return log_target(x)

    path = tp.paths.GeometricPath.create(log_f, BASE, BETAS)
    ladder, x = tp.Ladder.create(path), jnp.array([0.4, -0.9])
    kernel = tp.SimulatedTempering(Stay(has_carried=True))
    states = kernel.prepared(path, tp.Position(x[None], jnp.ones(1, jnp.int32)))
    known = len(evaluated)
    new, draw = eqx.filter_jit(kernel)(jax.random.key(4), ladder, jax.tree.map(lambda leaf: leaf[0], states))
    assert len(evaluated) == known > 0
    np.testing.assert_array_equal(new.x, x)
    np.testing.assert_allclose(draw.log_f, path.log_densities(x), rtol=1e-6)
    assert kernel.evaluations(path) == (0, 0)
