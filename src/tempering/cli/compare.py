"""`tempering compare`: one model, every method."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from tempering.api import Progress, Settings, compare
from tempering.cli import common
from tempering.cli.flags import in_flags
from tempering.estimators import Sandwich
from tempering.results import Comparison, SideBySide
from tempering.results.comparison_table import comparison_table


def compare_command(
    model: common.ModelFile = None,
    methods: Annotated[str, typer.Option(help="all, or names with commas between them.")] = "all",
    budget: Annotated[int | None, typer.Option(help="Sweeps per chain in all, the same for each method.")] = None,
    base: common.BaseFlag = None,
    data: Annotated[str | None, typer.Option(help="FILE of data from which RAISE starts.")] = None,
    binarize: common.BinarizeFlag = None,
    chains: common.ChainsFlag = Settings.num_chains,
    sweeps: common.SweepsFlag = Settings.num_sweeps,
    rungs: common.RungsFlag = str(Settings.num_rungs),
    ladder: common.LadderFlag = str(Settings.betas),
    rung_weights: common.RungWeightsFlag = str(Settings.rung_weights),
    warmup: common.WarmupFlag = str(Settings.warmup),
    repeats: Annotated[int, typer.Option(help="How many seeds, from --seed on.")] = 1,
    truth: Annotated[float | None, typer.Option(help="The true log Z; enumerated where that is quick.")] = None,
    seed: common.SeedFlag = Settings.seed,
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
    with _Bar(repeats, show=not quiet and sys.stderr.isatty()) as bar, common.only_answers_on_stdout():
        comparison = compare(
            target, start, data=rows, methods=methods, budget=budget, num_chains=chains, num_sweeps=sweeps,
            num_rungs=common.read_rungs(rungs), betas=common.read_betas(ladder), rung_weights=rung_weights,
            warmup=warmup, repeats=repeats, truth=truth, seed=seed, watch=bar,
        )  # fmt: skip
    if json:
        print(comparison.to_json())
    else:
        _print(comparison)
    raise typer.Exit(common.EXIT_GOOD if comparison.verdict.is_good else common.EXIT_NOT_GOOD)


class _Bar:
    """Which run is under way, where there is a terminal."""

    def __init__(self, repeats: int, *, show: bool):
        self._repeats = repeats
        self._bar = Bar(
            TextColumn("{task.description:<50}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(), console=Console(stderr=True), disable=not show, transient=True,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task("compiling", total=1.0)

    def __enter__(self) -> "_Bar":
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        which = f"{progress.repeat + 1} of {self._repeats}: " if self._repeats > 1 else ""
        self._bar.update(self._task, description=f"{which}{progress.run}, {progress.stage}", completed=progress.share)


def _print(comparison: Comparison) -> None:
    console = common.table_console()
    first = comparison.repeats[0]
    console.print(_table(comparison))
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
                console.print(f"{entry.method.name}: {finding.seen}; {in_flags(finding.cure)}.", markup=False)
        for finding in {f.verdict: f for entry in first.entries for f in entry.run_findings}.values():
            console.print(f"the run: {finding.seen}; {in_flags(finding.cure)}.", markup=False)
    colour = "green" if comparison.verdict.is_good else "red"
    console.print(f"verdict     [{colour}]{comparison.in_words()}[/{colour}]")


def _table(comparison: Comparison) -> Table:
    text = comparison_table(comparison)
    table = Table(box=None, pad_edge=False)
    for column, name in enumerate(text.header):
        table.add_column(name, justify="left" if text.is_left(column) else "right", no_wrap=True)
    for row, is_good in zip(text.rows, text.is_good, strict=True):
        *cells, last = row
        colour = "green" if is_good else "red"
        table.add_row(*cells, f"[{colour}]{last}[/{colour}]" if text.header[-1] == "verdict" else last)
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
