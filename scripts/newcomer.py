"""How long a newcomer waits: from a clone to log Z with its picture, in a directory that nothing else uses.

    python scripts/newcomer.py             # measures, records, and writes the table of docs/start/first_estimate.md
    python scripts/newcomer.py --table     # writes the table from the record alone

The commands are those of the README. Packages are downloaded in a step of their own, and `make demo` then installs
them from there, so that its time is that of the machine and not of the network. Compiled programs and pip's cache of
wheels are not those of the user, so everything is made as for the first time. A test holds the table to the record.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "results" / "newcomer.json"
PAGE = ROOT / "docs" / "start" / "first_estimate.md"
START, END = "<!-- made by scripts/newcomer.py -->", "<!-- end of what scripts/newcomer.py makes -->"
BUILD = ("hatchling>=1.25", "editables")  # what pip needs to install a clone
MOST_SECONDS = 300  # without downloads: what is promised on 2 cores


def timed(command: list[str], folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """Run a command; seconds by the clock, and seconds that it kept processors busy."""
    print("$", " ".join(command), flush=True)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.monotonic() - began, 1), "computing": round(busy, 1)}


def walked(folder: Path) -> dict[str, dict[str, float]]:
    """All steps by name, in the order in which a newcomer takes them."""
    clone, wheels = folder / "tempering", folder / "wheels"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JAX", "XLA"))}
    online = kept | {"XDG_CACHE_HOME": str(folder / "cache")}
    offline = online | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), *BUILD, f"{clone}[plots]"]
    make = ["make", f"PYTHON={sys.executable}"]
    steps = {"clone": timed(["git", "clone", "--quiet", str(ROOT), str(clone)], folder, online)}
    steps["download"] = timed(fetch, folder, online)
    steps["install"] = timed([*make, ".venv/demo"], clone, offline)
    steps["estimate"] = timed([*make, "demo"], clone, offline)
    check_page((clone / "demo.html").read_text())
    return steps


def check_page(text: str) -> None:
    """End where the report that a newcomer opens lacks the answer, its verdict or its pictures."""
    for part in ("<h1>log Z = ", 'class="verdict', "<svg"):
        if part not in text:
            sys.exit(f"demo.html has no {part}")


def measured() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        load = os.getloadavg()[0]
        steps = walked(Path(folder))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    about = {
        "command": "python scripts/newcomer.py", "commit": commit.strip(), "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load": round(load, 1),
    }  # fmt: skip
    total = sum(step["seconds"] for name, step in steps.items() if name != "download")
    return {"about": about, "steps": steps, "seconds_without_downloads": round(total, 1)}


def table(record: dict[str, Any]) -> str:
    about, steps = record["about"], record["steps"]
    told = {
        "clone": "clone", "download": "the packages, downloaded", "install": "`.venv`, and the packages installed",
        "estimate": "log Z of the example, and its report",
    }  # fmt: skip
    rows = [
        f"| {text} | {steps[name]['seconds']:.0f} | {steps[name]['computing']:.0f} |" for name, text in told.items()
    ]
    total = f"| all but the download | {record['seconds_without_downloads']:.0f} | |"
    return "\n".join(
        [
            f"How long this took: `{about['command']}` at {about['commit']}, {about['date']}, on {about['machine']}, "
            f"with a load of {about['load']:g} from other programs when it began.",
            "",
            "| step | seconds | of these, computing |\n| --- | --- | --- |",
            *rows,
            total,
        ]
    )


def page_with(text: str, record: dict[str, Any]) -> str:
    """The page with its table made anew."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table(record)}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="write the table from the record alone")
    if not parser.parse_args().table:
        record = measured()
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    record = json.loads(RECORD.read_text())
    PAGE.write_text(page_with(PAGE.read_text(), record))
    print(table(record))
    if record["seconds_without_downloads"] > MOST_SECONDS:
        sys.exit(f"more than {MOST_SECONDS} seconds without downloads")


if __name__ == "__main__":
    main()
