"""Log Z followed through training: against enumeration after every update, and lost where chains cannot follow."""

import copy
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
import tempering.training.tracker
from tempering import Verdict
from tempering.models.rbm.batch import Parameters, moments_of, weighted_moments
from tempering.stats import BlockedStats, Travel
from tempering.training.anchor import LOOK, left_out
from tempering.training.phases import ContrastiveDivergence, loss_gradient
from tempering.training.phases import PersistentContrastiveDivergence as PCD
from tempering.training.spread import Spread
from tempering.training.tempered import Reading, _correction, follow
from tempering.training.tracker import Tracker, device_parameters

NUM_VISIBLE, NUM_HIDDEN = 20, 6
ANCHOR, ANCHOR_SWEEPS = tp.AnnealedStart(60, (40, 60)), 160
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


@functools.cache
def _anchored_once() -> Tracker:
    return Tracker(first_rbm(), base=DATA, seed=3, **SMALL)


def anchored_tracker(patience: int = 20) -> Tracker:
    """A tracker that knows log Z of `first_rbm`. It is found once; each test has a copy of its own."""
    tracker = copy.copy(_anchored_once())  # what it keeps is replaced and not changed, but for the list
    tracker._pending, tracker.patience = [], patience
    return tracker


def trained(phase, rate: float, num_updates: int, seed: int = 0):
    """Parameters after every update of plain gradient ascent."""
    rbm, rng = device_parameters(first_rbm()), np.random.default_rng(seed)
    state = phase.start(jax.random.key(seed), rbm, jnp.zeros(NUM_VISIBLE))

    @jax.jit
    def step(key, rbm, batch, state):
        model, state = phase(key, rbm, batch, state)
        down = loss_gradient(moments_of(rbm, batch), model)
        return Parameters(*(a - rate * b for a, b in zip(rbm, down, strict=True))), state

    for number in range(num_updates):
        batch = jnp.asarray(DATA[rng.integers(0, len(DATA), 50)])
        rbm, state = step(jax.random.key(number), rbm, batch, state)
        yield rbm


def exact_log_z(rbm: Parameters) -> float:
    return tp.RBM(*(np.asarray(a, np.float64) for a in rbm)).exact_log_z()


# The tracker is shown parameters alone, whatever has made them.
@pytest.mark.parametrize(
    "phase", [ContrastiveDivergence(1), pytest.param(PCD(50, 2), marks=pytest.mark.slow)], ids=["cd", "pcd"]
)
def test_the_band_holds_while_an_rbm_is_trained(phase):
    """Updates are not independent, so that this is a check for gross faults; the study has the rates.

    Kills: no prediction, its sign, α and 1 − α exchanged.
    """
    tracker = anchored_tracker()
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
    tracker = anchored_tracker(patience=1000)
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
    """Which may cost twice as many sweeps as follow it. Kills: the next update, at which nothing moves, called good."""
    tracker = anchored_tracker(patience=3)
    jump, num_warmup = first_rbm(scale=1.5), ANCHOR_SWEEPS
    num_waited = (num_warmup + LOOK) // (2 * SMALL["num_sweeps"])
    tracked = [tracker.update(jump.weights, jump.vbias, jump.hbias) for _ in range(num_waited)]
    assert [found.verdict for found in tracked] == [Verdict.LOST] * (num_waited - 1) + [Verdict.GOOD]
    assert [found.is_anchored for found in tracked] == [False] * (num_waited - 1) + [True]
    checks.assert_within(tracked[-1].log_z, jump.exact_log_z(), max(tracked[-1].std_error, 0.05))


def test_an_anchor_is_not_believed_before_its_chains_have_forgotten_the_annealing(monkeypatch):
    """Three sweeps make no round trips, so that log Z stays unknown; kills: a verdict that nobody asks for."""
    monkeypatch.setattr("tempering.training.anchor.MOST", 3)
    tracker = Tracker(first_rbm(scale=1.5), base=DATA, seed=3, **SMALL)
    (finding,) = tracker.tracked.findings
    assert finding.verdict is Verdict.LOST
    assert finding.seen.startswith(f"{ANCHOR_SWEEPS + 3} sweeps did not find log Z: ")
    assert "round trips per chain" in finding.seen
    assert tracker.tracked.std_error == np.inf
    assert tracker.update(*device_parameters(first_rbm(scale=1.5))).verdict is Verdict.LOST


def test_what_an_anchor_knows_of_its_error_beyond_its_groups_fades_with_its_answer():
    """By eq. 24 an update replaces α of it. Kills: an error that stays, one that is forgotten at once."""
    tracker = anchored_tracker()
    assert tracker.tracked.verdict is Verdict.GOOD
    tracker._anchor_error = 7.0
    errors = [tracker.update(*device_parameters(first_rbm())).std_error for _ in range(3)]
    np.testing.assert_allclose(errors, 7.0 * 0.8 ** np.arange(1, 4), rtol=1e-3)  # the rest is less than 0.1


