"""Training: moments against enumeration, likelihoods that rise, and the same bits from the same seed."""

import dataclasses
import inspect
import itertools
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from tempering.models.rbm.batch import Parameters, moments_of, weighted_moments
from tempering.training.phases import ContrastiveDivergence, loss_gradient
from tempering.training.phases import PersistentContrastiveDivergence as PCD
from tempering.training.settings import TrainSettings
from tempering.training.tracker import device_parameters

optax = pytest.importorskip("optax", reason="training needs Optax")

from tempering.training.trainer import Trainer, initial_rbm, row_log_densities  # noqa: E402

SMALLEST = {"num_hidden": 4, "num_updates": 3, "batch_size": 20, "num_sweeps": 2}
TINY = SMALLEST | {"num_chains": 40, "num_rungs": 8}


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
    rbm, data = device_parameters(strong_rbm()), jnp.asarray(some_data())
    moments = moments_of(rbm, data)
    for leaf in loss_gradient(moments, moments):
        np.testing.assert_array_equal(leaf, np.zeros_like(leaf))


def test_the_gradient_is_that_of_the_mean_log_likelihood():
    """By enumeration and automatic differentiation. Kills: the sign, W and b exchanged, h without its field."""
    rbm, data = device_parameters(strong_rbm()), jnp.asarray(some_data())
    moments, patterns, _ = exact_moments(strong_rbm())
    rows = jnp.asarray(patterns, jnp.float32)

    def loss(rbm):
        field = rows @ rbm.weights + rbm.hbias
        log_z = jax.nn.logsumexp(rows @ rbm.vbias + jnp.sum(jax.nn.softplus(field), axis=1))
        return log_z - jnp.mean(row_log_densities(rbm, data))

    expected, found = jax.grad(loss)(rbm), loss_gradient(moments_of(rbm, data), moments)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("phase", [ContrastiveDivergence(3), PCD(200, 3)], ids=["cd", "pcd"])
def test_plain_chains_that_begin_in_equilibrium_have_the_models_moments(phase):
    """From exact draws. Kills: a sweep that does not leave the model invariant, moments of other chains."""
    rbm = strong_rbm()
    moments, patterns, probabilities = exact_moments(rbm)
    picked = np.random.default_rng(0).choice(len(patterns), (200, 200), p=probabilities)
    draws = jnp.asarray(patterns[picked], jnp.float32)

    def one(key, v):
        return phase(key, device_parameters(rbm), v, v if isinstance(phase, PCD) else None)[0].vh

    found = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 200), draws))
    checks.assert_within(found.mean(axis=0), moments.vh, found.std(axis=0, ddof=1) / np.sqrt(200) + 1e-6)


def test_the_initial_rbm_has_the_datas_frequencies():
    data = some_data()
    rbm = initial_rbm(data, 5)
    assert rbm.weights.shape == (8, 5)
    assert np.abs(rbm.weights).max() < 0.1
    np.testing.assert_allclose(1 / (1 + np.exp(-rbm.vbias)), 0.98 * data.mean(axis=0) + 0.01, atol=1e-12)


# Plain chains are those of CD, which begin elsewhere.
@pytest.mark.slow  # a run that is cut goes on to the same bits in test_session.py
@pytest.mark.parametrize("method", ["tempered", "pcd", "cd"])
def test_the_same_seed_gives_the_same_bits_and_progress_is_known(method):
    runs, settings = [], SMALLEST | {"num_rungs": 8} if method == "cd" else TINY
    for _ in range(2):
        trainer = Trainer(
            some_data(), valid=some_data(20), method=method, optimizer="adam", learning_rate=0.01, **settings
        )
        *_, last = trainer.run()
        runs.append((trainer.rbm, last))
    (one, last), (two, other) = runs
    np.testing.assert_array_equal(one.weights, two.weights)
    assert last.num_updates == 3
    assert last.train.value == other.train.value
    assert last.train.interval[0] < last.train.value < last.train.interval[1]
    assert last.valid.num_rows == 20


def test_weights_decay_and_biases_do_not():
    settings = SMALLEST | {"num_updates": 1, "method": "cd", "optimizer": "sgd", "learning_rate": 0.1}
    rbm = strong_rbm()
    plain, decayed = (
        Trainer(some_data(), rbm=rbm, weight_decay=decay, is_tracked=False, **settings) for decay in (0.0, 0.5)
    )
    for trainer in (plain, decayed):
        (progress,) = trainer.run()
        assert progress.tracked is None
    np.testing.assert_allclose(decayed.rbm.weights, plain.rbm.weights - 0.1 * 0.5 * rbm.weights, atol=1e-6)
    np.testing.assert_array_equal(decayed.rbm.vbias, plain.rbm.vbias)


