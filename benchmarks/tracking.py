"""What tracking costs: updates of the same training with and without it, side by side in one run.

    python benchmarks/tracking.py [--rounds 7] [--updates 3] [--chains 2000]

An RBM of 180 × 500 units on data of dna's size, 25 sweeps of 2000 chains between updates, as in Section 4.4 of the
paper. Tempered training needs log Ẑ_k at every rung for its chains, tracked or not; tracking adds the likelihood of all
rows of data with its band, and waits for it after every update. PCD has as many chains and sweeps and no
temperatures; tracking gives it chains of the tracker's own. The rows take turns, round after round.
Writes benchmarks/results/tracking_cost.json.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

from tempering.training.trainer import Trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=3, help="in each round")
    parser.add_argument("--chains", type=int, default=2000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    data, valid = ((rng.random((rows, 180)) < 0.25).astype(np.float32) for rows in (1400, 600))
    trainers = {
        f"{method}, {'tracked' if is_tracked else 'not tracked'}": Trainer(
            data, valid=valid, method=method, is_tracked=is_tracked, num_chains=arguments.chains, num_hidden=500
        )
        for method in ("tempered", "pcd")
        for is_tracked in (True, False)
    }
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for number in range(arguments.rounds + 1):
        for name, trainer in trainers.items():
            started = time.perf_counter()
            for _ in range(arguments.updates):
                trainer.step()
            jax.block_until_ready(trainer.state.parameters)
            if number:  # the first round compiles
                seconds[name].append((time.perf_counter() - started) / arguments.updates)
    rows = {
        name: {
            "updates_per_second": float(1 / np.median(taken)),
            "to_not_tracked": ratio(seconds[name.split(",")[0] + ", not tracked"], taken),
            "to_pcd": ratio(seconds["pcd, not tracked"], taken),
        }
        for name, taken in seconds.items()
    }
    for name, row in rows.items():
        print(name, row)
    file = repeats.RESULTS / "tracking_cost.json"
    file.write_text(json.dumps({"about": repeats.about(), "rows": rows}, indent=1) + "\n")


def ratio(reference: list[float], taken: list[float]) -> float:
    """Updates a second, those of the reference being 1."""
    return float(np.median(np.array(reference) / np.array(taken)))


if __name__ == "__main__":
    main()
