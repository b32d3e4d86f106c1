"""Write docs/measured/results.md from the JSON files in benchmarks/results.

    python benchmarks/report.py

`make study` runs the studies first; a test checks that the page is what this script makes of the committed files.
"""

import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
import ages
import peer_tables

from tempering.paper import Row
from tempering.paper.runs import REFERENCE_500

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "measured" / "results.md"

INTRODUCTION = """# Measured

This page shows how accurate the estimates are, how often the intervals hold, and what everything costs. It is for
readers who want evidence. Every table was made by a script in the repository, which is named above it together with the
commit and the kind of machine; what the paper published was read off its figures by eye. A table that was put together
from several runs, or was made before the code it measures was changed, says so there. `make study` makes again what is
not up to date, and goes on where it was interrupted.

*Claimed error* is the standard error that a run reports. *Coverage* is how often the interval contains the truth.
*Good* counts the runs whose [verdict](../guides/verdicts.md) is good.
"""


def page() -> str:
    sections = [
        INTRODUCTION,
        if_run("coverage", coverage),
        if_run("long_ladders", long_ladders),
        if_run("hard_posteriors", hard_posteriors),
        if_run("auto_readings", auto_readings),
        if_run("easy_models", easy_models),
        if_run("time_limit", time_limit),
        accuracy(
            "Three RBMs with exact log Z",
            "small_rbms",
            "MNIST RBMs with 10, 15 and 20 hidden units, 100 chains, 2000 sweeps, against log Z by enumeration.",
        ),
        accuracy(
            "Salakhutdinov's 784×500 RBM",
            "figure3",
            f"Figure 3 (left) of the paper, 100 chains and 100 rungs, against log Z = {REFERENCE_500}, a mean over "
            "runs that are many and long. The paper's values are read off its figure, to about 10 %.",
        ),
        if_run("reference", reference),
        if_run("many_chains", many_chains),
        if_run("ais_needs", ais_needs),
        if_run("stuck", stuck),
        if_run("witnesses", witnesses),
        if_run("initial_iterations", initial_iterations),
        if_run("figure4", figure4),
        accuracy(
            "The weights of the rungs",
            "prior",
            "The same RBM, 1000 sweeps, under the paper's uniform r_k, the default `ends:0.1`, and heavier ends: less "
            "noise (the claimed error), but a longer memory of the start (the bias).",
        ),
        if_run("learned_weights", learned_weights),
        compared(
            "Every method side by side",
            "side_by_side",
            "The MNIST RBM with 20 hidden units, 100 chains, as many sweeps for each method, warm-up included; log Z "
            "by enumeration. Methods that read a tempered run read the same one, so their errors go together.",
        ),
        compared(
            "RTS and AIS at matched cost",
            "matched_cost",
            f"Salakhutdinov's 784×500 RBM, 100 chains, log Z = {REFERENCE_500}. Sweeps of RTS and of mixed Ẑ include "
            "the warm-up; AIS anneals in as many steps.",
        ),
        exact_answers(),
        if_run("tracking", tracking),
        if_run("mnist_training", mnist_training),
        if_run("tracking_cost", tracking_cost),
        *(if_run(f"paper_fig{number}", partial(reproduced, f"paper_fig{number}")) for number in range(1, 9)),
        if_run("tracker_end", tracker_end),
        beside_others("evidence", peer_tables.evidence),
        beside_others("rmse_time", peer_tables.rmse_time),
        beside_others("mbar", peer_tables.mbar),
        beside_others("gibbs", peer_tables.cost),
        beside_others("growth", peer_tables.growth),
        if_run("hmc", hmc),
        if_run("lattice", lattice),
        if_run("first_calls", first_calls),
        if_run("gpu_sweeps", gpu_sweeps),
        if_run("gpu_calls", gpu_calls),
        if_run("gpu_tests", gpu_tests),
        if_run("processes", processes),
        memory(),
        bits(),
        faults(),
    ]
    return "\n".join(section for section in sections if section)


def if_run(name: str, make: Callable[[], str]) -> str:
    """The section of a study, or nothing where it has not been run."""
    return make() if (RESULTS / f"{name}.json").exists() else ""


def long_ladders() -> str:
    return by_default(
        "Long ladders",
        "long_ladders",
        "Prior N(0, 1)^d, likelihood N(x; m, 0.1²), by `tp.estimate(posterior)` with default settings, against exact "
        "evidence. BlackJAX: adaptive tempered SMC with 1000 particles and five HMC trajectories of ten leaps a step. "
        "PyMC: `sample_smc` with its defaults.",
    )


