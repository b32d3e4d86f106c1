"""Two lobes in the plane, tempered from a normal density: exact draws of every rung, and its law over cells."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import tempering as tp

NUM_DRAWS = 40_000
BETAS = np.array([0.0, 0.4, 1.0])
WEIGHTS, MEANS = np.array([0.7, 0.3]), np.array([[-1.2, 0.4], [1.5, -0.8]])
STDS = np.array([[0.5, 0.9], [0.8, 0.4]])
BASE_MEAN, BASE_STD = np.array([0.3, -0.2]), np.array([1.8, 1.5])
SPREAD = jnp.array([0.7, 1.6])  # a scale per coordinate


def log_target(x):
    """Two lobes of different weight, shape and size; its integral is e, not 1."""
    z = (x - MEANS) / STDS
    return 1 + jax.nn.logsumexp(-0.5 * jnp.sum(z**2, axis=1) - jnp.sum(jnp.log(STDS), axis=1), b=WEIGHTS / (2 * np.pi))


@functools.cache
def plane_path():
    return tp.paths.GeometricPath.create(log_target, tp.Normal(BASE_MEAN, BASE_STD), BETAS)


def densities(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The normalised base and target, in NumPy."""
    parts = [stats.norm.pdf(points, mean, std).prod(axis=-1) for mean, std in zip(MEANS, STDS, strict=True)]
    return stats.norm.pdf(points, BASE_MEAN, BASE_STD).prod(axis=-1), np.tensordot(WEIGHTS, parts, 1)


@functools.cache
def exact_draws(rung: int) -> np.ndarray:
    """By rejection: p^(1−β) f^β is nowhere above (1 − β) p + β f, which is a mixture of normals."""
    rng, beta, drawn = np.random.default_rng(rung), BETAS[rung], []
    while sum(map(len, drawn)) < NUM_DRAWS:
        part = rng.choice(3, size=NUM_DRAWS, p=np.append(beta * WEIGHTS, 1 - beta))
        means, stds = np.vstack([MEANS, BASE_MEAN]), np.vstack([STDS, BASE_STD])
        points = rng.normal(means[part], stds[part])
        base, target = densities(points)
        envelope = (1 - beta) * base + beta * target
        drawn.append(points[rng.random(NUM_DRAWS) * envelope < base ** (1 - beta) * target**beta])
    return np.concatenate(drawn)[:NUM_DRAWS]


EDGES = [np.array([-1.6, -1.2, -0.8, -0.2, 0.6, 1.2, 1.8]), np.array([-1.2, -0.8, -0.4, 0.2, 0.8, 1.4])]


def cells_of(points) -> np.ndarray:
    """The number of the cell of the plane that each point is in."""
    rows, columns = (np.searchsorted(edges, np.asarray(points)[:, axis]) for axis, edges in enumerate(EDGES))
    return rows * (len(EDGES[1]) + 1) + columns


NUM_CELLS = (len(EDGES[0]) + 1) * (len(EDGES[1]) + 1)


@functools.cache
def _masses(rung: int) -> np.ndarray:
    """The integral over each cell, by the midpoint rule on a grid of 0.02 to which all edges belong."""
    ticks = np.arange(-10, 10, 0.02) + 0.01
    points = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    base, target = densities(points)
    return 0.02**2 * np.bincount(cells_of(points), base ** (1 - BETAS[rung]) * target ** BETAS[rung], NUM_CELLS)


def plane_law(rung: int) -> np.ndarray:
    """The probability of each cell."""
    return _masses(rung) / _masses(rung).sum()


def plane_log_z() -> np.ndarray:
    """log Z at every rung."""
    return np.log([_masses(rung).sum() for rung in range(len(BETAS))]) + BETAS  # `log_target` is 1 above the density


def counts_after(step, seed: int = 0):
    """For every rung, where its exact draws are after one `step(key, path, rung, x)`, counted in cells, and its law."""
    path = plane_path()
    go = jax.jit(jax.vmap(lambda key, rung, x: step(key, path, rung, x), in_axes=(0, None, 0)))
    for rung in range(len(BETAS)):
        keys = jax.random.split(jax.random.key(100 * seed + rung), NUM_DRAWS)
        moved = np.asarray(go(keys, jnp.int32(rung), jnp.asarray(exact_draws(rung), jnp.float32)))
        yield np.bincount(cells_of(moved), minlength=NUM_CELLS), plane_law(rung)
