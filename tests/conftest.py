"""Set-up for all tests: shapes are checked while they run, and two CPU devices exist."""

import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

# Most of a test's time goes into compiling. Without optimisation that takes half as long, and few tests run for long
# enough to need any. `make study` runs with the compiler's own default, as users do. Child processes inherit the flags.
if "--xla_backend_optimization_level" not in os.environ.get("XLA_FLAGS", ""):
    # A version that does not know a flag ends the program, and jaxlib 0.12 does not know the last one.
    known = " --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith(("0.10.", "0.11.")) else ""
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"
        f" --xla_cpu_parallel_codegen_split_count=1{known}"  # fewer ranges of memory, see below
    )

# Many tests, their child processes and both workers compile the same programs: once is enough.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# XLA takes its own tuning flags for features of the CPU and calls every program it loads an error for lack of them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# All of the package is imported at once, while its shapes are hooked.
os.environ["EAGER_IMPORT"] = "1"

import jax
import pytest

import shape_checks

jax.config.update("jax_num_cpu_devices", 2)

with shape_checks.checked_imports("tempering"):
    import tempering

del os.environ["EAGER_IMPORT"]  # child processes import as users do

# What is imported stays, so that the garbage collector need not look at it again and again while programs are traced.
gc.freeze()
gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def _counted_calls() -> None:
    shape_checks.forget_calls()


DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="module")
def _forgotten_programs() -> Iterator[None]:
    """Compiled programs are let go after a file where they have become too many.

    Each keeps a few ranges of memory mapped. A process may have 65,530 of them on Linux, and the compiler crashes
    beyond. With 6,000 a process takes about 2 GB.
    """
    yield
    mapped = Path("/proc/self/maps")
    if not mapped.exists() or mapped.read_bytes().count(b"\n") > 6_000:
        jax.clear_caches()


@pytest.fixture(autouse=True, scope="session")
def _shared_optimizers() -> Iterator[None]:
    """Runs of training with the same optimizer share a program: its functions are part of what is compiled."""
    if find_spec("optax") is None:
        yield
        return
    from tempering.training import trainer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "make_optimizer", functools.cache(trainer.make_optimizer))
        yield


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
