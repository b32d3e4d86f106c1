"""Is the tracker right at the end of figure 5? Its log Z beside long runs of `estimate`, and what is certain.

    python experiments/tracker_end.py [--training DIR] [--chains 400] [--sweeps 20000]

The RBM of 180 × 500 units is that of `python experiments/figures.py fig5`, from whose checkpoint training is taken up;
without one it is trained here, for hours on a CPU. The long runs have seeds and chains of their own. The rows of
training add up to a lower bound of log Z, to which the tracker is held. Prints a table and writes
benchmarks/results/tracker_end.json.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import repeats

import tempering as tp
from tempering.paper import Setting
from tempering.paper.figure5 import dna_rows, run_settings
from tempering.training import TrainingRun
from tempering.training.tracker import device_parameters
from tempering.training.trainer import evaluated

SEEDS = (7800, 7801)  # not used in development


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", type=Path, default=repeats.ROOT / "build" / "tracker_end", help="its directory")
    parser.add_argument("--chains", type=int, default=400)
    parser.add_argument("--sweeps", type=int, default=20_000)
    asked = parser.parse_args()
    setting = Setting(repeats.DATA)
    train, valid = dna_rows(setting)
    with TrainingRun(train, valid, settings=run_settings(setting), directory=asked.training, resume=True) as run:
        for row in run:
            print(row, flush=True)
        outcome = run.outcome()
        log_mass = float(evaluated(device_parameters(outcome.rbm), run.trainer.evaluated_rows)[1])
    rows = {"tracker": [outcome.rows[-1]], "long runs": []}
    for seed in SEEDS:
        how = {"num_chains": asked.chains, "num_sweeps": asked.sweeps, "seed": seed, "progress": False}
        rows["long runs"].append(repeats.claim_of(tp.estimate(outcome.rbm, train, **how)))
        print(rows["long runs"][-1], flush=True)
    summaries = {"the end of figure 5": summary(rows, log_mass)}
    repeats.print_table(summaries)
    repeats.write("tracker_end", summaries, rows)


def summary(rows: dict[str, list[dict[str, Any]]], log_mass: float) -> dict[str, Any]:
    """The tracker's answer, that of the long runs together, and the bound that both are held to."""
    tracked, long_runs = rows["tracker"][0], rows["long runs"]
    claimed = np.inf if tracked["std_error"] is None else tracked["std_error"]  # none where it is not to be believed
    log_z = float(np.mean([run["log_z"] for run in long_runs]))
    error = float(np.linalg.norm([run["std_error"] for run in long_runs]) / len(long_runs))
    return {
        "update": tracked["update"],
        "tracked": tracked["log_z"],
        "tracked_error": tracked["std_error"],
        "verdict": tracked["verdict"],
        "known_mass": log_mass,
        "ais": tracked["ais_log_z"],
        "ais_error": tracked["ais_std_error"],
        "long_runs": log_z,
        "long_runs_error": error,
        "long_runs_verdicts": sorted({run["verdict"] for run in long_runs}),
        "apart_in_errors": (tracked["log_z"] - log_z) / claimed,
    }


if __name__ == "__main__":
    main()
