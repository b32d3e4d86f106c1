"""One long run of `estimate` and one of `train`, killed again and again: in the end the bits of the run left alone.

    python experiments/killed_runs.py                 # 200 SIGKILLs and 50 SIGTERMs of each; about half an hour
    python experiments/killed_runs.py --kills 20 --terms 5
    python experiments/killed_runs.py --jobs 2        # both commands at once
    python experiments/killed_runs.py --only train

A third of the signals come at a random moment of the start, a third while a checkpoint is being written, a third at a
random moment after some checkpoints. Every call must end as its signal says, without a traceback and without a warning
of a damaged file.
"""

import argparse
import hashlib
import json
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import repeats

import tempering.cli  # before forking, and before JAX starts its threads
from tempering.training import session

RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "killed_runs.json"
ESTIMATE = shlex.split(
    "estimate rbm:12x8:0.4 --chains 60 --rungs 6 --sweeps 250000 --warmup annealed --devices 1 --json --quiet"
)
TRAIN = shlex.split("--hidden 6 --updates 1000 --chains 40 --sweeps 2 --rungs 6 --batch 20 --json --no-plot --quiet")
MOMENTS = ("start", "write", "run")
START_SECONDS = [3.0]  # from the start of the last call to its first checkpoint
RESULTS = {"estimate": ("result.npz",), "train": ("model.npz", "metrics.jsonl")}


def child(arguments: list[str], errors: Path) -> int:
    """Start the command line in a process of its own, which need not import anything; returns its number."""
    number = os.fork()
    if number:
        return number
    for target, descriptor in (("/dev/null", 1), (str(errors), 2)):
        os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    session.SAVE_SECONDS = 0.0  # a checkpoint after every update, not only every half minute
    sys.argv = ["tempering", *arguments]
    try:
        tempering.cli.main()
    except SystemExit as ended:
        sys.stderr.flush()
        os._exit(ended.code if isinstance(ended.code, int) else 1)
    os._exit(0)


def stamp(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def ended_by(number: int, kind: signal.Signals, directory: Path, moment: str, rng: random.Random) -> int:
    """Send the signal at such a moment; the status with which the process ended, negative for a signal."""
    begun, starting = time.monotonic(), rng.uniform(0, START_SECONDS[0])
    checkpoint, being_written = directory / "checkpoint", directory / "checkpoint.new"
    wanted, seen, before = rng.choice((1, 2, 3)), 0, stamp(checkpoint)
    while time.monotonic() - begun < (starting if moment == "start" else 180):
        found, status = os.waitpid(number, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        now = stamp(checkpoint)
        if now != before:
            seen, before = seen + 1, now
            START_SECONDS[0] = time.monotonic() - begun if seen == 1 else START_SECONDS[0]
        if moment == "run" and seen >= wanted:
            time.sleep(rng.uniform(0, 0.05))
            break
        if moment == "write" and seen >= wanted - 1 and being_written.exists():
            break
        time.sleep(0 if moment == "write" and seen >= wanted - 1 else 0.001)
    os.kill(number, kind)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def digest(directory: Path, command: str) -> str:
    """Of all numbers that the run wrote."""
    found = hashlib.sha256()
    for name in RESULTS[command]:
        if name.endswith(".npz"):
            with np.load(directory / name) as archive:
                for member in sorted(set(archive.files) - {"result"}):  # whose text says how long it took
                    found.update(member.encode() + archive[member].tobytes())
        else:
            found.update((directory / name).read_bytes())
    return found.hexdigest()


def study(
    command: str, arguments: list[str], folder: Path, num_kills: int, num_terms: int, max_seconds: float
) -> dict[str, Any]:
    """Signals until all are sent or the time is up; then the run is left alone, and compared."""
    until = time.monotonic() + max_seconds
    whole, cut, errors = folder / f"{command}_whole", folder / f"{command}_cut", folder / "errors.txt"
    os.waitpid(child([*arguments, "--out", str(whole)], errors), 0)
    rng = random.Random(f"{command} 7")
    kinds = [signal.SIGKILL] * num_kills + [signal.SIGTERM] * num_terms
    rng.shuffle(kinds)
    counts = {"SIGKILL": 0, "SIGTERM": 0}
    moments = dict.fromkeys(MOMENTS, 0)
    problems, statuses, status = [], {}, None
    for kind in kinds:
        if time.monotonic() > until:
            break
        moment = rng.choice(MOMENTS)
        status = ended_by(child([*arguments, "--resume", "--out", str(cut)], errors), kind, cut, moment, rng)
        told = errors.read_text()
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        if "Traceback" in told or "Warning" in told or "Error" in told or status not in (-9, -15, 143, 0, 3):
            problems.append(f"{kind.name}: status {status}: {told[-300:]}")
        if status in (0, 3):
            break
        counts[kind.name] += 1
        moments[moment] += 1
    if status not in (0, 3):
        status = os.waitstatus_to_exitcode(os.waitpid(child([*arguments, "--resume", "--out", str(cut)], errors), 0)[1])
    is_same = digest(cut, command) == digest(whole, command)
    told = {"signals": counts, "moments": moments, "statuses": statuses}
    return told | {"problems": problems, "last_status": status, "same_bits": is_same}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--terms", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=np.inf, help="for the signals to one command")
    parser.add_argument("--only", choices=tuple(RESULTS))
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the commands: one run of each")
    parser.add_argument("--rows", type=Path, help="write what came of it there, and no record")
    asked = parser.parse_args()
    names = tuple(RESULTS) if asked.only is None else (asked.only,)
    if asked.jobs > 1:
        how = ["--kills", str(asked.kills), "--terms", str(asked.terms), "--minutes", str(asked.minutes)]
        records = repeats.in_processes(__file__, list(names), asked.jobs, how)
    else:
        records = studied(names, asked)
    # At the end, since it starts JAX, whose threads no fork would have.
    if asked.rows is not None:
        repeats.dump(asked.rows, records)
        return
    about, record = repeats.about(), json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record |= {name: told | {"about": about} for name, told in records.items()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(not all(told["same_bits"] and not told["problems"] for told in records.values()))


def studied(names: tuple[str, ...], asked: argparse.Namespace) -> dict[str, Any]:
    """What came of each command."""
    folder = Path(tempfile.mkdtemp(prefix="killed_"))
    rng = np.random.default_rng(3)
    rows = folder / "rows.npz"
    np.savez(rows, (rng.random((120, 10)) < rng.uniform(0.1, 0.9, 10)).astype(np.uint8))
    commands = {"estimate": ESTIMATE, "train": ["train", str(rows), *TRAIN]}
    records = {}
    for name in names:
        records[name] = study(name, commands[name], folder, asked.kills, asked.terms, 60 * asked.minutes)
        print(name, json.dumps(records[name]), flush=True)
    shutil.rmtree(folder)
    return records


if __name__ == "__main__":
    main()
