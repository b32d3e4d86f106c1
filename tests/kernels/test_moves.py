"""Moves with a size: each leaves every rung as it is, and a broken twin of each is seen to be broken."""

import itertools
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import exact
import tempering as tp
from plane import (
    BASE_MEAN,
    BASE_STD,
    BETAS,
    NUM_CELLS,
    NUM_DRAWS,
    SPREAD,
    cells_of,
    counts_after,
    exact_draws,
    log_target,
    plane_law,
    plane_path,
)
from tempering.kernels.moves import Schedule, StepSize
from tempering.kernels.moves.hmc import Phase, leapfrog


def only_step(move, step_size: float):
    """The step itself, without the exact draw that replaces it at β = 0."""
    return lambda key, path, rung, x: move.step(key, path, rung, x, StepSize(jnp.float32(step_size), SPREAD))[0]


MOVES = {"hmc": (tp.HMC(num_leaps=4), 0.9), "walk": (tp.RandomWalk(num_steps=3), 1.5)}


@pytest.mark.parametrize("rung", [0, 1, 2])
def test_exact_draws_are_exact(rung):
    """Of the tests below: rejection and quadrature agree."""
    checks.assert_law(np.bincount(cells_of(exact_draws(rung)), minlength=NUM_CELLS), plane_law(rung))


@pytest.mark.parametrize("name", MOVES)
def test_a_step_leaves_every_rung_invariant(name):
    for counts, law in counts_after(only_step(*MOVES[name])):
        checks.assert_law(counts, law)


@pytest.mark.parametrize("move", [tp.HMC(0.8, num_leaps=3), tp.RandomWalk(1.0, num_steps=2)], ids=["hmc", "walk"])
def test_a_move_with_its_schedule_leaves_every_rung_invariant(move):
    for counts, law in counts_after(lambda *where: move(*where)[0], seed=1):
        checks.assert_law(counts, law)


@pytest.mark.parametrize("move", [tp.HMC(0.8), tp.RandomWalk(1.0)], ids=["hmc", "walk"])
def test_at_the_base_a_move_is_an_exact_draw(move):
    """From whatever x, here a single point; and what the step would have done is told all the same."""
    keys = jax.random.split(jax.random.key(3), NUM_DRAWS)
    path = plane_path()
    go = jax.vmap(lambda key: move(key, path, jnp.int32(0), jnp.array([9.0, -9.0])))
    moved, info = jax.jit(go)(keys)
    checks.assert_law(np.bincount(cells_of(moved), minlength=NUM_CELLS), plane_law(0))
    assert 0 < np.mean(info.accept_prob) <= 1


def textbook_hmc(fault: str):
    """The leapfrog once more, as in the books, with a fault."""

    def step(key, path, rung, x):
        key_momentum, key_accept = jax.random.split(key)
        slope = jax.grad(lambda q: path.log_density(q, rung))
        size = 0.9 * SPREAD
        q, p = x, jax.random.normal(key_momentum, x.shape)
        kinetic = jnp.sum(p**2) / 2
        for leap in range(4):
            p = p + 0.5 * size * slope(q)
            q = q + size * p
            if fault != "last half kick forgotten" or leap < 3:
                p = p + 0.5 * size * slope(q)
        change = kinetic - jnp.sum(p**2) / 2
        change = -change if fault == "sign of the kinetic energy" else change
        log_ratio = path.log_density(q, rung) - path.log_density(x, rung) + change
        log_ratio = log_ratio - change if fault == "kinetic energy forgotten" else log_ratio
        return jnp.where(jnp.log(jax.random.uniform(key_accept)) < log_ratio, q, x)

    return step


# Other sizes in the kick than in the drift are no such fault: every shear keeps volume, and the chain its law. That
# fault only wastes proposals, and is seen by the tests of the leapfrog below.
HMC_FAULTS = ["sign of the kinetic energy", "last half kick forgotten", "kinetic energy forgotten"]


@pytest.mark.parametrize("fault", ["", *HMC_FAULTS])
def test_broken_hmc_is_rejected(fault):
    for counts, law in counts_after(textbook_hmc(fault)):
        (checks.assert_not_law if fault else checks.assert_law)(counts, law)


