"""The report of a comparison of methods."""

from collections.abc import Mapping
from typing import Any

from tempering import plots
from tempering._version import __version__
from tempering.plots.style import can_plot
from tempering.report.figures import NO_PICTURES, figure
from tempering.report.page import Html, joined, page, section, table, tag
from tempering.report.parts import Words, between, made_by, number, verdict_box
from tempering.results import Comparison
from tempering.results.comparison import STOPPED
from tempering.results.details import versions

_SUMMARY = ("mean", "mean_std_error", "bias", "rmse", "coverage", "good")


def comparison_report(
    comparison: Comparison,
    *,
    settings: Mapping[str, Any] | None = None,
    command: str | None = None,
    words: Words = str,
    title: str = "",
) -> str:
    """The report of a comparison: whether the methods agree, and each with its interval, its cost and its verdict.

    Args:
        comparison: What `tp.compare` returned.
        settings: How it was made, by name.
        command: The command line that made it.
        words: How cures are said; by default as arguments in Python.
        title: Of the page.

    Returns:
        A document of HTML.
    """
    found = comparison.to_dict()
    body = joined(
        [
            _head(comparison, found, title, words),
            section("Side by side", _picture(found), _table(found)),
            section("What each method says of itself", _findings(found, words)),
            section("Over all seeds", _summaries(found)),
            made_by(settings or {}, versions(), command),
        ]
    )
    return page(f"Methods compared {title}".strip(), f"tempering {__version__}", body)


def _head(comparison: Comparison, found: Mapping[str, Any], title: str, words: Words) -> Html:
    good = [method for method in found["methods"] if method["verdict"] == "good"]
    ends = [end for method in good for end in method["interval"] if end is not None]
    heading = f"log Z between {number(min(ends))} and {number(max(ends))}" if ends else "log Z is not known"
    pairs = [] if comparison.agree else comparison.repeats[0].disagreements[:1]
    seen = [
        f"{one.method.name} says {number(one.answer.log_z)} and {two.method.name} says {number(two.answer.log_z)}"
        for one, two, _ in pairs
    ]
    lines = ["By the 95 % intervals of all methods that call themselves good."] if ends else []
    lines += [] if found["truth"] is None else [f"The exact value is {number(found['truth'])}."]
    if found["lower_bound"] is not None and found["upper_bound"] is not None:
        bounds = f"{number(found['lower_bound'])} from below and {number(found['upper_bound'])} from above"
        lines.append(f"Annealing bounds it by {bounds}, each in expectation.")
    return tag(
        "header",
        tag("h1", heading),
        tag("p", title, kind="about"),
        verdict_box(
            found["verdict"], comparison.in_words(), [(each, "trust neither until they agree") for each in seen], words
        ),
        tag("p", " ".join(lines)),
        *([] if comparison.is_complete else [tag("p", STOPPED)]),
        *([] if can_plot() else [tag("p", NO_PICTURES)]),
    )


def _picture(found: Mapping[str, Any]) -> Html:
    size = (5.4, 1.2 + 0.26 * len(found["methods"]))
    truth = "" if found["truth"] is None else f" The exact value is {number(found['truth'])}."
    caption = f"Every method with its 95 % interval; hollow marks are not to be believed.{truth}"
    return figure("methods", plots.comparison, found, caption, size=size)


def _table(found: Mapping[str, Any]) -> Html:
    header = ("method", "log Z", "error", "95 % interval", "verdict", "errs", "sweeps", "seconds")
    rows = [
        (
            each["method"], number(each["log_z"]), number(each["std_error"]), between(each["interval"]),
            each["verdict"], each["errs"] or "", number(each["sweeps"]), number(each["seconds"], 1),
        )
        for each in found["methods"]
    ]  # fmt: skip
    return table(header, rows, words=("method", "verdict", "errs"))


def _findings(found: Mapping[str, Any], words: Words) -> Html:
    """Each box once, with the names of all methods that say the same."""
    methods: dict[Any, list[str]] = {}
    for each in found["methods"]:
        findings = tuple((finding["seen"], finding["cure"]) for finding in each["findings"])
        if findings:
            methods.setdefault((each["verdict"], each["message"], findings), []).append(each["method"])
    return joined(
        verdict_box(verdict, f"{', '.join(names)}: {message}", findings, words)
        for (verdict, message, findings), names in methods.items()
    )


def _summaries(found: Mapping[str, Any]) -> Html:
    if found["repeats"] == 1:
        return Html("")
    names = [name for name in _SUMMARY if name in found["methods"][0]["summary"]]
    rows = [(each["method"], *(number(each["summary"][name]) for name in names)) for each in found["methods"]]
    return table(("method", *(name.replace("_", " ") for name in names)), rows, words=("method",))
