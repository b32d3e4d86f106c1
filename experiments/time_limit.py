"""Does `max_seconds=5` end within 10 s, whatever the model? Each model in a process of its own, compiling included.

    python experiments/time_limit.py [--only "Ising"]

Prints a table and writes benchmarks/results/time_limit.json. Meant for a machine that does nothing else.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import hard_posteriors
import long_ladders
import repeats

import tempering as tp

LIMIT = 5.0
MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "RBM 64×16, the demo's": tp.load_example,
    "RBM 784×500": lambda: (tp.load(repeats.DATA / "rbm_mnist_cd25_500.npz"), repeats.mnist_base()),
    "Ising 64×64": lambda: (tp.Ising.square(64, 64, 0.44), None),
    "long ladder, 10-d": lambda: (long_ladders.posterior(10), None),
    "long ladder, 1000-d": lambda: (long_ladders.posterior(1000), None),
    **{
        name: lambda make=make: (make().model, None)
        for name, make in hard_posteriors.PROBLEMS.items()
        if "normal" not in name
    },
}


def main() -> None:
    arguments = repeats.study_parser(__doc__).parse_args()
    names = [name for name in MODELS if arguments.only in name]
    if arguments.rows is not None:
        repeats.dump(arguments.rows, {name: [timed(name)] for name in names})
        return
    rows = {name: in_a_process(name) for name in names}
    summaries = {name: part[0] for name, part in rows.items()}
    repeats.print_table(summaries)
    if len(names) == len(MODELS):
        repeats.write("time_limit", summaries, rows)


def in_a_process(name: str) -> list[dict[str, Any]]:
    """One row, from a process that has compiled nothing yet."""
    file = repeats.ROOT / "build" / "time_limit.json"
    file.parent.mkdir(exist_ok=True)
    subprocess.run([sys.executable, __file__, "--only", name, "--rows", str(file)], check=True)
    return repeats.parse(file)[name]


def timed(name: str) -> dict[str, Any]:
    """How long a run with a limit takes, and what it says."""
    model, base = MODELS[name]()
    started = time.perf_counter()
    result = tp.estimate(model, base, max_seconds=LIMIT, seed=7600, progress=False)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds, "num_sweeps": result.num_sweeps, "verdict": result.verdict.label,
        "finding": json.loads(result.to_json())["findings"][0]["seen"] if result.diagnosis.findings else "",
    }  # fmt: skip


if __name__ == "__main__":
    main()
