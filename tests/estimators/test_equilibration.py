"""Where a run has equilibrated, and the error of the rest: cuts with a known answer, errors found in three ways."""

import dataclasses

import numpy as np
import pytest
from scipy import stats as laws

import checks
import tempering as tp
from tempering import Verdict
from tempering.estimators import equilibrated_rts, rts
from tempering.estimators.equilibration import equilibrated, find_equilibration
from tempering.estimators.uncertainty import Errors, error_by_groups, error_by_tours, widening_by_skewness
from tempering.stats import BlockedStats, Recording, Tours, Travel

CHAINS, BLOCKS, DRAWS = 50, 20, 40


def blocked(log_ratio: np.ndarray, trips: float = 2.0) -> BlockedStats:
    """A run over three rungs whose blocks say log ĉ_2/ĉ_0 = `log_ratio`, of shape (chain, block)."""
    log_sums = np.stack([np.zeros_like(log_ratio), log_ratio / 2, log_ratio], axis=2) + np.log(DRAWS / 3)
    num_chains, num_blocks = log_ratio.shape
    ends = np.ones(num_chains, np.int64)
    return BlockedStats(
        betas=np.array([0.0, 0.5, 1.0]),
        log_prior=np.full(3, -np.log(3)),
        log_z_guess=np.zeros(3),
        log_sums=log_sums,
        visits=np.full((num_chains, num_blocks, 3), DRAWS // 3),
        num_draws=np.full((num_chains, num_blocks), DRAWS),
        num_nonfinite=np.zeros((num_chains, num_blocks), np.int64),
        travel=Travel(ends, ends, np.full(num_chains, int(2 * trips))),
        block_size=DRAWS,
    )


def noise(seed: int, num_chains: int = CHAINS, num_blocks: int = BLOCKS, scale: float = 0.3) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, scale, (num_chains, num_blocks))


def recorded(stats: BlockedStats, tours: Tours | None = None) -> Recording:
    return Recording(stats, np.ones((10, 3, 3), np.int64), None, tours=tours)


def some_tours(rows: np.ndarray, unfinished: tuple[float, float] = (0.0, 0.0)) -> Tours:
    """One chain with these complete tours, sums at the base and at the target, and with those of unfinished ones."""
    products = [(rows[:, 0] ** 2).sum(), (rows[:, 0] * rows[:, 1]).sum(), (rows[:, 1] ** 2).sum()]
    half, total = np.array([unfinished]) / 2, rows.sum(axis=0)[None]
    return Tours(
        half, half, np.ones(1, bool), np.array([float(len(rows))]), total, np.array([products]), np.zeros(1, bool)
    )


def test_a_run_that_never_moves_is_not_cut():
    start = find_equilibration(blocked(np.repeat(noise(0, num_blocks=1), BLOCKS, axis=1)))
    assert start.first_block == 0
    np.testing.assert_allclose(start.drift, np.zeros(3), atol=1e-12)


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_plain_transient_is_cut_and_no_more(length):
    # Kills: bias against the whole run or its first half, bias left out, the cut counted from the end.
    runs = [noise(seed) for seed in range(9)]
    for log_ratio in runs:
        log_ratio[:, :length] -= 3.0
    assert (
        np.median([find_equilibration(blocked(run)).first_block for run in runs]) == length
    )  # noise may cut some a bit later
    stats = next(stats for stats in map(blocked, runs) if find_equilibration(stats).first_block == length)
    kept = equilibrated(stats)
    np.testing.assert_array_equal(kept.log_sums, stats.log_sums[:, length:])
    truth = 0.3**2 / 2  # the mean of a lognormal number
    assert abs(rts(kept).log_z - truth) < 0.03 < abs(rts(stats).log_z - truth)
    np.testing.assert_array_equal(find_equilibration(stats).drift, np.zeros(3))


@pytest.mark.parametrize(("factor", "first_block"), [(0.97, 0), (1.03, 1)])
def test_a_block_is_cut_just_where_that_lessens_the_mean_squared_error(factor, first_block):
    """Chains that always say ±σ, but in their first block all −d: by hand the balance is at d² = (2B + 3) s².

    With s² = σ²/n of n chains and B blocks, that block adds (d² − 2² s²)/B² of squared bias beyond two of its standard
    errors, s/B; without it the variance grows from (1 − 1/B)² s² to s². That is to first order in d and σ, which are
    1 % here, and the first cut within 0.001 of the best is taken: together less than the 3 % to either side.
    Kills: variance left out or that of one chain, bias not squared, a margin of one or three errors, noise of the two
    parts of a run as if they were independent.
    """
    signs = np.resize([-0.01, 0.01], CHAINS)
    log_ratio = np.repeat(signs[:, None], BLOCKS, axis=1)
    log_ratio[:, 0] = -factor * np.sqrt((2 * BLOCKS + 3) * signs.var(ddof=1) / CHAINS)
    assert find_equilibration(blocked(log_ratio)).first_block == first_block


