"""The evidence of five posteriors by this package and five others: errors, claimed errors, seconds.

    python benchmarks/evidence.py [--runs 5] [--seconds 10] [--limit 90] [--only "d = 10"] [--peers dynesty jaxns]

Every package has a process of its own for every posterior. Its first run compiles. It begins runs until it has made
`--runs` later ones, or `--seconds` have gone by; after `--limit` seconds it is ended. A package that did not end for 30
dimensions is not asked for 100. Packages that are not installed are named, with the reason. Writes
benchmarks/results/evidence.json.
"""

import argparse
import json
import sys
import time
from typing import Any

import evidence_peers
import evidence_problems
import numpy as np
import turns

FIRST_SEED = 7600  # not used in development


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each package and posterior, besides the first")
    parser.add_argument("--seconds", type=float, default=10.0, help="after which no run is begun")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds after which a process is ended")
    parser.add_argument("--only", default="", help="part of a posterior's name")
    parser.add_argument("--peers", nargs="+", default=list(evidence_peers.PEERS), choices=list(evidence_peers.PEERS))
    parser.add_argument("--alone", nargs=2, metavar=("PACKAGE", "POSTERIOR"), help="print the runs of one process")
    asked = parser.parse_args()
    if asked.alone:
        print_runs(*asked.alone, asked.runs, asked.seconds)
        turns.print_code()
        return
    problems = [name for name in evidence_problems.PROBLEMS if asked.only in name]
    truths = {name: evidence_problems.PROBLEMS[name]().log_z() for name in problems}
    rows: dict[str, dict[str, Any]] = {name: {} for name in problems}
    for name in problems:
        for peer in asked.peers:
            rows[name][peer] = row_of(peer, name, truths[name], asked, rows)
            print(name, peer, {k: v for k, v in rows[name][peer].items() if k != "runs"}, flush=True)
    versions = {peer: turns.version_of(evidence_peers.PEERS[peer].package) for peer in asked.peers}
    settings = {peer: evidence_peers.PEERS[peer].settings for peer in asked.peers}
    told = {"limit": asked.limit, "versions": versions, "settings": settings, "log_z": truths, "rows": rows}
    turns.write("evidence", told)


def print_runs(peer: str, name: str, num_runs: int, seconds: float) -> None:
    """A line of JSON for each run; the first one compiles, and what it imports counts."""
    begun = started = time.perf_counter()
    run = evidence_peers.PEERS[peer].make(name, evidence_problems.PROBLEMS[name]())
    for seed in range(FIRST_SEED, FIRST_SEED + num_runs + 1):
        log_z, std_error = run(seed)
        row = {"seed": seed, "log_z": log_z, "std_error": std_error, "seconds": time.perf_counter() - started}
        print(json.dumps(row), flush=True)
        started = time.perf_counter()
        if started - begun > seconds:
            return


def row_of(peer: str, name: str, truth: float, asked: argparse.Namespace, before: dict[str, Any]) -> dict[str, Any]:
    """What is known of one package on one posterior, and why there is no more."""
    smaller = before.get("normal, d = 30", {}).get(peer, {})
    if turns.version_of(evidence_peers.PEERS[peer].package) is None:
        return {"runs": [], "why": "not installed"}
    if name == "normal, d = 100" and not smaller.get("runs", [None]):
        return {"runs": [], "why": f"not tried: for d = 30 it {smaller['why']}"}
    options = ["--runs", str(asked.runs), "--seconds", str(asked.seconds)]
    runs, why = turns.alone(sys.argv[0], ["--alone", peer, name, *options], asked.limit)
    return summary(runs, truth) | {"runs": runs, "why": why}


def summary(runs: list[dict[str, Any]], truth: float) -> dict[str, Any]:
    """Errors over all runs; seconds of the first, and the median of the later ones."""
    if not runs:
        return {}
    errors = np.array([run["log_z"] for run in runs]) - truth
    claimed = [run["std_error"] for run in runs if run["std_error"] is not None]
    later = [run["seconds"] for run in runs[1:]]
    return {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "bias": float(errors.mean()),
        "claimed": float(np.sqrt(np.mean(np.square(claimed)))) if claimed else None,
        "first_seconds": runs[0]["seconds"],
        "seconds": float(np.median(later)) if later else None,
    }


if __name__ == "__main__":
    main()
