"""Half an hour of `estimate` and half an hour of `train`: memory, files and speed must not drift.

    make study-soak                                   # 30 minutes each
    python experiments/soak.py --minutes 3

Memory is that of the process (VmRSS), looked at every second. The first tenth of the time, in which programs are
compiled and buffers grow, does not count. Writes benchmarks/results/soak.json, and exits 1 if memory drifts by more
than 2 %, files keep growing, or the speed of the second half is below two thirds of that of the first.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "soak.json"
MAX_DRIFT = 0.02
ESTIMATE = ["estimate", "rbm:64x32:0.2", "--chains", "100", "--rungs", "20", "--sweeps", "2000000000", "--quiet"]
TRAIN = ["--hidden", "16", "--chains", "200", "--sweeps", "5", "--rungs", "20", "--updates", "1000000000", "--quiet"]


def resident_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return 1024 * int(line.split()[1])
    return 0


def looked_at(folder: Path) -> tuple[int, int, float]:
    """Bytes of all files but the metrics, which grow by a line per update; their lines; the last checkpoint's time."""
    files = {}
    for file in folder.rglob("*"):
        with suppress(OSError):  # it has just been replaced
            files[file] = file.stat()
    size = sum(status.st_size for file, status in files.items() if file.suffix not in (".jsonl", ".new"))
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
    checkpoint = folder / "checkpoint"
    return size, lines, files[checkpoint].st_mtime_ns if checkpoint in files else 0


def soak(arguments: list[str], seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="soak_") as place:
        folder = Path(place) / "run"
        command = [sys.executable, "-m", "tempering", *arguments, "--out", str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (folder / "checkpoint").exists() and process.poll() is None:
            time.sleep(0.2)
        started, samples, num_saves, before = time.monotonic(), [], 0, 0.0
        while (passed := time.monotonic() - started) < seconds and process.poll() is None:
            size, lines, saved_at = looked_at(folder)
            num_saves, before = num_saves + (saved_at != before), saved_at
            samples.append((passed, resident_bytes(process.pid), size, num_saves + lines))
            time.sleep(1)
        is_alive = process.poll() is None
        process.terminate()
        error = process.communicate()[1]
        return judged(np.array(samples), is_alive, process.returncode, error)


def judged(samples: np.ndarray, is_alive: bool, status: int, error: str) -> dict[str, Any]:
    passed, memory, size, progress = samples[samples[:, 0] > 0.1 * samples[-1, 0]].T
    half = len(passed) // 2
    first, second = np.median(memory[:half]), np.median(memory[half:])
    speeds = [
        (p[-1] - p[0]) / (t[-1] - t[0]) for p, t in ((progress[:half], passed[:half]), (progress[half:], passed[half:]))
    ]
    told = {
        "seconds": round(float(passed[-1])),
        "memory_megabytes": [round(float(value) / 2**20, 1) for value in (memory[0], first, second, memory[-1])],
        "memory_drift": float(second / first - 1),
        "file_bytes": [int(np.median(part)) for part in (size[:half], size[half:])],
        "progress_per_second": [round(float(speed), 3) for speed in speeds],
        "status": status,
    }
    is_good = is_alive and status == 143 and abs(told["memory_drift"]) <= MAX_DRIFT and "Traceback" not in error
    return told | {
        "is_good": bool(
            is_good and told["file_bytes"][1] <= 1.1 * told["file_bytes"][0] and speeds[1] > speeds[0] / 1.5
        )
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        rng, rows = np.random.default_rng(5), Path(place) / "rows.npz"
        np.savez(rows, (rng.random((500, 32)) < rng.uniform(0.1, 0.9, 32)).astype(np.uint8))
        runs = {"estimate": ESTIMATE, "train": ["train", str(rows), *TRAIN]}
        record: dict[str, Any] = {"minutes": asked.minutes, "load": os.getloadavg()[0]}
        for name, arguments in runs.items():
            record[name] = soak(arguments, 60 * asked.minutes)
            print(name, json.dumps(record[name]), flush=True)
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(not all(record[name]["is_good"] for name in runs))


if __name__ == "__main__":
    main()