def test_no_more_is_cut_than_a_round_trip_takes():
    # Kills: no such limit, crossings for round trips.
    log_ratio = noise(1)
    log_ratio[:, :6] -= 3.0
    assert find_equilibration(blocked(log_ratio, trips=10)).first_block == 2
    assert find_equilibration(blocked(log_ratio, trips=0.1)).first_block == 6


def test_what_still_drifts_after_the_cut_is_added_to_the_error():
    # A steady climb is not over at the middle of the run: the difference to the second half stays.
    log_ratio = noise(2, scale=0.01) + np.linspace(0, 2, BLOCKS)
    stats = blocked(log_ratio, trips=2.0)
    start = find_equilibration(stats)
    assert start.first_block == BLOCKS // 2
    early = dataclasses.replace(stats, travel=dataclasses.replace(stats.travel, num_crossings=np.full(CHAINS, 20)))
    start = find_equilibration(early)  # ten round trips: no more than two blocks may go
    whole, later = (
        np.logaddexp.reduce(log_ratio[:, cut:], axis=None) - np.log(log_ratio[:, cut:].size) for cut in (2, 10)
    )
    assert start.first_block == 2
    assert start.drift[-1] == pytest.approx(later - whole, rel=0.02)
    answer = equilibrated_rts(recorded(early))
    assert answer.std_error > start.drift[-1] > 20 * rts(equilibrated(early)).std_error
    assert answer.errors is not None
    assert answer.errors.drift == pytest.approx(start.drift[-1])
    assert answer.num_cut == 2 * DRAWS


def test_noise_alone_is_hardly_ever_cut():
    """A cut needs a bias without it: a whole run that is two standard errors from its second half.

    Noise of 20 chains alone does that in 6 % of runs, by Student's law with 19 degrees of freedom: the error is found
    from the same chains, and each of them adds the difference of two halves, which is symmetric and nearly normal.
    Kills: a margin of 0 or 1 errors, a variance that may fall with fewer draws, the last of equal cuts.
    """
    at_least = 1 - 2 * float(laws.t.sf(2.0, 19))
    num_whole = sum(find_equilibration(blocked(noise(seed, 20, 16))).first_block == 0 for seed in range(400))
    checks.assert_coverage(num_whole, 400, (at_least + 1) / 2, slack=(1 - at_least) / 2)  # between that and always


def test_few_chains_are_not_cut():
    log_ratio = noise(3, num_chains=4)
    log_ratio[:, :5] -= 4.0
    assert find_equilibration(blocked(log_ratio)).first_block == 0


def test_where_an_end_was_never_seen_nothing_breaks():
    stats = blocked(noise(4))
    log_sums = stats.log_sums.copy()
    log_sums[:, :, 0] = -np.inf
    start = find_equilibration(dataclasses.replace(stats, log_sums=log_sums))
    assert np.isfinite(start.drift).all()
    assert np.isnan(error_by_groups(dataclasses.replace(stats, log_sums=log_sums))[0])


def test_an_equilibrated_run_keeps_the_value_of_rts_and_its_error_but_for_bias_and_skewness():
    stats = blocked(noise(5))
    plain, answer = rts(stats), equilibrated_rts(recorded(stats))
    assert find_equilibration(stats).first_block == 0
    np.testing.assert_array_equal(answer.values, plain.values)
    skewing = widening_by_skewness(plain.skewness[-1], plain.dof)
    assert skewing > 1
    np.testing.assert_allclose(answer.std_errors, skewing * np.hypot(plain.std_errors, plain.biases), rtol=1e-12)
    assert answer.findings == ()
    assert answer.num_cut == 0


