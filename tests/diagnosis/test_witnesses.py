"""Witnesses: how much mass a run misses, exactly on a walk that is enumerated, and when that is said."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

from tempering import Verdict
from tempering.diagnosis import Away, MissingMass, WitnessCheck, missed
from tempering.findings import FALSE_ALARM

LEFT, RIGHT, ALL = np.arange(4), np.arange(5, 9), np.arange(9)


def staying_away(log_z_guess: np.ndarray, log_f: np.ndarray, num_steps: int) -> np.ndarray:
    """S(x): the probability that a tempered chain from x at the target is not at rung 0 within so many steps, exactly.

    A step is a Metropolis move to a neighbour of nine places in a row, then a draw of the rung.
    """
    num_rungs, num_places = log_f.shape
    posterior = np.exp(log_f - log_z_guess[:, None])
    posterior /= posterior.sum(axis=0)
    moves = np.zeros((num_rungs, num_places, num_places))
    for k in range(num_rungs):
        for x in range(num_places):
            for y in {max(x - 1, 0), min(x + 1, num_places - 1)} - {x}:
                moves[k, x, y] = 0.5 * min(1.0, np.exp(log_f[k, y] - log_f[k, x]))
            moves[k, x, x] = 1 - moves[k, x].sum()
    step = np.einsum("kxy,ly->kxly", moves, posterior)
    step[:, :, 0] = 0  # chains at the base are no longer away
    alive = np.ones((num_rungs, num_places))
    for _ in range(num_steps):
        alive = np.einsum("kxly,ly->kx", step, alive)
    return alive[-1]


def two_wells(log_right: float, right_of_base: float = -60.0, wall: float = -60.0) -> tuple[np.ndarray, np.ndarray]:
    """log f by rung and place of two wells with a wall between them, and of the target alone."""
    target = np.array([0.0, 0.7, 0.3, -1.0, wall, -0.5, 0.9, 0.2, -0.4]) + log_right * (ALL > 4)
    base = np.where(ALL < 4, np.log(0.25), np.where(ALL > 4, right_of_base, wall))
    betas = np.linspace(0, 1, 6)[:, None]
    return (1 - betas) * base + betas * target, target


def log_sum(log_f: np.ndarray) -> np.ndarray:
    return np.logaddexp.reduce(log_f, axis=-1)


def seen_by(log_f: np.ndarray, places: np.ndarray, stays: np.ndarray) -> tuple[float, Away]:
    """log Z and the share that stays away, of a run that sees these places alone."""
    log_z = float(log_sum(log_f[places]))
    share = np.exp(log_f[places] - log_z) @ stays[places]
    return log_z, Away(float(share), 1)


@pytest.mark.parametrize("log_right", [0.0, 0.8, -3.0, -20.0])
@pytest.mark.parametrize("second", [RIGHT, ALL])
def test_the_missing_share_is_the_mass_of_the_well_that_was_missed(log_right, second):
    """Kills: M / Z for M / (Z + M); a second run whose draws in the known well count; Z' − Z; t' without Z'."""
    log_f, target = two_wells(log_right)
    stays = staying_away(log_sum(log_f[:, LEFT]), log_f, num_steps=600)
    (log_z, own), (second_log_z, away) = seen_by(target, LEFT, stays), seen_by(target, second, stays)
    found = MissingMass.from_runs(log_z, 0.0, own, (second_log_z, 0.0), away)
    truth = np.exp(log_sum(target[RIGHT]) - log_sum(target))
    np.testing.assert_allclose(found.share, truth, rtol=1e-9)


@pytest.mark.parametrize("num_steps", [1, 3, 10])
def test_a_well_that_the_run_knows_is_not_missing_however_soon_one_looks(num_steps):
    """Many chains are still on their way then. Kills: without −Z t, chains that need time would be an alarm."""
    log_f, target = two_wells(0.8, right_of_base=-1.0, wall=-2.0)
    stays = staying_away(log_sum(log_f), log_f, num_steps)
    log_z, own = seen_by(target, ALL, stays)
    assert own.share > 0.01
    for places in (LEFT, RIGHT, ALL):
        second_log_z, away = seen_by(target, places, stays)
        assert MissingMass.from_runs(log_z, 0.0, own, (second_log_z, 0.0), away).share <= 1e-12


