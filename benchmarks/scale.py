"""What a block costs, in time and in bytes that cross between processes, as chains, rungs and units grow.

    python benchmarks/scale.py [--rounds 5]

Bytes are counted: they are the arrays that `run_chains` gathers. Times are fitted by least squares to the model of
docs/scale.md on some sizes, and checked on others. Writes benchmarks/results/scale.json.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import repeats

import tempering as tp
from tempering.sampling import run_chains
from tempering.stats import Keep, TemperingRecord

RECORD = Path(__file__).parent / "results" / "scale.json"
SWEEPS = 40  # of a block
MORE = 10  # blocks that are timed
# visible, hidden, rungs, chains; the model is fitted to the first sizes and checked on the others
FITTED = [
    (100, 50, 20, 50),
    (100, 50, 200, 50),
    (784, 100, 20, 50),
    (784, 500, 20, 50),
    (784, 500, 100, 100),
    (784, 500, 400, 50),
]
CHECKED = [(400, 200, 50, 50), (784, 500, 200, 50), (784, 250, 100, 200), (200, 400, 100, 100)]
COUNTED = [
    (784, 500, 20, 100),
    (784, 500, 100, 100),
    (784, 500, 100, 1000),
    (784, 500, 100, 4000),
    (100, 50, 100, 4000),
]


def set_up(visible: int, hidden: int, rungs: int, chains: int) -> tuple[tp.Ladder, Any, Any]:
    rng = np.random.default_rng(0)
    rbm = tp.RBM(rng.normal(0, 0.1, (visible, hidden)), rng.normal(-1, 1, visible), rng.normal(-1, 1, hidden))
    ladder = tp.Ladder.create(rbm.path("bias", tp.ladder.uniform_betas(rungs)))
    keys = jax.random.split(jax.random.key(0), chains)
    states = tp.Position(jax.vmap(ladder.path.sample_base)(keys), jnp.arange(chains, dtype=jnp.int32) % rungs)
    record = TemperingRecord.empty(ladder, any_range=False, keep=Keep(steps=True, tours=True))  # as `estimate` keeps
    return ladder, record, states


def blocks(size: tuple[int, ...], num_steps: int = SWEEPS) -> Any:
    ladder, record, states = set_up(*size)
    kernel = tp.SimulatedTempering(tp.BlockGibbs())
    how = {"num_steps": num_steps, "block_steps": SWEEPS, "joins_chains": True}
    return list(run_chains(jax.random.key(1), ladder, kernel, record, states, **how))


def num_bytes(tree: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


def seconds(size: tuple[int, ...], rounds: int) -> float:
    """Of a core, for a sweep of one chain: of processor time, which other programs disturb little."""
    blocks(size)
    found = []
    for _ in range(rounds):
        taken = []
        for number in (1, 1 + MORE):
            started = time.process_time()
            blocks(size, number * SWEEPS)
            taken.append(time.process_time() - started)
        found.append((taken[1] - taken[0]) / (MORE * SWEEPS * size[3]))
    return float(np.median(found))


def terms(size: tuple[int, ...]) -> list[float]:
    """Of the model of time: products of matrices, hidden units, rungs, and what every sweep has."""
    visible, hidden, rungs, _ = size
    return [4.0 * visible * hidden, float(hidden + visible), float(rungs), 1.0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    counted = []
    for size in COUNTED:
        (block,) = blocks(size)
        counted.append({"size": size, "record_bytes": num_bytes(block.record), "state_bytes": num_bytes(block.states)})
        print(counted[-1], flush=True)
    measured = {size: seconds(size, asked.rounds) for size in (*FITTED, *CHECKED)}
    weights = np.array([1 / measured[size] for size in FITTED])  # relative errors
    rows = np.array([terms(size) for size in FITTED])
    fitted = np.linalg.lstsq(rows * weights[:, None], np.ones(len(FITTED)), rcond=None)[0]
    checked = [
        {
            "size": size,
            "seconds": measured[size],
            "model": float(np.dot(terms(size), fitted)),
            "is_fitted": size in FITTED,
        }
        for size in measured
    ]
    for row in checked:
        print(row, flush=True)
    told = {
        "about": repeats.about(),
        "load": os.getloadavg()[0],
        "sweeps": SWEEPS,
        "bytes": counted,
        "coefficients": fitted.tolist(),
        "times": checked,
    }
    RECORD.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
