"""Log Z followed through training: against enumeration after every update, and lost where chains cannot follow."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
import tempering.training.tracker
from tempering import Verdict
from tempering.models.rbm_batch import Parameters, moments_of, weighted_moments
from tempering.training.phases import ContrastiveDivergence, Persistent, gradient
from tempering.training.tempered import _told, follow
from tempering.training.tracker import Tracker, parameters

NUM_VISIBLE, NUM_HIDDEN = 20, 6
ANCHOR = tp.AnnealedStart(60, (40, 60))
SMALL = {"num_chains": 100, "num_rungs": 20, "num_sweeps": 5, "anchor": ANCHOR}


def some_data(num_rows: int = 400) -> np.ndarray:
    """Four noisy prototypes, unequally likely."""
    rng = np.random.default_rng(5)
    prototypes = rng.random((4, NUM_VISIBLE)) < 0.4
    picked = prototypes[rng.choice(4, num_rows, p=[0.4, 0.3, 0.2, 0.1])]
    return np.where(rng.random(picked.shape) < 0.08, ~picked, picked).astype(np.float32)


DATA = some_data()


def first_rbm(scale: float = 0.01) -> tp.RBM:
    rng = np.random.default_rng(1)
    means = DATA.mean(axis=0) * 0.98 + 0.01
    return tp.RBM(rng.normal(0, scale, (NUM_VISIBLE, NUM_HIDDEN)), np.log(means / (1 - means)), rng.normal(0, 0.1, 6))


def trained(phase, rate: float, num_updates: int, seed: int = 0):
    """Parameters after every update of plain gradient ascent."""
    rbm, rng = parameters(first_rbm()), np.random.default_rng(seed)
    state = phase.start(jax.random.key(seed), rbm, jnp.zeros(NUM_VISIBLE))

    @jax.jit
    def step(key, rbm, batch, state):
        model, state = phase(key, rbm, batch, state)
        down = gradient(moments_of(rbm, batch), model)
        return Parameters(*(a - rate * b for a, b in zip(rbm, down, strict=True))), state

    for number in range(num_updates):
        batch = jnp.asarray(DATA[rng.integers(0, len(DATA), 50)])
        rbm, state = step(jax.random.key(number), rbm, batch, state)
        yield rbm


def exact_log_z(rbm: Parameters) -> float:
    return tp.RBM(*(np.asarray(a, np.float64) for a in rbm)).exact_log_z()


@pytest.mark.parametrize("phase", [ContrastiveDivergence(1), Persistent(50, 2)], ids=["cd", "pcd"])
def test_the_band_holds_while_an_rbm_is_trained(phase):
    """Updates are not independent, so that this is a check for gross faults; the study has the rates.

    Kills: no prediction, its sign, α and 1 − α exchanged.
    """
    tracker = Tracker(first_rbm(), base=DATA, seed=3, **SMALL)
    inside, errors, off = [], [], []
    for rbm in trained(phase, rate=0.3, num_updates=300):
        tracked = tracker.update(*rbm)
        low, high = tracked.interval
        exact = exact_log_z(rbm)
        inside.append(low <= exact <= high)
        errors.append(tracked.log_z - exact)
        off.append(abs(errors[-1]) / tracked.std_error)
        assert tracked.verdict is Verdict.GOOD
    assert np.mean(inside) > 0.8
    assert np.quantile(off, 0.99) < 5
    assert np.sqrt(np.mean(np.square(errors))) < 0.5
    likelihood = tracker.mean_log_likelihood(DATA)
    expected = tp.RBM(*(np.asarray(a, np.float64) for a in rbm)).log_density(DATA).mean() - exact
    assert likelihood.interval[0] < likelihood.value < likelihood.interval[1]
    assert likelihood.value == pytest.approx(expected - errors[-1], abs=1e-4)


def test_steps_that_are_far_too_long_are_said_to_lose_track():
    tracker = Tracker(first_rbm(), base=DATA, seed=3, patience=1000, **SMALL)
    lost = []
    for rbm in itertools.islice(trained(ContrastiveDivergence(1), rate=10.0, num_updates=40), 40):
        tracked = tracker.update(*rbm)
        lost.append(tracked.verdict is Verdict.LOST)
        exact, (low, high) = exact_log_z(rbm), tracked.interval
        if tracked.verdict is Verdict.GOOD and np.isfinite(tracked.std_error):
            assert low - 3 * tracked.std_error <= exact <= high + 3 * tracked.std_error
    assert any(lost)
    (finding,) = tracker.update(np.full((NUM_VISIBLE, NUM_HIDDEN), 4.0), *rbm[1:]).findings
    assert finding.verdict is Verdict.LOST
    assert "learning rate" in finding.cure
    assert tracker.tracked.std_error == np.inf


def test_what_is_lost_stays_lost_until_it_is_found_anew():
    """Kills: the next update, at which nothing moves, called good."""
    tracker = Tracker(first_rbm(), base=DATA, seed=3, patience=3, **SMALL)
    jump = first_rbm(scale=1.5)
    verdicts = [tracker.update(jump.weights, jump.vbias, jump.hbias).verdict for _ in range(3)]
    assert verdicts == [Verdict.LOST, Verdict.LOST, Verdict.GOOD]
    assert tracker.tracked.is_anchored


def test_chains_that_make_the_gradient_are_followed_too():
    """Asked before the sweeps how log Z changes, they would say too little, by as much as training lowers f there.

    They would then run behind, and know it: the claimed error is 0.1 instead of 0.016, each known to about a fifth.
    """
    pytest.importorskip("optax", reason="training needs Optax")
    from tempering.training.trainer import Trainer

    settings = {"num_hidden": 60, "learning_rate": 3e-4, "num_chains": 100, "num_rungs": 10, "batch_size": 400}
    errors, claimed = [], []
    for progress in Trainer(DATA[:, :12], num_sweeps=10, num_updates=100, **settings).run():
        assert progress.tracked.verdict is Verdict.GOOD
        errors.append(progress.tracked.log_z - exact_log_z(progress.parameters))
        claimed.append(progress.tracked.std_error)
    assert np.mean(claimed) < 0.04
    assert abs(np.mean(errors)) < 6 * np.mean(claimed)


@pytest.mark.parametrize("looks_back", [False, True])
def test_a_change_that_is_the_same_for_every_state_is_found_exactly(looks_back):
    """The last hidden unit is tied to nothing: its bias changes log Z_k by softplus(β_k b′) − softplus(β_k b).

    Kills: the sign of a look ahead or back, rungs in another order, the change left out.
    """
    first = first_rbm()
    weights = np.where(np.arange(NUM_HIDDEN) == NUM_HIDDEN - 1, 0.0, first.weights)
    before, after = (tp.RBM(weights, first.vbias, np.append(first.hbias[:-1], bias)) for bias in (0.3, 1.1))
    tracker = Tracker(before, base=DATA, seed=3, **SMALL)
    known = tracker.followed.ladder.log_z_guess
    followed, _, _ = follow(
        jax.random.key(0), tracker.followed, parameters(after), jnp.float32(0.0), 2, looks_back=looks_back
    )
    betas = np.linspace(0, 1, 20)
    expected = np.logaddexp(0, 1.1 * betas) - np.logaddexp(0, 0.3 * betas)
    np.testing.assert_allclose(followed.ladder.log_z_guess - known, expected, atol=2e-5)
    np.testing.assert_allclose(followed.without - tracker.followed.without, np.tile(expected, (20, 1)), atol=2e-5)


def test_news_are_measured_against_the_prior():
    """By hand: ĉ_k ∝ r_k e^{d_k} says that log Z_k is off by d_k. Kills: the prior forgotten."""
    log_prior = jnp.log(jnp.array([0.2, 0.3, 0.5]))
    off = jnp.array([0.0, 0.4, -0.7])
    told = _told(jnp.tile(jnp.exp(log_prior + off), (4, 1)), log_prior)
    np.testing.assert_allclose(told.pooled, off, atol=1e-6)
    np.testing.assert_allclose(told.without, np.tile(off, (4, 1)), atol=1e-6)


def test_chains_are_dealt_out_to_groups():
    """Neighbours started at the same rung, so that they go to different groups, as in the groups' log Z."""
    tracker = Tracker(first_rbm(), base=DATA, seed=3, **SMALL)
    np.testing.assert_array_equal(tracker._grouped(np.arange(100)) % 20, np.tile(np.arange(20)[:, None], (1, 5)))