@pytest.mark.parametrize("end", ["target", "base"])
def test_a_chain_that_alone_decides_is_named(end):
    """One of 50 chains finds thirty times as much at an end as the others, which all find the same.

    It has all of the variance but 1/50, and skewness² is 48²/49. Kills: one sign of skewness only, skewness that is not
    squared or not divided, one of few chains that is named, though one of few often decides.
    """

    def run_of(num_chains):
        log_ratio = np.zeros((num_chains, BLOCKS))
        log_ratio[7] = np.log(30.0)
        stats = blocked(log_ratio)
        log_sums = stats.log_sums if end == "target" else stats.log_sums[:, :, ::-1]
        return recorded(dataclasses.replace(stats, log_sums=log_sums))

    (found,) = equilibrated_rts(run_of(50)).findings
    assert found.verdict is Verdict.UNSURE
    assert found.seen == "one chain of 50 makes at least 94% of the error"
    assert equilibrated_rts(run_of(19)).findings == ()


@pytest.mark.parametrize(("skewness", "names"), [(4.9, False), (5.1, True), (-5.1, True)])
def test_a_quarter_of_the_variance_is_too_much_for_one_chain(skewness, names, monkeypatch):
    answer = dataclasses.replace(rts(blocked(noise(8, num_chains=100))), skewness=np.array([0.0, 0.0, skewness]))
    monkeypatch.setattr("tempering.estimators.rts_after_equilibration.rts", lambda *_, **__: answer)
    assert bool(equilibrated_rts(recorded(blocked(noise(8, num_chains=100)))).findings) is names


def test_the_error_by_groups_is_the_scatter_of_their_answers():
    stats = blocked(noise(6, num_chains=40))
    error, num_groups = error_by_groups(stats)
    per_group = stats.log_sums.reshape(10, 4 * BLOCKS, 3)
    answers = np.log(np.exp(per_group[:, :, 2]).sum(axis=1) / np.exp(per_group[:, :, 0]).sum(axis=1))
    assert num_groups == 10
    assert error == pytest.approx(answers.std(ddof=1) / np.sqrt(10), rel=1e-12)
    assert error_by_groups(blocked(noise(6, num_chains=4)))[1] == 4  # few chains: each by itself
    assert np.isnan(error_by_groups(blocked(noise(6, num_chains=18)))[0])  # neither few nor many


def test_the_error_by_tours_is_the_delta_method():
    # Kills: the sign of the product, the product once.
    rows = np.random.default_rng(7).gamma(2.0, 1.0, (60, 2))
    base, target = rows.T
    influence = target / target.sum() - base / base.sum()
    assert error_by_tours(some_tours(rows)) == pytest.approx(np.sqrt((influence**2).sum()), rel=1e-10)
    assert np.isnan(error_by_tours(None))
    assert np.isnan(error_by_tours(some_tours(rows[:1])))


def test_draws_of_unfinished_tours_count_for_the_error_by_tours():
    # Kills: the error of the complete tours alone; that of all draws; unfinished ones at one end for both.
    rows = np.random.default_rng(7).gamma(2.0, 1.0, (60, 2))
    base, target = rows.sum(axis=0)
    influence = rows[:, 1] / target - rows[:, 0] / base
    as_many = error_by_tours(some_tours(rows, unfinished=(base, target)))
    assert as_many == pytest.approx(np.sqrt((influence**2).sum() / np.sqrt(2)), rel=1e-10)
    influence = rows[:, 1] / (2 * target) - rows[:, 0] / base
    at_target = error_by_tours(some_tours(rows, unfinished=(0.0, 15 * target)))
    assert at_target == pytest.approx(np.sqrt((influence**2).sum()), rel=1e-10)


@pytest.mark.parametrize(("num_steps", "share"), [(20, 0.10), (40, 0.26), (160, 0.75)])
def test_the_error_by_tours_is_right_where_many_tours_are_unfinished(num_steps, share):
    """Chains at the base or the target, as likely, in runs of one to eight times the stay at the target.

    Kills: the error of the complete tours alone, and that of all draws as if complete tours were like the others.
    """
    rng, num_runs, num_chains, leaves = np.random.default_rng(9), 300, 100, 0.05
    states, numbers = rng.random((num_runs, num_chains)) < 0.5, np.zeros((num_runs, num_chains), int)
    sums = np.zeros((num_runs, num_chains, num_steps + 1, 2))  # of each tour; what comes before the first is tour 0
    places = np.ogrid[:num_runs, :num_chains]
    for _ in range(num_steps):
        numbers += ~states  # every visit of the base is a new draw of it
        np.add.at(sums, (*places, numbers, states.astype(int)), 1.0)
        states ^= rng.random(states.shape) < leaves
    is_complete = (np.arange(num_steps + 1) > 0) & (np.arange(num_steps + 1) < numbers[..., None])
    scores, shares = [], []
    for run, complete in zip(sums, is_complete, strict=True):
        rest = run[~complete].sum(axis=0)
        base, target = run.sum(axis=(0, 1))
        scores.append(np.log(target / base) / error_by_tours(some_tours(run[complete], unfinished=tuple(rest))))
        shares.append(1 - rest[1] / target)
    assert np.mean(shares) == pytest.approx(share, abs=0.01)
    checks.assert_coverage(int(np.sum(np.abs(scores) < laws.norm.isf(0.05))), num_runs, 0.9, slack=0.04)