def walk_with_inverted_rule(key, path, rung, x):
    key_propose, key_accept = jax.random.split(key)
    proposal = x + 1.5 * SPREAD * jax.random.normal(key_propose, x.shape)
    log_ratio = path.log_density(x, rung) - path.log_density(proposal, rung)
    return jnp.where(jnp.log(jax.random.uniform(key_accept)) < log_ratio, proposal, x)


def test_a_broken_walk_is_rejected():
    for counts, law in counts_after(walk_with_inverted_rule):
        checks.assert_not_law(counts, law)


# Bits: all 32 states of five of them are known.


def bits_path():
    coupling = jnp.asarray(np.random.default_rng(4).normal(0, 0.9, (5, 5)), jnp.float32)
    base = tp.Bernoulli(jnp.asarray([0.8, -0.5, 0.2, -1.0, 0.4]))
    return tp.paths.GeometricPath.create(lambda x: x @ coupling @ x, base, BETAS)


def bits_law(rung: int) -> np.ndarray:
    states = exact.patterns(5)
    coupling = np.random.default_rng(4).normal(0, 0.9, (5, 5))
    at_target = np.einsum("si,ij,sj->s", states, coupling, states)
    log_f = (1 - BETAS[rung]) * states @ [0.8, -0.5, 0.2, -1.0, 0.4] + BETAS[rung] * at_target
    return np.exp(log_f) / np.exp(log_f).sum()


def bits_after(step):
    """As `counts_after`, over the 32 states."""
    path = bits_path()
    go = jax.jit(jax.vmap(lambda key, rung, x: step(key, path, rung, x), in_axes=(0, None, 0)))
    for rung in range(len(BETAS)):
        law = bits_law(rung)
        rows = np.random.default_rng(rung).choice(32, size=NUM_DRAWS, p=law)
        keys = jax.random.split(jax.random.key(rung), NUM_DRAWS)
        moved = go(keys, jnp.int32(rung), jnp.asarray(exact.patterns(5)[rows], jnp.float32))
        yield np.bincount(np.asarray(moved, np.int64) @ (1 << np.arange(5)[::-1]), minlength=32), law


@pytest.mark.parametrize("size", [1.0, 2.3])
def test_flips_leave_every_rung_invariant(size):
    for counts, law in bits_after(only_step(tp.BitFlips(num_steps=2), size)):
        checks.assert_law(counts, law)


def test_flips_with_their_schedule_leave_every_rung_invariant():
    move = tp.BitFlips(1.6, num_steps=1)
    for counts, law in bits_after(lambda *where: move(*where)[0]):
        checks.assert_law(counts, law)


def lopsided_flips(key, path, rung, x):
    """Broken: bits that are on are picked twice as often, and nothing corrects for it."""
    key_site, key_accept = jax.random.split(key)
    site = jax.random.categorical(key_site, jnp.log(1 + x))
    proposal = x.at[site].set(1 - x[site])
    log_ratio = path.log_density(proposal, rung) - path.log_density(x, rung)
    return jnp.where(jnp.log(jax.random.uniform(key_accept)) < log_ratio, proposal, x)


def test_broken_flips_are_rejected():
    for counts, law in bits_after(lopsided_flips):
        checks.assert_not_law(counts, law)


def flat_path(num_dims: int):
    """A base that is 0 everywhere: every proposal is accepted, so that moves show what they propose."""
    base = tp.Unnormalised(lambda x: jnp.zeros(()) * jnp.sum(x), lambda key: jnp.zeros(num_dims))
    return tp.paths.GeometricPath.create(lambda x: jnp.zeros(()) * jnp.sum(x), base, BETAS)


