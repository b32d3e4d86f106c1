"""Whether chains travel faster than the model changes."""

import jax
import numpy as np
import pytest

from tempering import Verdict
from tempering.training.tempered import TemperedChains
from tempering.training.tracker import Tracker, _follow, device_parameters
from tempering.training.travelled import Travelled


def travelled(*updates: tuple[float, float]) -> Travelled:
    found = Travelled()
    for overlap, crossings in updates:
        found = found.after(overlap, crossings)
    return found


def test_changes_add_up_until_the_chains_have_made_ten_round_trips():
    """0.5² = 0.25 is below 0.3. Kills: the last update alone, shares that are added, crossings for round trips."""
    half = (0.5, 8.0)
    assert travelled(half).finding() is None
    finding = travelled(half, half).finding()
    assert finding is not None
    assert finding.verdict is Verdict.STUCK
    assert "together made 8 round trips while the model changed so much that 25.0% of its draws" in finding.seen
    renewed = travelled(half, half, (0.5, 4.0))
    assert renewed.finding() is None
    assert (renewed.change, renewed.round_trips) == (0.0, 0.0)
    assert (renewed.change_in_all, renewed.round_trips_in_all) == (pytest.approx(3 * np.log(2)), 10.0)


@pytest.mark.parametrize("overlap", [0.0, np.nan])
def test_an_overlap_that_is_not_known_is_none(overlap):
    assert travelled((overlap, 0.5)).finding() is not None


def test_crossings_are_counted_across_updates():
    """By hand from where chains stand after single sweeps. Kills: ends forgotten between updates, chains mixed up."""
    from test_tracker import DATA, SMALL, first_rbm

    tracker = Tracker(first_rbm(), base=DATA, seed=3, **SMALL)
    ends, rbm = np.asarray(tracker.chains.ladder.ends), device_parameters(tracker.rbm)
    chains: TemperedChains = tracker.chains
    last, expected, counted = np.asarray(chains.positions.last_end), 0, 0
    for update in range(60):
        chains, reading = _follow(jax.random.key(update), chains, rbm, 0.2, 1)
        end = ends[np.asarray(chains.positions.rung)]
        expected += np.sum((end != 0) & (last != 0) & (end != last))
        last = np.where(end == 0, last, end)
        counted += int(reading.num_crossings)
        np.testing.assert_array_equal(chains.positions.last_end, last)
    assert counted == expected > 20
