"""Pieces of a figure that are kept by experiments/figures.py: made once, by one process, and never lost."""

import runpy
import sys

import numpy as np
import pytest

from pages import ROOT


@pytest.fixture(scope="module")
def figures() -> dict:
    """What experiments/figures.py defines."""
    sys.path.insert(0, str(ROOT / "experiments"))
    try:
        return runpy.run_path(str(ROOT / "experiments" / "figures.py"))
    finally:
        sys.path.remove(str(ROOT / "experiments"))


def _never() -> dict[str, list[float]]:
    raise AssertionError("this piece was to be read or left alone")


def test_a_piece_is_made_once_and_read_again(figures, tmp_path):
    """Kills: a piece that is made anew, two pieces in one file, numbers that lose digits on the way."""
    keep = figures["keeper"](tmp_path, is_worker=False)
    assert keep("one", lambda: {"errors": [0.1, 1 / 3]}, False) == {"errors": [0.1, 1 / 3]}
    assert keep("two", lambda: {"errors": [2.0]}, False) == {"errors": [2.0]}
    again = figures["keeper"](tmp_path, is_worker=False)
    assert again("one", _never, False) == {"errors": [0.1, 1 / 3]}
    assert again("two", _never, True) == {"errors": [2.0]}


def test_workers_leave_one_anothers_pieces_alone(figures, tmp_path):
    """Kills: a piece that two processes make, a claim that stands for a result, one that the parent respects."""
    begun, other = (figures["keeper"](tmp_path, is_worker=True) for _ in range(2))
    seen = []

    def make():
        seen.append(other("one", _never, False)["any method"])  # while the first is at it
        return {"any method": [0.5]}

    assert begun("one", make, False) == {"any method": [0.5]}
    assert np.isnan(seen).all()
    assert other("one", _never, False) == {"any method": [0.5]}

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begun("two", stop, False)
    assert np.isnan(other("two", _never, False)["errors"]).all()  # claimed by a process that is no more
    assert figures["keeper"](tmp_path, is_worker=False)("two", lambda: {"errors": [3.0]}, False) == {"errors": [3.0]}