def learned_weights() -> str:
    return by_default(
        "Rung weights that are learned",
        "learned_weights",
        "Runs until the error is as small as the row says, with the weights `ends`, and with `auto`, the default, "
        "which starts again with [learned weights](../guides/ladders.md#weights-that-are-learned) where that pays.",
    )


def hard_posteriors() -> str:
    return by_default(
        "Posteriors that nobody has tuned for",
        "hard_posteriors",
        "`tp.estimate(posterior)` with default settings. The Gaussian process is compared with a sum over a grid, the "
        "normal posteriors with formulas, the others with a run of the same kind that is 20 times as long. "
        "`experiments/hard_posteriors.py` has the models.",
    )


def by_default(title: str, name: str, text: str) -> str:
    """Runs with default settings: how good they are, and what they cost."""
    content = load(name)
    rows = [
        [
            setting, str(row["runs"]), number(row["rmse"]), f"{row['bias']:+.3f}",
            *("–" if row[key] is None else f"{row[key]} of {row['runs']}" for key in ("good", "covered")),
            *("–" if row[key] is None else f"{row[key]:,}" for key in ("sweeps", "gradients")),
            f"{row['seconds']:.1f}",
        ]
        for setting, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "runs", "RMSE", "bias", "verdict good", "95 % interval holds", "sweeps", "evaluations", "seconds"]
    note = f"{text} Evaluations are those of the density and of its gradient, warm-up included. Medians over runs."
    return section(title, note, content["about"], table(header, rows))


