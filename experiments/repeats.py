"""Repeats of one estimate over seeds, compared with a known log Z. Used by the experiments; defines no algorithm."""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ages
import jax
import numpy as np

import tempering as tp

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = ROOT / "docs" / "figures"
_STARTED = time.monotonic()
_SHARE = "STUDY_SHARE"  # in the environment of a process that does a part of a study: its number, and of how many
_used_by_parts: set[str] = set()  # code of processes that made a part of the rows
_machines_of_parts: set[str] = set()
Rows = dict[str, list[dict[str, Any]]]  # the runs of each setting
LEVELS = (0.5, 0.8, 0.95)  # of the intervals whose coverage is counted


def environment_of_part(number: int, num_jobs: int) -> dict[str, str]:
    """For one of the processes that share a study: its cores, and of an accelerator's memory what it needs."""
    compiled = {"JAX_COMPILATION_CACHE_DIR": str(ROOT / "build" / "compiled")}  # each program by one of them
    return compiled | os.environ | {_SHARE: f"{number} {num_jobs}", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def is_part() -> bool:
    """Whether this process does a part of a study for another one."""
    return _SHARE in os.environ


def _take_share_of_cores() -> None:
    """Before JAX looks how many there are."""
    if is_part() and hasattr(os, "sched_setaffinity"):
        number, num_jobs = map(int, os.environ[_SHARE].split())
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[number % min(num_jobs, len(cores)) :: num_jobs])


_take_share_of_cores()


def use_all_cores() -> None:
    """As the command line does: one CPU device a core."""
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)


def mnist_base() -> np.ndarray:
    """Pixel frequencies of the binarized MNIST that the RBMs were trained on."""
    return tp.load_data(DATA / "mnist_binarized.npz", num_visible=784).mean(axis=0)


def repeat(model: tp.AbstractModel, base: Any, truth: float, seeds: range, **settings: Any) -> list[dict[str, Any]]:
    """One row per seed: the error, the claimed error, whether intervals cover, the verdict."""
    rows = []
    for result in tp.estimate_many(model, base, seeds=seeds, **settings):
        held = {str(level): _holds(result.log_z_by_rung.interval_at(level), truth) for level in LEVELS}
        rows.append(
            {
                "seed": result.seed,
                "error": result.log_z - truth,
                "std_error": result.std_error,
                "covers": held["0.95"],
                "at_levels": held,
                "verdict": result.verdict.label,
                "round_trips": result.diagnosis.round_trips_per_chain,
                "knot": _knot(result),
                "annealed_error": None if result.annealed is None else result.annealed.log_z - truth,
                "num_warmup_sweeps": result.num_warmup_sweeps,
                "seconds": result.seconds,
            }
        )
    return rows


def row_of(result: tp.Result, truth: float) -> dict[str, Any]:
    """One run with default settings: its error, the claimed one, whether the interval covers, the verdict, the cost."""
    return against(truth, claim_of(result))


def against(truth: float, claim: dict[str, Any]) -> dict[str, Any]:
    """What a run claims, with its error and whether the interval covers."""
    return claim | {"error": claim["log_z"] - truth, "covers": _holds(claim["interval"], truth)}


def claim_of(result: tp.Result) -> dict[str, Any]:
    """One run with default settings: its answer, the claimed error and interval, the verdict, the cost."""
    return {
        "seed": result.seed,
        "log_z": result.log_z,
        "std_error": result.std_error,
        "interval": result.interval,
        "verdict": result.verdict.label,
        "round_trips": result.diagnosis.round_trips_per_chain,
        "length": None if result.length is None else result.length.root_kl,
        "num_sweeps": result.num_sweeps,
        "num_warmup_sweeps": result.num_warmup_sweeps,
        "num_evaluations": sum(result.evaluations),
        "seconds": result.seconds,
    }


def default_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a table shows of runs with default settings."""
    errors = np.array([row["error"] for row in rows])
    return {
        "runs": len(rows),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "bias": float(errors.mean()),
        "good": sum(row["verdict"] == "good" for row in rows),
        "covered": sum(row["covers"] for row in rows),
        "sweeps": int(np.median([row["num_sweeps"] for row in rows])),
        "gradients": int(np.median([row["num_evaluations"] for row in rows])),
        "seconds": seconds(rows),
    }


def _knot(result: tp.Result) -> float | None:
    """Where chains that are stuck are held up."""
    rungs = result.diagnosis.rung_chain
    return rungs.knots[0].beta if rungs is not None and rungs.knots else None


def seconds(rows: list[dict[str, Any]]) -> float:
    """Of a run, without those that compiled."""
    return float(np.median([row["seconds"] for row in rows]))


def median(rows: list[dict[str, Any]], name: str) -> float | None:
    """Over the runs that have it."""
    known = [row[name] for row in rows if row[name] is not None]
    return float(np.median(known)) if known else None


def _holds(interval: tuple[float, float], truth: float) -> bool:
    return interval[0] <= truth <= interval[1]


def pyplot() -> Any:
    """matplotlib, without a screen."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tempering"  # the same picture gives the same file
    import matplotlib.pyplot

    return matplotlib.pyplot


