"""Control variates of bridges: exact for normal laws, of mean 0 for all others, and never there for jumps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import checks
import tempering as tp
from tempering.estimators import auto, bridge_sampling, controlled_bridge
from tempering.kernels.moves.flow import Flow
from tempering.sampling import Setup
from tempering.stats import BlockedStats, Recording, Travel

RNG = np.random.default_rng(11)
BETAS = np.array([0.0, 0.3, 1.0])


def normal_path(is_dense: bool) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances on the geometric path between two normal laws in 3-d, the first with independent parts."""
    low, high = np.diag([4.0, 1.0, 0.5]), np.diag([0.3, 2.0, 0.1])
    if is_dense:
        mixing = np.array([[1.0, 0.4, 0.0], [0.0, 1.0, -0.6], [0.2, 0.0, 1.0]])
        high = mixing @ high @ mixing.T
    mean_low, mean_high = np.array([0.5, -1.0, 0.0]), np.array([2.0, 0.3, -0.7])
    precisions = [(1 - beta) * np.linalg.inv(low) + beta * np.linalg.inv(high) for beta in BETAS]
    pulls = [
        (1 - beta) * np.linalg.solve(low, mean_low) + beta * np.linalg.solve(high, mean_high) for beta in BETAS
    ]  # fmt: skip
    covariances = np.linalg.inv(precisions)
    return np.einsum("pij,pj->pi", covariances, pulls), covariances


@pytest.mark.parametrize("is_dense", [False, True])
def test_between_normal_laws_the_control_is_the_slope(is_dense):
    """−(s − E[s]) at any x. Kills: ½ or β forgotten, R transposed, the shift's sign, div φ of the diagonal only."""
    means, covariances = normal_path(is_dense)
    precisions = np.linalg.inv(covariances)
    parts = covariances if is_dense else np.diagonal(covariances, axis1=1, axis2=2)
    flow = Flow.between_normals(BETAS, means, parts)
    curvature = precisions[2] - precisions[0]  # log f_1 − log f_0 is −½ xᵀ A x + bᵀ x, up to a constant
    pull = precisions[2] @ means[2] - precisions[0] @ means[0]
    for place in (1, 2):
        for x in RNG.normal(size=(4, 3)):
            gradient = -precisions[place] @ (x - means[place])
            slope = -0.5 * x @ curvature @ x + pull @ x
            mean = means[place]
            expected = -0.5 * (mean @ curvature @ mean + np.trace(curvature @ covariances[place])) + pull @ mean
            found = flow.control(jnp.float32(BETAS[place]), jnp.asarray(x), jnp.asarray(gradient))
            assert float(found) == pytest.approx(expected - slope, abs=1e-4 * (1 + abs(slope - expected)))


def test_the_mean_is_zero_whatever_the_density():
    """By a sum over a fine grid, for a density with two modes and a flow that does not fit. Kills: div φ left out."""
    means, covariances = normal_path(is_dense=True)
    flow = Flow.between_normals(BETAS, means[:, :2], covariances[:, :2, :2])
    axis = np.linspace(-7.0, 7.0, 281)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    log_f = np.logaddexp(-((grid - 1) ** 4).sum(axis=1), -2 * ((grid + 1) ** 2).sum(axis=1))
    first = np.exp(-((grid - 1) ** 4).sum(axis=1) - log_f)[:, None]
    gradients = first * (-4 * (grid - 1) ** 3) + (1 - first) * (-4 * (grid + 1))
    some = zip(jnp.asarray(grid[::997]), jnp.asarray(gradients[::997]), strict=True)
    controls = np.array([float(flow.control(jnp.float32(0.3), x, gradient)) for x, gradient in some])
    place = (np.asarray(flow.means)[1], np.asarray(flow.shifts)[1], np.asarray(flow.stretches)[1])
    mean, shift, stretch = (part.astype(np.float64) for part in place)
    velocity = shift + (grid - mean) @ stretch.T
    plain = np.trace(stretch) + np.sum(velocity * gradients, axis=1)
    np.testing.assert_allclose(controls, plain[::997], rtol=2e-4, atol=1e-3)  # what is summed is what is computed
    weights = np.exp(log_f)
    assert abs(weights @ plain) / (weights @ np.abs(plain)) < 1e-8


def recording_of(num_chains: int = 40, noise: float = 0.0, scale: float = 1.0) -> tuple[Recording, np.ndarray]:
    """Draws with normal slopes, s ~ N(0.4 + 2 β, 2), for which log Z(β) = 0.4 β + β², and controls of them."""
    betas, per_rung = np.linspace(0, 1, 6), 5
    rng = np.random.default_rng(5)
    slopes = 0.4 + 2 * betas + np.sqrt(2) * rng.normal(size=(num_chains, per_rung, 6))
    controls = scale * -(slopes - 0.4 - 2 * betas) + noise * rng.normal(size=slopes.shape)
    bridges = np.full((num_chains, 1, 6, 2), -np.inf)
    guess = 0.3 * betas  # a poor one
    up, down = (expit(sign * betas[1] * (slopes - 0.3)) for sign in (1, -1))
    bridges[:, 0, :-1, 0], bridges[:, 0, 1:, 1] = np.log(up[..., :-1].sum(axis=1)), np.log(down[..., 1:].sum(axis=1))
    moments = np.stack([controls, controls**2, controls * up, controls * down], axis=-1).sum(axis=1)
    moments[:, -1, 2] = moments[:, 0, 3] = 0.0  # past an end
    ends, counts = np.ones(num_chains, np.int64), np.full((num_chains, 1, 6), per_rung)
    stats = BlockedStats(
        betas=betas, log_prior=np.full(6, -np.log(6)), log_z_guess=guess,
        log_sums=np.log(counts) + 0.3 * rng.normal(size=counts.shape), visits=counts, origins=counts,
        num_draws=np.full((num_chains, 1), 30), num_nonfinite=np.zeros((num_chains, 1), np.int64),
        travel=Travel(ends, ends, 40 * ends), block_size=30, log_bridges=bridges,
        controls=moments[:, None],
    )  # fmt: skip
    return Recording(stats, np.ones((1, 6, 6), np.int64), None), np.stack([slopes, controls], axis=-1)


