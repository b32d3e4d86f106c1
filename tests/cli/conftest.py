"""What all tests of the command line share."""

import re
import sys

import pytest


@pytest.fixture
def python_words():
    """Finds what is said to people who write Python, and means nothing on the command line."""
    return re.compile(r"`|\bnum_|\btp\.|linspace|\w+\(\w+=|log r_k|log_prior")


@pytest.fixture(autouse=True)
def _ends_as_an_exception(monkeypatch):
    """The command leaves its process at once where it was interrupted; within a test that would end the tests."""
    monkeypatch.setattr("tempering.cli.processes.leave", sys.exit)
