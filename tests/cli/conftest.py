"""What all tests of the command line share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _ends_as_an_exception(monkeypatch):
    """The command leaves its process at once where it was interrupted; within a test that would end the tests."""
    monkeypatch.setattr("tempering.cli.processes.leave", sys.exit)
