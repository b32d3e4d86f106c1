"""Annealing up and down: weights whose expectations are known by enumeration, and whether they may be believed."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, ndtri

import checks
import exact
import tempering as tp
from tempering._logspace import log_mean_exp
from tempering.estimators import Sandwich, raise_bound, raise_log_likelihood, reverse_ais
from tempering.estimators.both_ways import log_z_from_both_ways
from tempering.kernels import AbstractMove, AnnealDown, AnnealState, AnnealUp, Position, positions_at_target
from tempering.ladder import AbstractPath
from tempering.stats import MAX_BLOCK_STEPS, AnnealRecord, AnnealWeights

TOLERANCE = 1e-10
# log f_k(x) of four states at four rungs: no symmetry, and eighths, so that float32 is exact.
TABLE = np.array([[8, 3, -4, 9], [2, 5, 1, -6], [-3, 2, 12, 4], [6, -8, 3, 7]]) / 8.0
NUM_STATES, NUM_RUNGS = TABLE.shape
LOG_Z = logsumexp(TABLE, axis=0)


class _Scripted(eqx.Module):
    """A state that knows where it will go at each rung."""

    at: jax.Array
    script: jax.Array  # (rung,)


class _TablePath(AbstractPath):
    betas: jax.Array

    def log_z_base(self):
        return float(np.logaddexp.reduce(TABLE[:, 0]))

    def sample_base(self, key):
        raise AssertionError("these passes have scripts")

    def log_density(self, x, rung):
        return jnp.asarray(TABLE, jnp.float32)[x.at, rung]

    def with_betas(self, betas):
        return _TablePath(jnp.asarray(betas, jnp.float32))


class _Follow(AbstractMove):
    def __call__(self, key, path, rung, x):
        return _Scripted(x.script[rung], x.script), tp.ladder.MoveInfo.accepted()


class _Stay(AbstractMove):
    def __call__(self, key, path, rung, x):
        return x, tp.ladder.MoveInfo.accepted()


class _TellsRung(AbstractMove):
    """Writes the rung that it was called with into x."""

    def __call__(self, key, path, rung, x):
        return path.state_of(jnp.full_like(x.v, rung)), tp.ladder.MoveInfo.accepted()


def _metropolis(rung: int) -> np.ndarray:
    """A lazy Metropolis step on the ring of states: reversible, and far from drawing x anew."""
    matrix = np.zeros((NUM_STATES, NUM_STATES))
    for x, step in itertools.product(range(NUM_STATES), (-1, 1)):
        y = (x + step) % NUM_STATES
        matrix[x, y] += 0.4 * min(1.0, np.exp(TABLE[y, rung] - TABLE[x, rung]))
    return matrix + np.diag(1 - matrix.sum(axis=1))


def _table_ladder() -> tp.Ladder:
    return tp.Ladder.create(_TablePath(jnp.linspace(0, 1, NUM_RUNGS)))


def _walked(kernel, states) -> AnnealWeights:
    """All chains through a whole pass, with the kernel's own increments and record."""
    ladder, record = _table_ladder(), AnnealRecord.empty(_table_ladder())

    def walk(state):
        kept = record
        for _ in range(NUM_RUNGS - 1):
            state, draw = kernel(jax.random.key(0), ladder, state)
            kept = kept.update(ladder, draw)
        return kept

    return jax.tree.map(np.asarray, jax.vmap(walk)(states)).on_host()


def _all_passes() -> tuple[np.ndarray, np.ndarray]:
    """Every x_0 … x_{K−1}, with x_{K−1} the slowest: as (start, pass, rung); and T_1 … T_{K−1}."""
    passes = np.array(list(itertools.product(range(NUM_STATES), repeat=NUM_RUNGS)))[:, ::-1]
    matrices = np.array([np.eye(NUM_STATES)] + [_metropolis(rung) for rung in range(1, NUM_RUNGS)])
    return passes.reshape(NUM_STATES, -1, NUM_RUNGS), matrices