def test_the_size_of_flips_is_their_number():
    """2.3 is 2 with probability 0.7 and 3 with 0.3, and every subset of the bits is as likely as another."""
    step = only_step(tp.BitFlips(num_steps=1), 2.3)
    keys = jax.random.split(jax.random.key(0), NUM_DRAWS)
    path = flat_path(5)
    moved = jax.jit(jax.vmap(lambda key: step(key, path, jnp.int32(1), jnp.zeros(5))))(keys)
    counts = np.bincount(np.asarray(moved, np.int64) @ (1 << np.arange(5)[::-1]), minlength=32)
    num_on = exact.patterns(5).sum(axis=1)
    law = np.select([num_on == 2, num_on == 3], [0.7 / 10, 0.3 / 10])
    assert counts[law == 0].sum() == 0
    checks.assert_law(counts[law > 0], law[law > 0])
    whole = only_step(tp.BitFlips(num_steps=1), 99.0)(keys[0], path, jnp.int32(1), jnp.zeros(5))
    assert np.all(np.asarray(whole) == 1)  # no more bits than there are


# The leapfrog itself, in float64.


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


POSITIONS = np.array([[0.4, -0.9], [-1.5, 0.2], [2.0, 0.1], [0.9, 0.3]])
MOMENTA = np.array([[1.1, 0.3], [-0.2, 2.0], [-1.3, -0.4], [0.8, -0.7]])


def walled(x):
    """log f with a wall: no density at all for x₀ from 1 to 1.6."""
    return jnp.where((x[0] > 1) & (x[0] < 1.6), -jnp.inf, log_target(x))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("log_f", [log_target, walled])
def test_leapfrog_can_be_reversed_and_keeps_volume(log_f):
    """With detailed balance: what is gained one way is lost the other way. Also through a wall."""
    size, num_leaps = StepSize(jnp.ones(()), jnp.array([0.3, 0.5])), jnp.int32(5)

    def there(point):
        end, log_ratio = leapfrog(log_f, Phase(point[:2], point[2:]), size, num_leaps, max_leaps=7)
        return jnp.concatenate(end), log_ratio

    reverse = jnp.array([1.0, 1.0, -1.0, -1.0])
    begins = jnp.asarray(np.hstack([POSITIONS, MOMENTA]))
    ends, log_ratios = jax.jit(jax.vmap(there))(begins)
    backs, back_ratios = jax.jit(jax.vmap(there))(ends * reverse)
    np.testing.assert_allclose(backs * reverse, begins, atol=1e-12)
    is_inside = np.isfinite(log_ratios)
    np.testing.assert_allclose(np.asarray(log_ratios + back_ratios)[is_inside], 0, atol=1e-12)
    assert is_inside[3]  # this one
    assert begins[3, 0] < 1  # has flown
    assert ends[3, 0] > 1.6  # through the wall
    jacobians = jax.jit(jax.vmap(jax.jacfwd(lambda point: there(point)[0])))(begins)
    np.testing.assert_allclose(np.abs(np.linalg.det(jacobians)), 1, atol=1e-10)
    assert np.abs(jacobians - np.eye(4)).max() > 0.1


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("factor", [None, np.array([[1.0, 0.0], [-0.6, 0.8]])], ids=["plain", "dense"])
def test_the_energy_error_falls_with_the_square_of_the_step(factor):
    """At the end of the same time.

    Kills: a first-order scheme, other sizes in the kick than in the drift, a factor in place of its transpose.
    """

    def error(position, momentum, num_leaps):
        size = StepSize(1.2 / num_leaps, jnp.array([0.7, 1.6]), None if factor is None else jnp.asarray(factor))
        return leapfrog(log_target, Phase(position, momentum), size, num_leaps, max_leaps=320)[1]

    counts = jnp.array([40, 80, 160, 320])
    each = jax.vmap(jax.vmap(error, in_axes=(None, None, 0)), in_axes=(0, 0, None))
    errors = np.asarray(jax.jit(each)(jnp.asarray(POSITIONS), jnp.asarray(MOMENTA), counts))
    np.testing.assert_allclose(errors[:, :-1] / errors[:, 1:], 4, rtol=0.05)


