"""Do easy models end early? Evaluations for the same claimed error, by this code and by that of an earlier commit.

    python experiments/easy_models.py [--seeds 10] [--before b8ddbd7]

The earlier code runs its default, which had a fixed length, in a checkout of its own. This code is then asked for the
claimed error that the earlier one reached. The commit is the last one before runs ended by themselves. Prints a table
and writes benchmarks/results/easy_models.json. Needs NumPyro and the history of the repository.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import tempering as tp

ROOT = Path(__file__).resolve().parents[1]
FIRST_SEED = 7500  # not used in development
BEFORE = "b8ddbd7"
_GRADIENTS_BEFORE = 11  # of a trajectory of ten leaps, as the earlier code computed them


def eight_schools() -> Any:
    """Rubin's coaching data, non-centred: N(0, 5²) and half-Cauchy(5)."""
    import numpyro
    import numpyro.distributions as dist

    effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def model():
        mean, scale = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("scale", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            school = numpyro.sample("school", dist.Normal(0, 1))
            numpyro.sample("effect", dist.Normal(mean + scale * school, errors), obs=effects)

    return tp.from_numpyro(model)


def models() -> dict[str, tuple[Any, Any, bool]]:
    """A model, its base, and whether it is moved by gradients."""
    rbm, frequencies = tp.load_example()
    mixture = tp.paper_mixture if hasattr(tp, "paper_mixture") else tp.models.paper_mixture
    return {
        "the demo's RBM": (rbm, frequencies, False),
        "the paper's mixture": (mixture(), None, True),
        "eight schools": (eight_schools(), None, True),
    }


def measure(seeds: range, targets: dict[str, float] | None) -> dict[str, list[dict[str, Any]]]:
    """One row per seed; without target errors, by the earlier code."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, (model, base, has_gradients) in models().items():
        for seed in seeds:
            asked = {} if targets is None else {"target_error": targets[name]}
            result = tp.estimate(model, base, seed=seed, **asked)
            if targets is None:
                num_moves = result.num_chains * (result.num_warmup_sweeps + result.num_sweeps)
                num_evaluations = num_moves * (_GRADIENTS_BEFORE if has_gradients else 1)
            else:
                num_evaluations = sum(result.evaluations)
            rows.setdefault(name, []).append({
                "seed": seed, "log_z": result.log_z, "std_error": result.std_error, "verdict": result.verdict.label,
                "num_evaluations": num_evaluations,
            })  # fmt: skip
    return rows


def measured_before(commit: str, num_seeds: int) -> dict[str, list[dict[str, Any]]]:
    """The rows of the earlier code, from a checkout that is removed afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        checkout = Path(directory) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", checkout, commit], cwd=ROOT, check=True)
        try:
            command = [sys.executable, __file__, "--measure", "--seeds", str(num_seeds)]
            environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", checkout], cwd=ROOT, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def summary(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over seeds."""

    def median(rows: list[dict[str, Any]], key: str) -> float:
        return float(np.median([row[key] for row in rows]))

    return {
        "runs": len(now),
        "std_error_before": median(before, "std_error"),
        "std_error_now": median(now, "std_error"),
        "evaluations_before": int(median(before, "num_evaluations")),
        "evaluations_now": int(median(now, "num_evaluations")),
        "ratio": median(now, "num_evaluations") / median(before, "num_evaluations"),
        "good": sum(row["verdict"] == "good" for row in now),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--before", default=BEFORE)
    parser.add_argument("--measure", action="store_true", help="print rows of the code that is imported, and no more")
    arguments = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    if arguments.measure:
        print(json.dumps(measure(seeds, None)))
        return
    import repeats  # of this code

    before = measured_before(arguments.before, arguments.seeds)
    targets = {name: float(np.median([row["std_error"] for row in rows])) for name, rows in before.items()}
    now = measure(seeds, targets)
    summaries = {name: summary(before[name], now[name]) for name in now}
    repeats.print_table(summaries)
    earlier = {f"{name}, at {arguments.before}": rows for name, rows in before.items()}
    repeats.write("easy_models", summaries, now | earlier)


if __name__ == "__main__":
    main()
