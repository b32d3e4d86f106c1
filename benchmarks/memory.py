"""Peak memory of a run against its length: it must not grow with the number of sweeps.

    python benchmarks/memory.py [--sweeps 2000 20000] [MODEL]

Each run is a process of its own (100 chains, K = 100). Writes benchmarks/results/memory.json.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

import tempering.cli  # noqa: F401  what is measured, so that its code is recorded


def peak_megabytes(arguments: list[str]) -> float:
    """The largest resident set of one command-line run."""
    command = [sys.executable, "-m", "tempering", "estimate", *arguments, "--quiet", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise RuntimeError(f"{' '.join(command)} failed")
    return usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", help="as for tempering estimate; none: the example that is shipped")
    parser.add_argument("--sweeps", type=int, nargs="+", default=[2000, 20_000])
    arguments = parser.parse_args()
    peaks = {n: peak_megabytes([*arguments.model, "--sweeps", str(n)]) for n in arguments.sweeps}
    shortest = peaks[min(peaks)]
    print("| sweeps | peak MB | × shortest |")
    print("| ---: | ---: | ---: |")
    for sweeps, peak in peaks.items():
        print(f"| {sweeps} | {peak:.0f} | {peak / shortest:.3f} |")
    repeats.RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"about": repeats.about(), "peak_megabytes": peaks}
    (repeats.RESULTS / "memory.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