def _exact_down() -> np.ndarray:
    """Log weights (start, pass, rung) of all passes down, each times its probability and their number.

    A mean over passes is then an expectation, without noise.
    """
    passes, matrices = _all_passes()
    flat = passes.reshape(-1, NUM_RUNGS)
    # At rung k a pass down goes from x_k to x_{k−1}.
    script = jnp.asarray(np.roll(flat, 1, axis=1), jnp.int32)
    starts = positions_at_target(_table_ladder().path, _Scripted(jnp.asarray(flat[:, -1], jnp.int32), script))
    log_weights = _walked(AnnealDown(_Follow()), starts).log_weights_down().reshape(passes.shape)
    steps = [matrices[k][passes[..., k], passes[..., k - 1]] for k in range(1, NUM_RUNGS)]
    with np.errstate(divide="ignore"):  # passes that cannot be
        log_probability = np.log(np.prod(steps, axis=0))
    shift = np.where(np.arange(NUM_RUNGS) < NUM_RUNGS - 1, (log_probability + np.log(passes.shape[1]))[..., None], 0.0)
    return log_weights + shift


def _exact_up() -> np.ndarray:
    """The same for all passes up from exact draws of the base: (pass, rung)."""
    passes, matrices = _all_passes()
    flat = passes.reshape(-1, NUM_RUNGS)
    script = jnp.asarray(flat, jnp.int32)  # at rung k a pass up arrives in x_k
    kept_at = jnp.zeros(len(flat), jnp.int32)
    x = _Scripted(script[:, 0], script)
    log_weights = _walked(AnnealUp(_Follow()), AnnealState(x, kept_at, kept_at, x)).log_weights()
    steps = [matrices[k][flat[:, k - 1], flat[:, k]] for k in range(1, NUM_RUNGS)]
    with np.errstate(divide="ignore"):  # passes that cannot be
        log_probability = TABLE[flat[:, 0], 0] - LOG_Z[0] + np.log(np.prod(steps, axis=0))
    return log_weights + np.where(np.arange(NUM_RUNGS) > 0, (log_probability + np.log(len(flat)))[:, None], 0.0)


def _annealed_law() -> np.ndarray:
    """p_annealed(x): where exact draws of the base arrive after T_1 … T_{K−1}."""
    law = np.exp(TABLE[:, 0] - logsumexp(TABLE[:, 0]))
    for matrix in _all_passes()[1]:
        law = law @ matrix
    return law


# Up.


def test_weights_up_average_to_the_ratio_over_every_pass():
    """E[w] = Z_k / Z_0 by every pass from exact draws of the base, for AIS. Kills: increments after the move."""
    np.testing.assert_allclose(tp.estimators.ais(_exact_up(), log_z_base=LOG_Z[0]).values, LOG_Z, atol=TOLERANCE)


def test_annealing_weights_average_to_the_ratio():
    """E[w] of an RBM by its transition matrices and the kernel's own increments. Kills: their sign, a rung too far."""
    path = exact.small_path()
    truth = exact.log_z(path) - exact.log_z(path)[0]
    states = exact.states_of(path, exact.patterns(5))
    log_f = exact.log_densities(path)
    mass = np.exp(log_f[:, 0] - logsumexp(log_f[:, 0]))
    kernel = AnnealUp(_Stay())
    for rung in range(2):
        at = jax.vmap(lambda x, rung=rung: AnnealState(x, jnp.int32(rung), jnp.int32(0), x))(states)
        moved, draws = jax.vmap(lambda s: kernel(jax.random.key(0), exact.small_ladder(), s))(at)
        assert np.all(np.asarray(moved.rung) == rung + 1)
        mass = (mass * np.exp(np.asarray(draws, np.float64))) @ exact.gibbs_matrix(path, rung + 1)
        assert np.log(mass.sum()) == pytest.approx(truth[rung + 1], abs=1e-6)  # the kernel's float32


def test_annealing_moves_at_the_rung_that_it_has_reweighted_to():
    """Weights are right only if x then moves under f_{k+1}. Kills: a move at the rung that was left."""
    at = exact.small_path().state_of(jnp.zeros(5))
    start = AnnealState(at, jnp.int32(0), jnp.int32(1), at)
    moved, _ = AnnealUp(_TellsRung())(jax.random.key(0), exact.small_ladder(), start)
    np.testing.assert_array_equal(moved.x.v, np.full(5, 1.0))
    np.testing.assert_array_equal(moved.kept.v, np.full(5, 1.0))
    assert moved.rung == 1


# Down.


def test_block_gibbs_of_an_rbm_is_reversible():
    """f_k(v) T_k(v' | v) is symmetric, which passes down rely on, and which a sweep over bits in order is not."""
    path = exact.small_path()
    flow = np.exp(exact.log_densities(path)[:, 1])[:, None] * exact.gibbs_matrix(path, 1)
    np.testing.assert_allclose(flow, flow.T, rtol=1e-12)