def auto_readings() -> str:
    content = load("auto_readings")
    known = ("auto", "rts", "bridge", "stepping_up", "stepping_down", "ti_trapezoid", "ti_rb")
    names = [name for name in known if all(name in row for row in content["summaries"].values())]
    rows = [
        [
            problem, *(number(row[name]) for name in names), f"{row['auto_to_best']:.2f}", f"{row['rts_to_auto']:.2f}",
            f"{row['weight_of_rts']:.2f}", f"{row['good']} of {row['runs']}", number(row["good_covers"]),
        ]
        for problem, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["RMSE of", *names, "auto / best", "rts / auto", "weight of RTS", "verdict good", "95 % if good"]
    text = (
        "The runs of 1000 sweeps of the coverage study. All readings are made from the same draws. "
    ) + off_in_words((name, row["good_covers"], row["good"]) for name, row in content["summaries"].items())
    return section("One answer from all readings", text, content["about"], table(header, rows))


def easy_models() -> str:
    content = load("easy_models")
    rows = [
        [
            name, number(row["std_error_before"]), f"{row['evaluations_before']:,}", number(row["std_error_now"]),
            f"{row['evaluations_now']:,}", f"{row['ratio']:.2f}", f"{row['good']} of {row['runs']}",
        ]
        for name, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "claimed error before", "evaluations", "claimed error now", "evaluations", "ratio", "verdict good"]
    text = (
        "Evaluations of the density and of its gradient for the same claimed error: by the default of an earlier "
        "commit, which had a fixed length, and by this code, asked for the error that the earlier one reached. Medians "
        "over seeds, warm-up included."
    )
    return section("Easy models end early", text, content["about"], table(header, rows))


def time_limit() -> str:
    content = load("time_limit")
    rows = [
        [name, f"{row['seconds']:.1f}", f"{row['num_sweeps']:,}", row["verdict"]]
        for name, row in content["summaries"].items()
    ]
    header = ["", "seconds", "sweeps that count", "verdict"]
    slowest = max(row["seconds"] for row in content["summaries"].values())
    text = (
        "`tp.estimate(model, max_seconds=5)`, each in a process that has compiled nothing yet; a run ends after the "
        f"block that it is in. The slowest took {slowest:.1f} s."
    )
    return section("A limit in time", text, content["about"], table(header, rows))


def figure4() -> str:
    return accuracy(
        "The number of rungs",
        "figure4",
        "Figure 4 of the paper: the same RBM, 3000 sweeps, 26 to 1000 rungs, every estimate from a run of its own. The "
        "paper's 0.065 to 0.10 are of another design: picks from one long run. What rungs cost is "
        "[below](#what-a-sweep-costs).",
    )


def accuracy(title: str, name: str, text: str) -> str:
    content = load(name)
    columns = {
        "rmse": "RMSE",
        "paper_rmse": "paper's RMSE",
        "bias": "bias",
        "mean_std_error": "mean claimed error",
        "coverage": "coverage",
        "good": "verdict good",
        "good_coverage": "coverage if good",
        "good_worst": "worst if good",
        "annealed_rmse": "RMSE of annealing",
    }
    summaries: dict[str, dict[str, Any]] = content["summaries"]
    shown = {key: label for key, label in columns.items() if any(key in row for row in summaries.values())}
    rows = [[setting, *(number(row.get(key)) for key in shown)] for setting, row in summaries.items()]
    first = next(iter(summaries.values()))
    seeds = [row["seed"] for row in next(iter(content["rows"].values()))]
    note = (
        f"{text} {first['warmup_sweeps']} sweeps of warm-up come on top. Seeds {seeds[0]} to {seeds[-1]}; coverage is "
        "that of the 95 % interval. "
    ) + off_in_words((name, row["good_coverage"], row["good"]) for name, row in summaries.items())
    return section(title, note, content["about"], table(["", *shown.values()], rows))


def compared(title: str, name: str, text: str) -> str:
    content = load(name)
    rows = [
        [
            method, number(row["rmse"]), f"{row['rmse_to_rts']:.2f}",
            f"{row['bias']:+.3f} ± {row['bias_std_error']:.3f}", number(row["mean_std_error"]),
            f"{row['coverage']:.2f}", f"{row['good']} of {row['runs']}", str(row["sweeps"]), f"{row['seconds']:.1f}",
        ]
        for method, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "RMSE", "× RTS", "bias", "mean claimed error", "coverage", "good", "sweeps", "seconds"]
    repeats = next(iter(content["summaries"].values()))["runs"]
    note = (
        f"{text} {repeats} repeats tell RMSEs apart that differ by {2 / (2 * repeats) ** 0.5:.0%} or more. Coverage is "
        "that of the 95 % interval; seconds are those of the method's run and of the estimate. "
    ) + off_in_words(((name, row["coverage"], row["runs"]) for name, row in content["summaries"].items()), "all runs")
    return section(title, note, content["about"], table(header, rows))


def coverage() -> str:
    content = load("coverage")
    summaries = content["summaries"]
    rows = [
        [
            name, f"{row['bias']:+.3f}", number(row["rmse"]), number(row["mean_std_error"]),
            *(f"{row[f'covers_{level}']:.2f}" for level in (50, 80, 95)), f"{row['good']} of {row['runs']}",
            "–" if row["good_covers_95"] is None else f"{row['good_covers_95']:.3f}",
            "–" if row["good_worst"] is None else f"{row['good_worst']:.1f}", verdicts(row["verdicts"]),
        ]
        for name, row in summaries.items()
    ]  # fmt: skip
    header = ["problem, sweeps", "bias", "RMSE", "mean claimed error", "50 %", "80 %", "95 %", "verdict good",
              "95 % if good", "worst if good, in claimed errors", "other verdicts"]  # fmt: skip
    seeds = sorted({run["seed"] for runs in content["rows"].values() for run in runs})
    good = [(name, row["good_covers_95"], row["good"]) for name, row in summaries.items() if name.endswith(", all")]
    text = (
        "Models whose log Z is known exactly, each by `tp.estimate` with default settings but for the number of "
        f"sweeps: 100 chains where no other number is given, seeds {seeds[0]} to {seeds[-1]}. The columns of "
        "percentages show how often "
        "intervals of that level held the truth. `experiments/problems.py` has the models. "
    ) + off_in_words(good)
    alarms = {name: alarms_in_words(summaries[f"{name}, all"]) for name in ("all other problems", "light bases")}
    text += (
        f" Of right answers of chains that made enough round trips, {alarms['all other problems']} got another verdict "
        f"than good; under light bases {alarms['light bases']}. A base is light where log f over it is skewed to the "
        "right under the target: parts of the target are then hardly ever seen from there."
    )
    return section("Do the intervals hold?", text, content["about"], table(header, rows))


def alarms_in_words(row: dict[str, Any]) -> str:
    """How many of the right answers got another verdict than good."""
    return f"{row['alarms']} of {row['right']} ({row['alarms'] / row['right']:.1%})"


def reference() -> str:
    content = load("reference")
    row = content["summaries"]["784×500"]
    text = (
        f"The log Z that errors on Salakhutdinov's RBM are counted from: {row['runs']} runs of 100 chains and "
        f"{row['sweeps']:,} sweeps give {row['log_z']:.3f} ± {row['std_error']:.3f}. The published value, by AIS, is "
        f"{row['published']}."
    )
    return section("The reference log Z", text, content["about"], "")


def many_chains() -> str:
    content = load("many_chains")
    rows = [
        [
            name, number(row["rmse"]), f"{row['bias']:+.3f}", number(row["mean_std_error"]),
            f"{row['good']} of {row['runs']}", number(row["good_covers"]), number(row["worst_good"]),
            f"{row['seconds']:.1f}",
        ]
        for name, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "RMSE", "bias", "mean claimed error", "verdict good", "95 % if good",
              "worst if good, in claimed errors", "seconds"]  # fmt: skip
    text = "The same RBM with few and with very many chains. " + off_in_words(
        (name, row["good_covers"], row["good"]) for name, row in content["summaries"].items()
    )
    return section("Very many chains", text, content["about"], table(header, rows))


def ais_needs() -> str:
    content = load("ais_needs")
    found = content["summaries"]
    rows = [
        [name, str(row["sweeps"]), number(row["rmse"]), *needed(row)]
        for name, row in found.items() if "sweeps" in row
    ]  # fmt: skip
    measured = ", ".join(f"{row['rmse']:.3f} with {row['steps']}" for row in found.values() if "steps" in row)
    seeds = len(next(iter(content["rows"].values())))
    text = (
        f"The same RBM. {seeds} repeats of 100 annealing passes each have an RMSE of {measured} steps; in between, "
        "log RMSE is read as linear in the logarithm of steps. Sweeps of RTS include its warm-up."
    )
    header = ["", "sweeps", "RMSE", "sweeps that AIS needs for it", "ratio"]
    return section("How many sweeps AIS needs for the same error", text, content["about"], table(header, rows))


def needed(row: dict[str, Any]) -> list[str]:
    return ["–", "–"] if row["ais_sweeps"] is None else [f"{row['ais_sweeps']:.0f}", f"{row['ais_to_rts']:.1f}"]


def stuck() -> str:
    content = load("stuck")
    rows = [
        [
            name, f"{row['good']} of {row['runs']}", verdicts(row["verdicts"]), f"{row['median_off']:.1f}",
            f"{row['largest_off']:.1f}", number(row["median_std_error"]), f"{row['off_by_6']} of {row['runs']}",
            "–" if row["median_knot"] is None else f"{row['median_knot']:.2f} ({row['knots']} runs)",
        ]
        for name, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "called good", "verdicts", "median error", "largest error", "median claimed error",
              "off by more than 6 claimed errors", "knot named at β"]  # fmt: skip
    text = (
        "Salakhutdinov's 784×500 RBM, 100 chains and 100 linear rungs, in three ways that may get stuck. "
        "Errors are absolute, in nats."
    )
    return section("Runs that get stuck", text, content["about"], table(header, rows))


def witnesses() -> str:
    content = load("witnesses")
    rows = [
        [
            name, f"{row['missing']:.3g}", f"{row['good_alone']} of {row['runs']}", f"{row['missed']} of {row['runs']}",
            f"{row['good']} of {row['runs']}", found_share(row), f"{row['low_holds']} of {row['second_runs']}",
            f"{row['seconds_alone']:.1f}", f"{row['seconds']:.1f}",
        ]
        for name, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "share of the mass that the base does not see", "good without witnesses", "MISSED", "good",
              "share found missing: median (all)", "lower bound holds", "seconds without", "with"]  # fmt: skip
    text = (
        "Runs with default settings that are told of [witnesses](../guides/verdicts.md#witnesses). Two normals are in "
        "five dimensions and 12 apart; the narrow base is N(0, 1.2²). The RBM has 16 × 4 units, nearly all on or "
        "nearly all off. The last three rows have witnesses that matter to nobody: states 20 to 90 away from 0, "
        "rows of fair coins under the example RBM of digits, and a mode of its own that is light."
    )
    return section("Witnesses", text, content["about"], table(header, rows))


def found_share(row: dict[str, Any]) -> str:
    if row["median_share"] is None:
        return "–"
    return f"{row['median_share']:.3g} ({row['lowest_share']:.3g} to {row['highest_share']:.3g})"


def initial_iterations() -> str:
    content = load("initial_iterations")
    rows = [
        [
            name, f"{row['settled']} of {row['runs']}", f"{row['warmup_sweeps']:.0f}", f"{row['guess_error']:.1f}",
            f"{row['largest_guess_error']:.1f}", f"{row['covered']} of {row['runs']}", verdicts(row["verdicts"]),
        ]
        for name, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "met their rule", "median sweeps", "median error of log Ẑ", "largest error of log Ẑ",
              "interval holds", "verdicts"]  # fmt: skip
    text = (
        'The paper\'s warm-up, `warmup="iterations"`, at most 20 iterations, the first of 50 sweeps, or as the row '
        "says; 100 chains and 100 linear rungs. The error of log Ẑ is the largest over the rungs, in nats, against a "
        "run of 10,000 sweeps. Then 1000 sweeps follow, whose interval and verdict are the last columns."
    )
    return section("The paper's initial iterations", text, content["about"], table(header, rows))


def tracking() -> str:
    content = load("tracking")
    rows = [
        [
            name, f"{row['good']} of {row['updates']}", str(row["lost"]), str(row["found_anew"]),
            f"{row['covers_if_good']:.3f}", number(row["rmse_if_good"]), number(row["mean_std_error"]),
            f"{row['worst_if_good']:.1f}", f"{row['last_log_likelihood']:.2f}",
        ]
        for name, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "verdict good", "lost", "found anew", "95 % if good", "RMSE", "mean claimed error",
              "worst, in claimed errors", "log-likelihood at the end"]  # fmt: skip
    runs = len(next(iter(content["rows"].values())))
    text = (
        f"RBMs of 180 × 12 units on the dna data, from scratch, {runs} runs each. The tracked log Z is compared "
        "with enumeration after every update, at a suitable learning rate and at ten times that."
    )
    return section("Is the tracked log Z right?", text, content["about"], table(header, rows))


def mnist_training() -> str:
    content = load("mnist_training")
    seconds = next(iter(content["summaries"].values()))["seconds_in_all"]
    text = (
        "An RBM of 784 × 500 units on binarized MNIST: CD-1 first, then PCD with Adam, 100 chains, 5 sweeps an update, "
        "while 200 tempered chains track the likelihood of the test rows (here: validation rows). It took "
        f"{seconds / 60:.0f} minutes, checks by AIS included.\n\n"
        "![Likelihoods against updates](../figures/mnist_training.svg)"
    )
    rows = [
        [
            str(row["update"]),
            *(f"{row[part]:.2f}" for part in ("train", "valid")),
            number(row["band"]) if row["verdict"] == "good" else row["verdict"],
            f"{number(row['ais_minus_tracked'])} ± {number(row['combined_error'])}",
            "yes" if row["agrees"] else "no",
        ]
        for row in content["summaries"].values()
    ]
    header = ["update", "training rows", "validation rows", "95 % band, ±", "log Z by AIS, less tracked",
              "within 1 nat or 3 errors"]  # fmt: skip
    return section("An RBM learns MNIST on two cores", text, content["about"], table(header, rows))


def tracking_cost() -> str:
    content = load("tracking_cost")
    rows = [
        [name, f"{row['updates_per_second']:.2f}", f"{row['to_not_tracked']:.3f}", f"{row['to_pcd']:.2f}"]
        for name, row in content["rows"].items()
    ]
    text = (
        "Updates of an RBM of 180 × 500 units, 25 sweeps of 2000 chains each, taking turns in one run. Tempered "
        "training keeps log Ẑ at every rung for its own chains; tracking adds the likelihood of all rows and its band."
    )
    header = ["", "updates a second", "× not tracked", "× PCD"]
    return section("What tracking costs", text, content["about"], table(header, rows))


def verdicts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if name != "good") or "–"


