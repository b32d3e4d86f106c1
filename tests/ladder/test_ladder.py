"""Paths, ladders, bases: what is sampled, and what is refused at the door."""

import inspect
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import exact
import tempering as tp
from tempering.diagnosis import rung_flow
from tempering.ladder import rung_weights


def test_an_rbm_path_is_the_joint_density_with_h_summed_out():
    """Against a sum over every h, and its base normaliser. Kills: J log 2 left out, softplus of the unscaled field."""
    path = exact.small_path()
    states = exact.states_of(path, exact.patterns(5))
    np.testing.assert_allclose(jax.vmap(path.log_densities)(states), exact.log_densities(path), atol=5e-6)
    assert path.log_z_base() == pytest.approx(exact.log_z(path)[0], abs=1e-10)


def test_the_last_rung_is_the_model_itself():
    """log Z of the last rung is the enumerated one, and log_density is minus the free energy."""
    rbm, path = exact.small_rbm(), exact.small_path()
    assert rbm.exact_log_z() == pytest.approx(exact.log_z(path)[-1], abs=1e-6)
    np.testing.assert_allclose(rbm.log_density(exact.patterns(5)), exact.log_densities(path)[:, -1], atol=1e-6)


def test_base_draws_follow_the_base():
    path = exact.small_path()
    states = jax.jit(jax.vmap(path.sample_base))(jax.random.split(jax.random.key(0), 20_000))
    law = np.exp(exact.log_densities(path)[:, 0] - exact.log_z(path)[0])
    numbers = np.asarray(states.v, np.int64) @ (1 << np.arange(5)[::-1])
    checks.assert_law(np.bincount(numbers, minlength=32), law)