def test_weights_down_average_to_the_ratio_over_the_target():
    """E[w] = Z_k / Z_{K−1} by every pass from exact target draws; reverse AIS then has every log Z_k.

    Kills: reweighting before the move, a move at k − 1, the sign of an increment, columns in the order of steps, a
    ratio to the target instead of the base.
    """
    law = np.exp(TABLE[:, -1] - LOG_Z[-1])
    log_weights = _exact_down()
    log_weights[..., :-1] += np.log(law * NUM_STATES)[:, None, None]
    answer = reverse_ais(log_weights.reshape(-1, NUM_RUNGS), log_z_base=2.5)
    np.testing.assert_allclose(answer.values, 2.5 + LOG_Z - LOG_Z[0], atol=TOLERANCE)
    assert answer.method == "reverse_ais"


def test_starts_from_where_passes_up_arrive_err_low():
    """E[w] is then (1 + χ²) Z_0 / Z_{K−1}, by every pass: why reverse AIS needs draws of the target."""
    arrived, law = _annealed_law(), np.exp(TABLE[:, -1] - LOG_Z[-1])
    log_weights = _exact_down()
    log_weights[..., :-1] += np.log(arrived * NUM_STATES)[:, None, None]
    answer = reverse_ais(log_weights.reshape(-1, NUM_RUNGS), log_z_base=LOG_Z[0])
    assert answer.log_z == pytest.approx(LOG_Z[-1] - np.log(np.sum(arrived**2 / law)), abs=TOLERANCE)
    assert answer.log_z < LOG_Z[-1]


def test_raise_gives_the_annealed_probability_of_every_state():
    """E[w_RAISE | v] over all passes down from v is where passes up arrive, for each v.

    Kills: log Z_0 added, log f(v) left out, a mean of logs over the passes of a row, the weight at another rung.
    """
    answer = raise_log_likelihood(_exact_down(), TABLE[:, -1], log_z_base=LOG_Z[0])
    expected = np.log(_annealed_law())
    np.testing.assert_allclose(answer.rows, expected, atol=TOLERANCE)
    assert answer.mean == pytest.approx(expected.mean(), abs=TOLERANCE)
    assert answer.std_error == pytest.approx(expected.std(ddof=1) / 2, abs=TOLERANCE)


def test_raise_bound_is_its_definition():
    """The mean over rows of log f(v) − log w_RAISE(v), with the error of that mean.

    Kills: the log of the mean over rows, the opposite sign, rows exchanged with passes, a variance over n.
    """
    each = TABLE[:, -1] - np.log(_annealed_law())
    answer = raise_bound(_exact_down(), log_z_base=LOG_Z[0])
    assert answer.log_z == pytest.approx(each.mean(), abs=TOLERANCE)
    assert answer.std_error == pytest.approx(each.std(ddof=1) / 2, abs=TOLERANCE)
    assert answer.biases[-1] == pytest.approx(each.var() / 2, abs=TOLERANCE)
    assert answer.values[0] == LOG_Z[0]
    one_pass_each = raise_bound(_exact_down()[:, 5], log_z_base=LOG_Z[0])
    np.testing.assert_array_equal(one_pass_each.values, raise_bound(_exact_down()[:, 5:6], log_z_base=LOG_Z[0]).values)


def test_raise_bounds_log_z_from_above_on_rows_of_the_target():
    """Σ_v p(v) (log f(v) − log E[w_RAISE]) − log Z is a Kullback-Leibler divergence. A check of the page's claim."""
    law = np.exp(TABLE[:, -1] - LOG_Z[-1])
    divergence = law @ np.log(law / _annealed_law())
    assert divergence > 0.01
    bound = law @ (TABLE[:, -1] - np.log(_annealed_law()))
    assert bound - LOG_Z[-1] == pytest.approx(divergence, abs=TOLERANCE)


def test_steps_past_an_end_add_nothing():
    """Kills: a rung of −1, which JAX takes for the last one."""
    at = _Scripted(jnp.int32(1), jnp.array([2, 0, 3, 1], jnp.int32))
    down, log_increment = AnnealDown(_Follow())(jax.random.key(0), _table_ladder(), Position(at, jnp.int32(0)))
    assert (down.rung, log_increment) == (0, 0)
    top = AnnealState(at, jnp.int32(NUM_RUNGS - 1), jnp.int32(0), at)
    up, log_increment = AnnealUp(_Follow())(jax.random.key(0), _table_ladder(), top)
    assert (up.rung, log_increment) == (NUM_RUNGS - 1, 0)


