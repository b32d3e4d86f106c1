"""The tests of exact invariance and of a GPU's own programs, run on a GPU.

    python benchmarks/gpu_tests.py

They are those of the test suite, which runs them on a CPU: exact draws, one step, and the law they had before; each
with a broken move that must be rejected. Every file has a process of its own, since most of the time goes into
compiling. Needs what `.[dev]` installs. The exit status is 1 where one fails, or where JAX has no GPU. Writes
benchmarks/results/gpu_tests.json.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import turns

import tempering as tp

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("tests/kernels", "tests/models")
ASKED = "invariant or tensor_cores"  # in the name of a test or of its file
LIMIT = 540.0  # seconds
# The compiler has its own defaults here, and the processes share the memory of the GPU.
SETTINGS = {"XLA_FLAGS": "--xla_backend_optimization_level=3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def main() -> None:
    tp.load_example()  # the modules whose code the record names
    if jax.default_backend() != "gpu":
        raise SystemExit(f"JAX computes on a {jax.default_backend()} here, not on a GPU.")
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).glob("test_*.py")) if has_some(file)]
    with ThreadPoolExecutor(len(files)) as pool:
        parts = list(pool.map(run, files))
    cases = [case for found, _ in parts for case in found]
    failed = [case["test"] for case in cases if case["outcome"] != "passed"]
    failed += [file.name for file, (found, _) in zip(files, parts, strict=True) if not found]
    print("\n".join(said for found, said in parts if not found or any(c["outcome"] != "passed" for c in found)))
    turns.write("gpu_tests", {"asked": f"{' '.join(FOLDERS)} -k '{ASKED}'", "tests": cases})
    print(f"{len(cases)} tests, not passed: {', '.join(failed) or 'none'}")
    raise SystemExit(1 if failed else 0)


def has_some(file: Path) -> bool:
    """Whether some test of a file may be asked for."""
    return "tensor_cores" in file.name or "invariant" in file.read_text()


def run(file: Path) -> tuple[list[dict[str, Any]], str]:
    """What became of each test of a file, and the last lines that pytest printed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(file), "-k", ASKED, "-q", "--tb=short", "-o", "addopts="]
        command.append(f"--junitxml={report}")
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=os.environ | SETTINGS, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return [], f"{file.name} was not done after {LIMIT:.0f} s"
        cases = [outcome_of(case) for case in ElementTree.parse(report).iter("testcase")] if report.exists() else []
    return cases, (done.stdout + done.stderr)[-3000:]


def outcome_of(case: ElementTree.Element) -> dict[str, Any]:
    """One test of pytest's report."""
    outcomes = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
    name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    return {"test": name, "outcome": outcomes[0] if outcomes else "passed", "seconds": float(case.get("time", 0.0))}


if __name__ == "__main__":
    main()
