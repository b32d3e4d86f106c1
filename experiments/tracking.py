"""Is log Z where the tracker says, while a small RBM learns? Exact log Z, by enumeration, after every update.

    python experiments/tracking.py [--updates 1500] [--seeds 4]

RBMs of 180 × 12 units learn the dna data from scratch by CD-1, PCD and tempered sampling, at a sensible learning rate
and at ten times that. Prints a table and writes benchmarks/results/tracking.json.
"""

import argparse
from typing import Any

import numpy as np
import repeats

from tempering.training import Trainer
from tempering.training.tracker import as_rbm

FIRST_SEED = 100  # apart from those on which anything was chosen
RATE = 0.03  # of gradient ascent with momentum 0.9: ten times that makes the likelihood of PCD fall again
SMALL = {"num_hidden": 12, "optimizer": "sgd", "num_rungs": 50, "batch_size": 100}
CHAINS = {"cd": {}, "pcd": {"num_chains": 200}, "tempered": {"num_chains": 200}}  # CD starts its own at the batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rate", type=float, default=RATE)
    arguments = parser.parse_args()
    with np.load(repeats.DATA / "dna_libsvm.npz") as archive:
        data = archive["train"]
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    rows, summaries = {}, {}
    for factor in (1, 10):
        for method, num_sweeps in (("cd", 1), ("pcd", 5), ("tempered", 5)):
            name = method if factor == 1 else f"{method}, {factor} × the rate"
            settings = SMALL | CHAINS[method] | {"method": method, "num_sweeps": num_sweeps}
            settings["learning_rate"] = factor * arguments.rate
            runs = [followed(data, arguments.updates, settings | {"seed": seed}) for seed in seeds]
            rows[name] = [summary(run) for run in runs]
            summaries[name] = summary([row for run in runs for row in run])
            print(name, summaries[name], flush=True)
    repeats.write("tracking", summaries, rows)


def followed(data: np.ndarray, num_updates: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What was said after each update, and what is true."""
    rows = []
    for update in Trainer(data, num_updates=num_updates, **settings).run():
        tracked, exact = update.tracked, as_rbm(update.parameters).exact_log_z()
        assert tracked is not None
        assert update.train is not None
        rows.append(
            {
                "error": tracked.log_z - exact,
                "std_error": tracked.std_error,
                "covers": tracked.interval[0] <= exact <= tracked.interval[1],
                "verdict": tracked.verdict.label,
                "is_anchored": tracked.is_anchored,
                "log_likelihood": update.train.value + tracked.log_z - exact,
            }
        )
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the updates at which an answer was given, and how often none was."""
    good = [row for row in rows if row["verdict"] == "good"]
    errors = np.array([row["error"] for row in good])
    return {
        "updates": len(rows),
        "good": len(good),
        "lost": sum(row["verdict"] == "lost" for row in rows),
        "found_anew": sum(row["is_anchored"] for row in rows),
        "covers_if_good": float(np.mean([row["covers"] for row in good])),
        "rmse_if_good": float(np.sqrt(np.mean(errors**2))),
        "mean_std_error": float(np.mean([row["std_error"] for row in good])),
        "worst_if_good": float(max(abs(row["error"]) / row["std_error"] for row in good)),
        "last_log_likelihood": rows[-1]["log_likelihood"],
    }


if __name__ == "__main__":
    main()