def save(figure: Any, name: str) -> None:
    """Keep a picture beside the documentation."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a table shows of the repeats."""
    errors = np.array([row["error"] for row in rows])
    good = [row for row in rows if row["verdict"] == "good"]
    return {
        "runs": len(rows),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "bias": float(errors.mean()),
        "mean_std_error": float(np.mean([row["std_error"] for row in rows])),
        "coverage": float(np.mean([row["covers"] for row in rows])),
        "good": len(good),
        "good_coverage": float(np.mean([row["covers"] for row in good])) if good else None,
        "good_worst": max((abs(row["error"]) for row in good), default=None),
        "annealed_rmse": _rmse([row["annealed_error"] for row in rows]),
        "warmup_sweeps": rows[0]["num_warmup_sweeps"],
        "seconds_per_run": float(np.mean([row["seconds"] for row in rows])),
    }


def compared_rows(comparison: tp.Comparison) -> Rows:
    """The runs of each method in a comparison with a known log Z, one a seed."""
    rows, truth = Rows(), comparison.truth
    assert truth is not None
    for side in comparison.repeats:
        for entry in side.entries:
            run = {
                "seed": side.seed,
                "error": entry.answer.log_z - truth,
                "std_error": entry.answer.std_error,
                "covers": _holds(entry.answer.interval, truth),
                "verdict": entry.verdict.label,
                "sweeps": entry.num_sweeps,
                "seconds": entry.seconds,
            }
            rows.setdefault(entry.method.name, []).append(run)
    return rows


def compared(rows: Rows) -> dict[str, dict[str, Any]]:
    """A row per method; where the name goes on after a comma, RMSEs are compared with RTS of the same ending."""
    summaries = {}
    for name, runs in rows.items():
        errors = np.array([run["error"] for run in runs])
        rts = rows["".join(["rts", *name.partition(",")[1:]])]
        summaries[name] = {
            "runs": len(runs),
            "rmse": float(np.sqrt(np.mean(errors**2))),
            "rmse_to_rts": float(np.sqrt(np.mean(errors**2) / np.mean([run["error"] ** 2 for run in rts]))),
            "bias": float(errors.mean()),
            "bias_std_error": float(errors.std(ddof=1) / len(errors) ** 0.5),
            "mean_std_error": float(np.mean([run["std_error"] for run in runs])),
            "coverage": float(np.mean([run["covers"] for run in runs])),
            "good": sum(run["verdict"] == "good" for run in runs),
            "sweeps": runs[0]["sweeps"],
            "seconds": float(np.mean([run["seconds"] for run in runs])),
        }
    return summaries


def print_table(summaries: dict[str, dict[str, Any]]) -> None:
    """One line per setting."""
    names = list(next(iter(summaries.values())))
    print("| setting | " + " | ".join(name.replace("_", " ") for name in names) + " |")
    print("| --- |" + " ---: |" * len(names))
    for setting, values in summaries.items():
        print(f"| {setting} | " + " | ".join(_shown(values[name]) for name in names) + " |", flush=True)


def write(
    name: str, summaries: dict[str, dict[str, Any]], rows: dict[str, list[dict[str, Any]]], missing: str = ""
) -> Path:
    """Keep the table with where it came from, and with what it lacks."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{name}.json"
    origin = about() | ({"missing": missing} if missing else {})
    file.write_text(_lines(ages.sealed({"about": origin, "summaries": summaries, "rows": rows})))
    return file


def _lines(content: dict[str, Any]) -> str:
    """JSON with each row of a table on one line."""
    head = json.dumps({name: content[name] for name in ("about", "summaries")}, indent=1)[:-2]
    tables = [
        f"  {json.dumps(name)}: [\n" + ",\n".join(f"   {json.dumps(row)}" for row in rows) + "\n  ]"
        for name, rows in content["rows"].items()
    ]
    return head + ',\n "rows": {\n' + ",\n".join(tables) + "\n }\n}\n"


def study_parser(doc: str | None) -> argparse.ArgumentParser:
    """The arguments of a study whose problems may have a process each, see `in_processes`."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--rows", type=Path, help="write the runs there, and no table")
    return parser