# The record.


@pytest.mark.parametrize("block_steps", [1, 7])
@pytest.mark.parametrize("way", ["up", "down"])
def test_weights_do_not_depend_on_where_a_pass_is_cut(way, block_steps):
    """Kills: blocks joined in another order, room of a record that was not used, an increment that is overwritten."""
    ladder = tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, tp.ladder.uniform_betas(31)))
    path, keys = ladder.path, jax.random.split(jax.random.key(1), 6)
    if way == "up":
        kernel, starts = AnnealUp(tp.BlockGibbs()), jax.vmap(lambda k: AnnealState.start(k, path, jnp.int32(0)))(keys)
    else:
        kernel, starts = AnnealDown(tp.BlockGibbs()), positions_at_target(path, jax.vmap(path.sample_base)(keys))
    whole, cut = (
        _passes(ladder, kernel, starts, block_steps=steps).log_weights() for steps in (MAX_BLOCK_STEPS, block_steps)
    )
    assert whole.shape == (6, 31)
    np.testing.assert_array_equal(whole, cut)


def test_a_record_on_the_device_does_not_grow_with_the_ladder():
    """Kills: one number per rung and chain, copied at every block."""
    few, many = (
        AnnealRecord.empty(tp.Ladder.create(_TablePath(jnp.linspace(0, 1, num)))).log_increments.size
        for num in (3, 10**5)
    )
    assert few == many == MAX_BLOCK_STEPS


def test_the_chain_of_real_passes_down_agrees_with_the_exact_ratio():
    """Kernel, loop, record and a real move together: 600 exact target draws of the small RBM, annealed down."""
    ladder = tp.Ladder.create(exact.small_rbm().path(exact.BASE_FREQUENCIES, tp.ladder.uniform_betas(21)))
    log_f = exact.log_densities(ladder.path)
    law = np.exp(log_f[:, -1] - logsumexp(log_f[:, -1]))
    rows = exact.patterns(5)[np.random.default_rng(5).choice(32, size=600, p=law)]
    starts = positions_at_target(ladder.path, exact.states_of(ladder.path, rows))
    log_weights = _passes(ladder, AnnealDown(tp.BlockGibbs()), starts).log_weights_down()
    truth = exact.log_z(ladder.path)
    checks.assert_mean(np.exp(log_weights[:, 0] - (truth[0] - truth[-1])), 1.0)


# What is made of weights.


