"""Every kind of file that a run writes, with 100 flipped bits and 100 cuts each: no wrong number, and no traceback.

    python experiments/damaged_files.py [--faults 100] [--only details.npz] [--jobs 1]

A damaged file is read as its reader does: a run is resumed from a checkpoint, a result or a model is loaded, metrics
are taken up, a report is made. Each must give what it gave before, or the previous good state where there is one, or be
refused in one line. An estimate is resumed to its end; a training is taken up and compared bit by bit, without further
updates, which would compile anew for each of 200 faults. Writes benchmarks/results/damaged_files.json.
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

import jax
import numpy as np
import repeats

import tempering as tp
from tempering.cli.reporting import save_training
from tempering.report import directory_report
from tempering.results import Details
from tempering.sampling.directory import MALFORMED, unsealed
from tempering.training import RunSettings, TrainingRun
from tempering.training.metrics import read_metrics

RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "damaged_files.json"
QUICK = {"num_chains": 20, "num_sweeps": 40, "num_rungs": 4, "warmup": tp.AnnealedStart(4, (2,)), "progress": False}
KINDS = (
    "checkpoint of estimate, with the one before", "checkpoint of estimate, alone", "result.npz",
    "checkpoint of train, with the one before", "checkpoint of train, alone", "metrics.jsonl", "model.npz",
    "result.json in a report", "details.npz", "summary.json", "samples.npz",
)  # fmt: skip
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
    """All numbers that the run goes on from."""
    with TrainingRun(rows(), settings=SETTINGS, directory=folder, resume=True) as run:
        numbers, trees = run.trainer.snapshot()
        return repr(numbers), [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(trees)]


def loaded_result(folder: Path) -> Any:
    found = tp.load_result(folder / "result.npz")
    return found.log_z, found.std_error, found.log_z_by_rung.values.tobytes()


def loaded_model(folder: Path) -> Any:
    model = tp.load(folder / "model.npz")
    assert isinstance(model, tp.RBM)
    return b"".join(np.asarray(array).tobytes() for array in model.on_host())


def taken_up_metrics(written: list[Any], folder: Path) -> Any:
    """Whether the rows that are left are rows that were written."""
    return all(row in written for row in read_metrics(folder / "metrics.jsonl"))


def read_details(folder: Path) -> Any:
    """As a report reads it."""
    found = Details.read(folder)
    arrays = {**found.arrays, **found.find_draws()}
    return {name: np.asarray(array).tobytes() for name, array in arrays.items()}


def report(folder: Path) -> Any:
    return directory_report(folder)


def read_summary(folder: Path) -> Any:
    """As a report reads it."""
    found = unsealed((folder / "summary.json").read_bytes())
    if found is None:
        raise tp.InputError("refused")
    return found


def read_samples(folder: Path) -> Any:
    """As a report reads it."""
    try:
        with np.load(folder / "samples.npz", allow_pickle=False) as archive:
            return archive["v"].tobytes()
    except MALFORMED:
        raise tp.InputError("refused") from None


def folders(place: Path) -> dict[str, tuple[Path, str, Callable[[Path], Any]]]:
    """What is damaged: the folder of a run, a file in it, and its reader."""
    half, finished, drawn, training = (place / name for name in ("half", "finished", "drawn", "training"))
    stopped = iter([False] * 6 + [True])
    tp.estimate(rbm(), out=half, watch=lambda _: next(stopped), **QUICK)
    tp.estimate(rbm(), out=finished, **QUICK)
    tp.estimate(rbm(), out=drawn, keep_draws=True, **QUICK)
    with TrainingRun(rows(), settings=SETTINGS, directory=training) as run:
        for row in run:
            if row.num_updates == 3:
                break
        run.save_model(training / "model.npz")
        written = run.metrics.rows
    half_alone, training_alone = place / "half_alone", place / "training_alone"
    for whole, alone in ((half, half_alone), (training, training_alone)):
        shutil.copytree(whole, alone)
        (alone / "checkpoint.previous").unlink()
    save_training({"train": None, "valid": None, "num_updates": 3}, np.eye(6), training)
    found = (
        (half, "checkpoint", resumed_estimate),
        (half_alone, "checkpoint", resumed_estimate),
        (finished, "result.npz", loaded_result),
        (training, "checkpoint", resumed_training),
        (training_alone, "checkpoint", resumed_training),
        (training, "metrics.jsonl", partial(taken_up_metrics, written)),
        (training, "model.npz", loaded_model),
        (finished, "result.json", report),
        (drawn, "details.npz", read_details),
        (training, "summary.json", read_summary),
        (training, "samples.npz", read_samples),
    )
    return dict(zip(KINDS, found, strict=True))


def study(folder: Path, file: str, read: Callable[[Path], Any], num_faults: int, place: Path) -> dict[str, Any]:
    copy, data, rng = place / "copy", (folder / file).read_bytes(), random.Random(file)

    def read_with(content: bytes) -> Any:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        (copy / file).write_bytes(content)
        return read(copy)

    truths = [read_with(data)]
    if (folder / f"{file}.previous").exists():  # the state before it is as good
        truths.append(read_with((folder / f"{file}.previous").read_bytes()))
    found: dict[str, Any] = {"same": 0, "refused": 0, "wrong": [], "other errors": []}
    for fault in (flipped, cut):
        for number in range(num_faults):
            try:
                if read_with(fault(rng, data)) in truths:
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
    parser.add_argument("--only", default="", help="part of the name of a kind; the record keeps the others")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the kinds")
    parser.add_argument("--rows", type=Path, help="write what came of it there, and no record")
    asked = parser.parse_args()
    names = [name for name in KINDS if asked.only in name]
    if asked.jobs > 1:
        rows = repeats.in_processes(__file__, names, asked.jobs, ["--faults", str(asked.faults)])
    else:
        rows = studied(names, asked.faults)
    if asked.rows is not None:
        repeats.dump(asked.rows, rows)
        return
    about, record = repeats.about(), json.loads(RECORD.read_text()) if asked.only else {}
    record |= {name: {"faults": asked.faults} | told | {"about": about} for name, told in rows.items()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(any(told["wrong"] or told["other errors"] for told in rows.values()))


def studied(names: list[str], num_faults: int) -> dict[str, Any]:
    """What came of each kind."""
    warnings.simplefilter("ignore")  # the recovery is what is studied
    place, rows = Path(tempfile.mkdtemp(prefix="damaged_")), {}
    found = folders(place)
    for name in names:
        rows[name] = study(*found[name], num_faults, place)
        print(name, json.dumps(rows[name]), flush=True)
    shutil.rmtree(place)
    return rows


if __name__ == "__main__":
    main()
