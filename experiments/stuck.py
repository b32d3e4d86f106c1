"""Runs of Salakhutdinov's 784×500 RBM that are likely to get stuck: none that is far off may be called good.

    python experiments/stuck.py [--seeds 50]

Initial iterations that begin too short, the chain that keeps h, and a uniform base with 100 linear rungs, where chains
hardly pass one β (Appendix F of the paper). Prints a table and writes benchmarks/results/stuck.json.
"""

import argparse
from typing import Any

import numpy as np
import repeats
from figure3 import LOG_Z

import tempering as tp

DOUBLING = tp.InitialIterations(steps=12, growth=2.0, max_iterations=6)
PAPERS = tp.InitialIterations(steps=50, max_iterations=10, min_iterations=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    arguments = parser.parse_args()
    repeats.use_all_cores()
    rbm, base = tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()
    runs: dict[str, tuple[tp.AbstractModel, Any, dict[str, Any]]] = {
        "initial iterations of 12, 24, …, 384 sweeps": (rbm, base, {"warmup": DOUBLING}),
        "x = (v, h), 10 × 50 initial sweeps": (tp.models.JointRBM(rbm), base, {"warmup": PAPERS}),
        "uniform base, 2000 sweeps": (rbm, "uniform", {"num_sweeps": 2000}),
    }
    rows, summaries = {}, {}
    for name, (model, start, settings) in runs.items():
        rows[name] = repeats.repeat(model, start, LOG_Z, range(arguments.seeds), **settings)
        summaries[name] = summary(rows[name])
        print(name, summaries[name], flush=True)
    repeats.write("stuck", summaries, rows)


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """How wrong they are, how sure they claim to be, and what is said of them."""
    off = np.array([abs(run["error"]) for run in runs])
    claimed = np.array([run["std_error"] for run in runs])
    knots = [run["knot"] for run in runs if run["knot"] is not None]
    verdicts = sorted({run["verdict"] for run in runs})
    return {
        "runs": len(runs),
        "good": sum(run["verdict"] == "good" for run in runs),
        "median_off": float(np.median(off)),
        "largest_off": float(off.max()),
        "median_std_error": float(np.median(claimed)),
        "off_by_6": int(np.sum(off > 6 * claimed)),
        "verdicts": {verdict: sum(run["verdict"] == verdict for run in runs) for verdict in verdicts},
        "knots": len(knots),
        "median_knot": float(np.median(knots)) if knots else None,
    }


if __name__ == "__main__":
    main()
