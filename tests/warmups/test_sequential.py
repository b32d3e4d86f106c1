"""Sequential Monte Carlo up the ladder: weights, resampling, ancestors, and what it leaves for the tempered run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
import exact
import tempering as tp
from densities import NarrowNormal
from tempering.sampling import Setup, walk_stages
from tempering.stats import ClimbSteps
from tempering.warmups.climb_tuning import Tuning, shrunk
from tempering.warmups.population import Population


def _climbed(population: Population, betas, increments) -> Population:
    increments = np.asarray(increments, np.float64)
    num = len(increments)
    return population.climbed(np.asarray(betas), ClimbSteps(increments, np.zeros(num), np.zeros(num, np.int64)))


def test_log_z_is_the_log_of_the_mean_weight_at_every_step():
    """Kills: means over particles of log weights, increments that are not summed, weights that are forgotten."""
    base = Population.at_base(np.arange(3.0))
    increments = np.array([[0.1, 1.0], [-2.0, 0.3], [0.7, -0.4]])
    once = _climbed(base, [0.3, 1.0], increments)
    expected = [0.0, *np.log(np.exp(np.cumsum(increments, axis=1)).mean(axis=0))]
    np.testing.assert_allclose(once.log_z, expected, rtol=1e-12)
    halves = _climbed(_climbed(base, [0.3], increments[:, :1]), [1.0], increments[:, 1:])
    np.testing.assert_allclose(halves.log_z, expected, rtol=1e-12)
    np.testing.assert_allclose(halves.weights, once.weights, rtol=1e-12)


def test_a_weight_that_is_not_finite_counts_as_zero_and_a_dead_population_goes_on():
    base = Population.at_base(np.arange(4.0))
    some = _climbed(base, [1.0], [[0.0], [np.nan], [np.inf], [-np.inf]])
    np.testing.assert_allclose(some.log_z, [0.0, np.log(1 / 4)])
    np.testing.assert_allclose(some.weights, [1.0, 0.0, 0.0, 0.0])
    dead = _climbed(base, [1.0], np.full((4, 1), -np.inf))
    assert np.isfinite(dead.log_z).all()
    np.testing.assert_allclose(dead.weights, 0.25)


def test_resampling_follows_the_weights_and_remembers_ancestors():
    """Kills: families that are not picked along, resampling of a population that does not need it."""
    heavy = _climbed(Population.at_base(np.arange(4.0)), [0.5], np.log([[6.0], [1.0], [1.0], [0.001]]))
    new, states = heavy.resampled(np.arange(4.0), 0.5, 0.6)
    assert heavy.effective_share < 0.6
    assert list(new.families) == list(states.astype(int))
    assert list(states).count(0.0) in (2, 3)
    np.testing.assert_allclose(new.weights, 0.25)
    same, _ = heavy.resampled(np.arange(4.0), 0.5, 0.1)
    assert same is heavy


def test_the_error_counts_families():
    """Without resampling it is that of the mean weight; two particles of one family are no two draws."""
    weights = np.array([1.0, 2.0, 3.0, 2.0])
    apart = _climbed(Population.at_base(np.zeros(4)), [1.0], np.log(weights)[:, None])
    np.testing.assert_allclose(apart.std_error, np.sqrt(np.sum((weights / 8 - 0.25) ** 2)))
    one_family, _ = apart.resampled(np.zeros(4), 0.5, 2.0)
    assert one_family.std_error > 0


def test_kept_states_come_from_the_place_that_is_asked_for():
    population = Population.at_base(np.full(8, 0.0))
    for beta in (0.25, 0.5, 1.0):
        population = _climbed(population, [beta], np.zeros((8, 1))).keeping(np.full(8, beta), 0.5)
    np.testing.assert_allclose(population.states_near(np.array([0.0, 0.26, 0.49, 1.0]))[0], [0.0, 0.25, 0.5, 1.0])
    for _ in range(20):
        population = population.keeping(np.full(8, 1.0), 0.5)
    assert len(population.kept_betas) <= 4 * 8


def test_correlations_of_noise_are_shrunk_away_and_true_ones_stay():
    rng = np.random.default_rng(5)
    noise = np.corrcoef(rng.normal(size=(60, 40)).T)
    assert np.linalg.cond(shrunk(noise, 60)) < 2 < np.linalg.cond(noise)
    places = np.arange(40)
    true = 0.9 ** np.abs(places[:, None] - places)
    draws = rng.multivariate_normal(np.zeros(40), true, 200)
    factor = np.linalg.cholesky(shrunk(np.corrcoef(draws.T), 200))
    whitened = np.linalg.solve(factor, np.linalg.solve(factor, true).T)
    assert np.linalg.cond(whitened) < np.linalg.cond(true) / 5


@pytest.fixture(scope="module")
def passes() -> list:
    """The end of the climb on a model that can be enumerated, for several seeds."""
    path = exact.small_rbm().path(exact.BASE_FREQUENCIES, tp.ladder.uniform_betas(11))
    ends = []
    for seed in range(40):
        setup = Setup(jax.random.key(seed), tp.Ladder.create(path), tp.BlockGibbs(), 50, 1)
        stages = walk_stages(tp.SequentialStart(), setup)
        ends.append(next(stage for stage in stages if stage.kind.is_tempered))
    return ends


def test_the_pass_gives_log_z_at_every_rung(passes):
    """Kills: a weight taken after the move, a rung skipped, increments of a stretch lost."""
    path = passes[0].ladder.path
    log_z = exact.small_rbm().exact_log_z() - path.log_z_base()
    found = np.array([np.asarray(stage.ladder.log_z_guess, np.float64) for stage in passes])
    checks.assert_mean(np.exp(found[:, -1] - log_z), 1.0)


def test_a_longer_ladder_takes_more_steps():
    lengths = []
    for scale in (0.3, 0.03):
        stages = walk_stages(tp.SequentialStart(), _narrow_normal(scale))
        lengths.append(next(stage for stage in stages if stage.kind.is_tempered).warmup)
    assert lengths[1].num_steps > 1.3 * lengths[0].num_steps
    assert lengths[1].length.root_kl > 1.3 * lengths[0].length.root_kl


def test_inverse_temperatures_that_were_asked_for_stay():
    """Kills: rungs spaced anew because moves are tuned."""
    betas = np.linspace(0, 1, 9) ** 2
    model = tp.RBM(np.full((12, 1), 2.0), np.zeros(12), np.array([-10.0]))
    result = tp.estimate(model, "uniform", betas=betas, num_sweeps=8, num_chains=20)
    np.testing.assert_allclose(result.betas, betas, rtol=1e-6)


def test_gibbs_sweeps_are_given_time_whatever_the_length_of_the_ladder():
    """Kills: an equilibration that follows from the length alone, which is 2 sweeps here."""
    model = tp.RBM(np.zeros((3, 2)), np.array([0.2, 0.0, -0.1]), np.zeros(2))
    setup = Setup(jax.random.key(0), tp.Ladder.create(model.path("uniform", np.linspace(0, 1, 3))), model.move(), 10)
    stages = [stage for stage in walk_stages(tp.SequentialStart(), setup) if stage.kind.label == "equilibrating"]
    assert stages[-1].num_steps == tp.SequentialStart().min_gibbs_equilibration


def _narrow_normal(scale: float) -> Setup:
    """Five normals that narrow to this scale, in shapes that several tests share."""
    model = tp.LogDensity(NarrowNormal(jnp.float32(scale)), tp.Normal(jnp.zeros(5)))
    return Setup(jax.random.key(0), tp.Ladder.create(model.path(None, np.linspace(0, 1, 9))), model.move(), 20, 4)


def test_the_error_of_the_pass_counts_what_was_corrected():
    """Kills: an error that stays, and a correction at another rung."""
    ends = {stage.kind.label: stage for stage in walk_stages(tp.SequentialStart(), _narrow_normal(0.1))}
    before, after = ends["equilibrating"], ends["sampling"]
    correction = float(after.ladder.log_z_guess[-1] - before.ladder.log_z_guess[-1])
    wanted = np.hypot(before.warmup.annealed.std_error, correction)
    assert after.warmup.annealed.std_error == pytest.approx(wanted, rel=1e-6)
    assert abs(correction) > 1e-3  # else the test sees nothing


def test_a_ladder_that_is_too_long_is_climbed_in_a_bounded_number_of_steps():
    """Kills: a bound that is not heeded. Five dimensions of scale 1e-6 would take more than 100 steps."""
    how = tp.SequentialStart(max_steps=12)
    stages = list(walk_stages(how, _narrow_normal(1e-6)))
    climbing = sum(stage.num_steps for stage in stages if stage.kind.label == "climbing" and stage.is_finished)
    (equilibrating,) = {stage.num_steps for stage in stages if stage.kind.label == "equilibrating"}
    assert climbing <= 12 + 2 * how.stretch_steps
    assert equilibrating == 12


def test_the_scale_of_heavy_tails_is_that_of_their_bulk():
    # Kills: standard deviations, which far-out draws of a Cauchy base decide, so that no step is accepted in its bulk.
    rng = np.random.default_rng(3)
    cauchy = np.stack([rng.standard_cauchy(400), 5 + 0.1 * rng.standard_cauchy(400)], axis=1)
    learned = Tuning.at_base(tp.HMC(), cauchy).scales[0]
    assert np.all(np.std(cauchy, axis=0) > 6 * np.array([1.0, 0.1]))
    np.testing.assert_array_less(learned, 6 * np.array([1.0, 0.1]))
    np.testing.assert_array_less(np.array([1.0, 0.1]), learned)


@pytest.mark.parametrize("unit", [1.0, 1e-9])
def test_the_scale_of_normal_draws_is_their_standard_deviation(unit):
    """In any unit of length. Kills: a least scale where there is none before."""
    rng = np.random.default_rng(4)
    normal = unit * rng.normal([1.0, -20.0], [2.0, 0.3], (400, 2))
    np.testing.assert_allclose(Tuning.at_base(tp.HMC(), normal).scales[0], normal.std(axis=0), rtol=1e-12)


def test_of_very_many_particles_every_so_many_th_teaches():
    """Kills: the first ones only, which may be copies of a few; weights that no longer add up to 1."""
    x = np.random.default_rng(1).normal(size=(10_001, 2)).astype(np.float32)
    weights = np.full(len(x), 1 / len(x))
    learned = Tuning.at_base(tp.HMC(), x[:100]).after(tp.HMC(), 0.5, 0.9, x, weights)
    np.testing.assert_allclose(learned.means[-1], x[::2].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(learned.scales[-1], x[::2].std(axis=0), rtol=1e-6)


def test_a_particle_that_has_all_of_the_weight_teaches_no_scale():
    """Kills: the scale of what the others weigh, 1e-50 and less, which is 0 in single precision."""
    x = np.random.default_rng(2).normal(size=(50, 2)).astype(np.float32)
    tuning, weights = Tuning.at_base(tp.HMC(), x), np.append(1.0, np.full(49, 1e-90))
    learned = tuning.after(tp.HMC(), 1.0, 0.0, x, weights)
    np.testing.assert_array_equal(learned.scales[1], tuning.scales[0])
    assert np.all(np.asarray(learned.schedule(np.linspace(0, 1, 7)).scales) > 0)  # a division by 0 is an error here


def test_steps_that_are_never_accepted_stay_long_enough_to_be_numbers():
    """After 300 stretches e^(−0.9 · 300) would be 0 in single precision. Kills: step sizes without a lower bound."""
    x = np.random.default_rng(2).normal(size=(50, 2)).astype(np.float32)
    tuning, weights = Tuning.at_base(tp.HMC(), x), np.full(len(x), 1 / len(x))
    for number in range(300):
        tuning = tuning.after(tp.HMC(), (number + 1) / 300, 0.0, x, weights)
    steps = np.asarray(tuning.schedule(np.linspace(0, 1, 7)).step_sizes)  # a division by 0 would be an error here
    assert np.all(steps > 0)
