"""A disk that is full, or a directory that becomes read-only, at every stage of a run: refused, and resumed.

    python experiments/full_disk.py       # as root, since it mounts small file systems

A run is started in a tmpfs that is filled up after some block, or whose directories are made read-only then, to a user
without privileges. It must end with an `InputError` of one line. With room again it is resumed: it must have lost one
block at most, and end with the bits of a run left alone. Writes benchmarks/results/full_disk.json.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import repeats

import tempering as tp
from tempering.training import RunSettings, TrainingRun, session

RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "full_disk.json"
QUICK = {"num_chains": 20, "num_sweeps": 40, "num_rungs": 4, "warmup": tp.AnnealedStart(4, (2,)), "progress": False}
SETTINGS = RunSettings(num_hidden=4, num_updates=8, batch_size=20, num_sweeps=2, num_rungs=6, num_chains=40)
NOBODY = 65534
Note = Callable[[], None]  # told after every block or update


def estimate(out: Path | None, note: Note, *, resume: bool = False) -> tuple[Any, int]:
    """The answer, and how many blocks were made."""
    rng, blocks = np.random.default_rng(1), []
    rbm = tp.RBM(rng.normal(0, 0.8, (6, 4)), rng.normal(size=6), rng.normal(size=4))
    result = tp.estimate(rbm, out=out, resume=resume, watch=lambda _: blocks.append(note()), **QUICK)
    return (repr(result.log_z), result.recording.stats.log_sums.tobytes()), len(blocks)


def train(out: Path | None, note: Note, *, resume: bool = False) -> tuple[Any, int]:
    rows, made = (np.random.default_rng(2).random((60, 6)) < 0.3).astype(np.float32), 0
    with TrainingRun(rows, settings=SETTINGS, directory=out, resume=resume) as run:
        for _ in run:
            made += 1
            note()
        return run.trainer.rbm.weights.tobytes(), made


def mount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tempering", str(place)], check=True)


def tried(run: Callable[..., tuple[Any, int]], spoil: Callable[[Path, int], None], after: int) -> dict[str, Any]:
    """What came of a run whose disk is spoilt after so many blocks."""
    truth, num_blocks = run(None, lambda: None)
    seen: dict[str, Any] = {"after": after, "refused": False, "one line": True, "same bits": False, "blocks lost": None}
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "disk"
        place.mkdir()
        mount(place, f"size=16m,uid={NOBODY}")
        os.seteuid(NOBODY)
        try:
            if after == 0:
                spoil(place, 0)

            def note() -> None:
                nonlocal count
                count += 1
                if count == after:
                    spoil(place, after)

            try:
                run(place / "run", note)
            except tp.InputError as error:
                seen["refused"], seen["one line"] = True, "\n" not in str(error)
            set_mode(place, 0o755)
            (place / "filler").unlink(missing_ok=True)
            found, rest = run(place / "run", lambda: None, resume=True)
            seen["same bits"] = found == truth
            seen["blocks lost"] = count + rest - num_blocks
        finally:
            os.seteuid(0)
            subprocess.run(["umount", str(place)], check=True)
    return seen


def fill(place: Path, after: int) -> None:
    """Leave no room."""
    with (place / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"0" * 4096)
        except OSError:
            pass


def make_read_only(place: Path, after: int) -> None:
    set_mode(place, 0o555)


def set_mode(place: Path, mode: int) -> None:
    """Of the directory, and of that of the run."""
    os.seteuid(0)
    for folder in (place, place / "run"):
        if folder.is_dir():
            folder.chmod(mode)
    os.seteuid(NOBODY)


def main() -> None:
    warnings.simplefilter("ignore")  # of a cache that only root can write
    session.SAVE_SECONDS = 0.0  # a checkpoint after every update
    with tempfile.TemporaryDirectory() as folder:  # what a run imports on its way may be readable for root alone
        for run in (estimate, train):
            run(Path(folder) / run.__name__, lambda: None)
            run(Path(folder) / run.__name__, lambda: None, resume=True)
    record: dict[str, Any] = {}
    for name, run in (("estimate", estimate), ("train", train)):
        for how, spoil in (("full", fill), ("read-only", make_read_only)):
            stages = [0, 1, 2, 5, 8, 20] if name == "estimate" else [0, 1, 2, 5, 7]
            record[f"{name}, {how}"] = found = [tried(run, spoil, after) for after in stages]
            print(name, how, json.dumps(found), flush=True)
            RECORD.write_text(json.dumps({"about": repeats.about()} | record, indent=1) + "\n")
    good = [
        all((told["refused"], told["one line"], told["same bits"], told["blocks lost"] <= 1))
        for found in record.values()
        for told in found
    ]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
