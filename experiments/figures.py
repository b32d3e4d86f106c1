"""The figures of the paper in full: the same as `tempering reproduce`, with the results kept in the repository.

    python experiments/figures.py fig1 fig2 ... | all [--quick]

Writes benchmarks/results/paper_fig1.json and docs/figures/paper_fig1.svg, and so on. `tempering.paper` has the figures.
"""

import argparse
import json

import ages
import repeats

from tempering.paper import FIGURES, Made, Setting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="+", choices=[*FIGURES, "all"])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    repeats.use_all_cores()
    setting = Setting(repeats.DATA, arguments.quick, lambda line: print(line, flush=True))
    for name in FIGURES if "all" in arguments.figures else arguments.figures:
        keep(name, FIGURES[name].make(setting), arguments.quick)


def keep(name: str, made: Made, is_quick: bool) -> None:
    """Write the numbers and the picture of one figure."""
    rows = [row._asdict() | {"outcome": row.outcome} for row in made.rows]
    for row in rows:
        print(row, flush=True)
    about, own = repeats.about(), FIGURES[name].__name__.partition(".")[2]
    about["code"] += f" {own}={ages.digest_of(own)}"
    content = {
        "about": about, "is_quick": is_quick, "title": made.title, "notes": made.notes, "rows": rows,
    }  # fmt: skip
    repeats.RESULTS.mkdir(parents=True, exist_ok=True)
    (repeats.RESULTS / f"paper_{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    repeats.FIGURES.mkdir(parents=True, exist_ok=True)
    made.write_picture(repeats.FIGURES / f"paper_{name}.svg")


if __name__ == "__main__":
    main()