def test_chains_that_make_the_gradient_are_followed_too():
    """Asked before the sweeps how log Z changes, they would say too little, by as much as training lowers f there.

    They would then run behind, and know it: the claimed error is 0.1 instead of 0.016, each known to about a fifth.
    """
    pytest.importorskip("optax", reason="training needs Optax")
    from tempering.training.trainer import Trainer

    settings = {"num_hidden": 60, "learning_rate": 3e-4, "num_chains": 100, "num_rungs": 10, "batch_size": 400}
    errors, claimed = [], []
    for progress in Trainer(DATA[:, :12], num_sweeps=10, num_updates=50, **settings).run():
        assert progress.tracked.verdict is Verdict.GOOD
        errors.append(progress.tracked.log_z - exact_log_z(progress.parameters))
        claimed.append(progress.tracked.std_error)
    assert np.mean(claimed) < 0.04
    assert abs(np.mean(errors)) < 6 * np.mean(claimed)


@pytest.mark.parametrize("is_backward", [False, True])
def test_a_change_that_is_the_same_for_every_state_is_found_exactly(is_backward):
    """The last hidden unit is tied to nothing: its bias changes log Z_k by softplus(β_k b′) − softplus(β_k b).

    Kills: the sign of a look ahead or back, rungs in another order, the change left out.
    """
    first = first_rbm()
    weights = np.where(np.arange(NUM_HIDDEN) == NUM_HIDDEN - 1, 0.0, first.weights)
    before, after = (tp.RBM(weights, first.vbias, np.append(first.hbias[:-1], bias)) for bias in (0.3, 1.1))
    tracker = Tracker(before, base=DATA, seed=3, **SMALL)
    known = tracker.chains.ladder.log_z_guess
    followed, _, _ = follow(
        jax.random.key(0),
        tracker.chains,
        device_parameters(after),
        jnp.float32(0.0),
        2,
        is_backward=is_backward,
        spread=Spread(),
    )
    betas = np.linspace(0, 1, 20)
    expected = np.logaddexp(0, 1.1 * betas) - np.logaddexp(0, 0.3 * betas)
    np.testing.assert_allclose(followed.ladder.log_z_guess - known, expected, atol=2e-5)
    np.testing.assert_allclose(
        followed.log_z_without - tracker.chains.log_z_without, np.tile(expected, (20, 1)), atol=2e-5
    )


def test_news_are_measured_against_the_prior():
    """By hand: ĉ_k ∝ r_k e^{d_k} says that log Z_k is off by d_k. Kills: the prior forgotten."""
    log_prior = jnp.log(jnp.array([0.2, 0.3, 0.5]))
    off = jnp.array([0.0, 0.4, -0.7])
    told = _correction(jnp.tile(jnp.exp(log_prior + off), (4, 1)), log_prior)
    np.testing.assert_allclose(told.pooled, off, atol=1e-6)
    np.testing.assert_allclose(told.without, np.tile(off, (4, 1)), atol=1e-6)


def test_what_steady_news_leave_behind_is_caught_up():
    """If each update brings d beyond what is known and takes in α of it, log Z stays (1 − α) d behind.

    By hand: d² = 0.36 beyond the noise that groups show. Kills: the sign, α for 1 − α, noise that is caught up with, an
    error without the lag, groups that are not moved along.
    """
    tracker = anchored_tracker()
    tracker._anchor_error = 0.0
    spread = np.where(np.arange(20) % 2, 1.0, -1.0) * 0.02
    noise = np.sqrt(19 * 0.02**2)  # of the jackknife
    news = np.sqrt(0.6**2 + noise**2)
    nothing = Reading(
        jnp.zeros(20), jnp.zeros(20), jnp.zeros(()), jnp.zeros(20), jnp.ones(20), jnp.ones(()), jnp.ones(()),
        jnp.zeros((), int), jnp.zeros((), int),
    )  # fmt: skip
    behind = dataclasses.replace(nothing, innovation=jnp.asarray(news), innovation_without=jnp.asarray(news + spread))
    base = tracker._log_z_base
    tracked = tracker._at_reading(behind, ())
    catch_up = 0.8 * 0.6**2 / news**2
    assert tracked.log_z - base == pytest.approx(catch_up * news, rel=1e-5)
    assert tracked.std_error == pytest.approx(np.hypot(0.6, catch_up * noise), rel=1e-5)
    just_noise = tracker._at_reading(dataclasses.replace(behind, innovation=jnp.float32(0.9 * noise)), ())
    assert just_noise.log_z == base
    assert just_noise.std_error == 0