def exact_answers() -> str:
    content = load("exact_answers")
    rows = [
        [
            name, f"{row['exact']:.3f}", number(row["rmse"]), number(row["largest_std_error"]),
            f"{row['largest_off']:.1f}", f"{row['good']} of {row['runs']}", f"{row['covers']} of {row['runs']}",
            f"{row['first_seconds']:.0f}", f"{row['later_seconds']:.1f}",
        ]
        for name, row in content["summaries"].items()
    ]  # fmt: skip
    header = ["", "exact log Z", "RMSE", "largest claimed error", "largest error, in claimed ones", "verdict good",
              "interval covers", "seconds, first run", "later ones"]  # fmt: skip
    text = (
        "Each by `tp.estimate(model)` with default settings: 100 chains, 100 rungs, 1000 sweeps. Most of the first "
        "run's seconds go into compiling."
    )
    return section("Models of every kind", text, content["about"], table(header, rows))


def beside_others(name: str, make: Callable[[dict[str, Any]], peer_tables.Table]) -> str:
    """Nothing where it has not been run."""
    if not (RESULTS / f"{name}.json").exists():
        return ""
    content = load(name)
    title, text, header, rows = make(content)
    return section(title, text, content["about"], table(header, rows))


def hmc() -> str:
    content = load("hmc")
    about = content["about"]
    rows = [
        [
            name,
            f"{row['seconds']:.2f}",
            f"{row['cpu_seconds']:.2f}",
            f"{row['to_plain']:.2f}",
            f"{row['cpu_to_plain']:.2f}",
        ]
        for name, row in content["rows"].items()
    ]
    text = (
        f"{about['sweeps']} sweeps of 100 chains in 100 dimensions, trajectories of 10 leaps, on 100 rungs, "
        "beside the same trajectories in plain JAX without tempering; ratios are medians over rounds in which the rows "
        "take turns."
    )
    header = ["", "seconds", "of the CPU", "× plain JAX", "of the CPU, ×"]
    return section("What sweeps of HMC cost", text, about, table(header, rows))


