"""Kernels: exact draws, one step, and the same law again; and the weights of annealing, state by state."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from tempering.bases import Bernoulli, Normal
from tempering.kernels import (
    HMC,
    AbstractMove,
    AnnealDown,
    AnnealState,
    AnnealUp,
    BitFlips,
    BlockGibbs,
    ClimbUp,
    Position,
    RandomWalk,
    SimulatedTempering,
)
from tempering.ladder import MoveInfo
from tempering.paths import GeometricPath
from tempering.verification import enumerated as exact
from tempering.verification.check import Check, check_equal, check_law

NUM_DRAWS = 20_000
HOW = "one step from exact draws"
_MIDDLE = 1  # the rung between base and target
_NUM_CELLS = 20


def kernel_checks() -> Iterator[Check]:
    """Densities, moves, the draw of the rung, and the weights of annealing.

    Returns:
        One check for each.
    """
    path, log_f = exact.small_path(), exact.log_densities(exact.small_path())
    states = exact.states_of(path, exact.patterns(5))
    found = jax.vmap(path.log_densities)(states)
    yield check_equal("densities of an RBM", "sums over all hidden states", np.asarray(found), log_f, 2e-5)
    yield _base(path, log_f)
    law = np.exp(log_f - np.logaddexp.reduce(log_f, axis=0))
    sweep = _step_of(BlockGibbs())
    for rung in range(3):
        moved = _moved(sweep, path, rung, states, law[:, rung])
        yield check_law(f"block Gibbs, rung {rung}", HOW, _counts(moved.v), law[:, rung])
    yield _rung_draw(states)
    yield _bit_flips()
    for move in (HMC(0.9, num_leaps=3), RandomWalk(1.0, num_steps=3)):
        yield _continuous_move(move)
    yield from _weights(states, log_f)


def _base(path: Any, log_f: np.ndarray) -> Check:
    """log Z of independent bits, and of a normal base at a few points: there log f less log Z is the normal density."""
    bits = path.log_z_base() - np.logaddexp.reduce(log_f[:, 0])
    base, points = Normal(np.array([0.5, -1.0]), 2.0), np.array([[0.0, 0.0], [2.5, -3.0]])
    log_f_there = np.asarray(jax.vmap(base.log_density)(jnp.asarray(points, jnp.float32)), np.float64)
    normal = log_f_there - norm.logpdf(points, [0.5, -1.0], 2.0).sum(axis=1) - base.log_z()
    return check_equal("log Z of the base", "sums over all states", np.append(normal, bits), np.zeros(3), 2e-5)


def _moved(step: Any, path: Any, rung: int, states: Any, law: np.ndarray) -> Any:
    """States after one move from independent draws of the law."""
    rows = np.random.default_rng(rung).choice(len(law), NUM_DRAWS, p=law / law.sum())
    keys = jax.random.split(jax.random.key(rung), NUM_DRAWS)
    starts = jax.tree.map(lambda leaf: leaf[rows], states)
    return step(path, jnp.int32(rung), keys, starts)


def _step_of(move: AbstractMove) -> Any:
    """One move of many states, compiled once for all rungs, and anew for each call of `kernel_checks`."""
    return eqx.filter_jit(
        lambda path, rung, keys, states: jax.vmap(lambda k, x: move(k, path, rung, x)[0])(keys, states)
    )


def _counts(v: Any) -> np.ndarray:
    """How often each row of `exact.patterns` came."""
    return np.bincount(np.asarray(v, np.int64) @ (1 << np.arange(5)[::-1]), minlength=32)


def _rung_draw(states: Any) -> Check:
    """A whole step of simulated tempering leaves q(x, k) as it is, under a wrong guess of log Z."""
    ladder, kernel = exact.small_ladder(), SimulatedTempering(BlockGibbs())
    log_f = exact.log_densities(exact.small_path())
    law = exact.joint_law(log_f, exact.LOG_PRIOR, exact.LOG_Z_GUESS)
    cells = np.random.default_rng(3).choice(law.size, NUM_DRAWS, p=law.ravel() / law.sum())
    starts = Position(jax.tree.map(lambda leaf: leaf[cells // 3], states), jnp.asarray(cells % 3, jnp.int32))
    keys = jax.random.split(jax.random.key(3), NUM_DRAWS)
    ended, _ = eqx.filter_jit(jax.vmap(lambda key, state: kernel(key, ladder, state)))(keys, starts)
    rows = np.asarray(ended.x.v, np.int64) @ (1 << np.arange(5)[::-1])
    counts = np.bincount(3 * rows + np.asarray(ended.rung), minlength=96)
    return check_law("simulated tempering", HOW, counts, law)


def _bit_flips() -> Check:
    """Metropolis flips of two bits at once, on five bits with pair interactions."""
    coupling = jnp.asarray(np.random.default_rng(4).normal(0, 0.9, (5, 5)), jnp.float32)
    base = Bernoulli(jnp.asarray([0.8, -0.5, 0.2, -1.0, 0.4]))
    with jax.default_matmul_precision("highest"):
        path = GeometricPath.create(lambda x: x @ coupling @ x, base, exact.BETAS)
        states = jnp.asarray(exact.patterns(5), jnp.float32)
        log_f = np.asarray(jax.vmap(path.log_densities)(states), np.float64)[:, _MIDDLE]
        law = np.exp(log_f - np.logaddexp.reduce(log_f))
        return check_law("bit flips", HOW, _counts(_moved(_step_of(BitFlips(2.0)), path, _MIDDLE, states, law)), law)


def _continuous_move(move: AbstractMove) -> Check:
    """From a normal base to a normal target every rung is normal; the first coordinate is counted in equal cells."""
    mean, scale, wide = 1.0, 0.5, 2.0
    path = GeometricPath.create(
        lambda x: -0.5 * jnp.sum(((x - mean) / scale) ** 2), Normal(np.zeros(2), wide), exact.BETAS
    )
    beta = float(path.betas[_MIDDLE])
    precision = (1 - beta) / wide**2 + beta / scale**2
    law = norm(beta * mean / scale**2 / precision, precision**-0.5)
    starts = law.rvs((NUM_DRAWS, 2), random_state=np.random.default_rng(5))
    keys = jax.random.split(jax.random.key(5), NUM_DRAWS)
    moved = np.asarray(_step_of(move)(path, jnp.int32(_MIDDLE), keys, jnp.asarray(starts, jnp.float32)))[:, 0]
    counts = np.bincount((law.cdf(moved) * _NUM_CELLS).astype(int), minlength=_NUM_CELLS)[:_NUM_CELLS]
    return check_law(type(move).__name__, HOW, counts, np.full(_NUM_CELLS, 1 / _NUM_CELLS))


class _Flip(AbstractMove):
    """Turns every bit over, so that it is seen at which state, the old or the new one, a weight is taken."""

    def __call__(self, key: Any, path: Any, rung: Any, x: Any) -> tuple[Any, MoveInfo]:
        return path.state_of(1 - x.v), MoveInfo.accepted()


def _weights(states: Any, log_f: np.ndarray) -> Iterator[Check]:
    """What one step up and one step down add to the log weight of every state."""
    ladder, key, here = exact.small_ladder(), jax.random.key(0), jnp.int32(_MIDDLE)
    up, climb, down = AnnealUp(_Flip()), ClimbUp(_Flip()), AnnealDown(_Flip())
    _, risen = jax.vmap(lambda x: up(key, ladder, AnnealState(x, here, here, x)))(states)
    _, climbed = jax.vmap(lambda x: climb(key, ladder, Position(x, here)))(states)
    _, fallen = jax.vmap(lambda x: down(key, ladder, Position(x, here)))(states)
    how, at_flipped = "ratios of densities", log_f[::-1]  # which are listed from the other end
    yield check_equal("annealing up", how, np.asarray(risen), log_f[:, 2] - log_f[:, 1], 2e-5)
    yield check_equal("sequential Monte Carlo", how, np.asarray(climbed.log_increment), log_f[:, 2] - log_f[:, 1], 2e-5)
    yield check_equal("annealing down", how, np.asarray(fallen), at_flipped[:, 0] - at_flipped[:, 1], 2e-5)
