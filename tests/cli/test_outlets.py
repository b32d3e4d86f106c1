"""Standard output that is closed, full, or no longer read."""

import os
import sys

import pytest

from tempering import __version__, cli


@pytest.fixture
def version_to(monkeypatch):
    """`tempering --version` with a file descriptor, or nothing, as standard output; its status."""

    def run(descriptor):
        monkeypatch.setattr(sys, "argv", ["tempering", "--version"])
        monkeypatch.setattr(sys, "stdout", None if descriptor is None else os.fdopen(descriptor, "w"))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        if sys.stdout is not None:
            sys.stdout.close()
        return ended.value.code or 0

    return run


def test_a_reader_that_leaves_changes_no_status(version_to, capfd):
    """As in `tempering estimate | head -1`. Kills: status 1 of an answer that is good, and a traceback at the end."""
    read, write = os.pipe()
    os.close(read)
    assert version_to(write) == 0
    assert version_to(None) == 0
    read, write = os.pipe()
    assert version_to(write) == 0
    assert os.read(read, 100).decode() == f"tempering {__version__}\n"
    os.close(read)
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_is_one_line(version_to, capfd):
    """Kills: a traceback where the answer cannot be written."""
    assert version_to(os.open("/dev/full", os.O_WRONLY)) == 2
    assert "Error: Standard output cannot be written to: No space left on device." in capfd.readouterr().err