def test_chains_are_dealt_out_to_groups():
    """Neighbours started at the same rung, so that they go to different groups, as in the groups' log Z."""
    tracker = anchored_tracker()
    np.testing.assert_array_equal(tracker._grouped(np.arange(100)) % 20, np.tile(np.arange(20)[:, None], (1, 5)))


def test_an_anchor_gives_the_tracker_its_own_answer_and_that_without_each_group():
    """A ratio of sums lies between the same ratios with one group left out. Kills: Ẑ of the warm-up, other groups."""
    tracker = Tracker(first_rbm(scale=0.5), base=DATA, seed=3, **SMALL)
    known, without = np.asarray(tracker.chains.ladder.log_z_guess), np.asarray(tracker.chains.log_z_without)
    assert np.all(without.min(axis=0) <= known + 1e-5)
    assert np.all(known - 1e-5 <= without.max(axis=0))
    assert len(np.unique(without[:, -1])) == tracker.num_groups


def test_an_anchors_groups_are_those_of_the_tracker():
    """By hand: chain c finds e^c at the target and 1 at the base; the chains without group g are those not g mod 3."""
    log_sums = np.zeros((6, 2, 2))
    log_sums[:, :, 1] = np.arange(6)[:, None]
    counts, none = np.ones((6, 2), np.int64), np.zeros(6, np.int64)
    stats = BlockedStats(
        betas=np.array([0.0, 1.0]), log_prior=np.log([0.25, 0.75]), log_z_guess=np.array([0.0, 0.2]), log_sums=log_sums,
        visits=np.ones((6, 2, 2), np.int64), num_draws=counts, num_nonfinite=0 * counts, block_size=1,
        travel=Travel(none, none, none),
    )  # fmt: skip
    found = left_out(stats, 3)
    left = [[c for c in range(6) if c % 3 != g] for g in range(3)]
    expected = [0.2 - np.log(3) + np.log(np.mean(np.exp(chains))) for chains in left]
    np.testing.assert_allclose(found, np.column_stack([np.zeros(3), expected]), rtol=1e-12)


def test_parameters_that_are_not_finite_are_named_and_the_next_ones_are_followed():
    tracker, rbm = anchored_tracker(), first_rbm()
    tracked = tracker.update(np.full_like(rbm.weights, np.nan), rbm.vbias, rbm.hbias)
    assert tracked.verdict is Verdict.NONFINITE
    assert tracked.std_error == np.inf
    assert "diverged" in tracked.findings[0].cure
    assert tracker.update(rbm.weights, rbm.vbias, rbm.hbias).verdict is Verdict.GOOD


def test_new_weights_compile_nothing(monkeypatch):
    tracker, rbm = anchored_tracker(), first_rbm()
    tracker.update(rbm.weights, rbm.vbias, rbm.hbias)

    def refuse(*_):
        raise AssertionError("new weights were traced anew")

    monkeypatch.setattr(tempering.training.tracker, "follow", refuse)
    tracker.update(1.01 * rbm.weights, rbm.vbias, rbm.hbias)


def test_larger_fields_than_foreseen_are_foreseen_next_time():
    tracker = anchored_tracker()
    rbm = first_rbm()
    before = float(tracker._path.sums.bound)
    tracked = tracker.update(rbm.weights, rbm.vbias, rbm.hbias + 2 * before)
    assert float(tracker._path.sums.bound) > 2 * before
    assert np.isfinite(tracked.log_z)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"num_chains": 30, "num_groups": 20}, "multiple"),
        ({"num_sweeps": 0}, "`num_sweeps` must be a whole number, 1 or more; got 0"),
        ({"num_rungs": 1}, "`num_rungs` must be a whole number, 2 or more"),
        ({"num_groups": 3}, "`num_groups`"),
        ({"patience": 0}, "`patience`"),
        ({"chains": 200}, "`Tracker` has no argument `chains`. Did you mean `num_chains`?"),
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
    tracker = Tracker(
        rbm, base="bias", num_chains=40, num_groups=4, num_rungs=12, rung_weights="exp:2", seed=1, anchor=ANCHOR
    )

    chains = tracker.chains

    def tempered(key):
        return follow(key, chains, device_parameters(rbm), jnp.float32(0.0), 25, is_backward=True, spread=Spread())[
            2
        ].vh

    found = np.asarray(jax.jit(jax.vmap(tempered))(jax.random.split(jax.random.key(0), 300)))
    checks.assert_within(found.mean(axis=0), exact.vh, found.std(axis=0, ddof=1) / np.sqrt(300) + 1e-5)

    def persistent(key, v):
        return PCD(40, 25)(key, device_parameters(rbm), v, v)[0].vh

    plain = np.asarray(jax.jit(jax.vmap(persistent))(jax.random.split(jax.random.key(1), 300), draws))
    assert found.var(axis=0).sum() < 0.5 * plain.var(axis=0).sum()