def lattice() -> str:
    content = load("lattice")
    about = content["about"]
    rows = [
        [
            name,
            f"{row['half_sweep_microseconds']:.1f}",
            f"{row['half_sweep_cpu_microseconds']:.1f}",
            f"{row['numpy_over_this']:.2f}",
            f"{row['numpy_over_this_cpu']:.2f}",
        ]
        for name, row in content["rows"].items()
    ]
    text = (
        f"The Ising model on a 64×64 torus with {about['chains']} chains, beside two checkerboards in NumPy: "
        "one that computes all sites and keeps half of them, and one that keeps the two colours apart. A half sweep "
        "redraws all sites of one colour. NumPy uses one core."
    )
    header = ["", "µs a half sweep and chain", "of the CPU", "NumPy with a mask takes, ×", "of the CPU, ×"]
    return section("What a sweep of a lattice costs", text, about, table(header, rows))


def first_calls() -> str:
    content = load("first_calls")
    kinds = ("first_wall", "first_cpu", "second_wall", "second_cpu", "import_cpu")
    rows = [[row["call"], *(f"{row[kind]:.1f}" for kind in kinds)] for row in content["calls"]]
    text = (
        "Calls of `estimate` in new processes: one with an empty cache of compiled programs, a second with what "
        "the first has left there, as the command line keeps it. Medians of rounds, in seconds."
    )
    header = ["", "first call", "of the CPU", "second call", "of the CPU", "import, of the CPU"]
    return section("What a first call costs", text, content["about"], table(header, rows))