def test_limits_hold_as_often_as_they_say():
    """Exactly, over all outcomes. Kills: limits of 5 %, or of a normal law; both ends exchanged."""
    for probability in (0.001, 0.02, 0.3, 0.7, 0.999):
        chances = binom.pmf(np.arange(31), 30, probability)
        limits = np.array([Away(k, 30).limits() for k in range(31)])
        for is_wrong in (limits[:, 0] > probability, limits[:, 1] < probability):
            assert chances[is_wrong].sum() <= FALSE_ALARM
    assert Away(0, 100).limits() == (0.0, pytest.approx(1 - FALSE_ALARM ** (1 / 100)))
    assert Away(100, 100).limits() == (pytest.approx(FALSE_ALARM ** (1 / 100)), 1.0)


def test_chains_that_stay_away_as_the_runs_own_do_agree():
    """Kills: any chain that stays away as a reason for doubt; one that is none where the run has none; 2.5 or 10 %."""
    assert not Away(0, 50).exceeds(Away(0, 100))
    assert Away(1, 50).exceeds(Away(0, 100))
    assert not Away(6, 50).exceeds(Away(10, 100))
    assert not Away(9, 50).exceeds(Away(10, 100))  # by chance in 5.8 %
    assert Away(16, 50).exceeds(Away(20, 100))  # in 3.1 %
    assert not Away(50, 50).exceeds(Away(100, 100))


def test_the_bounds_hold_the_share_and_widen_with_the_errors():
    """Kills: an error of one of the runs that does not count; a bound without the limits of t and t'."""
    own, away = Away(0, 100), Away(50, 50)
    found = [
        MissingMass.from_runs(1.0, error, own, (1.0, other), away)
        for error, other in ((0.0, 0.0), (0.3, 0.0), (0.0, 0.3))
    ]
    assert all(mass.share == pytest.approx(0.5) for mass in found)
    assert found[0].low < 0.5 <= found[0].high
    for wider in found[1:]:
        assert wider.low < found[0].low
        assert wider.high > found[0].high
    low = FALSE_ALARM ** (1 / 50) - (1 - FALSE_ALARM ** (1 / 100))  # t' at its lowest, t at its highest
    assert found[0].low == pytest.approx(low / (1 + low))
    some = MissingMass.from_runs(1.0, 0.0, Away(3, 100), (1.0, 0.0), Away(40, 50))
    high = Away(40, 50).limits()[1] - Away(3, 100).limits()[0]
    assert some.high == pytest.approx(high / (1 + high))
    unknown = MissingMass.from_runs(1.0, 0.1, own, (1.0, np.inf), away)
    assert (unknown.low, unknown.high) == (0.0, pytest.approx(1.0))


def check_with(low: float, share: float = 0.5) -> WitnessCheck:
    mass = MissingMass(share, low, 0.9, -0.7, 0.05, Away(50, 50))
    return WitnessCheck(3, 1, 500, Away(49, 50), Away(2, 100), mass)


def test_an_alarm_needs_a_mass_that_matters_for_certain():
    """With an error of 0.1, log Z may be too low by 0.05. Kills: `MAX_MISSED` halved or doubled; the share for low."""
    too_little, enough = 1 - np.exp(-0.049), 1 - np.exp(-0.051)
    assert missed(check_with(too_little), -0.7, 0.1) is None
    finding = missed(check_with(enough), -0.7, 0.1)
    assert finding is not None
    assert finding.verdict is Verdict.MISSED
    assert "about 0.5 of the mass is missing, at least 0.05" in finding.seen
    assert "49 of 50 chains from witnesses" in finding.seen
    assert "log Z is about -0.01 in all" in finding.seen
    assert missed(check_with(0.0), -0.7, 0.0) is None
    assert missed(dataclasses.replace(check_with(0.4), missing=None), -0.7, 0.1) is None


def test_a_check_is_told_in_a_line():
    assert str(check_with(0.4)) == (
        "49 of 50 chains from witnesses never came to the base, 2 of 100 from the run's own draws; 0.5 of the mass is "
        "missing (0.4 to 0.9); 1 of 3 witnesses have a density of 0"
    )
    nobody = WitnessCheck(2, 2, 500, None, Away(0, 100))
    assert str(nobody) == "2 of 2 witnesses have a density of 0"
    assert nobody.agrees