@pytest.mark.usefixtures("float64")
def test_leapfrog_follows_the_oscillator():
    """A normal density of standard deviation s, measured in its scale: q(t) = q cos t + s p sin t."""
    scale = jnp.array([0.3, 5.0])
    begin, time = Phase(jnp.array([0.2, -4.0]), jnp.array([1.2, 0.7])), 1.9
    log_f = lambda x: -0.5 * jnp.sum((x / scale) ** 2)  # noqa: E731
    size = StepSize(jnp.asarray(time / 4000), scale)
    end, log_ratio = leapfrog(log_f, begin, size, jnp.int32(4000), max_leaps=4000)
    q, p = np.asarray(begin.position), np.asarray(begin.momentum)
    s = np.asarray(scale)
    np.testing.assert_allclose(end.position, q * np.cos(time) + s * p * np.sin(time), rtol=1e-6)
    np.testing.assert_allclose(end.momentum, p * np.cos(time) - q / s * np.sin(time), rtol=1e-6)
    assert abs(float(log_ratio)) < 1e-6


# 8 is divided without a rest, and 10 is rounded up as 9 is.
@pytest.mark.parametrize(
    ("max_leaps", "fewest"), [*(pytest.param(*n, marks=pytest.mark.slow) for n in ((8, 6), (9, 7))), (10, 8)]
)
def test_the_number_of_leaps_is_jittered(max_leaps, fewest):
    """From three quarters, rounded up, to all of them.

    Where no force acts x moves by size × leaps × p; over 10⁴ coordinates its scale tells the number of leaps.
    """
    move, path, one = tp.HMC(num_leaps=max_leaps), flat_path(10_000), jnp.ones(1)

    @jax.jit
    def spread_after(key):
        return jnp.std(move.step(key, path, jnp.int32(1), jnp.zeros(10_000), StepSize(jnp.float32(0.5), one))[0])

    leaps = np.array([float(spread_after(key)) for key in jax.random.split(jax.random.key(5), 600)]) / 0.5
    assert np.abs(leaps - np.rint(leaps)).max() < 0.4
    checks.assert_law(np.bincount(np.rint(leaps).astype(int), minlength=max_leaps + 1)[fewest:], np.full(3, 1 / 3))
    assert np.rint(leaps).min() == fewest
    assert np.rint(leaps).max() == max_leaps


def one_dimensional(log_f):
    return tp.paths.GeometricPath.create(log_f, tp.Normal(np.zeros(1), np.ones(1)), BETAS)


def moved_from(log_f, x: float, step_size: float, num: int = 200):
    move, path = tp.HMC(step_size, num_leaps=5), one_dimensional(log_f)
    keys = jax.random.split(jax.random.key(8), num)
    moved, info = jax.jit(jax.vmap(lambda key: move(key, path, jnp.int32(2), jnp.full(1, x))))(keys)
    return np.asarray(moved)[:, 0], info


def test_a_step_far_too_large_is_divergent_and_goes_nowhere():
    moved, info = moved_from(lambda x: -1e4 * jnp.sum(x**4), 0.5, 10.0)
    assert np.all(moved == 0.5)
    assert np.all(info.is_divergent)
    assert np.all(np.asarray(info.accept_prob) == 0)
    _, fine = moved_from(lambda x: -1e4 * jnp.sum(x**4), 0.1, 0.02)
    assert not np.any(fine.is_divergent)
    assert np.mean(fine.accept_prob) > 0.5


def test_a_gradient_that_is_nan_is_divergent_and_goes_nowhere():
    """The norm at 0, where its value is fine."""
    moved, info = moved_from(lambda x: -jnp.sqrt(jnp.sum(x**2)), 0.0, 0.5)
    assert np.all(moved == 0)
    assert np.all(info.is_divergent)
    assert np.all(np.asarray(info.accept_prob) == 0)  # and not NaN, which would spoil every mean


def test_a_density_that_is_nan_is_never_moved_to():
    """log(x) − x, NaN for x < 0: chains leave such a place, and never enter it."""
    log_f = lambda x: jnp.sum(jnp.log(x) - x)  # noqa: E731
    inside, _ = moved_from(log_f, 0.3, 0.8)
    assert np.all(inside > 0)
    assert len(np.unique(inside)) > 50
    for outside in (-0.4, 0.0):
        moved, _ = moved_from(log_f, outside, 0.4)
        assert np.all((moved > 0) | (moved == outside))
        assert np.mean(moved > 0) > 0.1