def test_bases_of_an_rbm():
    """Data, frequencies, the visible bias and the uniform law give their log-odds; frequencies are smoothed."""
    rbm = exact.small_rbm()
    data = np.array([[1, 0, 0, 1, 0], [1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(rbm.base_logits("uniform"), np.zeros(5))
    np.testing.assert_array_equal(rbm.base_logits("bias"), rbm.vbias)
    np.testing.assert_allclose(rbm.base_logits(data), rbm.base_logits(data.mean(axis=0)))
    logits = rbm.base_logits(data)
    assert np.all(np.isfinite(logits))
    assert logits[1] == pytest.approx(0.0)
    assert logits[0] > 3
    assert logits[2] < -3


def test_a_geometric_path_mixes_its_ends():
    """Kills: β for 1 − β; and a target of density zero does not spoil the base (0 · −inf)."""
    base = tp.Bernoulli(jnp.asarray([0.3, -1.0]))
    path = tp.paths.GeometricPath.create(lambda x: 5.0 * x[0] - x[1], base, np.array([0.0, 0.25, 1.0]))
    x = jnp.asarray([1.0, 1.0])
    expected = [-0.7, 0.75 * -0.7 + 0.25 * 4.0, 4.0]
    np.testing.assert_allclose(path.log_densities(x), expected, rtol=1e-6)
    np.testing.assert_allclose([path.log_density(x, jnp.int32(k)) for k in range(3)], expected, rtol=1e-6)
    np.testing.assert_allclose(path.slopes(x), np.full(3, 4.7), rtol=1e-6)
    assert path.log_z_base() == pytest.approx(np.logaddexp(0, [0.3, -1.0]).sum(), abs=1e-6)
    vanishing = tp.paths.GeometricPath.create(lambda x: -jnp.inf, base, np.array([0.0, 0.5, 1.0]))
    assert np.isfinite(vanishing.log_densities(x)[0])
    assert vanishing.log_densities(x)[1] == -np.inf


def test_a_ratio_of_two_unnormalised_densities():
    """Both ends unnormalised: rts gives log(Z_1 / Z_0), by exact statistics over two bits."""
    rng = np.random.default_rng(0)
    log_a, log_b = rng.normal(size=4), rng.normal(size=4)

    def table(values):
        return lambda x: jnp.asarray(values, jnp.float32)[(2 * x[0] + x[1]).astype(jnp.int32)]

    base = tp.Unnormalised(table(log_a), lambda key: jnp.zeros(2))
    path = tp.paths.GeometricPath.create(table(log_b), base, np.array([0.0, 0.5, 1.0]))
    log_f = np.stack([(1 - b) * log_a + b * log_b for b in (0.0, 0.5, 1.0)], axis=1)
    np.testing.assert_allclose(
        jax.vmap(path.log_densities)(jnp.asarray(exact.patterns(2), jnp.float32)), log_f, atol=1e-6
    )
    answer = tp.rts(exact.stats_from_law(log_f), log_z_base=path.log_z_base())
    assert answer.log_z == pytest.approx(np.logaddexp.reduce(log_b) - np.logaddexp.reduce(log_a), abs=1e-10)


@pytest.mark.parametrize("num_rungs", [2, 3, 10, 11, 20, 26, 39, 50, 100, 1000])
def test_the_ends_hold_their_share_of_the_prior(num_rungs):
    """A tenth each on the outer twentieths, or what they have anyway, and no rung far heavier than its neighbour.

    Where ends are exact twentieths they weigh 2 against 8/9 inside. Kills: one end only, uneven within an end, ends
    that are rounded down.
    """
    prior = np.exp(tp.ladder.ends_log_prior(num_rungs))
    outer = -(-num_rungs // 20)
    assert prior.max() <= 2.25 * prior.min() * (1 + 1e-12)
    assert prior.sum() == pytest.approx(1)
    np.testing.assert_allclose(prior, prior[::-1])
    assert prior[:outer].sum() == pytest.approx(max(0.1, outer / num_rungs))
    assert np.ptp(prior[:outer]) == pytest.approx(0)
    if num_rungs > 2:
        assert np.ptp(prior[outer:-outer]) == pytest.approx(0)
    for wrong in (0.0, 0.5, -0.1, np.nan):
        with pytest.raises(tp.InputError, match="share"):
            tp.ladder.ends_log_prior(num_rungs, wrong)


def test_ladders_and_priors():
    np.testing.assert_allclose(tp.ladder.uniform_betas(5), [0, 0.25, 0.5, 0.75, 1])
    betas = tp.ladder.geometric_betas(4, 0.01)
    np.testing.assert_allclose(betas, [0, 0.01, 0.1, 1])
    prior = np.exp(tp.ladder.exponential_log_prior(betas, 2.0))
    np.testing.assert_allclose(prior / prior[0], np.exp(2 * betas))
    assert prior.sum() == pytest.approx(1)


def test_a_path_written_from_the_help_is_sampled():
    """The example of help(AbstractPath): its base, all defaults, and an estimate. Kills: an example that rots."""
    example = inspect.getdoc(tp.AbstractPath).split("```python\n")[1].split("```")[0]
    names = {"AbstractPath": tp.AbstractPath, "Ladder": tp.Ladder, "jax": jax, "jnp": jnp, "math": math}
    exec(example, names)
    ladder = names["ladder"]
    path = ladder.path.with_betas(tp.ladder.uniform_betas(4))
    x = jnp.float32(1.5)
    np.testing.assert_allclose(path.log_densities(x), -0.5 * (1.5 / np.linspace(1, 3, 4)) ** 2, rtol=1e-6)
    np.testing.assert_allclose(path.slopes(x), 2 * 1.5**2 / np.linspace(1, 3, 4) ** 3, rtol=1e-5)
    assert path.num_dims == 1
    kernel = tp.SimulatedTempering(tp.HMC(0.5))
    starts = tp.Position(jax.vmap(path.sample_base)(jax.random.split(jax.random.key(0), 50)), jnp.zeros(50, jnp.int32))
    ladder = tp.Ladder.create(path)
    run = tp.run_chains(
        jax.random.key(1), ladder, kernel, tp.TemperingStats.empty(ladder), starts, num_steps=200, block_steps=200
    )
    answer = tp.rts(next(iter(run)).record, log_z_base=path.log_z_base())
    exact_log_z = 0.5 * np.log(2 * np.pi) + np.log(3)
    assert abs(answer.values[-1] - exact_log_z) < 5 * answer.std_errors[-1]  # false failure below 1e-6
    assert answer.std_errors[-1] < 0.1


@pytest.mark.parametrize("abstract", [tp.AbstractPath, tp.kernels.AbstractKernel, tp.stats.AbstractRecord,
                                      tp.stats.AbstractHostStatistic])  # fmt: skip
def test_what_is_abstract_cannot_be_made(abstract):
    class Unfinished(abstract):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()


def test_the_guess_is_kept_relative_to_rung_0():
    """A constant added to every log Ẑ_k changes nothing: q(k | x) is the same."""
    path = exact.small_path()
    near, far = (tp.Ladder.create(path, exact.LOG_PRIOR, exact.LOG_Z_GUESS + c) for c in (0.0, 450.0))
    np.testing.assert_allclose(near.log_z_guess, far.log_z_guess, atol=1e-5)
    assert far.log_z_guess[0] == 0


@pytest.mark.parametrize("num_rungs", [3, 20, 100, 1000])
def test_the_ends_of_a_ladder_hold_a_fixed_share_of_the_prior(num_rungs):
    """So that round trips mean the same for any K: at least one rung, about a twentieth of the prior."""
    ladder = tp.Ladder.create(exact.small_rbm().path("bias", tp.ladder.uniform_betas(num_rungs)))
    ends = np.asarray(ladder.ends)
    assert ends[0] == 1
    assert ends[-1] == 2
    for end in (1, 2):
        assert (ends == end).sum() == max(1, num_rungs // 20)


def test_a_ladder_seen_elsewhere():
    """Other rungs, with the same weights or with new ones; and the same path where they are the same rungs.

    Kills: a guess that is kept, ends of the old prior, a path from betas that the device cannot hold.
    """
    ladder = exact.small_ladder()
    moved = ladder.with_betas(np.array([0.0, 1 / 3, 1.0]))
    np.testing.assert_array_equal(moved.log_prior, ladder.log_prior)
    np.testing.assert_array_equal(moved.log_z_guess, 0)
    longer = ladder.with_betas(tp.ladder.uniform_betas(40), tp.ladder.ends_log_prior(40))
    np.testing.assert_allclose(longer.log_prior, tp.ladder.ends_log_prior(40), rtol=1e-6)
    np.testing.assert_array_equal(longer.ends, tp.Ladder.create(longer.path, tp.ladder.ends_log_prior(40)).ends)
    assert longer.log_z_guess.shape == (40,)
    assert longer.with_betas(np.asarray(longer.path.betas)).path is longer.path
    again = ladder.with_betas(np.asarray(moved.path.betas, np.float64))
    for one, other in zip(jax.tree.leaves(again.path), jax.tree.leaves(moved.path), strict=True):
        np.testing.assert_array_equal(one, other)


REFUSED = {
    "betas that fall": lambda: exact.small_rbm().path("bias", np.array([0, 0.5, 0.4, 1])),
    "betas that do not reach 1": lambda: exact.small_rbm().path("bias", np.array([0, 0.5])),
    "one rung": lambda: tp.ladder.uniform_betas(1),
    "an unnormalised prior": lambda: tp.Ladder.create(exact.small_path(), np.zeros(3)),
    "a prior of another length": lambda: tp.Ladder.create(exact.small_path(), np.log([0.5, 0.5])),
    "a guess with NaN": lambda: tp.Ladder.create(exact.small_path(), None, np.array([0, np.nan, 1])),
    "an unknown base": lambda: exact.small_rbm().base_logits("gaussian"),
    "frequencies above 1": lambda: exact.small_rbm().base_logits(np.full(5, 1.5)),
    "grey data": lambda: exact.small_rbm().log_density(np.full((2, 5), 0.5)),
    "data of another width": lambda: exact.small_rbm().log_density(np.zeros((2, 4))),
    "biases of another length": lambda: tp.RBM(np.zeros((3, 2)), np.zeros(2), np.zeros(3)),
    "NaN weights": lambda: tp.RBM(np.full((3, 2), np.nan), np.zeros(3), np.zeros(2)),
    "a smallest beta of 2": lambda: tp.ladder.geometric_betas(5, 2.0),
    "a sweep of a path that cannot": lambda: tp.BlockGibbs()(
        jax.random.key(0),
        tp.paths.GeometricPath.create(lambda x: x.sum(), tp.Bernoulli(jnp.zeros(2)), tp.ladder.uniform_betas(3)),
        jnp.int32(0),
        jnp.zeros(2),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_people_get_wrong_is_refused_in_one_line(what):
    with pytest.raises(tp.InputError) as refusal:
        REFUSED[what]()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) > 30


@pytest.mark.parametrize("case", ["plain", "with a zero", "with a NaN", "far away", "all zero"])
def test_what_a_kernel_draws_says_what_log_f_says(case):
    """q(k | x), the rung, and log q(K−1 | x) of a draw whose kernel has computed q.

    Kills: a table that is not normalised, the posterior of the rung left out, a target that is the first rung.
    """
    ladder = exact.small_ladder()
    log_f = {
        "plain": [1.0, -2.0, 0.5],
        "with a zero": [1.0, -np.inf, 0.5],
        "with a NaN": [1.0, np.nan, 0.5],
        "far away": [300.0, -200.0, -100.0],
        "all zero": [-np.inf] * 3,
    }[case]
    log_f = jnp.asarray(log_f, jnp.float32)
    for seed in range(5):
        key = jax.random.key(seed)
        posterior, rung = ladder.draw_rung(key, log_f)
        np.testing.assert_array_equal(posterior, ladder.rung_posterior(log_f))
        assert rung == ladder.sample_rung(key, log_f)
        told = ladder.log_target_posterior_of(tp.ladder.Draw(None, rung, rung, log_f, posterior=posterior))
        np.testing.assert_allclose(told, ladder.log_rung_posterior(log_f)[-1], rtol=1e-5, atol=1e-6)


SLOWNESS = np.exp(np.linspace(-2, 3, 19) ** 2 / 2)  # a_k of the steps between 20 rungs
PRESENT = np.exp(tp.ladder.exponential_log_prior(np.linspace(0, 1, 20), -1.5))


def variance_with(weights):
    """Σ a_k / r_k, with r between two rungs as the mean of theirs."""
    return np.sum(SLOWNESS / ((weights[1:] + weights[:-1]) / 2))


def test_the_variance_of_log_z_is_a_sum_over_steps():
    """The law that weights are learned by: chains that step to neighbours with small probabilities r_k / a_k.

    By the exact variance of log(ĉ_{K−1}/ĉ_0), whose other terms are of the order of the probabilities.
    """
    between = 1e-6 * (PRESENT[1:] + PRESENT[:-1]) / 2 / SLOWNESS
    flow = np.diag(between, 1) + np.diag(between, -1)
    flow += np.diag(PRESENT - flow.sum(axis=1))
    exact_variance = rung_flow.log_ratio_variance(flow)
    np.testing.assert_allclose(exact_variance * 1e-6 / 2, variance_with(PRESENT), rtol=1e-4)


def test_learned_weights_have_nearly_the_least_variance(monkeypatch):
    """(Σ √a_k)² is the least that any weights give, by Cauchy and Schwarz. A tenth of the old weights costs little.

    Kills: r ∝ a instead of √a, weights of steps for those of rungs, a gain that is not the ratio of variances.
    """
    variances = np.concatenate([[0.0], np.cumsum(SLOWNESS / ((PRESENT[1:] + PRESENT[:-1]) / 2))])
    least = np.sqrt(SLOWNESS).sum() ** 2
    learned = tp.ladder.least_variance_weights(variances, np.log(PRESENT))
    weights = np.exp(learned.log_prior)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(learned.gain, variance_with(PRESENT) / variance_with(weights), rtol=0.02)
    assert variance_with(PRESENT) > 2 * least
    assert variance_with(weights) < 1.15 * least
    assert np.all(weights > 0.09 * PRESENT)
    again = tp.ladder.least_variance_weights(
        np.concatenate([[0.0], np.cumsum(SLOWNESS / ((weights[1:] + weights[:-1]) / 2))]), learned.log_prior
    )
    assert 0.95 < again.gain < 1.1  # nothing is left to gain
    monkeypatch.setattr(rung_weights, "_KEPT", 0.0)
    alone = tp.ladder.least_variance_weights(variances, np.log(PRESENT))
    assert variance_with(np.exp(alone.log_prior)) < variance_with(weights)


def test_learned_weights_of_long_ladders_are_smoothed():
    """100 rungs, and noise by which only every fifth step seems to cost anything. Kills: no smoothing."""
    noisy = np.concatenate([[0.0], np.cumsum(np.arange(99) % 5 == 2)])
    inner = np.exp(tp.ladder.least_variance_weights(noisy, tp.ladder.uniform_log_prior(100)).log_prior)[5:-5]
    assert inner.max() / inner.min() < 1.5  # without smoothing, 13


@pytest.mark.parametrize("variances", [np.zeros(20), np.full(20, np.nan), np.full(20, np.inf), -np.arange(20.0)])
def test_nothing_is_learned_from_nothing(variances):
    learned = tp.ladder.least_variance_weights(variances, np.log(PRESENT))
    assert learned.gain == 1
    np.testing.assert_array_equal(learned.log_prior, np.log(PRESENT))


def test_a_ladder_with_other_weights():
    """Kills: the ends of the ladder, or the guess of log Z, of before."""
    ladder = exact.small_ladder()
    other = ladder.with_weights(np.log([0.1, 0.2, 0.7]))
    expected = tp.Ladder.create(ladder.path, np.log([0.1, 0.2, 0.7]), np.asarray(ladder.log_z_guess, np.float64))
    assert eqx.tree_equal(other, expected)
    with pytest.raises(tp.InputError, match="normalised"):
        ladder.with_weights(np.log([0.1, 0.2, 0.3]))
