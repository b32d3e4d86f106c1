"""Statistics and draws that several test files are given: made by hand or by NumPy, without a run."""

import dataclasses

import numpy as np

from tempering.stats import BlockedStats, Recording, ReducedDraws, Tours, Travel

CHAINS, BLOCKS, RUNGS, DRAWS = 20, 8, 3, 50
UNEVEN = np.array([0.0, 0.1, 0.3, 0.45, 0.7, 1.0])


def healthy(seed: int = 0) -> Recording:
    """A recording without a fault: even occupancy, many round trips, no drift."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(RUNGS, 30.0), size=(CHAINS, BLOCKS))
    ends = np.ones(CHAINS, np.int64)
    stats = BlockedStats(
        betas=np.linspace(0, 1, RUNGS),
        log_prior=np.full(RUNGS, -np.log(RUNGS)),
        log_z_guess=np.zeros(RUNGS),
        log_sums=np.log(DRAWS * shares),
        visits=np.full((CHAINS, BLOCKS, RUNGS), 17),
        num_draws=np.full((CHAINS, BLOCKS), DRAWS),
        num_nonfinite=np.zeros((CHAINS, BLOCKS), np.int64),
        travel=Travel(ends, ends, 8 * ends),
        block_size=DRAWS,
    )
    return Recording(stats, np.ones((10, RUNGS, RUNGS), np.int64), None)


def changed(**fields) -> Recording:
    recording = healthy()
    return dataclasses.replace(recording, stats=dataclasses.replace(recording.stats, **fields))


def log_sums_that_drift() -> np.ndarray:
    log_sums = healthy().stats.log_sums.copy()
    log_sums[:, BLOCKS // 2 :, -1] += 1.0
    return log_sums


def few_crossings() -> Travel:
    ends = np.ones(CHAINS, np.int64)
    return Travel(ends, ends, 0 * ends + (np.arange(CHAINS) < 3))


def cut_tours(first: np.ndarray, last: np.ndarray) -> Tours:
    """Tours of which nothing is known but the sums at the target of those that the ends of the run cut off."""
    head, tail = (np.column_stack([np.zeros(len(sums)), sums]) for sums in (first, last))
    none, yes = np.zeros(len(first)), np.ones(len(first), bool)
    return Tours(head, tail, yes, none, np.zeros_like(head), np.zeros((len(first), 3)), ~yes)


def one_chain() -> Recording:
    stats = healthy().stats
    parts = {name: getattr(stats, name)[:1, :1] for name in ("log_sums", "visits", "num_draws", "num_nonfinite")}
    one = np.ones(1, np.int64)
    return dataclasses.replace(healthy(), stats=dataclasses.replace(stats, travel=Travel(one, one, 40 * one), **parts))


def gaussian_draws(rng, shape, *, num_rungs=4, centre=2.0, rungs=None) -> tuple[ReducedDraws, np.ndarray]:
    """Exact draws of N(m, 1) with m from 0 to `centre` on a geometric path, round the rungs, and log Z."""
    betas = np.linspace(0, 1, num_rungs)
    rungs = np.arange(np.prod(shape)).reshape(shape) % num_rungs if rungs is None else rungs
    x = rng.normal(size=shape) + centre * betas[rungs]
    return ReducedDraws.on_geometric_path(centre * x - centre**2 / 2, betas, rungs), (betas**2 - betas) * centre**2 / 2


def step_stats(up, down, visits) -> BlockedStats:
    """Statistics with given sums of ratios (chain, rung); the last rung has no step up, the first none down."""
    visits = np.asarray(visits)
    num_chains, num_rungs = visits.shape
    sums = np.stack([np.asarray(up, np.float64), np.asarray(down, np.float64)], axis=2)
    sums[:, -1, 0] = sums[:, 0, 1] = 0.0
    none = np.zeros(num_chains, np.int64)
    with np.errstate(divide="ignore"):
        log_steps, log_sums = np.log(sums), np.log(visits.astype(np.float64))
    return BlockedStats(
        betas=np.linspace(0, 1, num_rungs),
        log_prior=np.full(num_rungs, -np.log(num_rungs)),
        log_z_guess=np.zeros(num_rungs),
        log_sums=log_sums[:, None],
        visits=visits[:, None],
        num_draws=visits.sum(axis=1)[:, None],
        num_nonfinite=none[:, None],
        travel=Travel(none, none, none),
        block_size=1,
        log_steps=log_steps[:, None],
    )


def noisy_step_stats(num_chains=20, seed=0) -> BlockedStats:
    rng = np.random.default_rng(seed)
    visits = rng.integers(1, 9, (num_chains, 4))
    up, down = (visits * rng.gamma(8.0, size=visits.shape) * scale for scale in ([1, 3, 2, 1], [1, 0.1, 0.3, 0.7]))
    return step_stats(up, down, visits)


def slope_stats(slope_sums, weights, betas, *, num_blocks=1, posteriors=None, weighted=None) -> BlockedStats:
    """Statistics with given sums (chain, rung, 3) and draws (chain, rung), a reference slope of 0."""
    weights = np.asarray(weights)
    none = np.zeros(len(weights), np.int64)
    posteriors = weights if posteriors is None else posteriors
    with np.errstate(divide="ignore"):
        log_sums = np.log(np.asarray(posteriors, np.float64))
    num_rungs = len(betas)
    return BlockedStats(
        betas=np.asarray(betas, np.float64),
        log_prior=np.full(num_rungs, -np.log(num_rungs)),
        log_z_guess=np.zeros(num_rungs),
        log_sums=log_sums[:, None],
        visits=np.asarray(weights, np.int64)[:, None],
        num_draws=np.asarray(weights.sum(axis=1), np.int64)[:, None],
        num_nonfinite=none[:, None],
        travel=Travel(none, none, none),
        block_size=1,
        slope_reference=np.zeros(num_rungs),
        counted_slopes=np.asarray(slope_sums, np.float64)[:, None],
        weighted_slopes=np.asarray(slope_sums if weighted is None else weighted, np.float64)[:, None],
    )


def noisy_slope_stats(num_chains=20, betas=UNEVEN, seed=0, most=6) -> BlockedStats:
    """Chains that visit rungs rarely, some not at all, and draw slopes around E = 1 + 2β + β², with V = 2 + 2β."""
    rng = np.random.default_rng(seed)
    visits = rng.integers(0, most, (num_chains, len(betas)))
    sums = np.zeros((num_chains, len(betas), 3))
    for chain, rung in np.ndindex(visits.shape):
        draws = rng.normal(1 + 2 * betas[rung] + betas[rung] ** 2, 0.8, visits[chain, rung])
        sums[chain, rung] = draws.sum(), (draws**2).sum(), (2 + 2 * betas[rung] - 0.8**2) * len(draws)
    return slope_stats(sums, visits, betas)