def test_meeting_a_hole_in_the_density_is_no_divergence():
    """Starts and ends where f is 0 or NaN; but a trajectory that is thrown there is one.

    Kills: an infinite energy error taken for the integrator's, and every end without a density excused.
    """
    for hole in (-jnp.inf, jnp.nan):
        for x in (0.2, -0.5):  # inside, near the edge, and outside
            moved, info = moved_from(lambda x, hole=hole: jnp.where(x[0] > 0, -x[0], hole), x, 0.4)
            assert np.mean(moved == x) > 0.1
            assert not np.any(info.is_divergent)
    _, thrown = moved_from(lambda x: -1e4 * jnp.sum(x**4), 30.0, 10.0)  # x⁴ overflows
    assert np.all(thrown.is_divergent)


def test_chains_escape_from_where_there_is_no_density():
    """−inf, with a gradient of 0 there and with one that is NaN."""
    for log_f in (
        lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf),
        lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf) + 0 * jnp.sqrt(jnp.maximum(x[0], 0)),
    ):
        moved, info = moved_from(log_f, -0.5, 0.4)
        assert np.all((moved > 0) | (moved == -0.5))
        assert 0.05 < np.mean(moved > 0) < 1
        np.testing.assert_array_equal(np.asarray(info.accept_prob), moved > 0)
    walk = tp.RandomWalk(0.5)
    path = one_dimensional(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf))
    keys = jax.random.split(jax.random.key(8), 200)
    away = jax.jit(jax.vmap(lambda key: walk(key, path, jnp.int32(2), jnp.full(1, -0.5))[0]))(keys)
    assert np.mean(np.asarray(away) > 0) > 0.5


# Schedules.


def several_knots() -> Schedule:
    return Schedule(
        jnp.array([0.0, 0.3, 1.0]),
        jnp.array([2.0, 1.0, 0.25]),
        jnp.array([[1.0, 3.0], [0.8, 2.0], [0.1, 4.0]]),
        jnp.float32(0.2),
    )


@pytest.mark.parametrize("beta", [0.0, 0.1, 0.3, 0.55, 1.0])
def test_between_knots_precisions_are_linear_in_beta(beta):
    step_size, scale, factor = eqx.filter_jit(several_knots().at_beta)(jnp.float32(beta))
    assert factor is None
    knots = [0.0, 0.3, 1.0]
    assert float(step_size) == pytest.approx(np.interp(beta, knots, np.array([2.0, 1.0, 0.25]) ** -2) ** -0.5, rel=1e-5)
    scales = np.array([[1.0, 3.0], [0.8, 2.0], [0.1, 4.0]])
    expected = [np.interp(beta, knots, column**-2) ** -0.5 for column in scales.T]
    np.testing.assert_allclose(scale, expected, rtol=1e-5)


def test_a_schedule_is_exact_at_its_knots_and_constant_beyond_them():
    knots = several_knots()
    inner = Schedule(knots.betas[1:], knots.step_sizes[1:], knots.scales[1:], knots.jitter)
    assert float(inner.at_beta(jnp.float32(0.0))[0]) == 1.0
    assert float(inner.at_beta(jnp.float32(0.1))[0]) == 1.0
    assert float(inner.at_beta(jnp.float32(1.0))[0]) == 0.25


def test_a_schedule_on_other_knots():
    """The same steps at these; and one knot is a constant, with a scale for each coordinate where there was one."""
    betas = np.array([0.0, 0.05, 0.3, 0.9, 1.0])
    moved = several_knots().with_knots(betas, 2)
    for beta in betas:
        ours, theirs = (schedule.at_beta(jnp.float32(beta)) for schedule in (moved, several_knots()))
        np.testing.assert_allclose(ours.step_size, theirs.step_size, rtol=1e-6)
        np.testing.assert_allclose(ours.scale, theirs.scale, rtol=1e-6)
    constant = Schedule.constant(0.7, 2.0).with_knots(betas, 3)
    np.testing.assert_allclose(constant.step_sizes, 0.7)
    np.testing.assert_array_equal(constant.scales, np.full((5, 3), 2.0))
    for beta in (0.0, 0.4, 1.0):
        step_size, scale, _ = Schedule.constant(0.7, 2.0).at_beta(jnp.float32(beta))
        assert (float(step_size), np.asarray(scale).tolist()) == (pytest.approx(0.7), [2.0])