@pytest.mark.parametrize(("noise", "scale"), [(0.0, 1.0), (0.7, -3.0)])
def test_the_answer_is_the_regression_written_out(noise, scale):
    """Against NumPy's covariance. Kills: θ of another rung or side, half of a step, a sign, Ẑ forgotten."""
    recording, draws = recording_of(noise=noise, scale=scale)
    answer = controlled_bridge(recording.stats, log_z_base=1.5)

    def taken_off(rung: int, sign: int) -> float:
        slope, control = draws[:, :, rung].reshape(-1, 2).T
        share = expit(sign * 0.2 * (slope - 0.3))
        return np.cov(share, control)[0, 1] / share.mean() / np.var(control, ddof=1) * control.mean()

    steps = [taken_off(rung, 1) - taken_off(rung + 1, -1) for rung in range(5)]
    plain = bridge_sampling(recording.stats, log_z_base=1.5).values
    np.testing.assert_allclose(answer.values, plain - np.cumsum([0.0, *steps]), atol=1e-9)


def test_perfect_controls_take_all_noise_off():
    """What is left is of second order in a step. Kills: a control that is added, errors without the controls."""
    recording, _ = recording_of()
    answer, plain = controlled_bridge(recording.stats), bridge_sampling(recording.stats)
    assert answer.std_error < plain.std_error / 10
    assert abs(answer.log_z - 1.4) < 5 * answer.std_error
    joined = auto(recording)
    assert [each.method for each in joined.readings] == ["rts", "bridge", "bridge_controlled"]
    assert joined.weights[2] > 0.95


def test_the_error_is_that_of_leaving_chains_out():
    """By leaving out each chain in turn, coefficients as they are. Kills: influences without counts, a wrong factor."""
    recording, _ = recording_of(noise=0.7)
    stats, whole = recording.stats, controlled_bridge(recording.stats)
    left_out = [controlled_bridge(stats.of_chains(np.arange(40) != chain)).values for chain in range(40)]
    by_hand = 39 * (whole.values - np.array(left_out))
    # Coefficients change by 1/40 of themselves or so when a chain is left out, which is of second order.
    np.testing.assert_allclose(whole.influences[:, -1], by_hand[:, -1], atol=0.15 * np.abs(by_hand[:, -1]).max())
    assert np.corrcoef(whole.influences[:, -1], by_hand[:, -1])[0, 1] > 0.98


def test_a_rung_whose_controls_are_not_finite_is_not_controlled():
    """Kills: an answer of NaN, or one chain of the rung left out alone."""
    recording, _ = recording_of()
    broken, without = recording.stats.controls.copy(), recording.stats.controls.copy()
    broken[3, 0, 2], without[:, :, 2] = np.nan, 0.0
    answer, expected = (
        controlled_bridge(dataclasses.replace(recording.stats, controls=each)) for each in (broken, without)
    )
    np.testing.assert_array_equal(answer.values, expected.values)
    assert answer.log_z != controlled_bridge(recording.stats).log_z
    with pytest.raises(tp.InputError, match="control variates"):
        controlled_bridge(dataclasses.replace(recording.stats, controls=None))


def test_a_reading_that_cannot_be_used_is_left_out():
    """Kills: RTS alone, where only the controls are of no use."""
    recording, _ = recording_of()
    useless = recording.stats.controls.copy()
    useless[..., 2:] = 1e300  # coefficients that are infinite
    with np.errstate(over="ignore", invalid="ignore"):
        answer = auto(dataclasses.replace(recording, stats=dataclasses.replace(recording.stats, controls=useless)))
    assert [each.method for each in answer.readings] == ["rts", "bridge"]
    assert answer.weights[1] > 0


def flow_of(log_f) -> object:
    """What the default warm-up would give the move to sample with."""
    model = tp.LogDensity(log_f, tp.Normal(jnp.zeros(2), 2.0))
    path = model.path(None, np.array([0.0, 0.5, 1.0]))
    setup = Setup(key=jax.random.key(0), ladder=tp.Ladder.create(path), move=tp.HMC(), num_chains=8)
    return tp.SequentialStart().templates(setup)[-1].move.schedule.flow


def test_only_densities_without_jumps_have_controls():
    """Kills: a flow for every density."""
    assert flow_of(lambda x: -jnp.sum(x**2)) is not None
    assert flow_of(lambda x: jnp.where(x[0] > 0, -jnp.sum(x**2), -jnp.inf)) is None


def test_a_posterior_is_read_with_controls():
    """A whole run. False-failure rate 1e-6. Kills: controls of another rung than that of the draw."""
    seen = jnp.array([0.5, -1.0, 2.0])
    model = tp.Posterior(lambda x: -2 * jnp.sum((x - seen) ** 2), tp.Normal(jnp.zeros(3)))
    result = tp.estimate(model, num_chains=60, num_sweeps=100, num_rungs=12, seed=3)
    exact = float(1.5 * np.log(1 / 5) - 2 / 5 * np.sum(np.asarray(seen) ** 2))
    answer = result.log_z_by_rung
    plain, controlled = answer.readings[1], answer.readings[2]
    assert controlled.std_error < plain.std_error / 2
    checks.assert_within(answer.log_z, exact, answer.std_error)