def test_ais_is_the_log_of_the_mean_weight():
    """Kills: the mean of the logs; the error of the mean instead of its logarithm; the smaller of two errors."""
    weights = np.array([[1.0, 0.5, 4.0], [1.0, 2.0, 1.0], [1.0, 0.2, 7.0]])
    answer = tp.estimators.ais(np.log(weights), log_z_base=1.0)
    np.testing.assert_allclose(answer.values, 1 + np.log(weights.mean(axis=0)), atol=TOLERANCE)
    by_chain = weights.std(axis=0, ddof=1) / np.sqrt(3) / weights.mean(axis=0)
    left_out = np.log((weights.sum(axis=0) - weights) / 2)
    by_batch = np.sqrt(2 / 3 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(answer.std_errors, np.maximum(by_chain, by_batch), atol=TOLERANCE)
    variance = weights.var(axis=0, ddof=1) / 3 / weights.mean(axis=0) ** 2
    np.testing.assert_allclose(answer.biases, -variance / 2, atol=TOLERANCE)  # Jensen: low


def test_batches_are_tenths_of_the_chains():
    """25 chains make ten batches of two or three, each left out whole. Kills: one chain at a time, a wrong divisor."""
    weights = np.random.default_rng(6).gamma(0.3, size=(25, 1)) + 0.01
    answer = tp.estimators.ais(np.log(np.hstack([np.ones((25, 1)), weights])))
    batch = np.arange(25) * 10 // 25
    left_out = np.array([np.log(weights[batch != b, 0].mean()) for b in range(10)])
    by_batch = np.sqrt(9 / 10 * ((left_out - left_out.mean()) ** 2).sum())
    by_chain = weights.std(ddof=1) / 5 / weights.mean()
    assert answer.std_error == pytest.approx(max(by_batch, by_chain), abs=TOLERANCE)
    assert answer.dof == (9 if by_batch > by_chain else 24)


def test_passes_both_ways_give_the_exact_ratios_at_every_rung():
    """Every pass as often as it is likely, so that no noise is left but that of whole numbers.

    Kills: passes up and down mixed up, a weight down that is not turned round, the numbers of passes swapped, the
    weight of the whole pass in place of that to a rung.
    """
    passes, matrices = _all_passes()
    flat = passes.reshape(-1, NUM_RUNGS)
    steps = np.prod([matrices[k][flat[:, k - 1], flat[:, k]] for k in range(1, NUM_RUNGS)], axis=0)
    back = np.prod([matrices[k][flat[:, k], flat[:, k - 1]] for k in range(1, NUM_RUNGS)], axis=0)
    likely_up = np.exp(TABLE[flat[:, 0], 0] - LOG_Z[0]) * steps
    likely_down = np.exp(TABLE[flat[:, -1], -1] - LOG_Z[-1]) * back
    increments = np.array([TABLE[flat[:, k - 1], k] - TABLE[flat[:, k - 1], k - 1] for k in range(1, NUM_RUNGS)]).T
    up = np.cumsum(np.pad(increments, ((0, 0), (1, 0))), axis=1)
    up = np.repeat(up, np.round(3e5 * likely_up).astype(int), axis=0)
    down = AnnealWeights(-increments[:, ::-1]).log_weights_down()
    down = np.repeat(down, np.round(1e5 * likely_down).astype(int), axis=0)
    np.testing.assert_allclose(log_z_from_both_ways(up, down), LOG_Z - LOG_Z[0], atol=1e-3)
    np.testing.assert_allclose(log_mean_exp(up, axis=0), LOG_Z - LOG_Z[0], atol=1e-3)  # these are the right passes
    np.testing.assert_allclose(log_mean_exp(down, axis=0), LOG_Z - LOG_Z[-1], atol=1e-3)


def test_passes_that_lag_by_as_much_both_ways_meet_in_the_middle():
    """Kills: the passes up alone, the passes down alone."""
    up = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    down = np.array([[-12.0, -9.0, 0.0], [-12.0, -9.0, 0.0]])
    np.testing.assert_allclose(log_z_from_both_ways(up, down)[[0, 2]], [0.0, 7.0], atol=1e-9)
    assert np.isnan(log_z_from_both_ways(np.array([[0.0, np.nan, 1.0]]), down)).all()
    with pytest.raises(tp.InputError, match="passes down with 0 at the target"):
        log_z_from_both_ways(up, up)


def test_reverse_ais_errs_high_where_ais_errs_low():
    """The same weights, read the other way. Kills: a value or a bias with the sign of the pass up."""
    up = np.log(np.array([[1.0, 4.0], [1.0, 1.0], [1.0, 7.0]]))
    there, back = tp.estimators.ais(up, log_z_base=1.0), reverse_ais(up[:, ::-1], log_z_base=1.0)
    assert back.log_z - 1 == pytest.approx(-(there.log_z - 1), abs=TOLERANCE)
    assert back.std_error == pytest.approx(there.std_error, abs=TOLERANCE)
    assert back.biases[-1] == pytest.approx(-there.biases[-1], abs=TOLERANCE)
    assert back.biases[-1] > 0


def test_weights_of_the_other_direction_are_refused():
    """Kills: a silent answer from columns in the wrong order."""
    up = np.array([[0.0, 1.0], [0.0, 2.0]])
    with pytest.raises(tp.InputError, match=r"`ais` needs log weights of passes up.*log_weights\(\)"):
        tp.estimators.ais(up[:, ::-1])
    for estimator in (reverse_ais, raise_bound):
        with pytest.raises(tp.InputError, match=r"passes down.*log_weights_down\(\)"):
            estimator(up)
    with pytest.raises(tp.InputError, match="log f of each of 2 rows"):
        raise_log_likelihood(up[:, ::-1], np.zeros(3), log_z_base=0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_no_numbers_count_as_nothing_and_are_named(bad):
    """A NaN is weight 0: AIS stays a lower bound, the others upper ones. Kills: NaN for an answer, or silence."""
    log_weights = np.zeros((40, 2))
    log_weights[3, 1] = bad
    answers = [tp.estimators.ais(log_weights), reverse_ais(log_weights[:, ::-1]), raise_bound(log_weights[:, ::-1])]
    assert all(answer.verdict is tp.Verdict.NONFINITE for answer in answers)
    np.testing.assert_allclose([a.log_z for a in answers], [np.log(39 / 40), np.log(40 / 39), np.inf], atol=TOLERANCE)
    assert answers[2].std_error == np.inf
    in_company = raise_bound(log_weights[:, ::-1].reshape(20, 2, 2))  # another pass of the row has a weight
    assert in_company.log_z == pytest.approx(np.log(2) / 20, abs=TOLERANCE)
    assert in_company.verdict is tp.Verdict.NONFINITE
    rows = raise_log_likelihood(log_weights[:, ::-1], np.zeros(40), log_z_base=0.0)
    assert rows.std_error == np.inf
    assert [finding.verdict for finding in rows.findings] == [tp.Verdict.NONFINITE]


def test_no_weight_at_all_gives_no_answer():
    """Kills: warnings and infinities in place of an answer that says it is none."""
    log_weights = np.array([[0.0, -np.inf]] * 30)
    assert tp.estimators.ais(log_weights).log_z == -np.inf
    assert np.isnan(reverse_ais(log_weights[:, ::-1]).log_z)
    for answer in (
        tp.estimators.ais(log_weights),
        reverse_ais(log_weights[:, ::-1]),
        tp.estimators.ais(log_weights[:1]),
    ):
        assert answer.verdict is tp.Verdict.NO_ERROR
        assert np.isinf(answer.std_error)


def test_a_loose_bound_says_so():
    """Rows whose log weights scatter by σ lie σ²/2 too high; hidden below the noise it is not held against them."""
    scatter = np.sqrt(2) * np.resize([1.0, -1.0], 400)
    loose = raise_bound(np.column_stack([scatter, np.zeros(400)]))
    assert loose.biases[-1] == pytest.approx(1.0)
    assert "1 off" in next(f.seen for f in loose.findings if f.verdict is tp.Verdict.COARSE)
    assert raise_bound(np.column_stack([scatter / 100, np.zeros(400)])).verdict is tp.Verdict.GOOD


def test_a_sandwich_is_open_closed_or_crossed():
    """Kills: a gap with the wrong sign, errors that are not added in squares."""
    at = {value: tp.LogZ("ais", np.array([0.0, value]), np.full(2, 0.3), np.zeros(2), np.zeros(2), 50) for value in
          (1.0, 2.0, 2.3)}  # fmt: skip
    between = Sandwich(at[1.0], at[2.0])
    assert between.gap == 1.0
    assert between.interval == (at[1.0].interval[0], at[2.0].interval[1])
    assert not between.is_crossed
    assert not Sandwich(at[2.0], at[1.0]).is_crossed  # 1 apart, 3 √2 0.3 = 1.27 allowed
    assert Sandwich(at[2.3], at[1.0]).is_crossed


def _passes(ladder, kernel, starts, block_steps=MAX_BLOCK_STEPS) -> AnnealWeights:
    """What whole passes gathered."""
    record, num_steps, weights = AnnealRecord.empty(ladder), ladder.path.num_rungs - 1, None
    for block in tp.run_chains(
        jax.random.key(0), ladder, kernel, record, starts, num_steps=num_steps, block_steps=block_steps
    ):
        new = block.record.on_host()
        weights = new if weights is None else weights.then(new)
    return weights


def test_a_pass_alone_claims_its_bias_and_what_few_families_can_tell():
    """With one degree of freedom Student's law is Cauchy's: 3e-5 of it is beyond cot(3e-5 π), of a normal beyond 4.01.

    Kills: a bias of σ² or none, families that are not counted, no error where no pass has a weight.
    """
    cauchy = 1 / np.tan(3e-5 * np.pi) / -ndtri(3e-5)
    for num_families, widening in ((None, 1.0), (2.0, cauchy), (1e9, 1.0)):
        check = tp.estimators.Annealed(0.0, 0.3, 1.6, num_families)
        assert check.widened_error == pytest.approx(0.3 * widening, rel=1e-4)
        assert check.error_alone == pytest.approx(np.hypot(0.3 * widening, 0.8), rel=1e-4)
    assert tp.estimators.Annealed(0.0, 0.3, np.nan).error_alone == 0.3