def test_training_raises_the_likelihood():
    data = some_data(200)
    settings = SMALLEST | {"num_updates": 150, "num_chains": 100, "batch_size": 50}
    trainer = Trainer(data, method="pcd", optimizer="adam", learning_rate=0.1, is_tracked=False, **settings)
    before = trainer.rbm
    for _ in trainer.run():
        pass
    gain = [rbm.log_density(data).mean() - rbm.exact_log_z() for rbm in (before, trainer.rbm)]
    assert gain[1] > gain[0] + 0.2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "magic"}, "`method` must be one of tempered, pcd, cd"),
        ({"optimizer": "magic"}, "`optimizer` must be one of rmsspectral, ssd, adam, sgd"),
        ({"num_hidden": 0}, "`num_hidden` must be a whole number, 1 or more; got 0"),
        ({"num_rungs": 1}, "`num_rungs` must be a whole number, 2 or more"),
        ({"alpha": 0.0}, "`alpha` must be greater than 0"),
        ({"num_hiden": 3}, "`Trainer` has no argument `num_hiden`. Did you mean `num_hidden`?"),
        ({"lr": 0.1}, "Did you mean `learning_rate`?"),
        ({"early_stop": True}, "`Trainer` has no argument `early_stop`. `TrainingRun.*`tempering train`"),
        ({"pretrain": "cd1:5"}, "`TrainingRun"),
        ({"check": "ais:5"}, "`TrainingRun"),
        ({"method": "cd", "num_chains": 40}, '`num_chains` has no effect with `method="cd"`'),
        ({"method": "pcd", "rung_weights": "uniform"}, '`rung_weights` has no effect with `method="pcd"`'),
        ({"follow_every": 2}, '`follow_every` has no effect with `method="tempered"`'),
        (
            {"method": "pcd", "is_tracked": False, "alpha": 0.1},
            "`alpha` has no effect when the likelihood is not tracked",
        ),
        ({"is_tracked": False, "track_every": 2}, "`track_every` has no effect"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(tp.InputError, match=words):
        Trainer(some_data(), **settings)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"data": some_data() / 2}, "`data` must hold only 0 and 1"),
        ({"data": some_data()[0]}, r"`data` must have shape \(rows, visible\); got \(8,\)"),
        ({"data": some_data()[:, :5], "rbm": strong_rbm()}, r"`data` must have shape \(rows, 8\); got \(60, 5\)"),
        ({"data": some_data(), "valid": some_data()[:, :5]}, r"`valid` must have shape \(rows, 8\)"),
        ({"data": some_data(), "valid": some_data() + 1}, "`valid` must hold only 0 and 1"),
    ],
)
def test_wrong_rows_are_refused(rows, words):
    """Kills: only the first row looked at, validation rows taken as they come."""
    with pytest.raises(tp.InputError, match=words):
        Trainer(**rows, method="cd", is_tracked=False)


def test_the_trainers_defaults_are_those_of_its_settings():
    """Kills: an argument left out of the signature, or one that is not passed on."""
    signature = inspect.signature(Trainer).parameters
    defaults = {field.name: field.default for field in dataclasses.fields(TrainSettings)}
    assert {name: signature[name].default for name in defaults} == defaults
    assert set(signature) == {"data", "valid", "rbm", *defaults}
    asked = {"num_hidden": 3, "method": "pcd", "optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 0.1,
             "num_updates": 5, "batch_size": 7, "num_chains": 11, "num_sweeps": 1, "num_rungs": 4, "alpha": 0.5,
             "track_every": 2, "follow_every": 2, "seed": 9}  # fmt: skip
    assert Trainer(some_data(), **asked).settings == TrainSettings(**asked)


def test_an_update_prints_as_a_line():
    trainer = Trainer(some_data(), valid=some_data(20), method="pcd", optimizer="adam", **TINY)
    line = r"update 1: train -\d+\.\d{3} ± \d\.\d{3}, valid -\d+\.\d{3} ± \d\.\d{3}"
    update = trainer.step()
    assert re.fullmatch(line, str(update))
    assert re.fullmatch(r"update 1: log Z \d\.\d{3} ± \d\.\d{3}, good", repr(update.tracked))


def test_what_needs_optax_is_imported_when_it_is_asked_for():
    """Kills: `import tempering` that imports Optax, a public name that leads nowhere."""
    code = (
        "import sys, tempering as tp; assert 'optax' not in sys.modules\n"
        "assert all(getattr(tp.training, name) for name in tp.training.__all__); assert 'optax' in sys.modules\n"
        "assert set(dir(tp.training)) == set(tp.training.__all__); assert not hasattr(tp.training, 'magic')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_parameters_are_a_pytree_that_optax_takes():
    rbm = device_parameters(strong_rbm())
    state = optax.adam(0.1).init(rbm)
    updates, _ = optax.adam(0.1).update(rbm, state, rbm)
    assert isinstance(optax.apply_updates(rbm, updates), Parameters)
