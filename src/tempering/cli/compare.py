"""`tempering compare`: one model, every method."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Option

import tempering as tp
from tempering import _defaults
from tempering.cli import common, paths, processes, reporting
from tempering.cli.flags import in_flags
from tempering.cli.placing import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tempering.results import Comparison, SideBySide

_GAP = 2  # between columns


@placed(in_processes=True)
def compare_command(
    model: common.ModelFile = None,
    names: common.NamesFlag = None,
    methods: Annotated[str, Option(help="all, or names with commas between them.")] = "all",
    budget: Annotated[int | None, common.count_option("Sweeps per chain in all, the same for each method.")] = None,
    base: common.BaseFlag = None,
    data: Annotated[str | None, Option(help="FILE of data from which RAISE starts.")] = None,
    binarize: common.BinarizeFlag = None,
    rungs: common.RungsFlag = None,
    path: paths.PathFlag = paths.GEOMETRIC,
    ladder: common.LadderFlag = _defaults.BETAS,
    rung_weights: common.RungWeightsFlag = _defaults.RUNG_WEIGHTS,
    chains: common.ChainsFlag = _defaults.NUM_CHAINS,
    sweeps: common.SweepsFlag = _defaults.LENGTH,
    warmup: common.WarmupFlag = _defaults.WARMUP,
    repeats: Annotated[int, Option(help="How many seeds, from --seed on.")] = 1,
    truth: Annotated[float | None, Option(help="The true log Z; enumerated where that is quick.")] = None,
    seed: common.SeedFlag = _defaults.SEED,
    report: reporting.ReportFlag = None,
    json: common.JsonFlag = False,
    quiet: common.QuietFlag = False,
) -> None:
    """Estimate log Z of a model by every method, at a matched number of sweeps.

    Without --budget each method gets --sweeps and the warm-up's sweeps. The verdict is that of auto, or of rts, or of
    the first method. Exit status: 0 it is good and no two methods disagree, 2 the arguments are wrong, 3 it is not or
    they do, 4 another process of the run has ended, 130 interrupted, 143 terminated.
    """
    from tempering.progress import is_terminal

    reporting.check_file("--report", report)
    target, start, rows = common.read_together(lambda: common.read_inputs(model, names, base, data, binarize, seed))
    target, start = paths.along(path, target, start)
    is_shown = is_terminal() and not quiet and processes.speaks()
    interrupts, comparison = common.Interrupts(), None
    try:
        with interrupts, common.only_answers_on_stdout():
            comparison = tp.compare(
                target, start, data=rows, methods=methods, budget=budget, num_chains=chains, num_sweeps=sweeps,
                num_rungs=common.read_rungs(rungs), betas=common.read_betas(ladder), rung_weights=rung_weights,
                warmup=warmup, repeats=repeats, truth=truth, seed=seed, watch=lambda _: interrupts.asked,
                progress=is_shown,
            )  # fmt: skip
    except tp.Interrupted as stopped:
        common.say(str(stopped))
    if comparison is not None and report is not None and processes.speaks():
        settings = {"chains": chains, "sweeps": sweeps, "budget": budget, "repeats": repeats, "rungs": rungs}
        settings |= {"ladder": ladder, "rung weights": rung_weights, "warm-up": warmup, "seed": seed}
        page = tp.report.comparison_report(
            comparison, settings=settings, command=reporting.this_command(), words=_in_flags,
            title=model or "the example",
        )  # fmt: skip
        reporting.write(page, report)
    if comparison is not None:
        print(comparison.to_json()) if json else _print(comparison)
    if comparison is None or not comparison.is_complete:  # a signal came, to this process or to another
        common.say(common.how_to_go_on(interrupts.in_words))
        raise typer.Exit(interrupts.status)
    raise typer.Exit(common.EXIT_GOOD if comparison.verdict.is_good else common.EXIT_NOT_GOOD)


def _print(comparison: "Comparison") -> None:
    from tempering.results.comparison import STOPPED

    console = common.table_console()
    first = comparison.repeats[0]
    common.print_table(_table(comparison, console.width))
    if comparison.truth is not None:
        console.print(f"true log Z  {comparison.truth:.4f}")
    if comparison.lower_bound is not None and comparison.upper_bound is not None:
        console.print(f"sandwich    {_between(comparison)}")
    for side in comparison.repeats:
        if side.disagreements:
            console.print(_alarm(side, several=len(comparison.repeats) > 1), style="red", markup=False)
    if len(comparison.repeats) == 1:
        for finding, names in _findings(first).items():
            console.print(f"{', '.join(names)}: {_in_flags(finding)}", markup=False)
    for name, why in comparison.left_out.items():
        console.print(f"{name} was left out: {_in_flags(why)}.", markup=False)
    if not comparison.is_complete:
        console.print(STOPPED)
    console.print(f"verdict     {common.in_colour(comparison.in_words(), comparison.verdict.is_good)}")


def _in_flags(text: str) -> str:
    """A message of the library in the flags of this command, which takes several methods."""
    return in_flags(text).replace("--method ", "--methods ")


def _findings(side: "SideBySide") -> dict[str, list[str]]:
    """Each finding once, with the run that it is about, or the methods that noticed it."""
    found: dict[str, list[str]] = {}
    for entry in side.entries:
        for finding in entry.run_findings:
            names = found.setdefault(str(finding), [])
            names += [entry.method.kind.value] if entry.method.kind.value not in names else []
    of_runs = set(found)
    for entry in side.entries:
        for text in {str(finding) for finding in entry.answer.findings} - of_runs:
            found.setdefault(text, []).append(entry.method.name)
    return found


def _table(comparison: "Comparison", width: int) -> Table | str:
    """All methods side by side, or, where a terminal has no room for that, one after the other."""
    from tempering.results.comparison_table import comparison_table

    text = comparison_table(comparison)
    columns = zip(text.header, *text.rows, strict=True)
    if sum(max(map(len, column)) + _GAP for column in columns) - _GAP > width:
        return "\n".join(_in_a_row(text.header, row) for row in text.rows)
    table = Table(box=None, pad_edge=False)
    for column, name in enumerate(text.header):
        table.add_column(name, justify="left" if text.is_left(column) else "right", no_wrap=True)
    for row, is_good in zip(text.rows, text.is_good, strict=True):
        *cells, last = row
        table.add_row(*cells, common.in_colour(last, is_good) if text.header[-1] == "verdict" else last)
    return table


def _in_a_row(header: "Sequence[str]", row: "Sequence[str]") -> str:
    """A row of the table as a sentence, each number with its name."""
    named = [f"{name} {cell}".strip() for name, cell in zip(header[1:], row[1:], strict=True) if cell.strip()]
    return f"[bold]{row[0]}[/bold]: {', '.join(named)}"


def _between(comparison: "Comparison") -> str:
    """The two bounds in words; with several seeds, their means."""
    bounds = f"{comparison.lower_bound:.4f} from below, {comparison.upper_bound:.4f} from above, each in expectation"
    lower, upper = comparison.repeats[0].lower, comparison.repeats[0].upper
    if len(comparison.repeats) > 1 or lower is None or upper is None or upper.log_z >= lower.log_z:
        return bounds
    crossed = tp.estimators.Sandwich(lower, upper).is_crossed
    return f"{bounds}; they cross {'by more than' if crossed else 'within'} their errors"


def _alarm(side: "SideBySide", *, several: bool) -> str:
    """The worst disagreement, and how many more there are."""
    (one, two, errors), *others = side.disagreements
    seed = f"seed {side.seed}: " if several else ""
    more = f", and {len(others)} other pairs disagree" if others else ""
    first, second = (f"{entry.answer.log_z:.3f} ± {entry.answer.std_error:.3f}" for entry in (one, two))
    names = f"{one.method.name} says {first}, {two.method.name} {second}"
    return f"ALARM       {seed}{names}: {errors:.1f} errors apart{more}"
