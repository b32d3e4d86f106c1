"""A density that is 0 or NaN somewhere: every method gives the integral over the rest, or says that it cannot."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr

import checks
import tempering as tp
from tempering.estimators import (
    bar_chain,
    bias_corrected_rts,
    bridge_sampling,
    maximum_likelihood,
    mbar,
    rsd,
    stepping_stone,
    ti,
    ts,
)
from tempering.stats import Keep, ReducedDraws, TemperingRecord

BETAS = np.array([0.0, 0.5, 1.0])
MASSES = np.array([[1, 1, 1, 1], [1, 2, 0, 0], [1, 4, 0, 0]])  # f_k of the four states, at each rung
TRUTH = np.log([4, 3, 5])


@functools.cache
def _path(hole):
    """Two bits, all alike at the base; f = 1 and 4 where the first bit is 0, and a hole elsewhere."""
    return tp.paths.GeometricPath.create(
        lambda x: jnp.where(x[0] > 0, hole, jnp.log(1 + 3 * x[1])), tp.Bernoulli(np.zeros(2)), BETAS
    )


KEEP = Keep(slopes=True, steps=True, bridges=True, transitions=True, features=True)


def _exact_recording(path, *, num_chains=3):
    """Each chain draws every (x, k) exactly f_k(x) times: all averages are those of the law."""
    ladder = tp.Ladder.create(path)
    cells = [(k, i) for k in range(3) for i in range(4) for _ in range(MASSES[k, i])]
    record = TemperingRecord.empty(ladder, keep=KEEP)

    def add(record, cell):
        rung, x = cell[0], jnp.stack([cell[1] // 2, cell[1] % 2]).astype(jnp.float32)
        draw = tp.ladder.Draw(x, rung, rung, path.log_densities(x))
        return record.update(ladder, draw), None

    one = jax.jit(lambda cells: jax.lax.scan(add, record, cells)[0])(jnp.asarray(cells, jnp.int32))
    return jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], num_chains, axis=0), one).on_host()


@functools.cache
def _recordings():
    return {hole: _exact_recording(_path(hole)) for hole in (-jnp.inf, jnp.nan)}


METHODS = {
    "bridge": lambda r, _: bridge_sampling(r.stats),
    "rts": lambda r, _: tp.rts(r.stats),
    "rts, less its bias": lambda r, _: bias_corrected_rts(r.stats),
    "rts by maximum likelihood": lambda r, _: maximum_likelihood(r.stats),
    "ts": lambda r, _: ts(r.stats, pseudo_count=0.0),
    "rsd": lambda r, _: rsd(r),
    "stepping up": lambda r, _: stepping_stone(r.stats, "up"),
    "mbar": lambda r, path: mbar(r.features.reduced_draws(path)),
    "bar": lambda r, path: bar_chain(r.features.reduced_draws(path)),
}


@pytest.mark.parametrize("hole", [-np.inf, np.nan])
@pytest.mark.parametrize("method", METHODS)
def test_a_hole_in_the_density_counts_as_zero(method, hole):
    """log(5/4), not log(5/2), which is the ratio to the half of the base where f is a number.

    Kills: draws in the hole that are left out, by any method.
    """
    answer = METHODS[method](_recordings()[hole], _path(hole))
    np.testing.assert_allclose(answer.values, TRUTH - TRUTH[0], atol=2e-6)


def test_a_hole_of_nan_is_named_and_one_of_zeros_is_not():
    zeros, nans = (_recordings()[hole].stats for hole in (-np.inf, np.nan))
    assert zeros.num_nonfinite.sum() == nans.num_unused.sum() == 0
    assert nans.num_nonfinite.sum() == 3 * 2
    assert tp.rts(zeros).findings == ()
    (found,) = [f for f in stepping_stone(nans, "up").findings if f.verdict is tp.Verdict.NONFINITE]
    assert found.seen == (
        "6 of 36 draws had a log density of NaN, which counts as f = 0 there; the first in chain 0 at rung 0, step 2"
    )


@pytest.mark.parametrize("hole", [-np.inf, np.nan])
def test_methods_that_cannot_see_a_hole_say_so(hole):
    """TI has no mean slope at the base, and no step down leads into the hole. Kills: a number alone."""
    stats = _recordings()[hole].stats
    for answer in (ti(stats), stepping_stone(stats, "down")):
        assert answer.verdict is tp.Verdict.NONFINITE
    cures = [f.cure for f in stepping_stone(stats, "down").findings]
    assert any('`method="rts"`' in cure for cure in cures)
    assert any("at 6 draws" in f.seen for f in stepping_stone(stats, "down").findings)


def test_draws_given_by_hand_may_have_a_density_of_zero():
    """−inf is 0 in `from_log_densities` and `on_geometric_path` alike. Kills: such draws left out."""
    rungs = np.repeat([0, 1, 2], [4, 3, 5])
    states = np.concatenate([np.repeat(np.arange(4), masses) for masses in MASSES])
    with np.errstate(divide="ignore"):
        log_f = np.log(MASSES.T.astype(np.float64))[states]
    for draws in (
        ReducedDraws.from_log_densities(log_f, rungs),
        ReducedDraws.on_geometric_path(log_f[:, -1], BETAS, rungs),
    ):
        np.testing.assert_allclose(mbar(draws).values, TRUTH - TRUTH[0], atol=1e-9)
        assert tp.Verdict.NONFINITE not in {f.verdict for f in mbar(draws).findings}


class HalfNormal(eqx.Module):
    """exp(−(x − 1)²/2) above −0.3; log Z = ½ log 2π + log Φ(1.3). The hole is an argument of what is compiled."""

    hole: jax.Array

    def __call__(self, x):
        return jnp.where(x > -0.3, -0.5 * (x - 1) ** 2, self.hole)


def _half_normal(hole):
    return tp.LogDensity(HalfNormal(jnp.float32(hole)), tp.Normal(0.0, 1.5))


@pytest.mark.parametrize("hole", [-np.inf, np.nan])
def test_a_run_into_a_hole_gives_the_integral_over_the_rest(hole):
    """Within 5.5 of its errors, of some 0.01; leaving draws out is off by −log Φ(0.2) = 0.546."""
    result = tp.estimate(_half_normal(hole), num_rungs=12, num_sweeps=400)
    truth = 0.5 * np.log(2 * np.pi) + log_ndtr(1.3)
    checks.assert_within(result.log_z, truth, result.std_error)
    assert result.std_error < 0.05
    assert result.annealed is not None
    checks.assert_within(result.annealed.log_z, truth, result.annealed.std_error)
    assert result.verdict is (tp.Verdict.NONFINITE if np.isnan(hole) else tp.Verdict.GOOD)


@pytest.mark.slow  # by exact statistics every method is held to the hole above, and a run is too
@pytest.mark.parametrize("hole", [-np.inf, np.nan])
def test_every_method_knows_the_hole_or_says_that_it_does_not(hole):
    """Those of a good verdict hold the truth; NaN is named by all. Bounds from above may lie above."""
    found = tp.compare(_half_normal(hole), methods="all", num_chains=60, num_rungs=12, budget=600)
    truth = 0.5 * np.log(2 * np.pi) + log_ndtr(1.3)
    names = {entry.method.name: entry for entry in found.entries}
    for name in ("rts", "ts", "stepping_up", "bridge", "mbar", "bar", "ais", "sams", "wang_landau"):
        answer = names[name].answer
        checks.assert_within(answer.log_z, truth, np.hypot(answer.std_error, answer.biases[-1]))
    for name, entry in names.items():
        if np.isnan(hole) or name.startswith(("ti", "stepping_down", "continuous")):
            assert entry.verdict is tp.Verdict.NONFINITE, name
