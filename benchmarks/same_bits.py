"""The same bits: one go, chunks of 100, kills and resumes, one or two devices; log Z to the last digit.

    python benchmarks/same_bits.py [--kills 20] [MODEL ARGUMENTS…]

A run of 400 sweeps of the shipped example by default. Each killed run gets SIGKILL at a random moment and is resumed,
to be killed again, until `--kills` kills have happened over as many runs as that takes; every finished run must print
the log Z of the uninterrupted one. Writes benchmarks/results/same_bits.json and exits with 1 on a difference.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

import tempering.cli  # noqa: F401  what is measured, so that its code is recorded

SWEEPS = ["--sweeps", "400", "--quiet", "--json"]


def command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "tempering", "estimate", *arguments, *SWEEPS]


def log_z(arguments: list[str]) -> str:
    """log Z as printed, digit for digit."""
    output = subprocess.run(command(arguments), capture_output=True, text=True, check=False).stdout
    return repr(json.loads(output)["log_z"])


def killed_until_done(arguments: list[str], longest: float, rng: random.Random) -> tuple[str, int]:
    """Resume after every kill; the last attempt is left alone once two kills have hit this run."""
    kills = 0
    with tempfile.TemporaryDirectory() as directory:
        while kills < 2:
            process = subprocess.Popen(
                command([*arguments, "--out", directory, "--resume"]), stdout=subprocess.PIPE, text=True
            )
            time.sleep(rng.uniform(0.1, 1.0) * longest)
            if process.poll() is not None:  # it was faster than the kill
                return repr(json.loads(process.communicate()[0])["log_z"]), kills
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        return log_z([*arguments, "--out", directory, "--resume"]), kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="of the moments of the kills; by default the clock")
    arguments, model = parser.parse_known_args()
    start = time.perf_counter()
    found = {"one go": log_z([*model, "--chunk", "1000000"])}
    seconds = time.perf_counter() - start
    found["chunks of 100"] = log_z([*model, "--chunk", "100"])
    for devices in (1, 2):
        found[f"{devices} device(s)"] = log_z([*model, "--devices", str(devices)])
    rng, kills = random.Random(arguments.seed), 0
    while kills < arguments.kills:
        answer, hits = killed_until_done(model, seconds, rng)
        kills += hits
        found[f"after {kills} kills"] = answer
    for name, value in found.items():
        print(f"{name:<20} {value}")
    is_same = len(set(found.values())) == 1
    print("identical" if is_same else "DIFFERENT")
    repeats.RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"about": repeats.about(), "identical": is_same, "log_z": found}
    (repeats.RESULTS / "same_bits.json").write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()
