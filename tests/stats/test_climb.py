"""What particles record on their way up the ladder, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import exact
from tempering.ladder import ClimbDraw, MoveInfo
from tempering.stats import ClimbRecord

CHAINS, STEPS = 4, 6
RNG = np.random.default_rng(3)
INCREMENTS = RNG.normal(0, 30, (CHAINS, STEPS))
ACCEPTED = RNG.uniform(0, 1, (CHAINS, STEPS))
DIVERGENT = RNG.uniform(0, 1, (CHAINS, STEPS)) < 0.4


def recorded(steps: slice):
    """These steps of all particles, as one block."""
    ladder = exact.small_ladder()
    parts = [jnp.asarray(part[:, steps]) for part in (INCREMENTS, ACCEPTED, DIVERGENT)]

    def fold(increments, accepted, divergent):
        infos = MoveInfo(accepted, jnp.ones_like(accepted), divergent)
        draws = ClimbDraw(increments, infos)
        return jax.lax.scan(lambda kept, draw: (kept.update(ladder, draw), None), ClimbRecord.empty(ladder), draws)[0]

    return jax.jit(jax.vmap(fold))(*parts).on_host()


def test_steps_and_moves_of_a_climb_are_recorded():
    """Kills: room that was not written, sums over chains, divergences for acceptance."""
    whole = recorded(slice(None))
    np.testing.assert_allclose(whole.log_increments, INCREMENTS, rtol=1e-6)
    np.testing.assert_allclose(whole.accepted, ACCEPTED.sum(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(whole.num_divergent, DIVERGENT.sum(axis=1))
    assert whole.acceptance == pytest.approx(ACCEPTED.mean(), rel=1e-6)
    assert whole.log_increments.dtype == whole.accepted.dtype == np.float64


@pytest.mark.parametrize("cut", [1, 4])
def test_a_climb_does_not_depend_on_where_it_is_cut(cut):
    """In the order of time. Kills: the later block first, acceptance of the last block alone."""
    whole, joined = recorded(slice(None)), recorded(slice(cut)).then(recorded(slice(cut, None)))
    for name in ("log_increments", "accepted", "num_divergent"):
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-6)
    assert joined.acceptance == pytest.approx(whole.acceptance, rel=1e-6)


def test_a_climb_without_steps_has_no_acceptance():
    """And no division by 0."""
    none = recorded(slice(0))
    assert none.log_increments.shape == (CHAINS, 0)
    assert none.acceptance == 0


def test_weights_that_vanish_are_kept_as_they_are():
    """−inf and NaN: the population decides what they count."""
    ladder, info = exact.small_ladder(), MoveInfo.accepted()
    record = ClimbRecord.empty(ladder)
    for value in (-np.inf, np.nan, 1.0):
        record = record.update(ladder, ClimbDraw(jnp.float32(value), info))
    kept = jax.tree.map(lambda leaf: leaf[None], record).on_host()
    np.testing.assert_array_equal(kept.log_increments, [[-np.inf, np.nan, 1.0]])
