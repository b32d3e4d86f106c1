"""Pieces of a figure that are kept by experiments/figures.py: made once, by one process, and never lost."""

import runpy
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

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
    """Kills: a piece that two processes make, a claim that stands for a result, one that outlives its process."""
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
    assert other("two", lambda: {"errors": [3.0]}, False) == {"errors": [3.0]}  # what was left undone


def test_a_needed_piece_is_waited_for(figures, tmp_path):
    """Kills: NaN in the place of log Z that other pieces rest on, a wait for a process that is no more."""
    maker, waiting = (figures["keeper"](tmp_path, is_worker=True) for _ in range(2))
    has_begun, may_end = threading.Event(), threading.Event()

    def make():
        has_begun.set()
        may_end.wait()
        return {"log_z": [1.5]}

    def fail():
        has_begun.set()
        may_end.wait()
        raise MemoryError

    with ThreadPoolExecutor(2) as pool:
        for name, first, second in (("made", make, _never), ("failed", fail, lambda: {"log_z": [2.5]})):
            has_begun.clear(), may_end.clear()
            begun = pool.submit(maker, name, first, True)
            has_begun.wait()
            found = pool.submit(waiting, name, second, True)
            may_end.set()
            assert found.result() == {"log_z": [1.5 if first is make else 2.5]}
            assert (begun.exception() is None) == (first is make)