def test_what_was_lost_is_found_anew():
    tracker = Tracker(first_rbm(), base=DATA, seed=3, patience=1, **SMALL)
    jump = first_rbm(scale=1.5)
    tracked = tracker.update(jump.weights, jump.vbias, jump.hbias)
    assert tracked.is_anchored
    assert tracked.verdict is Verdict.GOOD
    checks.assert_within(tracked.log_z, jump.exact_log_z(), max(tracked.std_error, 0.05))


def test_parameters_that_are_not_finite_are_named_and_the_next_ones_are_followed():
    tracker, rbm = Tracker(first_rbm(), base=DATA, **SMALL), first_rbm()
    tracked = tracker.update(np.full_like(rbm.weights, np.nan), rbm.vbias, rbm.hbias)
    assert tracked.verdict is Verdict.NONFINITE
    assert tracked.std_error == np.inf
    assert "diverged" in tracked.findings[0].cure
    assert tracker.update(rbm.weights, rbm.vbias, rbm.hbias).verdict is Verdict.GOOD


def test_new_weights_compile_nothing(monkeypatch):
    tracker, rbm = Tracker(first_rbm(), base=DATA, **SMALL), first_rbm()
    tracker.update(rbm.weights, rbm.vbias, rbm.hbias)

    def refuse(*_):
        raise AssertionError("new weights were traced anew")

    monkeypatch.setattr(tempering.training.tracker, "follow", refuse)
    tracker.update(1.01 * rbm.weights, rbm.vbias, rbm.hbias)


