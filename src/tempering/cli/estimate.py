"""`tempering estimate`: one model, one answer."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

import tempering as tp
from tempering import _defaults
from tempering.cli import common, paths, processes, reporting
from tempering.cli.flags import in_flags
from tempering.cli.placing import placed


@placed(in_processes=True)
def estimate_command(
    model: common.ModelFile = None,
    names: common.NamesFlag = None,
    base: common.BaseFlag = None,
    data: Annotated[str | None, Option(help="FILE of data whose mean log-likelihood is wanted.")] = None,
    witnesses: Annotated[
        str | None, Option(help="FILE of states that are known to matter: does the run know where they are?")
    ] = None,
    binarize: common.BinarizeFlag = None,
    chains: common.ChainsFlag = _defaults.NUM_CHAINS,
    sweeps: Annotated[
        int | None,
        common.count_option("Sweeps per chain after the warm-up; by default until --target-error is reached."),
    ] = None,
    rungs: common.RungsFlag = None,
    path: paths.PathFlag = paths.GEOMETRIC,
    ladder: common.LadderFlag = _defaults.BETAS,
    rung_weights: common.RungWeightsFlag = _defaults.RUNG_WEIGHTS,
    warmup: common.WarmupFlag = _defaults.WARMUP,
    method: Annotated[
        str, Option(help="auto, or what else a tempered run gives: rts, ts, rsd, mbar, ti_rb ...")
    ] = _defaults.METHOD,
    target_error: Annotated[
        float | None,
        Option(help="Go on until the standard error is this small and the verdict good; 0.1 without --sweeps."),
    ] = None,
    max_sweeps: Annotated[
        int | None,
        common.count_option("Towards an error: the most sweeps per chain; 40 times the first look by default."),
    ] = None,
    max_time: Annotated[str | None, Option(help="The most time, such as 90s, 10m or 1.5h.")] = None,
    seed: common.SeedFlag = _defaults.SEED,
    out: Annotated[Path | None, Option(help="Directory for checkpoints and the result.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with the run in --out.")] = False,
    chunk: Annotated[int, common.count_option("Sweeps between checkpoints, rounded up to whole blocks.")] = (
        _defaults.CHUNK_SWEEPS
    ),
    report: reporting.ReportFlag = None,
    image: reporting.ImageFlag = None,
    json: common.JsonFlag = False,
    quiet: common.QuietFlag = False,
) -> None:
    """Estimate log Z of a model.

    Exit status: 0 good, 2 the arguments are wrong, 3 a number was computed but is not to be believed, 4 another process
    of the run has ended, 130 interrupted, 143 terminated.
    """
    from tempering.progress import is_terminal

    shape = reporting.read_image(image)
    reporting.check_file("--report", report)
    target, start, rows = common.read_together(lambda: common.read_inputs(model, names, base, data, binarize, seed))
    told = common.read_together(lambda: common.read_witnesses(target, witnesses, binarize, seed))
    target, start = paths.along(path, target, start)
    is_shown = is_terminal() and not quiet and processes.speaks()
    if is_shown:
        _say_exact(target)
    keep_draws = True if report is not None and reporting.can_keep_draws(target, start) else None
    interrupts, result = common.Interrupts(), None
    try:
        with interrupts, common.only_answers_on_stdout():
            result = tp.estimate(
                target, start, data=rows, num_chains=chains, num_sweeps=sweeps, num_rungs=common.read_rungs(rungs),
                betas=common.read_betas(ladder), rung_weights=rung_weights, warmup=warmup, method=method, seed=seed,
                target_error=target_error, max_sweeps=max_sweeps, max_seconds=max_time, out=out, resume=resume,
                chunk_sweeps=chunk, keep_draws=keep_draws, witnesses=told,
                watch=lambda _: interrupts.asked, progress=is_shown,
            )  # fmt: skip
    except tp.Interrupted as stopped:
        common.say(str(stopped))
    if result is not None and processes.speaks():
        result = dataclasses.replace(result, command=reporting.this_command())
        if out is not None and result.is_complete:
            result.save(out)  # again, with the command
    if result is not None and report is not None and processes.speaks():
        reporting.write(tp.report.run_report(result, shape=shape, words=in_flags, title=model or "the example"), report)
    if result is not None and json:
        print(result.to_json())
    elif result is not None:
        common.print_rows((*_answer_rows(result), *_run_rows(result), *_verdict_rows(result)))
    if result is None or not result.is_complete:  # a signal came, to this process or to another
        common.say(common.how_to_resume(out, interrupts.in_words))
        raise typer.Exit(interrupts.status)
    raise typer.Exit(common.EXIT_GOOD if result is not None and result.verdict.is_good else common.EXIT_NOT_GOOD)


def _say_exact(model: "tp.AbstractModel") -> None:
    """The exact answer, where it is quick to have."""
    exact = model.quick_log_z()
    if exact is not None:
        common.say(f"The exact answer is at hand: log Z = {exact:.4f}. The estimate follows.")


def _answer_rows(result: "tp.Result") -> Iterator[tuple[str, str]]:
    """log Z, and what it is held against."""
    from tempering._logspace import rounding_of

    low, high = result.interval
    yield "log Z", f"[bold]{result.log_z:.4f}[/bold]"
    asked = "" if result.target_error is None else f" ({result.target_error:g} asked for)"
    yield "standard error", f"{result.std_error:.4f}{asked}{_errors(result)}"
    yield "95 % interval", f"{low:.4f} to {high:.4f}"
    if result.exact_log_z is not None:
        slack = rounding_of(result.log_z)
        is_inside = low - slack <= result.exact_log_z <= high + slack
        where = "inside the interval" if is_inside else "outside the interval"
        yield "exact log Z", f"{result.exact_log_z:.4f} ({where})"
    if result.annealed is not None:
        yield "annealing says", f"{result.annealed.log_z:.4f} ± {result.annealed.std_error:.4f}"


def _errors(result: "tp.Result") -> str:
    """The same error seen in other ways."""
    errors = result.log_z_by_rung.errors
    ways = {} if errors is None else {"tours": errors.tours, "groups": errors.groups}
    known = [f"{error:.4f} by {name}" for name, error in ways.items() if math.isfinite(error)]
    return f" ({', '.join(known)})" if known else ""


def _rungs(result: "tp.Result") -> str:
    """How long the ladder is, and what its prior costs: draws in its middle say little of its ends."""
    base, target = result.end_shares
    length = "" if result.length is None else f", {result.length.root_kl:.1f} long in √KL"
    return f"{result.num_rungs}{length}; {base:.1%} of draws at the base, {target:.1%} at the target"


def _run_rows(result: "tp.Result") -> Iterator[tuple[str, str]]:
    """How the chains fared, and what else was asked for."""
    import numpy as np

    from tempering.diagnosis.divergence import divergences_in_words

    yield "rungs", _rungs(result)
    yield "round trips", f"{result.diagnosis.round_trips_per_chain:.2f} per chain"
    moves = result.recording.moves
    if moves is not None:
        low, high = np.nanmin(moves.acceptance), np.nanmax(moves.acceptance)
        yield "moves accepted", f"{low:.2f} to {high:.2f}, by rung"
        if result.num_divergent > 0:
            is_grave = result.diagnosis.found(tp.Verdict.DIVERGENT)
            counted = f"{result.num_divergent} of {moves.num_moves.sum():.0f} trajectories"
            yield "divergences", counted if is_grave else divergences_in_words(moves)
    if result.mean_log_likelihood is not None:
        found = result.mean_log_likelihood
        yield "mean log-likelihood", f"{found.value:.4f} ± {found.std_error:.4f} over {found.num_rows} rows"
    if result.witnesses is not None:
        yield "witnesses", str(result.witnesses)
    cut = f", the first {result.log_z_by_rung.num_cut} left out" if result.log_z_by_rung.num_cut else ""
    warmup = f"(+ {result.num_warmup_sweeps} of warm-up)"
    yield "chains × sweeps", f"{result.num_chains} × {result.num_sweeps} {warmup}{cut}"
    yield "seconds", f"{result.seconds:.1f}"


def _verdict_rows(result: "tp.Result") -> Iterator[tuple[str, str]]:
    """Whether to believe it, and all that was found."""
    yield "verdict", common.in_colour(result.verdict.value, result.verdict.is_good)
    for finding in result.diagnosis.findings:
        yield "", in_flags(str(finding))
