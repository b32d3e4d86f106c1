"""Which parameters are kept, and when a run stops: by a smoothed line, with patience and evidence."""

from typing import NamedTuple

import numpy as np
import pytest

from tempering.results import MeanLogLikelihood
from tempering.training.choosing import SMOOTHED_UPDATES, Choosing


class Tag(NamedTuple):
    """Stands for parameters."""

    update: int


def followed(values, *, error=0.05, every=1, patience=100) -> tuple[Choosing, int | None]:
    """What is chosen along a line of likelihoods, and where a run would have stopped."""
    choosing = Choosing()
    for number, value in enumerate(values, 1):
        update = number * every
        likelihood = MeanLogLikelihood(value, error, (value - 2 * error, value + 2 * error), 10)
        choosing.add(update, likelihood, Tag(update))
        if choosing.has_fallen(update, patience):
            return choosing, update
    return choosing, None


def test_a_dip_is_no_decline():
    """Update 9 of 400 was the end. Kills: no patience, no smoothing, a count that goes on when the line is back."""
    line = -20 + 5 * (1 - np.exp(-np.arange(400) / 80))
    line[7:12] -= 3.0
    line[200:270] -= 3.0  # with the smoothing, not as long as the patience
    choosing, stopped = followed(line)
    assert stopped is None
    assert choosing.best.num_updates == 400


def test_a_lasting_decline_ends_the_run():
    """Kills: a stop before the patience is over, or one without evidence beyond the band."""
    line = -20 + 0.02 * np.minimum(np.arange(600), 400 - np.arange(600))
    choosing, stopped = followed(line)
    assert 200 < choosing.best.num_updates <= 200 + SMOOTHED_UPDATES
    assert choosing.best.parameters.update == choosing.best.num_updates
    band = 0.1 / 0.02 * 2  # updates that it takes to fall by both halves of the band
    assert (
        choosing.best.num_updates + band + 100 <= stopped <= choosing.best.num_updates + band + 100 + SMOOTHED_UPDATES
    )
    assert followed(line, error=100.0)[1] is None


def test_noise_is_not_chosen():
    """The best of noisy values is too good by three of their errors; that of the smoothed line is not."""
    rng = np.random.default_rng(0)
    noise = 0.07 * rng.normal(size=2000)
    choosing, _ = followed(-10 + noise)
    assert noise.max() > 0.2
    assert choosing.best.value + 10 < 0.07  # 20 independent values: a fifth of the noise, and 3.5 times that at most


def test_few_and_rare_evaluations():
    """Kills: a window that counts evaluations, not updates; a single lucky value that is taken as it is."""
    assert followed([-19.95] + [-20.0] * 30)[0].best.num_updates > 1
    assert followed([-19.0] + [-20.0] * 30)[0].best.num_updates == 1
    choosing, stopped = followed([-20.0, -15.0, -16.0, -17.0, -18.0, -19.0], every=100)
    assert (choosing.best.num_updates, stopped) == (200, 500)  # three evaluations below it


@pytest.mark.parametrize("cut", [5, 30, 180])
def test_a_snapshot_goes_on_alike(cut):
    line = -20 + 0.02 * np.minimum(np.arange(300), 240 - np.arange(300))
    whole, stopped = followed(line)
    first, _ = followed(line[:cut])
    again = Choosing()
    again.restore(*first.snapshot())
    for update in range(cut + 1, stopped + 1):
        value = line[update - 1]
        again.add(update, MeanLogLikelihood(value, 0.05, (value - 0.1, value + 0.1), 10), Tag(update))
    assert again.best == whole.best
    assert again.has_fallen(stopped, 100)
    assert not again.has_fallen(stopped - 1, 100)
