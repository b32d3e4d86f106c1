"""The figures of the paper in full: the same as `tempering reproduce`, with the results kept in the repository.

    python experiments/figures.py fig1 fig2 ... | all [--quick] [--jobs 1] [--parts build/parts] [--out build/figures]

Writes benchmarks/results/paper_fig1.json and docs/figures/paper_fig1.svg, and so on; CSV and PNG files go to `--out`.
`tempering.paper` has the figures. A figure is made in pieces. Each is written to `--parts` when it is done, and is not
made again by the same code: a run that was interrupted goes on where it stopped, and `--jobs` processes share the
pieces. A training goes on from its last checkpoint there. Figure 5 is one training: one process is enough for it.
"""

import argparse
import collections
import contextlib
import fcntl
import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import ages
import repeats

from tempering.paper import FIGURES, Made, Setting

Piece = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="+", choices=[*FIGURES, "all"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the pieces")
    parser.add_argument("--parts", type=Path, default=repeats.ROOT / "build" / "parts", help="where pieces are kept")
    parser.add_argument("--out", type=Path, default=repeats.ROOT / "build" / "figures", help="for CSV and PNG files")
    arguments = parser.parse_args()
    is_worker = repeats.is_part()
    if not is_worker:
        repeats.use_all_cores()
    for name in FIGURES if "all" in arguments.figures else arguments.figures:
        own = "".join(str(ages.digest_of(module)) for module in _modules_of(name))
        parts = arguments.parts / f"{name}-{'quick' if arguments.quick else 'full'}-{ages.package_digest()}{own}"
        parts.mkdir(parents=True, exist_ok=True)
        if not is_worker:
            _in_workers(name, arguments)
        kept = keeper(parts, is_worker=is_worker)
        setting = Setting(repeats.DATA, arguments.quick, lambda line: print(line, flush=True), kept, run_dir=parts)
        made = FIGURES[name].make(setting)
        if not is_worker:
            keep(name, made, arguments.quick, arguments.out, parts)


def _in_workers(name: str, arguments: argparse.Namespace) -> None:
    """Have other processes make the pieces of a figure."""
    if arguments.jobs == 1:
        return
    command = [sys.executable, __file__, name, "--parts", str(arguments.parts), *["--quick"] * arguments.quick]
    workers = [
        subprocess.Popen(command, env=repeats.environment_of_part(number, arguments.jobs))
        for number in range(arguments.jobs)
    ]
    for worker in workers:
        worker.wait()  # pieces that a worker has not made are made here


def keeper(parts: Path, *, is_worker: bool) -> Callable[[str, Callable[[], Piece], bool], Piece]:
    """What makes a piece of a figure, or reads it if it was made before. A worker leaves those of others alone."""

    def kept(name: str, make: Callable[[], Piece], is_needed: bool) -> Piece:
        file = parts / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
        with file.with_suffix(".lock").open("w") as lock:
            if not file.exists() and not _is_ours(lock, waits=is_needed or not is_worker):
                return collections.defaultdict(lambda: [math.nan])
            if not file.exists():
                started = time.perf_counter()
                found = make()
                seconds = time.perf_counter() - started
                content = {"name": name, "machine": repeats.machine(), "seconds": seconds, "found": found}
                unfinished = file.with_suffix(f".{os.getpid()}")
                unfinished.write_text(json.dumps(content, ensure_ascii=False))
                unfinished.replace(file)
        return json.loads(file.read_text())["found"]

    return kept


def _is_ours(lock: IO[str], *, waits: bool) -> bool:
    """Whether this process may make a piece. The system opens the lock when its process is done, or is no more."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        return True
    return False


def _modules_of(name: str) -> tuple[str, str]:
    """The modules of one figure, which other tables do not depend on."""
    return FIGURES[name].__name__.partition(".")[2], "paper.runs"


def keep(name: str, made: Made, is_quick: bool, out: Path, parts: Path) -> None:
    """Write the numbers and the picture of one figure."""
    for row in made.rows:
        print(row, row.outcome, flush=True)
    about = repeats.about()
    about["code"] += "".join(f" {module}={ages.digest_of(module)}" for module in _modules_of(name))
    pieces = [json.loads(file.read_text()) for file in parts.glob("*.json")]
    about["seconds"] = max(about["seconds"], round(sum(piece["seconds"] for piece in pieces)))
    about["machine"] = "; ".join(sorted({piece["machine"] for piece in pieces})) or about["machine"]
    rows = [row._asdict() for row in made.rows]
    content = ages.sealed(
        {"about": about, "is_quick": is_quick, "title": made.title, "notes": made.notes, "rows": rows}
    )  # fmt: skip
    for directory in (repeats.RESULTS, repeats.FIGURES, out):
        directory.mkdir(parents=True, exist_ok=True)
    (repeats.RESULTS / f"paper_{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    made.write_picture(repeats.FIGURES / f"paper_{name}.svg")
    made.write_picture(out / f"paper_{name}.png")
    made.write_csv(out / f"paper_{name}.csv")


if __name__ == "__main__":
    main()