def test_larger_fields_than_foreseen_are_foreseen_next_time():
    tracker = Tracker(first_rbm(), base=DATA, **SMALL)
    rbm = first_rbm()
    before = float(tracker._followed_path.sums.bound)
    tracked = tracker.update(rbm.weights, rbm.vbias, rbm.hbias + 2 * before)
    assert float(tracker._followed_path.sums.bound) > 2 * before
    assert np.isfinite(tracked.log_z)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"num_chains": 30, "num_groups": 20}, "multiple"),
        ({"anchor": tp.AnnealedStart(10, ())}, "settle"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(tp.InputError, match=words):
        Tracker(first_rbm(), base=DATA, **settings)


def exact_law(rbm: tp.RBM) -> tuple[np.ndarray, np.ndarray]:
    patterns = np.array(list(itertools.product([0.0, 1.0], repeat=rbm.num_visible)))
    weight = np.exp(rbm.log_density(patterns) - rbm.exact_log_z())
    return patterns, weight / weight.sum()


def exact_moments(rbm: tp.RBM):
    patterns, weight = exact_law(rbm)
    field = patterns @ rbm.weights + rbm.hbias
    return weighted_moments(*(jnp.asarray(a, jnp.float32) for a in (patterns, field, weight)))


def test_the_tempered_gradient_agrees_with_enumeration():
    """Moments of all chains, each counting by q(K−1 | x), over replicates; and they scatter less than those of PCD.

    PCD has as many chains and sweeps, and begins with exact draws. Its variance is four times as large; a right
    program would fail here, at three standard errors of both variances, far less often than once in 10⁶ runs.
    Kills: only the last sweep, weights of another rung.
    """
    rng = np.random.default_rng(2)
    rbm = tp.RBM(rng.normal(0, 1.2, (8, 5)), rng.normal(0, 1, 8), rng.normal(0, 1, 5))
    exact = exact_moments(rbm)
    patterns, probabilities = exact_law(rbm)
    draws = jnp.asarray(patterns[rng.choice(len(patterns), (300, 40), p=probabilities)], jnp.float32)
    tracker = Tracker(rbm, base="bias", num_chains=40, num_groups=4, num_rungs=12, prior="exp:2", seed=1, anchor=ANCHOR)

    def tempered(key):
        return follow(key, tracker.followed, parameters(rbm), jnp.float32(0.0), 25, looks_back=True)[2].vh

    found = np.asarray(jax.jit(jax.vmap(tempered))(jax.random.split(jax.random.key(0), 300)))
    off = found.mean(axis=0) - np.asarray(exact.vh)
    assert np.all(np.abs(off) < 5.5 * found.std(axis=0, ddof=1) / np.sqrt(300) + 1e-4)

    def persistent(key, v):
        return Persistent(40, 25)(key, parameters(rbm), v, v)[0].vh

    plain = np.asarray(jax.jit(jax.vmap(persistent))(jax.random.split(jax.random.key(1), 300), draws))
    assert found.var(axis=0).sum() < 0.5 * plain.var(axis=0).sum()