def gpu_sweeps() -> str:
    content = load("gpu_sweeps")
    timed = [row for row in content["times"] if "failed" not in row]
    rows = [[r["what"], f"{r['chains']:,}", f"{r['microseconds']:.1f}", f"{r['tflops']:.1f}"] for r in timed]
    text = (
        "A sweep of the 784×500 RBM on a GPU with all statistics that `estimate` keeps, and the matrix products alone. "
        "Useful work is 4 · 784 · 500 operations a chain."
    )
    header = ["", "chains", "µs a sweep of all chains", "TFLOP/s"]
    return section("What a sweep costs on a GPU", text, content["about"], table(header, rows))


def gpu_calls() -> str:
    content = load("gpu_calls")
    rows = [
        [
            r["call"],
            str(r["sweeps"]),
            f"{r['first']:.1f}",
            f"{r['second']:.1f}",
            f"{r['peak_host_gb']:.1f}",
            f"{r['jax_alone_gb']:.1f}" if "jax_alone_gb" in r else "–",
            r["verdict"],
            f"{r['error']:+.4f} ± {r['std_error']:.4f}" if r.get("error") is not None else "–",
        ]
        for r in content["calls"]
    ]
    text = (
        "Whole calls of `estimate`: the first one compiles, the second one does not. Memory is the peak of its "
        "process, and of one in which JAX alone multiplies two small matrices, with "
        "`XLA_PYTHON_CLIENT_PREALLOCATE=false`: JAX would otherwise reserve three quarters of the GPU's memory, whose "
        "tables take memory of the host's. The posterior is a linear regression, whose evidence is known."
    )
    header = ["", "sweeps", "first call, s", "second call, s", "host memory, GB", "of JAX alone, GB", "verdict",
              "error of log Z"]  # fmt: skip
    return section("What a call costs on a GPU", text, content["about"], table(header, rows))


