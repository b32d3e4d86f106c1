"""Half an hour of `estimate` and half an hour of `train`, side by side: memory, files and speed must not drift.

    make study-soak                                   # 30 minutes
    python experiments/soak.py --minutes 3

Memory is that of the process (VmRSS), looked at every second. Progress is counted in sweeps or updates per second of
processor time, which does not depend on what else the machine does. The first tenth of the time, in which programs are
compiled and buffers grow, does not count. Writes benchmarks/results/soak.json, and exits 1 if memory drifts by more
than 2 %, files other than the metrics grow, or the speed of the second half is off that of the first by more than a
tenth.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import repeats

import tempering.cli  # noqa: F401  what is measured, so that its code is recorded

RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "soak.json"
MAX_DRIFT, MAX_GROWTH, MAX_SLOWING = 0.02, 0.02, 0.1
ESTIMATE = ["estimate", "rbm:64x32:0.2", "--chains", "100", "--rungs", "20", "--sweeps", "2000000000", "--quiet"]
TRAIN = ["--hidden", "16", "--chains", "200", "--sweeps", "5", "--rungs", "20", "--updates", "1000000000", "--quiet"]
LOOKED_AT = ("seconds", "processor_seconds", "memory", "files", "metrics", "progress")


def looked_at(process: int, folder: Path, seconds: float) -> tuple[float, ...]:
    """One row of numbers, in the order of LOOKED_AT."""
    status = Path(f"/proc/{process}/status").read_text()
    memory = 1024 * int(status.partition("VmRSS:")[2].split()[0])
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    processor = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    sizes = {}
    for file in folder.rglob("*"):
        with suppress(OSError):  # it has just been replaced
            sizes[file.name] = file.stat().st_size
    metrics = sizes.pop("metrics.jsonl", 0)  # which has a line for every update
    files = sum(size for name, size in sizes.items() if not name.endswith(".new"))
    return seconds, processor, memory, files, metrics, progress(folder)


def progress(folder: Path) -> float:
    """Updates in the metrics, or sweeps at the last checkpoint; NaN in the moment in which there is none."""
    if (folder / "metrics.jsonl").exists():
        return (folder / "metrics.jsonl").read_bytes().count(b"\n")
    try:
        body = (folder / "checkpoint").read_bytes().partition(b"\n")[2]
    except OSError:
        return np.nan
    with np.load(io.BytesIO(body)) as archive:
        about = json.loads(archive["about"].tobytes())
    return about["done"] if about["kind"] == "Sampling" else np.nan


def soak(arguments: list[str], seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="soak_") as place:
        folder = Path(place) / "run"
        command = [sys.executable, "-m", "tempering", *arguments, "--out", str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (folder / "checkpoint").exists() and process.poll() is None:
            time.sleep(0.2)
        started, rows = time.monotonic(), []
        while (passed := time.monotonic() - started) < seconds and process.poll() is None:
            rows.append(looked_at(process.pid, folder, passed))
            time.sleep(1)
        is_alive = process.poll() is None
        process.terminate()
        error = process.communicate()[1]
        told = judged(np.array(rows), is_alive and process.returncode == 143 and "Traceback" not in error)
        words = error.strip()[-200:].replace(f"{tempfile.gettempdir()}/", "TMP/")
        return {"status": process.returncode, "last words": words} | told


def judged(rows: np.ndarray, has_ended_well: bool) -> dict[str, Any]:
    rows = rows[(rows[:, 0] > 0.1 * rows[-1, 0]) & np.isfinite(rows[:, -1])]
    halves = [dict(zip(LOOKED_AT, half.T, strict=True)) for half in np.array_split(rows, 2)]
    memory = [np.median(half["memory"]) for half in halves]
    files = [half["files"].max() for half in halves]
    speeds = [np.ptp(half["progress"]) / np.ptp(half["processor_seconds"]) for half in halves]
    is_good = [
        has_ended_well, abs(memory[1] / memory[0] - 1) <= MAX_DRIFT, files[1] <= (1 + MAX_GROWTH) * files[0],
        abs(speeds[1] / speeds[0] - 1) <= MAX_SLOWING,
    ]  # fmt: skip
    first, last = (dict(zip(LOOKED_AT, rows[at].tolist(), strict=True)) for at in (0, -1))
    return {
        "first": first, "last": last, "memory_drift": float(memory[1] / memory[0] - 1),
        "median_megabytes": [round(float(value) / 2**20, 1) for value in memory],
        "largest_file_bytes": [int(value) for value in files],
        "progress_per_processor_second": [round(float(speed), 3) for speed in speeds], "is_good": bool(all(is_good)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor() as pool:
        rng, data = np.random.default_rng(5), Path(place) / "rows.npz"
        np.savez(data, (rng.random((500, 32)) < rng.uniform(0.1, 0.9, 32)).astype(np.uint8))
        runs = {"estimate": ESTIMATE, "train": ["train", str(data), *TRAIN]}
        begun = {name: pool.submit(soak, arguments, 60 * asked.minutes) for name, arguments in runs.items()}
        record: dict[str, Any] = {name: each.result() for name, each in begun.items()}
    record |= {"about": repeats.about(), "minutes": asked.minutes}
    print(json.dumps(record, indent=1))
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(not all(record[name]["is_good"] for name in runs))


if __name__ == "__main__":
    main()
