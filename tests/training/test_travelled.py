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


def test_changes_add_up_until_every_chain_has_made_a_round_trip():
    """Of 36 draws 0.5² leaves nine. Kills: the last update alone, shares that are added, one crossing for a trip."""
    half = (0.5, 0.9)
    assert travelled(half).finding(36) is None
    assert travelled(half, half).finding(40) is None
    finding = travelled(half, half).finding(36)
    assert finding is not None
    assert finding.verdict is Verdict.STUCK
    assert "36 chains made 0.9 round trips each while" in finding.seen
    assert finding.seen.endswith("a draw of each would now count as 9")
    assert travelled(half, half, (0.9, 0.2)) == Travelled()
    assert travelled((0.5, 1.9), (0.5, 0.1), half).finding(36) is None


@pytest.mark.parametrize("overlap", [0.0, np.nan])
def test_an_overlap_that_is_not_known_is_none(overlap):
    assert travelled((overlap, 0.5)).finding(10**6) is not None


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