def gpu_tests() -> str:
    content = load("gpu_tests")
    files = sorted({case["test"].partition("::")[0] for case in content["tests"]})
    rows = []
    for file in files:
        cases = [case for case in content["tests"] if case["test"].startswith(f"{file}::")]
        others = [case["test"] for case in cases if case["outcome"] != "passed"]
        rows.append([f"`{file}`", str(len(cases)), str(len(cases) - len(others)), ", ".join(others) or "–"])
    text = (
        "The tests of exact invariance, and those of a GPU's own programs, run on a GPU: exact draws, one step, and "
        "the law that they had before."
    )
    return section("Exact invariance on a GPU", text, content["about"], table(["", "tests", "passed", "others"], rows))


def processes() -> str:
    content = load("processes")
    rows = [
        [f"{name} on {name} core{'s' * (name == 'two')}", f"{row['sweeps_per_second']:.0f}",
         f"{row['processor_seconds']:.1f}"]
        for name, row in content["rows"].items()
    ]  # fmt: skip
    text = (
        "Sweeps of 200 chains of a 784×500 RBM with 100 rungs, by processes that are bound to a core each. In "
        f"{len(content['rounds'])} rounds, in which they take turns, two do {content['ratio']:.2f} × the sweeps a "
        f"second of one, by the median. The load of the machine before was {content['load_before']:.1f}."
    )
    header = ["processes", "sweeps a second", "processor seconds a thousand sweeps"]
    return section("Two processes", text, content["about"], table(header, rows))


def memory() -> str:
    content = load("memory")
    rows = [[sweeps, f"{peak:.0f}"] for sweeps, peak in content["peak_megabytes"].items()]
    text = "Peak resident memory of the command line, 100 chains and 100 rungs on the shipped example."
    return section("Memory against length", text, content["about"], table(["sweeps", "MB"], rows))


def bits() -> str:
    content = load("same_bits")
    rows = [[name, f"`{value}`"] for name, value in content["log_z"].items()]
    text = "log Z of a run of 400 sweeps as printed, however it was cut, killed, resumed or spread over devices."
    return section("The same bits", text, content["about"], table(["run", "log Z"], rows))


def faults() -> str:
    """What runs and readers survived. Each record is of one long study, which `make study` does not repeat."""
    killed, damaged, disks, readers, soaked = (
        {name: told for name, told in json.loads((RESULTS / f"{study}.json").read_text()).items() if name != "about"}
        for study in ("killed_runs", "damaged_files", "full_disk", "fuzz", "soak")
    )
    stages = [stage for found in disks.values() for stage in found]
    rows = [
        [f"one run of `{name}`, resumed after every signal", in_words(told["signals"]),
         f"{'the same' if told['same_bits'] else 'OTHER'} bits in the end, {len(told['problems'])} problems",
         "killed_runs"]
        for name, told in killed.items()
    ]  # fmt: skip
    rows += [
        ["every kind of file of a run", f"{2 * count('faults', damaged)} flipped bits and cuts of {len(damaged)} kinds",
         f"{count('same', damaged)} as before or the state before, {count('refused', damaged)} refused in a line, "
         f"{count('wrong', damaged)} wrong numbers, {count('other errors', damaged)} other errors", "damaged_files"],
        ["a full disk, and a read-only directory", f"{len(stages)} stages of `estimate` and `train`",
         f"{sum(stage['refused'] and stage['one line'] for stage in stages)} refused in a line, "
         f"{sum(stage['same bits'] for stage in stages)} resumed to the same bits, at most "
         f"{max(stage['blocks lost'] for stage in stages)} blocks lost", "full_disk"],
        ["every reader of files", f"{min(told['inputs'] for told in readers.values()):,} mutated inputs or more for "
         f"each of {len(readers)} readers",
         f"{count('failures', readers)} failures, at most {max(t['peak_megabytes'] for t in readers.values())} MB",
         "fuzz"],
    ]  # fmt: skip
    rows += [
        [f"a long run of `{name}`", f"{soaked['minutes']:.0f} minutes",
         f"memory {told['memory_drift']:+.1%} from the first half to the second, {told['median_megabytes'][1]:.0f} MB",
         "soak"]
        for name, told in soaked.items() if name != "minutes"
    ]  # fmt: skip
    text = (
        "Signals came while runs started, sampled and wrote. `make study-faults`, `make study-disk`, `make fuzz` and "
        "`make study-soak` make these records again; they are files in `benchmarks/results`."
    )
    header = ["", "what was done", "what came of it", "record"]
    return f"## What runs survive\n\n{text}\n\n{table(header, rows)}"


