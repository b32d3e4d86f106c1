"""Training: moments against enumeration, likelihoods that rise, and the same bits from the same seed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from tempering.models.rbm.batch import Parameters, moments_of, weighted_moments
from tempering.training.phases import ContrastiveDivergence, Persistent, gradient
from tempering.training.tracker import parameters

optax = pytest.importorskip("optax", reason="training needs Optax")

from tempering.training.trainer import Trainer, first_rbm, mean_log_density  # noqa: E402

TINY = {"num_hidden": 4, "num_updates": 3, "batch_size": 20, "num_chains": 40, "num_sweeps": 2, "num_rungs": 8}


def some_data(num_rows: int = 60, num_visible: int = 8) -> np.ndarray:
    rng = np.random.default_rng(5)
    prototypes = rng.random((3, num_visible)) < 0.4
    picked = prototypes[rng.choice(3, num_rows, p=[0.5, 0.3, 0.2])]
    return np.where(rng.random(picked.shape) < 0.1, ~picked, picked).astype(np.float32)


def strong_rbm() -> tp.RBM:
    """Two modes far apart, so that plain chains stay in theirs."""
    rng = np.random.default_rng(2)
    weights = np.outer(np.repeat([1.0, -1.0], 4), np.ones(3)) * 2.5 + rng.normal(0, 0.3, (8, 3))
    return tp.RBM(weights, -weights.sum(axis=1) / 2 + 0.1, -weights.sum(axis=0) / 2 + 0.2)


def exact_moments(rbm: tp.RBM):
    patterns = np.array(list(itertools.product([0.0, 1.0], repeat=rbm.num_visible)))
    log_f = rbm.log_density(patterns)
    field = patterns @ rbm.weights + rbm.hbias
    arrays = (patterns, field, np.exp(log_f - log_f.max()))
    return weighted_moments(*(jnp.asarray(a, jnp.float32) for a in arrays)), patterns, arrays[2] / arrays[2].sum()


def test_the_data_are_a_fixed_point_of_their_own_moments():
    rbm, data = parameters(strong_rbm()), jnp.asarray(some_data())
    moments = moments_of(rbm, data)
    for leaf in gradient(moments, moments):
        np.testing.assert_array_equal(leaf, np.zeros_like(leaf))


def test_the_gradient_is_that_of_the_mean_log_likelihood():
    """By enumeration and automatic differentiation. Kills: the sign, W and b exchanged, h without its field."""
    rbm, data = parameters(strong_rbm()), jnp.asarray(some_data())
    moments, patterns, _ = exact_moments(strong_rbm())
    rows = jnp.asarray(patterns, jnp.float32)

    def loss(rbm):
        field = rows @ rbm.weights + rbm.hbias
        log_z = jax.nn.logsumexp(rows @ rbm.vbias + jnp.sum(jax.nn.softplus(field), axis=1))
        return log_z - mean_log_density(rbm, data)

    expected, found = jax.grad(loss)(rbm), gradient(moments_of(rbm, data), moments)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("phase", [ContrastiveDivergence(3), Persistent(200, 3)], ids=["cd", "pcd"])
def test_plain_chains_that_begin_in_equilibrium_have_the_models_moments(phase):
    """From exact draws. Kills: a sweep that does not leave the model invariant, moments of other chains."""
    rbm = strong_rbm()
    moments, patterns, probabilities = exact_moments(rbm)
    picked = np.random.default_rng(0).choice(len(patterns), (200, 200), p=probabilities)
    draws = jnp.asarray(patterns[picked], jnp.float32)

    def one(key, v):
        return phase(key, parameters(rbm), v, v if isinstance(phase, Persistent) else None)[0].vh

    found = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 200), draws))
    checks.assert_within(found.mean(axis=0), moments.vh, found.std(axis=0, ddof=1) / np.sqrt(200) + 1e-6)


def test_the_first_rbm_has_the_datas_frequencies():
    data = some_data()
    rbm = first_rbm(data, 5)
    assert rbm.weights.shape == (8, 5)
    assert np.abs(rbm.weights).max() < 0.1
    np.testing.assert_allclose(1 / (1 + np.exp(-rbm.vbias)), 0.98 * data.mean(axis=0) + 0.01, atol=1e-12)


@pytest.mark.parametrize("method", ["tempered", "pcd", "cd"])
def test_the_same_seed_gives_the_same_bits_and_progress_is_known(method):
    runs = []
    for _ in range(2):
        trainer = Trainer(some_data(), valid=some_data(20), method=method, optimizer="adam", learning_rate=0.01, **TINY)
        *_, last = trainer.run()
        runs.append((trainer.rbm, last))
    (one, last), (two, other) = runs
    np.testing.assert_array_equal(one.weights, two.weights)
    assert last.num_updates == 3
    assert last.train.value == other.train.value
    assert last.train.interval[0] < last.train.value < last.train.interval[1]
    assert last.valid.num_rows == 20


def test_weights_decay_and_biases_do_not():
    settings = TINY | {"num_updates": 1, "method": "cd", "optimizer": "sgd", "learning_rate": 0.1, "is_tracked": False}
    rbm = strong_rbm()
    plain, decayed = (Trainer(some_data(), rbm=rbm, weight_decay=decay, **settings) for decay in (0.0, 0.5))
    for trainer in (plain, decayed):
        (progress,) = trainer.run()
        assert progress.tracked is None
    np.testing.assert_allclose(decayed.rbm.weights, plain.rbm.weights - 0.1 * 0.5 * rbm.weights, atol=1e-6)
    np.testing.assert_array_equal(decayed.rbm.vbias, plain.rbm.vbias)


def test_training_raises_the_likelihood():
    data = some_data(200)
    settings = TINY | {"num_updates": 150, "num_chains": 100, "batch_size": 50}
    trainer = Trainer(data, method="pcd", optimizer="adam", learning_rate=0.1, is_tracked=False, **settings)
    before = trainer.rbm
    for _ in trainer.run():
        pass
    gain = [rbm.log_density(data).mean() - rbm.exact_log_z() for rbm in (before, trainer.rbm)]
    assert gain[1] > gain[0] + 0.2


@pytest.mark.parametrize(("settings", "words"), [({"method": "magic"}, "method"), ({"num_hidden": 0}, "num_hidden")])
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(tp.InputError, match=words):
        Trainer(some_data(), **settings)


def test_parameters_are_a_pytree_that_optax_takes():
    rbm = parameters(strong_rbm())
    state = optax.adam(0.1).init(rbm)
    updates, _ = optax.adam(0.1).update(rbm, state, rbm)
    assert isinstance(optax.apply_updates(rbm, updates), Parameters)
