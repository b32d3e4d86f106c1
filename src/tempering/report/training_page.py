"""The report of a training run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tempering import plots
from tempering._version import __version__
from tempering.plots.samples_plot import as_images, fitting_size
from tempering.plots.style import can_plot
from tempering.report.figures import NO_PICTURES, figure
from tempering.report.page import Html, joined, page, pairs_table, section, tag
from tempering.report.parts import Words, between, made_by, number, verdict_box, with_error
from tempering.results.details import versions

Summary = Mapping[str, Any]  # what `tempering train` prints as JSON


def training_report(
    summary: Summary,
    rows: Sequence[Mapping[str, Any]],
    *,
    samples: np.ndarray | None = None,
    shape: tuple[int, int] | None = None,
    words: Words = str,
    title: str = "",
) -> str:
    """The report of a training run: what it came to first, then its likelihood by update.

    Args:
        summary: What `tempering train` prints as JSON.
        rows: `Outcome.rows`, or the lines of metrics.jsonl.
        samples: Of the model, one row each.
        shape: Height and width of a row, where it is an image.
        words: How cures are said; by default as arguments in Python.
        title: Of the page.

    Returns:
        A document of HTML.
    """
    pictures = Html("")
    if rows:
        caption = "Mean log-likelihood by update with its 95 % band. Updates at which log Z was unknown are shaded."
        pictures = figure("training", plots.training, rows, caption, best_update=summary["best_update"])
    body = joined(
        [
            _head(summary, title, words),
            section("The likelihood while training", pictures),
            section("Samples of the model", _samples(samples, shape)),
            section("Numbers", pairs_table(_numbers(summary))),
            section("Files", pairs_table(summary["files"].items())),
            made_by(summary["settings"], summary.get("versions") or versions(), summary.get("command")),
        ]
    )
    return page(f"Training {title}".strip(), f"tempering {__version__}", body)


def _head(summary: Summary, title: str, words: Words) -> Html:
    kept = {name: summary[name] for name in ("valid", "train") if summary[name] is not None}
    heading = "Log-likelihood unknown"
    if kept:
        name, best = next(iter(kept.items()))
        heading = f"{name} log-likelihood {number(best['value'])}"
    findings = [(finding["seen"], finding["cure"]) for finding in summary["findings"]]
    lines = [f"{name}: {number(each['value'])}, 95 % band {between(each['interval'])}." for name, each in kept.items()]
    return tag(
        "header",
        tag("h1", heading),
        tag("p", title, kind="about"),
        verdict_box(summary["verdict"] or "unknown", summary["message"], findings, words),
        tag("p", f"At update {summary['best_update']}, which is kept. ", " ".join(lines)),
        *([] if summary["is_complete"] else [tag("p", "The run was interrupted before its end.")]),
        *([] if can_plot() else [tag("p", NO_PICTURES)]),
    )


def _samples(samples: np.ndarray | None, shape: tuple[int, int] | None) -> Html:
    if samples is None or shape is None:
        return Html("")
    caption = "Probabilities of the visible units, from the chains at the highest rungs."
    draws = {"v": samples}
    size = fitting_size(as_images(draws, shape))
    return figure("samples", plots.samples, draws, caption, size=size, shape=shape)


def _numbers(summary: Summary) -> Iterator[tuple[str, str]]:
    early = ", stopped early" if summary["stopped_early"] else ""
    yield "updates", f"{summary['num_updates']} of {summary['settings']['num_updates']}{early}"
    yield "best update", number(summary["best_update"])
    yield "evaluations of the likelihood", number(summary["num_evaluations"])
    yield "of these without log Z", number(summary["num_lost"])
    check = summary["last_check"]
    if check is not None:
        yield "log Z by AIS", f"{with_error(check['ais_log_z'], check['ais_std_error'])} at update {check['update']}"
        yield "log Z tracked there", with_error(check["log_z"], check["std_error"])
    yield "seconds", number(summary["seconds"], 1)