def count(name: str, records: dict[str, Any]) -> int:
    """The sum over records of a number, or of the length of a list."""
    return sum(len(told[name]) if isinstance(told[name], list) else told[name] for told in records.values())


def in_words(counts: dict[str, int]) -> str:
    return " and ".join(f"{number} {name}s" for name, number in counts.items())


def section(title: str, text: str, about: dict[str, str], body: str) -> str:
    source = f"`{about['command']}` at {about['commit']}, {about['date']}, on {about['machine']}."
    source += age(about["result"])
    source += f" Not run yet: {about['missing']}." if "missing" in about else ""
    return f"## {title}\n\n{text}\n\n{source}\n\n{body}"


def off_in_words(rows: Iterable[tuple[str, float | None, int]], runs_that: str = "runs that were called good") -> str:
    """Rows whose coverage cannot be 95 %, by a binomial test at a level of 1 %."""
    off = [
        f"{name} ({share:.2f} of {runs})"
        for name, share, runs in rows
        if share is not None and binomtest(round(share * runs), runs, 0.95).pvalue < 0.01
    ]
    if not off:
        return f"No coverage of {runs_that} differs from 95 % by more than chance."
    return f"Of {runs_that}, the coverage differs from 95 % by more than chance for {'; '.join(off)}."


def reproduced(name: str) -> str:
    """A figure of the paper: our numbers beside the published ones."""
    content = load(name)
    quick = "This is the quick form. " if content["is_quick"] else ""
    text = f"{quick}{' '.join(content['notes'])}\n\n![{content['title']}](../figures/{name}.svg)"
    if all(row["published"] is None for row in content["rows"]):
        return section(content["title"], text, content["about"], by_place(content["rows"]))
    found = [Row(**{field: row[field] for field in Row._fields}) for row in content["rows"]]
    rows = [
        [
            f"{row.panel}: {row.method}", f"{row.at:g}", row.quantity.replace("|", "\\|"), f"{row.ours:.3g}",
            "–" if row.published is None else f"{row.published:.3g}", row.outcome or "–", str(row.runs),
        ]
        for row in found
    ]  # fmt: skip
    header = ["", "at", "", "ours", "published", "", "runs"]
    return section(content["title"], text, content["about"], table(header, rows))


def tracker_end() -> str:
    content = load("tracker_end")
    rows = [
        [
            f"{row['update']} updates", f"{row['tracked']:.2f}", row["verdict"],
            f"{row['ais']:.2f} ± {row['ais_error']:.2f}", f"{row['long_runs']:.2f} ± {row['long_runs_error']:.2f}",
            ", ".join(row["long_runs_verdicts"]), f"{row['known_mass']:.2f}",
        ]
        for row in content["summaries"].values()
    ]  # fmt: skip
    header = ["", "tracked log Z", "its verdict", "AIS", "long runs", "their verdict", "at least, by rows of training"]
    text = (
        "log Z of the RBM that figure 5 ends with: as tracked, by AIS, by two runs of `estimate`, and what the "
        "distinct rows of training alone add up to. Where that is more, no chain has found the rows that the RBM has "
        "learned by heart, and every likelihood of the figure is too high there."
    )
    return section("The tracker at the end of figure 5", text, content["about"], table(header, rows))


def by_place(rows: list[dict[str, Any]]) -> str:
    """Numbers that have no published ones beside them: a line for each place on the axis, a column for each kind."""
    kinds = list(dict.fromkeys((row["quantity"], row["panel"]) for row in rows))
    found = {(row["at"], row["quantity"], row["panel"]): f"{row['ours']:.3g}" for row in rows}
    places = {row["at"]: row["method"] for row in rows}
    lines = [[name, *(found.get((at, *kind), "–") for kind in kinds)] for at, name in places.items()]
    header = [f"{quantity}, {panel}".replace("|", "\\|") for quantity, panel in kinds]
    return f"Means over {rows[0]['runs']} runs.\n\n" + table(["", *header], lines)


def age(result: str) -> str:
    """What the changelog says of a table that is older than the code, in words."""
    packages = ages.listed().get(result)
    if packages is None:
        return ""
    if packages == [ages.ALL]:
        return " It does not record which code it was made with, and may be older than the present one."
    return f" Since then the code in {', '.join(f'`{name}/`' for name in packages)} was changed."


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def load(name: str) -> dict[str, Any]:
    content = json.loads((RESULTS / f"{name}.json").read_text())
    content["about"]["result"] = name
    return content


def number(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page())