def test_the_error_by_tours_is_that_of_a_chain_which_regenerates():
    """A two-state chain at the base or the target, run for long: log of the ratio of visits over the tours' error."""
    rng, up, down = np.random.default_rng(8), 0.2, 0.1
    scores = []
    for _ in range(400):
        length_up = rng.geometric(down, 150)  # stays at the target
        is_long = rng.random(150) < up  # a step at the base leads up, or begins a new tour
        rows = np.stack([np.ones(150), np.where(is_long, length_up, 0)], axis=1).astype(float)
        estimate = np.log(rows[:, 1].sum() / rows[:, 0].sum())
        scores.append((estimate - np.log(up / down)) / error_by_tours(some_tours(rows)))
    checks.assert_coverage(int(np.sum(np.abs(scores) < laws.norm.isf(0.05))), 400, 0.9, slack=0.04)


def test_a_disputed_error_is_widened_and_said():
    assert not Errors(0.1, 0.15, 0.19, 0.0, 0.0, 10).is_disputed
    by_tours, by_groups = Errors(0.1, 0.1, 0.3, 0.0, 0.0, 10), Errors(0.1, 0.25, 0.1, 0.0, 0.0, 10)
    assert by_tours.is_disputed
    assert by_groups.is_disputed
    assert by_tours.widening == pytest.approx(3.0)
    assert by_groups.widening == pytest.approx(2.5)
    assert not Errors(0.1, 0.25, 0.1, 0.0, 0.0, 3).is_disputed  # three chains may well say so by chance
    assert not Errors(0.1, np.nan, np.nan, 0.0, 0.0).is_disputed
    assert Errors(0.1, np.nan, np.nan, 0.0, 0.0).widening == 1.0

    rows = np.zeros((40, 2))
    rows[:, 0], rows[0, 1] = 1.0, 40.0  # one tour saw the target
    stats = blocked(noise(9))
    answer = equilibrated_rts(recorded(stats, some_tours(rows)))
    assert answer.verdict is Verdict.UNSURE
    assert "by tours" in answer.findings[0].seen
    by_tours = answer.errors.skewing * error_by_tours(some_tours(rows))
    assert answer.std_error == pytest.approx(by_tours, rel=1e-3)
    assert equilibrated_rts(recorded(stats)).verdict is Verdict.GOOD


def test_the_groups_error_is_disputed_by_chance_as_rarely_as_promised():
    assert Errors(1.0, 1.9356, np.nan, 0.0, 0.0, 10).is_disputed is False
    assert Errors(1.0, 1.9357, np.nan, 0.0, 0.0, 10).is_disputed is True
    assert laws.chi2.sf(9 * 1.93563**2, 9) == pytest.approx(1e-4, rel=1e-3)


def test_intervals_of_noisy_runs_cover_with_cut_and_widening():
    inside = 0
    for seed in range(300):
        answer = equilibrated_rts(recorded(blocked(noise(1000 + seed, 30, 8))))
        truth = 0.3**2 / 2  # the mean of a lognormal number
        low, high = answer.interval
        inside += bool(low <= truth <= high)
    checks.assert_coverage(inside, 300, 0.95, slack=0.03)


def test_the_public_answer_carries_what_its_error_is_made_of():
    rbm, frequencies = tp.load_example()
    result = tp.estimate(rbm, frequencies, num_chains=20, num_sweeps=100, num_rungs=10)
    errors = result.log_z_by_rung.errors
    assert errors is not None
    assert result.to_dict()["errors"]["chains"] == pytest.approx(errors.chains)
    assert errors.tours > 0
    assert result.to_dict()["num_cut_sweeps"] == result.log_z_by_rung.num_cut
