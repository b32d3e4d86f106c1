"""What learned rung weights gain in runs towards a small error: `rung_weights="ends"` against the default, `"auto"`.

    python experiments/learned_weights.py [--seeds 20] [--jobs 1]

The errors that are asked for need several times the first look. Prints a table and writes
benchmarks/results/learned_weights.json.
"""

from typing import Any

import repeats
from problems import PROBLEMS, Problem

import tempering as tp
from tempering.paper.runs import REFERENCE_500

FIRST_SEED = 8300  # not used in development
WEIGHTS = ("ends", "auto")
LARGE = "RBM 784×500"
TARGETS = {
    LARGE: 0.1, "RBM 784×20": 0.03, "RBM 64×16, digits": 0.01, "Ising 8×8, 0.60": 0.015, "mixture, far modes": 0.01,
    "25 narrow modes": 0.02, "four unequal modes, 6-d": 0.02, "regression evidence": 0.005, "long ladder, 30-d": 0.01,
}  # fmt: skip


def main() -> None:
    parser = repeats.study_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="of each problem and weights")
    arguments = parser.parse_args()
    names = [name for name in TARGETS if arguments.only in name]
    if arguments.jobs > 1:
        options = [["--only", name, "--seeds", str(arguments.seeds)] for name in names]
        parts = repeats.by_processes(__file__, options, arguments.jobs)
    else:
        parts = [runs_of(name, arguments.seeds) for name in names]
    rows = {setting: runs for part in parts for setting, runs in part.items()}
    if arguments.rows is not None:
        repeats.dump(arguments.rows, rows)
        return
    summaries = {setting: repeats.default_summary(runs) for setting, runs in rows.items()}
    repeats.print_table(summaries)
    if len(names) == len(TARGETS):
        repeats.write("learned_weights", summaries, rows)


def runs_of(name: str, num_seeds: int) -> repeats.Rows:
    """By the weights, with the same seeds."""
    problem, target, found = make(name), TARGETS[name], {}
    for weights in WEIGHTS:
        setting = f"{name}, ± {target}, {weights}"
        found[setting] = [run(problem, target, weights, FIRST_SEED + i) for i in range(num_seeds)]
    return found


def make(name: str) -> Problem:
    if name != LARGE:
        return PROBLEMS[name].make()
    return Problem(tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base(), REFERENCE_500)


def run(problem: Problem, target: float, weights: str, seed: int) -> dict[str, Any]:
    """One run until its error is that small."""
    result = tp.estimate(problem.model, problem.base, target_error=target, rung_weights=weights, seed=seed)
    return repeats.row_of(result, problem.log_z)


if __name__ == "__main__":
    main()
