"""The same bits before and after: runs of every kind, recorded to the last digit, and compared with the record.

    python scripts/golden_bits.py --write      # record them, before a change that must change no number
    python scripts/golden_bits.py              # after it: prints what differs, and exits 1 if anything does

The record holds for the kind of machine that it names: another CPU may round matrix products differently.
"""

import argparse
import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tempering as tp
from tempering.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "results" / "golden_bits.json"
DATA = ROOT.parent / "shared" / "data"


def demo() -> dict[str, Any]:
    rbm, frequencies = tp.load_example()
    return told(tp.estimate(rbm, frequencies))


def mnist() -> dict[str, Any] | None:
    if not DATA.is_dir():
        return None
    frequencies = tp.load_data(DATA / "mnist_binarized.npz", num_visible=784).mean(axis=0)
    return told(tp.estimate(tp.load(DATA / "rbm_mnist_cd25_500.npz"), frequencies, num_sweeps=300))


def mixture() -> dict[str, Any]:
    return told(tp.estimate(tp.paper_mixture()))


def ising() -> dict[str, Any]:
    return told(tp.estimate(tp.load("ising:16x16:0.44")))


def regression() -> dict[str, Any]:
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(8)
    x = np.column_stack([np.ones(12), rng.normal(0.5, 1, 12), rng.exponential(1, 12)])
    y = x @ [0.7, -1.1, 0.4] + rng.normal(0, 0.5, 12)

    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(0.2, 1.5).expand([3]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)

    return told(tp.estimate(tp.from_numpyro(model, x, y=y)))


def comparison() -> dict[str, Any]:
    rbm, frequencies = tp.load_example()
    rows = np.random.default_rng(0).random((200, rbm.num_visible)) < frequencies
    found = tp.compare(rbm, data=rows, num_chains=50, num_sweeps=300, num_rungs=30)
    return {e.method.name: answer(e.answer) | {"verdict": e.verdict.label} for e in found.entries}


def training(method: str) -> Callable[[], dict[str, Any]]:
    def run() -> dict[str, Any]:
        rng = np.random.default_rng(1)
        rows = (rng.random((300, 20)) < rng.uniform(0.1, 0.9, (3, 20))[rng.integers(0, 3, 300)]).astype(np.float32)
        chains = {"num_chains": 200} if method != "cd" else {}
        trainer = Trainer(
            rows[:200], valid=rows[200:], num_hidden=12, method=method, optimizer="adam", num_updates=20,
            num_sweeps=5, num_rungs=30, seed=3, **chains,
        )  # fmt: skip
        found = {}
        for progress in trainer.run():
            assert progress.tracked is not None
            assert progress.train is not None
            assert progress.valid is not None
            found[str(progress.num_updates)] = {
                "log_z": progress.tracked.log_z,
                "std_error": progress.tracked.std_error,
                "verdict": progress.tracked.verdict.label,
                "train": [progress.train.value, *progress.train.interval],
                "valid": [progress.valid.value, *progress.valid.interval],
            }
        return found | {"weights": digest(trainer.rbm.weights)}

    return run


RUNS: dict[str, Callable[[], dict[str, Any] | None]] = {
    "demo": demo,
    "784x500": mnist,
    "mixture": mixture,
    "ising:16x16:0.44": ising,
    "numpyro regression": regression,
    "compare": comparison,
    "train tempered": training("tempered"),
    "train pcd": training("pcd"),
    "train cd": training("cd"),
}


def told(result: tp.Result) -> dict[str, Any]:
    """What a result says, and a digest of what it says of every rung."""
    return answer(result.log_z_by_rung) | {
        "verdict": result.verdict.label,
        "round_trips": result.diagnosis.round_trips_per_chain,
        "annealed": None if result.annealed is None else [result.annealed.log_z, result.annealed.std_error],
        "num_warmup_sweeps": result.num_warmup_sweeps,
        "betas": digest(result.betas),
        "transitions": digest(result.recording.transition_counts),
    }


def answer(log_z: tp.LogZ) -> dict[str, Any]:
    return {
        "log_z": log_z.log_z,
        "std_error": log_z.std_error,
        "interval": list(log_z.interval),
        "by_rung": digest(log_z.values, log_z.std_errors),
    }


def digest(*arrays: Any) -> str:
    """Of all bits of some arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(a, np.float64).tobytes() for a in arrays)).hexdigest()[:16]


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Every number that is not the same to the last bit, with its place."""
    if isinstance(old, dict) and isinstance(new, dict):
        parts = (differences(old.get(name), new.get(name), f"{where}/{name}") for name in old | new)
        return [line for part in parts for line in part]
    return [] if repr(old) == repr(new) else [f"{where}: {old} before, {new} now"]


def machine() -> str:
    model = next((line for line in _cpu_info() if line.startswith("model name")), "").partition(":")[2].strip()
    return f"{platform.machine()}, {model or 'unknown CPU'}, jax {jax.__version__}"


def _cpu_info() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the bits instead of comparing them")
    parser.add_argument("--only", help="names of runs, with commas between them")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(RUNS)
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    found = json.loads(json.dumps({name: run for name in names if (run := RUNS[name]()) is not None}))
    if asked.write:
        others = json.loads(RECORD.read_text())["runs"] if asked.only else {}
        RECORD.write_text(json.dumps({"machine": machine(), "runs": others | found}, indent=1) + "\n")
        print(f"recorded {len(found)} runs in {RECORD.relative_to(ROOT)}")
        return
    record = json.loads(RECORD.read_text())
    if record["machine"] != machine():
        print(f"recorded on {record['machine']}, this is {machine()}: digits may differ")
    lines = [line for name in found for line in differences(record["runs"].get(name), found[name], name)]
    print("\n".join(lines) or f"the same bits in {', '.join(found)}")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