def seeds_parser(doc: str | None, num_seeds: int) -> argparse.ArgumentParser:
    """The arguments of a study whose seeds may be shared out to processes, see `shared_out`."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--seeds", type=int, default=num_seeds)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--rows", type=Path, help="write the runs there, and no table")
    return parser


def shared_out(script: str, asked: argparse.Namespace, options: list[str], runs_of: Callable[[range], Rows]) -> Rows:
    """All rows of a study: by processes of their own, or here; where `--rows` is given, they are written there."""
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    if asked.jobs > 1:
        return in_seed_ranges(script, seeds, asked.jobs, options)
    if asked.rows is None:  # else other processes have the other cores
        use_all_cores()
    rows = runs_of(seeds)
    if asked.rows is not None:
        dump(asked.rows, rows)
    return rows


def in_processes(script: str, names: list[str], num_jobs: int, options: list[str]) -> dict[str, Any]:
    """The rows of each problem by a process of its own, a few at a time: `script --only NAME --rows FILE OPTIONS`."""
    parts = by_processes(script, [["--only", name, *options] for name in names], num_jobs)
    return {name: part[name] for name, part in zip(names, parts, strict=True)}


def in_seed_ranges(script: str, seeds: range, num_jobs: int, options: list[str]) -> Rows:
    """All rows, the seeds shared out to processes: `script --first-seed N --seeds M --rows FILE OPTIONS`."""
    ranges = [part for part in np.array_split(seeds, num_jobs) if part.size]
    asked = [["--first-seed", str(part[0]), "--seeds", str(part.size), *options] for part in ranges]
    parts = by_processes(script, asked, num_jobs)
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def by_processes(
    script: str, asked: list[list[str]], num_jobs: int, *, only_finished: bool = False
) -> list[dict[str, Any]]:
    """The rows of each part by a process of its own, a few at a time: `script --rows FILE OPTIONS`.

    Each part is kept when it is done, so that a study that was interrupted goes on where it stopped. With
    `only_finished` nothing is run, and what is missing is left out.
    """
    digest = hashlib.sha256(f"{ages.package_digest()} {Path(script).read_text()}".encode()).hexdigest()[:12]
    directory = ROOT / "build" / "parts" / f"{Path(script).stem}-{digest}"
    directory.mkdir(parents=True, exist_ok=True)

    def one(number: int) -> dict[str, Any]:
        file = directory / f"{hashlib.sha256(' '.join(asked[number]).encode()).hexdigest()[:12]}.json"
        if only_finished and not file.exists():
            return {}
        if not file.exists():
            begun = file.with_suffix(".begun")
            command = [sys.executable, script, "--rows", str(begun), *asked[number]]
            subprocess.run(command, check=True, env=environment_of_part(number, num_jobs))
            begun.rename(file)
        return parse(file)

    with ThreadPoolExecutor(num_jobs) as pool:
        return list(pool.map(one, range(len(asked))))


def dump(file: Path, rows: dict[str, Any]) -> None:
    """Rows of a part of a study, with the code and the machines that made them, for who puts them together."""
    code, machines = {*ages.code_record().split(), *_used_by_parts}, {machine(), *_machines_of_parts}
    file.write_text(json.dumps({"rows": rows, "code": " ".join(sorted(code)), "machine": "; ".join(sorted(machines))}))


def parse(file: Path) -> dict[str, Any]:
    """The rows that `dump` wrote; their code counts as used, and so does their machine."""
    content = json.loads(file.read_text())
    count_as_used(content)
    return content["rows"]


def count_as_used(about: dict[str, Any]) -> None:
    """Take over the code and the machine of other runs, whose rows a table is made of."""
    _used_by_parts.update(about["code"].split())
    _machines_of_parts.update(about["machine"].split("; "))


def about() -> dict[str, Any]:
    """The command, the commit, the machine's kind, how long it took, and the code that was used."""
    script = Path(sys.argv[0]).resolve()
    return {
        "command": " ".join(["python", str(script.relative_to(ROOT)), *map(without_directories, sys.argv[1:])]),
        "commit": os.environ.get("COMMIT") or commit(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": "; ".join(sorted(_machines_of_parts or {machine()})),
        "seconds": round(time.monotonic() - _STARTED),
        "code": " ".join(sorted({*ages.code_record().split(), *_used_by_parts})),
    }


def without_directories(argument: str) -> str:
    """An argument of a command; of an absolute path only the name, since other machines have other directories."""
    return Path(argument).name if Path(argument).is_absolute() else argument


def machine() -> str:
    """The kind of this machine."""
    return f"{platform.machine()}, {os.cpu_count()} cores, {jax.devices()[0].device_kind}, jax {jax.__version__}"


def commit() -> str:
    """The commit of this clone. A copy without its history is told by the variable COMMIT."""
    return _git("rev-parse", "--short", "HEAD") + (" with changes" if _git("diff", "HEAD", "--", "src") else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _rmse(errors: list[float | None]) -> float | None:
    known = [error for error in errors if error is not None]
    return float(np.sqrt(np.mean(np.square(known)))) if known else None


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
