"""Is the joint answer of `method="auto"` as good as the best reading of the same runs?

    python experiments/auto_readings.py

Reads the runs of 1000 sweeps of the coverage study, benchmarks/results/coverage.json, which have the errors of all
readings of the same draws. Prints a table and writes benchmarks/results/auto_readings.json.
"""

import json
from typing import Any

import numpy as np
import repeats
from interval_coverage import READINGS

SWEEPS = 1000


def main() -> None:
    content = json.loads((repeats.RESULTS / "coverage.json").read_text())
    repeats.count_as_used(content["about"])
    runs = {name: [row for row in rows if row["budget"] == SWEEPS] for name, rows in content["rows"].items()}
    summaries = {name: summary(rows) for name, rows in runs.items() if rows}
    repeats.print_table(summaries)
    missing = [part for part in content["about"].get("missing", "").split("; ") if part.endswith(f", {SWEEPS}")]
    repeats.write("auto_readings", summaries, {}, "; ".join(missing))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Root mean squared errors, and what the answer claims."""
    readings = {name: rmse([row["readings"][name] for row in rows]) for name in READINGS}
    answer = rmse([row["error"] for row in rows])
    good = [row["at_levels"]["0.95"] for row in rows if row["verdict"] == "good"]
    return {
        "runs": len(rows),
        "auto": answer,
        **readings,
        "auto_to_best": answer / min(readings.values()),
        "rts_to_auto": readings["rts"] / answer,
        "mean_std_error": float(np.mean([row["std_error"] for row in rows])),
        "weight_of_rts": float(np.mean([row["weight_of_rts"] for row in rows])),
        "good": len(good),
        "good_covers": float(np.mean(good)) if good else None,
    }


def rmse(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


if __name__ == "__main__":
    main()
