"""Tours between exact draws of the base: sums against a plain loop, and moves that forget where they were."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.kernels import Held
from tempering.stats import Tours, TourSums


def ladder(num_rungs: int = 4) -> tp.Ladder:
    rbm = tp.RBM(np.array([[0.5, -1.0], [1.5, 0.3], [-0.7, 0.9]]), np.array([0.2, -0.4, 0.6]), np.array([0.1, -0.8]))
    return tp.Ladder.create(rbm.path("bias", tp.ladder.uniform_betas(num_rungs)))


def walk(seed: int, num_chains: int, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Rungs where draws were made, and what they say of the rungs."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (num_chains, num_steps)), rng.normal(0, 2, (num_chains, num_steps, 4))


def folded(origins: np.ndarray, log_f: np.ndarray) -> Tours:
    """The statistic of one block."""
    law = ladder()

    def one_chain(origin, values):
        def add(sums, row):
            landed = (row[0] + 1) % 4  # where a draw leads says nothing about where it was made
            return sums.update(law, tp.ladder.Draw(x=row[0], origin=row[0], rung=landed, log_f=row[1])), None

        return jax.lax.scan(add, TourSums.empty(), (origin, values))[0]

    return jax.vmap(one_chain)(jnp.asarray(origins, jnp.int32), jnp.asarray(log_f, jnp.float32)).on_host()


def by_hand(origins: np.ndarray, log_f: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of each chain what comes before its first tour, its complete tours, one row per tour, and what comes after."""
    law = ladder()
    posterior = np.asarray(jax.vmap(jax.vmap(law.rung_posterior))(jnp.asarray(log_f, jnp.float32)), np.float64)
    chains = []
    for origin, parts in zip(origins, posterior[:, :, [0, -1]], strict=True):
        starts = np.flatnonzero(origin == 0)
        head, *pieces = [piece.sum(axis=0) for piece in np.split(parts, starts)]
        tail = pieces.pop() if pieces else np.zeros(2)
        chains.append((head, np.array(pieces).reshape(-1, 2), tail))
    return chains


@pytest.mark.parametrize("cuts", [(), (7,), (1, 2, 20)])
def test_tours_do_not_depend_on_where_blocks_are_cut(cuts):
    # Kills: a tour across a border that is lost, or that ends there; the head counted twice; has_begun forgotten at any
    # of its uses; whole blocks of one tour not joined; a tour that begins where a draw lands.
    origins, log_f = walk(3, num_chains=6, num_steps=40)
    origins[0] = np.where(origins[0] == 0, 1, origins[0])  # one chain never begins
    origins[1, 1:] = 2  # one begins at once and never again
    origins[1, 0] = 0
    origins[2] = 3  # one is on the same tour for several blocks, and ends it in the last
    origins[2, [0, 25, 33]] = 0
    edges = [0, *cuts, 40]
    blocks = [folded(origins[:, a:b], log_f[:, a:b]) for a, b in itertools.pairwise(edges)]
    tours = blocks[0]
    for block in blocks[1:]:
        tours = tours.then(block)
    heads, complete, tails = zip(*by_hand(origins, log_f), strict=True)
    np.testing.assert_array_equal(tours.has_begun, (origins == 0).any(axis=1))
    np.testing.assert_array_equal(tours.count, [len(rows) for rows in complete])
    np.testing.assert_allclose(tours.head, heads, rtol=1e-5)
    np.testing.assert_allclose(tours.tail, tails, rtol=1e-5)
    np.testing.assert_allclose(tours.total, [rows.sum(axis=0) for rows in complete], rtol=1e-5)
    products = [[(r[:, 0] ** 2).sum(), (r[:, 0] * r[:, 1]).sum(), (r[:, 1] ** 2).sum()] for r in complete]
    np.testing.assert_allclose(tours.products, products, rtol=1e-5)


def test_nothing_is_lost_between_head_tours_and_tail():
    origins, log_f = walk(5, num_chains=4, num_steps=30)
    tours = folded(origins[:, :11], log_f[:, :11]).then(folded(origins[:, 11:], log_f[:, 11:]))
    law = ladder()
    posterior = np.asarray(jax.vmap(jax.vmap(law.rung_posterior))(jnp.asarray(log_f, jnp.float32)))[:, :, [0, -1]]
    np.testing.assert_allclose(tours.head + tours.total + tours.tail, posterior.sum(axis=1), rtol=1e-5)


def test_a_density_that_is_not_finite_adds_nothing():
    origins, log_f = walk(7, num_chains=2, num_steps=12)
    log_f[:, 5] = np.nan
    tours = folded(origins, log_f)
    assert np.isfinite(tours.total).all()
    assert np.isfinite(tours.products).all()


MODELS = {
    "rbm": lambda: tp.load_example()[0],
    "gaussian rbm": lambda: tp.GaussianRBM(np.array([[0.5, -1.0], [1.5, 0.3]]), np.zeros(2), np.ones(2), np.ones(2)),
    "ising": lambda: tp.Ising.square(3, 4, 0.4, field=0.2),
    "potts": lambda: tp.Potts.square(3, 3, 3, 0.7),
    "density": lambda: tp.LogDensity(lambda x: -jnp.sum(x**4), tp.Normal(jnp.zeros(2))),
    "bits": lambda: tp.LogDensity(lambda x: jnp.sum(x * jnp.arange(3.0)), tp.Bernoulli(np.zeros(3))),
}


@pytest.mark.parametrize("name", MODELS)
def test_at_the_base_a_move_forgets_where_it_was(name):
    # The same key from two states gives one state: a regeneration. At the target it does not, but for tiny models.
    model = MODELS[name]()
    path, move = model.path(None, np.array([0.0, 0.5, 1.0])), model.move()
    assert move.redraws_base
    one, two = map(eqx.filter_jit(path.sample_base), (jax.random.key(1), jax.random.key(2)))
    after = jax.jit(lambda x, rung: move(jax.random.key(3), path, rung, x)[0])

    def moved(x, rung):
        return [np.asarray(leaf) for leaf in jax.tree.leaves(after(x, jnp.asarray(rung)))]

    for first, second in zip(moved(one, 0), moved(two, 0), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-6)
    if name in ("rbm", "density"):
        assert not all(np.allclose(a, b) for a, b in zip(moved(one, 2), moved(two, 2), strict=True))


def test_a_move_of_ones_own_is_not_taken_to_begin_anew():
    class Stay(tp.AbstractMove):
        def __call__(self, key, path, rung, x):
            return x, tp.ladder.MoveInfo.accepted()

    assert not Stay().redraws_base
    assert Held(Stay()).move.redraws_base is False
