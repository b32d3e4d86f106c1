"""Set-up for all tests: shapes are checked while they run, and two CPU devices exist."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Most of a test is compiling, and with less optimisation that takes a sixth less. For child processes too.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1"

# Many tests, their child processes and both workers compile the same programs: once is enough.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
# XLA takes its own tuning flags for features of the CPU and calls every program it loads an error for lack of them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_num_cpu_devices", 2)

with install_import_hook("tempering", "beartype.beartype"):
    import tempering

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="module")
def _forgotten_programs() -> Iterator[None]:
    """Compiled programs are let go after each file: thousands of them in one process end in a crash of the compiler."""
    yield
    jax.clear_caches()


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data beside the repository."""
    if not DATA.is_dir():
        pytest.skip("the real data sets are not beside this clone, in ../shared/data")
    return DATA


@pytest.fixture
def tempering(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: status, stdout, stderr."""

    from tempering import cli  # which not every test needs

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tempering", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0, *capsys.readouterr()

    return run
