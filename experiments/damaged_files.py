"""Every kind of file that a run writes, with 100 flipped bits and 100 cuts each: no wrong number, and no traceback.

    python experiments/damaged_files.py [--faults 100]

A damaged file is read as its reader does: a run is resumed from a checkpoint to its end, a result or a model is loaded,
metrics are taken up. Each must give what it gave before, or be refused in one line. Writes
benchmarks/results/damaged_files.json.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tempering as tp
from tempering.training import RunSettings, TrainingRun
from tempering.training.metrics import Metrics

RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "damaged_files.json"
QUICK = {"num_chains": 20, "num_sweeps": 40, "num_rungs": 4, "warmup": tp.AnnealedStart(4, (2,)), "progress": False}
SETTINGS = RunSettings(num_hidden=4, num_updates=6, batch_size=20, num_sweeps=2, num_rungs=6, num_chains=40)


def flipped(rng: random.Random, data: bytes) -> bytes:
    changed, at = bytearray(data), rng.randrange(len(data))
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def rbm() -> tp.RBM:
    rng = np.random.default_rng(1)
    return tp.RBM(rng.normal(0, 0.8, (6, 4)), rng.normal(size=6), rng.normal(size=4))


def rows() -> np.ndarray:
    return (np.random.default_rng(2).random((60, 6)) < 0.3).astype(np.float32)


def resumed_estimate(folder: Path) -> Any:
    return repr(tp.estimate(rbm(), out=folder, resume=True, **QUICK).log_z)


def resumed_training(folder: Path) -> Any:
    with TrainingRun(rows(), settings=SETTINGS, directory=folder, resume=True) as run:
        for _ in run:
            pass
        return run.trainer.rbm.weights.tobytes()


def loaded_result(folder: Path) -> Any:
    found = tp.load_result(folder / "result.npz")
    return found.log_z, found.std_error, found.log_z_by_rung.values.tobytes()


def loaded_model(folder: Path) -> Any:
    model = tp.load(folder / "model.npz")
    assert isinstance(model, tp.RBM)
    return b"".join(np.asarray(array).tobytes() for array in model.on_host())


def taken_up_metrics(checks: list[int], folder: Path) -> Any:
    """The rows that are left; each must be one of those that were written."""
    metrics = Metrics(folder)
    metrics.open(SETTINGS.num_updates, len(checks), checks)
    metrics.close()
    return set(metrics.checks) <= set(checks)


def folders(place: Path) -> dict[str, tuple[Path, str, Callable[[Path], Any]]]:
    """What is damaged: the folder of a run, a file in it, and its reader."""
    half, finished, training = place / "half", place / "finished", place / "training"
    stopped = iter([False] * 6 + [True])
    tp.estimate(rbm(), out=half, watch=lambda _: next(stopped), **QUICK)
    tp.estimate(rbm(), out=finished, **QUICK)
    with TrainingRun(rows(), settings=SETTINGS, directory=training) as run:
        for row in run:
            if row.num_updates == 3:
                break
        run.save_model(training / "model.npz")
        checks = run.metrics.checks[:]
    alone = place / "alone"
    shutil.copytree(half, alone)
    (alone / "checkpoint.previous").unlink()
    return {
        "checkpoint of estimate, with the one before": (half, "checkpoint", resumed_estimate),
        "checkpoint of estimate, alone": (alone, "checkpoint", resumed_estimate),
        "result.npz": (finished, "result.npz", loaded_result),
        "checkpoint of train": (training, "checkpoint", resumed_training),
        "metrics.jsonl": (training, "metrics.jsonl", partial(taken_up_metrics, checks)),
        "model.npz": (training, "model.npz", loaded_model),
    }


def study(folder: Path, file: str, read: Callable[[Path], Any], num_faults: int, place: Path) -> dict[str, Any]:
    copy, data, rng = place / "copy", (folder / file).read_bytes(), random.Random(file)

    def read_with(content: bytes) -> Any:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        (copy / file).write_bytes(content)
        return read(copy)

    truth = read_with(data)
    found: dict[str, Any] = {"same": 0, "refused": 0, "wrong": [], "other errors": []}
    for fault in (flipped, cut):
        for number in range(num_faults):
            try:
                if read_with(fault(rng, data)) == truth:
                    found["same"] += 1
                else:
                    found["wrong"].append(f"{fault.__name__} {number}")
            except tp.InputError:
                found["refused"] += 1
            except Exception as error:  # noqa: BLE001  what is looked for
                found["other errors"].append(f"{fault.__name__} {number}: {type(error).__name__}: {error}"[:200])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # the recovery is what is studied
    place, record = Path(tempfile.mkdtemp(prefix="damaged_")), {}
    for name, what in folders(place).items():
        record[name] = {"faults": asked.faults} | study(*what, asked.faults, place)
        print(name, json.dumps(record[name]), flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(place)
    sys.exit(any(told["wrong"] or told["other errors"] for told in record.values()))


if __name__ == "__main__":
    main()
