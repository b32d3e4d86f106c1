"""Compiled programs from run to run: kept where they may be, found again, and never more than a limit."""

import os
import subprocess
import sys

import jax
import pytest

from tempering.cli import compiled

PROGRAM = """
from tempering.cli.compiled import keep_compiled
import jax
from jax import monitoring
found = []
monitoring.register_event_listener(lambda event, **_: found.append(event))
keep_compiled(True)
jax.jit(lambda x: x * 3 + 1)(2.0).block_until_ready()
print(found.count("/jax/compilation_cache/cache_hits"), found.count("/jax/compilation_cache/cache_misses"))
"""


def hits_and_misses(cache_home) -> tuple[list[int], str]:
    """What a process of its own finds in its cache, and what it says on standard error."""
    kept = {name: value for name, value in os.environ.items() if "CACHE" not in name and name != "TF_CPP_MIN_LOG_LEVEL"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], env={**kept, "XDG_CACHE_HOME": str(cache_home)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [int(number) for number in ran.stdout.split()], ran.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG_CACHE_HOME is a custom of Linux")
def test_the_second_run_compiles_nothing(tmp_path):
    """Kills: a threshold that leaves out quick programs, another directory, and lines of XLA about features."""
    (hits, misses), _ = hits_and_misses(tmp_path)
    assert hits == 0
    assert misses > 0
    assert any((tmp_path / "tempering" / "compiled").iterdir())
    (hits, misses), said = hits_and_misses(tmp_path)
    assert hits > 0
    assert (misses, said) == (0, "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG_CACHE_HOME is a custom of Linux")
def test_a_home_that_cannot_be_written_to_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    (hits, misses), said = hits_and_misses(tmp_path / "file")
    assert (hits, misses, said) == (0, 0, "")


@pytest.fixture
def updates(monkeypatch, tmp_path) -> dict[str, object]:
    """What was changed of JAX's configuration, which stays as it was."""
    changed: dict[str, object] = {}
    monkeypatch.setattr(jax.config, "update", changed.__setitem__)
    monkeypatch.setattr(compiled, "cache_directory", lambda: tmp_path / "compiled")
    return changed


def test_the_user_decides(updates, monkeypatch, tmp_path):
    """Kills: a flag that is not heeded, and a directory of the user's that is replaced."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    compiled.keep_compiled(True)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    compiled.keep_compiled(False)
    assert updates == {}
    assert not (tmp_path / "compiled").exists()
    compiled.keep_compiled(True)
    assert updates["jax_compilation_cache_dir"] == str(tmp_path / "compiled")


def test_the_oldest_go_first(tmp_path):
    """Kills: the newest removed, and a limit on the number of files instead of their size."""
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    compiled.remove_oldest(tmp_path, 300)
    assert len(list(tmp_path.iterdir())) == 3
    compiled.remove_oldest(tmp_path, 250)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["middle", "new"]
    compiled.remove_oldest(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []
