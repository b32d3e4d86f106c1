"""Rays through draws of the target: the mass that they find, and what is made of it."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tempering as tp
from tempering.sampling.target_rays import RayMasses, unseen_masses
from tempering.stats import WeightedDraws

WIDE, SHARE = 10.0, 0.2  # of the wider of two normals about 0
BETAS = np.array([0.0, 1.0])


def _log_mixture(x):
    """0.8 N(0, 1) + 0.2 N(0, 10²), with a constant left out."""
    square = jnp.sum(x**2)
    wide = jnp.log(SHARE) - 0.5 * square / WIDE**2 - x.size * jnp.log(WIDE)
    return jnp.logaddexp(jnp.log(1 - SHARE) - 0.5 * square, wide) + 3.0


def ladder_of(log_f, num_dims: int = 3):
    return tp.Ladder.create(tp.LogDensity(log_f, tp.Normal(jnp.zeros(num_dims), 1.5)).path(None, BETAS))


def draws_at(x, rungs=1) -> WeightedDraws:
    shape = x.shape[:2] if isinstance(x, np.ndarray) else next(iter(x.values())).shape[:2]
    return WeightedDraws(x, np.zeros(shape), np.broadcast_to(rungs, shape), shape[1])


def unseen(ladder, draws, *, climbs: bool = True) -> RayMasses | None:
    return unseen_masses(ladder, draws, climbs=climbs)


def narrow_draws() -> np.ndarray:
    """Of the narrow component alone, as a run has them that never saw the other; symmetric, so that 0 is the centre."""
    x = np.random.default_rng(1).normal(size=(10, 20, 3)).astype(np.float32)
    return np.concatenate([x, -x])


def test_the_mass_of_each_ray_is_that_of_a_mixture_of_chi_laws():
    """Along a ray the mass of N(0, σ²) within a distance r is that of a chi law of r/σ, in any direction.

    Kills: s^d for s^(d−1), a box that reaches as far as the draws alone, a side of it for the nearest one, a sum
    without the widths of its parts.
    """
    x = narrow_draws()
    found = unseen(ladder_of(_log_mixture), draws_at(x))
    assert found is not None
    rays = x.reshape(-1, 3)[np.linspace(0, x[..., 0].size - 1, len(found.beyond)).astype(int)]
    until = (2 * np.abs(x).max(axis=(0, 1)) / np.abs(rays)).min(axis=1) * np.linalg.norm(rays, axis=1)
    within = (1 - SHARE) * stats.chi(3).cdf(until) + SHARE * stats.chi(3).cdf(until / WIDE)
    # The side of the box cuts a step of 0.24 in log s, of which up to a half is on the wrong side.
    np.testing.assert_allclose(found.beyond, (1 - within) / within, rtol=0.12)
    assert found.beyond.mean() == pytest.approx(np.mean((1 - within) / within), rel=0.02)
    assert (found.chance_beyond, found.chance_inside) == (3 / 401, 1 / 401)


def test_draws_at_lower_rungs_do_not_count():
    """Kills: far-out draws of the base, which would widen the box until nothing lies outside."""
    x = narrow_draws()
    far = np.concatenate([x, 1000 * x], axis=1)
    rungs = np.repeat([1, 0], x.shape[1])
    (at_target, with_others) = (unseen(ladder_of(_log_mixture), d) for d in (draws_at(x), draws_at(far, rungs)))
    assert at_target is not None and with_others is not None  # noqa: PT018  for the type checker
    np.testing.assert_array_equal(at_target.beyond, with_others.beyond)
    assert unseen(ladder_of(_log_mixture), draws_at(x, 0)) is None


def test_a_state_of_several_arrays_is_one_point():
    x = narrow_draws()
    parts = {"first": x[..., :1], "others": x[..., 1:]}
    joined = lambda x: _log_mixture(jnp.concatenate([x["first"], x["others"]]))  # noqa: E731
    base = {"first": tp.Normal(jnp.zeros(1), 1.5), "others": tp.Normal(jnp.zeros(2), 1.5)}
    ladder = tp.Ladder.create(tp.LogDensity(joined, tp.Product(base)).path(None, BETAS))
    whole, split = unseen(ladder_of(_log_mixture), draws_at(x)), unseen(ladder, draws_at(parts))
    assert whole is not None and split is not None  # noqa: PT018
    np.testing.assert_allclose(whole.beyond, split.beyond, rtol=1e-5)


PEAK = 0.01  # the scale of a normal in the middle of a wider one


def log_with_peak(place, num_dims):
    """Half of the mass in N(0, 1), half in N(place, 0.01²), with a constant left out."""

    def log_f(x):
        narrow = -0.5 * jnp.sum((x - place) ** 2) / PEAK**2 - num_dims * jnp.log(PEAK)
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), narrow) + 3.0

    return log_f


def test_a_peak_at_the_centre_is_seen_on_every_ray():
    """From there each ray has as much of the peak as of the rest, but for what lies inside and beyond the draws.

    Kills: what is inside counted with what the draws have seen, or beyond; a box that reaches to the nearest draw.
    """
    x = narrow_draws()
    found = unseen(ladder_of(log_with_peak(0.0, 3)), draws_at(x))
    assert found is not None
    np.testing.assert_allclose(found.inside[0], 1.0, rtol=0.05)
    np.testing.assert_array_equal(found.centers[0], 0.0)
    assert found.beyond.max() < 1e-3


def test_a_normal_has_as_much_inside_as_its_chi_law_says():
    """Within a box that reaches half as far as the nearest draw. Kills: one that reaches to the nearest draw."""
    x = narrow_draws()
    found = unseen(ladder_of(_log_normal), draws_at(x))
    assert found is not None
    rows = x.reshape(-1, 3)
    far = (np.abs(rows) / np.abs(rows).max(axis=0)).max(axis=1)
    picked = np.linspace(0, len(rows) - 1, 60).astype(int)
    until = far.min() / 2 / far[picked] * np.linalg.norm(rows[picked], axis=1)
    # Places are 0.6 apart in log s there, of which up to a half is on the wrong side: a factor of exp(0.9) in the mass.
    ratios = found.inside[0] / stats.chi(3).cdf(until)
    assert 0.4 < ratios.min() < ratios.max() < 2.5
    assert found.inside[0].mean() < found.chance_inside


@pytest.mark.parametrize(("apart", "climbs"), [(2, False), (10, True)])
def test_a_peak_beside_the_centre_is_seen_from_its_own_place(apart, climbs):
    """So far that rays from the median pass by: near enough to be the highest, or so that the slope leads to it.

    Coordinates have very different scales. Kills: one centre, a second that is the lowest, a climb down, or in units
    other than those of its steps.
    """
    place, scales = apart * PEAK * np.array([1.0, -1.0, 1.0]), np.array([1.0, 1e3, 1e-3], np.float32)
    log_f, x = log_with_peak(place, 3), narrow_draws() * scales
    found = unseen(ladder_of(lambda x: log_f(x / scales)), draws_at(x), climbs=climbs)
    assert found is not None
    np.testing.assert_allclose(found.centers[1] / scales, place, atol=(1e-3 if climbs else 2) * PEAK)
    assert found.inside[1].mean() == pytest.approx(1.0, rel=0.1 if climbs else 0.5)
    assert found.evaluations.densities == 2 * 60 * 51
    assert (found.evaluations.gradients > 0) is climbs


def test_a_draw_in_the_peak_has_seen_it():
    """Kills: the nearest draw left out, a division by a step of 0."""
    x = narrow_draws()
    x[0, 0] = x[10, 0] = 0.0
    found = unseen(ladder_of(log_with_peak(0.0, 3)), draws_at(x))
    assert found is not None
    np.testing.assert_array_equal(found.inside[0], 0.0)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_states_of_few_values_have_no_rays(dtype):
    """Kills: bits that are kept as real numbers, one coordinate of them beside real ones."""
    x = narrow_draws()
    x[..., 1] = np.random.default_rng(0).integers(0, 5, x.shape[:2])
    assert unseen(ladder_of(_log_mixture), draws_at(x.astype(dtype))) is None


def test_counts_have_no_rays():
    """Kills: whole numbers of many values for real ones, which have a gradient."""
    counts = np.random.default_rng(0).integers(0, 10**6, (20, 20, 3))
    assert unseen(ladder_of(_log_mixture), draws_at(counts)) is None


def test_real_numbers_that_rarely_move_have_rays():
    """Chains whose moves are refused nine times in ten, and a coordinate that is always the same."""
    x = np.repeat(narrow_draws()[:, ::10], 10, axis=1)
    x[..., 2] = 1.0
    assert unseen(ladder_of(_log_mixture), draws_at(x)) is not None


@pytest.mark.parametrize("outside", [-np.inf, np.nan])
def test_where_f_is_zero_or_unknown_there_is_no_mass(outside):
    """Behind a wall within the box. Kills: a NaN that spreads, or that counts as mass."""
    behind_a_wall = lambda x: jnp.where(jnp.all(jnp.abs(x) < 4), _log_mixture(x), outside)  # noqa: E731
    found = unseen(ladder_of(behind_a_wall), draws_at(narrow_draws()))
    assert found is not None
    np.testing.assert_array_equal(found.beyond, 0.0)


SHAPE = {"num_chains": 60, "num_sweeps": 200, "num_rungs": 12}


def _log_normal(x):
    return -0.5 * jnp.sum(x**2)


def _log_improper(x):
    """A normal on a plateau: no integral."""
    return jnp.logaddexp(_log_normal(x), -30.0)


@pytest.mark.parametrize(("log_f", "found"), [
    (_log_mixture, tp.Verdict.HEAVY_TAILS), (_log_improper, tp.Verdict.HEAVY_TAILS),
    (log_with_peak(0.0, 5), tp.Verdict.MISSED), (_log_normal, None),
])  # fmt: skip
def test_what_no_chain_has_come_to_is_found(log_f, found):
    """A wide component that few chains enter, a density without an integral, and a peak that none enters.

    Kills: a finding that is not told.
    """
    result = tp.estimate(tp.LogDensity(log_f, tp.Normal(jnp.zeros(5), 1.05)), **SHAPE)
    assert {finding.verdict for finding in result.diagnosis.findings} == ({found} if found else set())
    assert result.evaluations is not None
    assert result.evaluations.densities >= 2 * 60 * 51