def test_very_small_steps_do_not_overflow():
    tiny = Schedule(jnp.array([0.0, 1.0]), jnp.array([1e-25, 4e-25]), jnp.ones((2, 1)), jnp.float32(0.2))
    assert float(tiny.at_beta(jnp.float32(0.5))[0]) == pytest.approx(np.mean([1.0, 1 / 16]) ** -0.5 * 1e-25, rel=1e-5)


@pytest.mark.parametrize("move", [tp.HMC(0.5), tp.RandomWalk(0.5), tp.BitFlips(0.5)], ids=lambda m: type(m).__name__)
def test_steps_are_jittered_around_the_schedule(move):
    """By a factor whose log is uniform on ±0.2; told as the step_size of the move."""
    move = eqx.tree_at(lambda m: m.schedule, move, several_knots())
    keys = jax.random.split(jax.random.key(6), 4000)
    path = flat_path(2)
    step_sizes = jax.jit(jax.vmap(lambda key: move(key, path, jnp.int32(1), jnp.zeros(2))[1].step_size))(keys)
    factors = np.log(np.asarray(step_sizes) / float(several_knots().at_beta(jnp.float32(0.4))[0]))
    checks.assert_law(np.histogram(factors, np.linspace(-0.2, 0.2, 9))[0], np.full(8, 1 / 8))


def test_each_coordinate_moves_by_its_own_spread():
    """Where nothing is refused, a proposal's standard deviation is step_size × scale, at any rung of the schedule."""
    steps = eqx.tree_at(lambda m: m.schedule, tp.RandomWalk(num_steps=1), several_knots())
    steps = eqx.tree_at(lambda m: m.schedule.jitter, steps, jnp.float32(0.0))
    keys = jax.random.split(jax.random.key(7), NUM_DRAWS)
    path = flat_path(2)
    moved = jax.jit(jax.vmap(lambda key: steps(key, path, jnp.int32(2), jnp.zeros(2))[0]))(keys)
    for column, width in zip(np.asarray(moved).T, 0.25 * np.array([0.1, 4.0]), strict=True):
        checks.assert_mean((column / width) ** 2, 1.0)


@pytest.mark.parametrize("move", [tp.HMC(0.6, num_leaps=4), tp.RandomWalk(0.9)], ids=lambda m: type(m).__name__)
def test_states_may_be_pytrees(move):
    """The same bits as with all coordinates in a row."""
    parts = tp.Product(
        {"a": tp.Normal(np.array(0.3), np.array(1.8)), "b": tp.Normal(np.array([-0.2]), np.array([1.5]))}
    )
    tree = tp.paths.GeometricPath.create(lambda x: log_target(jnp.append(x["a"], x["b"])), parts, BETAS)
    key = jax.random.key(2)
    row, _ = eqx.filter_jit(move)(key, plane_path(), jnp.int32(1), jnp.array([0.4, -0.6]))
    moved, _ = eqx.filter_jit(move)(key, tree, jnp.int32(1), {"a": jnp.float32(0.4), "b": jnp.array([-0.6])})
    np.testing.assert_allclose(np.append(moved["a"], moved["b"]), row, rtol=1e-5)
    assert moved["a"].shape == ()
    assert not np.array_equal(row, [0.4, -0.6])


TRACES = []


def counted_target(x):
    TRACES.append(1)
    return log_target(x)


