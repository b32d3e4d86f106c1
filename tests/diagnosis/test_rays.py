"""What is made of mass that rays find where no draw is."""

import numpy as np
import pytest

from tempering.diagnosis import beyond_all_draws, narrow_peak
from tempering.verdicts import Verdict

NOTHING = np.zeros(60)


def test_mass_on_rays_is_held_against_the_error_and_what_a_right_run_misses():
    """Sixty rays that find a tenth of the mass each, or one that finds all of it.

    Kills: a ratio for its logarithm, a mean without its error, an error that counts whole, chance that is left out.
    """
    tenth, one = np.full(60, 0.1), np.where(np.arange(60) == 7, 6.0, 0.0)
    for ratios, by_chance, std_error, is_found in (
        (tenth, 0.0, 0.18, True), (tenth, 0.0, 0.2, False),  # log 1.1 = 0.0953
        (tenth, 0.094, 0.0, True), (tenth, 0.097, 0.0, False),
        (one, 0.0, 0.0, False), (np.zeros(60), 0.0, 0.0, False), (tenth, 0.0, np.inf, False),
    ):  # fmt: skip
        found = beyond_all_draws(ratios, by_chance, std_error)
        assert (found is not None) is is_found
        if found is not None:
            assert found.verdict is Verdict.HEAVY_TAILS
            assert "rays through draws find mass that adds 0.095 to log Z or more" in found.seen


def test_rays_of_very_different_masses_are_evidence_too():
    """One ray with nearly all of the mass has an error as large as the mean. Kills: the mean of the ratios alone."""
    ratios = np.exp(np.linspace(0.0, 45.0, 60))
    assert beyond_all_draws(ratios, 0.0, 0.1) is not None
    ratios[5:] = 0.0  # 5 of 60 are still more than luck, and fewer are not: `LUCK`
    assert beyond_all_draws(ratios, 0.0, 0.0) is not None
    ratios[4:] = 0.0
    assert beyond_all_draws(ratios, 0.0, 0.0) is None
    assert beyond_all_draws(np.full(60, 1e9), 0.0, 20.0) is not None  # Kills: no more than 1 from every ray


@pytest.mark.parametrize(("inside", "is_found"), [(0.1, True), (0.05, False), (0.0, False)])
def test_a_peak_is_found_from_the_centre_that_sees_it_best(inside, is_found):
    """With an error of 0.18, mass of a tenth counts. Kills: the first centre alone, its place for the best one's."""
    ratios, centers = np.stack([NOTHING, NOTHING + inside]), np.array([np.arange(5.0), [5.0, 6.125, 1e-6, 8.0, 9.0]])
    found = narrow_peak(ratios, centers, 0.0, 0.18)
    assert (found is not None) is is_found
    if found is not None:
        assert found.verdict is Verdict.MISSED
        assert "about (5, 6.12, 0, 8, …), with mass that adds 0.095 to log Z or more" in found.seen
        assert "`witnesses`" in found.cure
        assert narrow_peak(ratios, centers, 0.1, 0.18) is None  # as much by chance
