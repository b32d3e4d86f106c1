"""`tempering compare`: one model, every method."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tempering.api import compare
from tempering.cli import common
from tempering.estimators import Sandwich
from tempering.estimators.methods import RunKind
from tempering.results import Comparison, SideBySide


def compare_command(
    model: common.ModelFile = None,
    methods: Annotated[str, typer.Option(help="all, or names with commas between them.")] = "all",
    budget: Annotated[int | None, typer.Option(help="Sweeps per chain in all, the same for each method.")] = None,
    base: common.BaseFlag = None,
    data: Annotated[str | None, typer.Option(help="FILE of data from which RAISE starts.")] = None,
    binarize: common.BinarizeFlag = None,
    chains: common.ChainsFlag = 100,
    sweeps: common.SweepsFlag = 1000,
    rungs: common.RungsFlag = "100",
    ladder: common.LadderFlag = "auto",
    rung_weights: common.RungWeightsFlag = "ends",
    warmup: common.WarmupFlag = "annealed",
    repeats: Annotated[int, typer.Option(help="How many seeds, from --seed on.")] = 1,
    truth: Annotated[float | None, typer.Option(help="The true log Z; enumerated where that is quick.")] = None,
    seed: common.SeedFlag = 0,
    devices: common.DevicesFlag = None,
    json: common.JsonFlag = False,
    quiet: common.QuietFlag = False,
) -> None:
    """Estimate log Z of a model by every method, at a matched number of sweeps.

    Without --budget each method gets --sweeps and the warm-up's sweeps. Exit status: 0 methods agree and at least one
    is good, 2 the arguments are wrong, 3 they disagree or none is good, 130 interrupted.
    """
    common.use_cores(devices)
    target, start, rows = common.read_inputs(model, base, data, binarize, seed)
    settings: dict[str, Any] = {
        "num_chains": chains, "num_sweeps": sweeps, "num_rungs": common.read_rungs(rungs),
        "betas": common.read_betas(ladder), "rung_weights": rung_weights, "warmup": warmup, "seed": seed,
    }  # fmt: skip
    with _Bar(repeats, show=not quiet and sys.stderr.isatty()) as bar, common.only_answers_on_stdout():
        comparison = compare(
            target,
            start,
            data=rows,
            methods=methods,
            budget=budget,
            repeats=repeats,
            truth=truth,
            watch=bar,
            **settings,
        )
    if json:
        print(comparison.to_json())
    else:
        _print(comparison)
    raise typer.Exit(common.EXIT_GOOD if comparison.verdict.is_good else common.EXIT_NOT_GOOD)


class _Bar:
    """Which run is under way, where there is a terminal."""

    def __init__(self, repeats: int, *, show: bool):
        self._repeats = repeats
        self._bar = Progress(
            TextColumn("{task.description:<50}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(), console=Console(stderr=True), disable=not show, transient=True,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task("compiling", total=1.0)

    def __enter__(self) -> "_Bar":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()

    def __call__(self, repeat: int, kind: RunKind, stage: str, share: float) -> None:
        which = f"{repeat + 1} of {self._repeats}: " if self._repeats > 1 else ""
        self._bar.update(
            self._task, description=f"{which}{kind.value}, {common.stage_in_words(stage)}", completed=share
        )


def _print(comparison: Comparison) -> None:
    console = common.table_console()
    first = comparison.repeats[0]
    console.print(_answers(first) if len(comparison.repeats) == 1 else _summaries(comparison))
    if comparison.truth is not None:
        console.print(f"true log Z  {comparison.truth:.4f}")
    if comparison.lower_bound is not None and comparison.upper_bound is not None:
        console.print(f"sandwich    {_between(comparison)}")
    for side in comparison.repeats:
        for line in _alarms(side, several=len(comparison.repeats) > 1):
            console.print(line, style="red", markup=False)
    if len(comparison.repeats) == 1:
        for entry in first.entries:
            for finding in entry.answer.findings:
                console.print(f"{entry.method.name}: {finding.seen}; {finding.cure}.", markup=False)
        for finding in {f.verdict: f for entry in first.entries for f in entry.run_findings}.values():
            console.print(f"the run: {finding.seen}; {finding.cure}.", markup=False)
    colour = "green" if comparison.verdict.is_good else "red"
    console.print(f"verdict     [{colour}]{_words(comparison)}[/{colour}]")


def _answers(side: SideBySide) -> Table:
    """One seed: a row per method."""
    table = Table(box=None, pad_edge=False)
    for name in ("method", "log Z", "error", "errs", "sweeps", "seconds", "memory", "verdict"):
        justify = "left" if name in ("method", "errs", "verdict") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    for entry in side.entries:
        answer = entry.answer
        colour = "green" if entry.verdict.is_good else "red"
        table.add_row(
            entry.method.name, f"{answer.log_z:.4f}", f"{answer.std_error:.4f}", entry.method.errs,
            str(entry.num_sweeps), f"{entry.seconds:.1f}", _size(entry.num_bytes),
            f"[{colour}]{entry.verdict.label}[/{colour}]",
        )  # fmt: skip
    return table


def _summaries(comparison: Comparison) -> Table:
    """Several seeds: what each method did on average."""
    table = Table(box=None, pad_edge=False)
    known = comparison.truth is not None
    for name in (
        "method",
        "mean",
        "error",
        *(("bias", "RMSE", "covers") if known else ()),
        "sweeps",
        "seconds",
        "good",
    ):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for entry in comparison.entries:
        found = comparison.summary(entry.method.name)
        errors = []
        if known:
            errors = [f"{found['bias']:+.3f}", f"{found['rmse']:.3f}", f"{100 * found['coverage']:.0f} %"]
        table.add_row(
            entry.method.name, f"{found['mean']:.3f}", f"{found['mean_std_error']:.3f}", *errors,
            str(entry.num_sweeps), f"{found['seconds']:.1f}", f"{found['good']} of {len(comparison.repeats)}",
        )  # fmt: skip
    return table


def _between(comparison: Comparison) -> str:
    """The two bounds in words; with several seeds, their means."""
    bounds = f"{comparison.lower_bound:.4f} from below, {comparison.upper_bound:.4f} from above, each in expectation"
    lower, upper = comparison.repeats[0].lower, comparison.repeats[0].upper
    if len(comparison.repeats) > 1 or lower is None or upper is None or upper.log_z >= lower.log_z:
        return bounds
    crossed = Sandwich(lower, upper).is_crossed
    return f"{bounds}; they cross {'by more than' if crossed else 'within'} their errors"


def _alarms(side: SideBySide, *, several: bool) -> list[str]:
    """The worst disagreement, and how many more there are."""
    found = side.disagreements
    if not found:
        return []
    one, two, errors = found[0]
    seed = f"seed {side.seed}: " if several else ""
    more = f", and {len(found) - 1} other pairs disagree" if len(found) > 1 else ""
    return [
        f"ALARM       {seed}{one.method.name} says {one.answer.log_z:.3f} ± {one.answer.std_error:.3f}, "
        f"{two.method.name} {two.answer.log_z:.3f} ± {two.answer.std_error:.3f}: {errors:.1f} errors apart{more}"
    ]


def _words(comparison: Comparison) -> str:
    good = sum(all(entry.verdict.is_good for entry in each) for each in comparison.by_method())
    if comparison.verdict.is_good:
        return f"Good: no two methods disagree, and {good} of {len(comparison.entries)} call themselves good."
    return comparison.verdict.value


def _size(num_bytes: int) -> str:
    size, unit = float(num_bytes), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"