@pytest.mark.parametrize("kind", [tp.HMC, tp.RandomWalk])
def test_new_step_sizes_do_not_recompile(kind):
    path = tp.paths.GeometricPath.create(counted_target, tp.Normal(BASE_MEAN, BASE_STD), BETAS)
    go = eqx.filter_jit(lambda move, key: move(key, path, jnp.int32(1), jnp.zeros(2))[0])
    first = go(kind(0.1), jax.random.key(0))
    num_traces = len(TRACES)
    assert num_traces >= 1
    assert not np.array_equal(first, go(kind(0.7), jax.random.key(0)))
    assert len(TRACES) == num_traces


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.HMC(0.0), "HMC.step_size=....* positive"),
        (lambda: tp.HMC(np.nan), "HMC.step_size=....* positive"),
        (lambda: tp.HMC(num_leaps=0), "HMC.num_leaps=....* 1 or more"),
        (lambda: tp.RandomWalk(-1.0), "RandomWalk.step_size=....* positive"),
        (lambda: tp.RandomWalk(num_steps=0), "RandomWalk.num_steps=....* 1 or more"),
        (lambda: tp.BitFlips(np.inf), "BitFlips.num_flips=....* positive"),
        (lambda: tp.HMC(0.1)(jax.random.key(0), flat_path(2), jnp.int32(1), jnp.arange(2)), "int32"),
    ],
)
def test_what_cannot_be_a_move_is_refused(make, message):
    with pytest.raises(tp.InputError, match=message):
        make()


# BlackJAX.


def test_kernels_of_blackjax_leave_every_rung_invariant():
    """NUTS, whose step may depend on β; and what it says of itself arrives."""
    blackjax = pytest.importorskip("blackjax")
    masses = jnp.asarray(np.asarray(SPREAD) ** 2)
    move = tp.BlackJAX(lambda log_f, beta: blackjax.nuts(log_f, step_size=1.1 - 0.4 * beta, inverse_mass_matrix=masses))
    for counts, law in counts_after(lambda *where: move(*where)[0]):
        checks.assert_law(counts, law)
    far = jnp.array([9.0, -9.0])
    at_base, _ = eqx.filter_jit(move)(jax.random.key(0), plane_path(), jnp.int32(0), far)
    assert np.linalg.norm(at_base - BASE_MEAN) < 9  # a draw of the base, six of its deviations wide, wherever x was
    moved, info = eqx.filter_jit(move)(jax.random.key(0), plane_path(), jnp.int32(2), jnp.zeros(2))
    assert np.all(np.asarray(moved) != 0)
    assert 0 < float(info.accept_prob) <= 1
    assert not bool(info.is_divergent)


def test_other_kernels_of_blackjax_run():
    blackjax = pytest.importorskip("blackjax")
    makers = [
        lambda log_f, beta: blackjax.hmc(log_f, 0.5, jnp.ones(2), 5),
        lambda log_f, beta: blackjax.additive_step_random_walk.normal_random_walk(log_f, jnp.ones(2)),
        lambda log_f, beta: blackjax.mala(log_f, 0.3),
    ]
    for make, rung in itertools.product(makers, (0, 2)):
        moved, info = eqx.filter_jit(tp.BlackJAX(make))(jax.random.key(4), plane_path(), jnp.int32(rung), jnp.zeros(2))
        assert moved.shape == (2,)
        assert np.isfinite(info.accept_prob)


IN_FLOAT64 = """
import equinox as eqx, jax, jax.numpy as jnp, numpy as np
import tempering as tp

class Steps(eqx.Module):
    number: jax.Array

    def update(self, ladder, draw):
        return Steps(self.number + jnp.isfinite(draw.info.accept_prob))

path = tp.paths.GeometricPath.create(lambda x: -jnp.sum(x**4), tp.Normal(np.zeros(3), 2.0), np.linspace(0, 1, 4))
ladder = tp.Ladder.create(path)
moves = (tp.HMC(0.3, num_leaps=3), jnp.float64), (tp.RandomWalk(0.5), jnp.float32), (tp.HMC(0.3), jnp.float32)
for move, dtype in moves:
    states = tp.Position(jnp.zeros((5, 3), dtype), jnp.zeros(5, jnp.int32))
    kernel = tp.SimulatedTempering(move)
    how = dict(num_steps=20, block_steps=10)
    for block in tp.run_chains(jax.random.key(0), ladder, kernel, Steps(jnp.int32(0)), states, **how):
        assert block.states.x.dtype == dtype
    assert np.isfinite(block.states.x).all() and block.states.x.std() > 0
    assert np.all(block.record.number == 10)
"""


def test_moves_run_where_a_user_has_asked_for_float64():
    """Loops keep their types: a float32 step size must not turn a float64 state into another type, nor be refused."""
    code = 'import jax; jax.config.update("jax_enable_x64", True)\n' + IN_FLOAT64
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
