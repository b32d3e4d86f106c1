"""The report of one run of `estimate`."""

from collections.abc import Iterator, Mapping
from typing import Any

from tempering import plots
from tempering._version import __version__
from tempering.plots.samples_plot import as_images, fitting_size
from tempering.plots.style import can_plot
from tempering.report.figures import NO_PICTURES, figure, side_by_side
from tempering.report.page import Html, joined, page, pairs_table, section, table, tag
from tempering.report.parts import Words, between, half_count, made_by, number, verdict_box, with_error
from tempering.results import Details, Result

Answer = Mapping[str, Any]
_ERRORS = {
    "chains": "standard error by chains", "groups": "the same by groups of chains", "tours": "the same by tours",
    "drift": "what drift adds", "bias": "what bias adds",
}  # fmt: skip


def run_report(
    result: Result | Details, *, shape: tuple[int, int] | None = None, words: Words = str, title: str = ""
) -> str:
    """The report of a run: the answer and its verdict first, then how it came about.

    Args:
        result: What `tp.estimate` returned, or `Details.read` of its directory.
        shape: Height and width of a state, where it is an image.
        words: How cures are said; by default as arguments in Python.
        title: Of the page; by default the name of the model.

    Returns:
        A document of HTML.
    """
    details = Details.of(result)
    answer = details.answer
    title = title or answer["model"] or "a model"
    body = joined(
        [
            _head(answer, title, words),
            _along_the_ladder(details),
            _between_rungs(details),
            _as_it_went_on(details),
            _readings(details),
            _samples(details, shape),
            section("Numbers", pairs_table(_numbers(answer))),
            made_by(answer["settings"], answer["versions"], _command(answer)),
        ]
    )
    return page(f"log Z of {title}", f"tempering {__version__}", body)


def _head(answer: Answer, title: str, words: Words) -> Html:
    findings = [(finding["seen"], finding["cure"]) for finding in answer["findings"]]
    exact, (low, high) = answer["exact_log_z"], answer["interval"]
    is_known = answer["log_z"] is not None
    lines = [f"95 % interval: {between(answer['interval'])} nats."] if is_known else []
    if exact is not None and low is not None and high is not None:
        where = "inside" if low <= exact <= high else "outside"
        lines.append(f"The exact value is {number(exact)}, {where} the interval.")
    if answer["mean_log_likelihood"] is not None:
        ends = between(answer["mean_log_likelihood_interval"])
        lines.append(f"Mean log-likelihood of the data: {number(answer['mean_log_likelihood'])} ({ends}).")
    return tag(
        "header",
        tag("h1", f"log Z = {with_error(answer['log_z'], answer['std_error'])}" if is_known else "log Z is unknown"),
        tag("p", title, kind="about"),
        verdict_box(answer["verdict"], answer["message"], findings, words),
        tag("p", " ".join(lines)),
        *([] if answer["is_complete"] else [tag("p", "The run was interrupted before its end.")]),
        *([] if can_plot() else [tag("p", NO_PICTURES)]),
    )


def _along_the_ladder(details: Details) -> Html:
    answer = details.answer
    base, target = answer["end_shares"]
    ladder = (
        f"log Z along the ladder of {answer['num_rungs']} rungs, from the base at β = 0 to {number(answer['log_z'])} "
        "at the target, with its 95 % band, and its standard error on the axis at the right."
    )
    shares = (
        "The share of the run at each rung, found (ĉ) and meant to be (r). They agree where the guess of log Z was "
        f"right. The base got {number(base)} of all draws, the target {number(target)}."
    )
    return section(
        "Along the ladder",
        side_by_side([
            figure("ladder", plots.ladder, details, ladder),
            figure("occupancy", plots.occupancy, details, shares),
        ]),
    )  # fmt: skip


def _between_rungs(details: Details) -> Html:
    answer = details.answer
    trips, each = answer["round_trips"], answer["round_trips_per_chain"]
    walked = (
        f"{half_count(trips['total'])} round trips between base and target, {number(each, 2)} per chain. "
        f"A single chain made between {half_count(trips['fewest'])} and {half_count(trips['most'])}."
    )
    matrix = f"Transitions between rungs; a stronger colour is more probable. {_knots(answer)}"
    pictures = [figure("transitions", plots.transitions, details, matrix, size=(4.6, 4.0))]
    if "beta_traces" in details.arrays:
        caption = "β of three chains. A chain that goes to and fro between 0 and 1 forgets where it began."
        pictures.append(figure("traces", plots.traces, details, caption))
    return section("Between rungs", tag("p", walked), side_by_side(pictures))


def _knots(answer: Answer) -> str:
    knots = answer["knot_stretches"]
    if not knots:
        return "There is no knot, a narrow stretch that chains rarely pass."
    where = ", ".join(
        f"β = {number(knot['beta'], 2)} (from {number(knot['low'], 2)} to {number(knot['high'], 2)})" for knot in knots
    )
    is_grave = any(finding["verdict"] == "knot" for finding in answer["findings"])
    passed = "" if is_grave else " Chains passed often enough all the same."
    return f"Knots, narrow stretches that chains rarely pass: {where}.{passed}"


def _as_it_went_on(details: Details) -> Html:
    answer = details.answer
    estimate = (
        f"The estimate from the first sweeps of each of {answer['num_chains']} chains, up to all "
        f"{answer['num_sweeps']} of them, by RTS with its 95 % band; the answer stands at the end."
    )
    asked = "" if answer["target_error"] is None else f" {number(answer['target_error'])} was asked for."
    error = f"Its standard error against sweeps, {number(answer['std_error'])} at the end.{asked}"
    return section(
        "As the run went on",
        side_by_side([
            figure("convergence", plots.convergence, details, estimate),
            figure("error", plots.convergence, details, error, error=True),
        ]),
    )  # fmt: skip


def _readings(details: Details) -> Html:
    answer = details.answer
    rows = [(f"{answer['method']}, the answer", answer["log_z"], answer["std_error"], between(answer["interval"]), "")]
    for each in answer["readings"]:
        weight = number(each["weight"], 2)
        rows.append((each["name"], each["log_z"], each["std_error"], between(each["interval"]), weight))
    if answer["annealed_log_z"] is not None:
        rows.append(("warm-up", answer["annealed_log_z"], answer["annealed_std_error"], "", ""))
    if answer["exact_log_z"] is not None:
        rows.append(("exact", answer["exact_log_z"], None, "", ""))
    cells = [
        (name, number(value), "" if name == "exact" else number(error), ends, weight)
        for name, value, error, ends, weight in rows
    ]
    header = ("reading", "log Z", "error", "95 % interval", "weight")
    caption = "The answer, the readings of the same run that it was made of, and the pass of the warm-up."
    size = (5.0, 1.2 + 0.28 * len(rows))
    picture = figure("readings", plots.comparison, details, caption, size=size)
    return section("All readings", picture, table(header, cells, words=("reading",)))


def _samples(details: Details, shape: tuple[int, int] | None) -> Html:
    about, draws = details.answer["draws"], details.find_draws()
    if about is None or not draws:
        return section("Samples of the target", tag("p", "The run kept no draws."))
    worth = (
        f"The run kept {about['num_kept']} draws of all rungs. They are worth {number(about['effective_size'], 0)} "
        f"draws of the target by their weights, and about {number(about['independent_size'], 0)} independent ones."
    )
    caption = "Draws of the target, picked in proportion to their weights."
    return section(
        "Samples of the target",
        tag("p", worth),
        figure("samples", plots.samples, draws, caption, size=fitting_size(as_images(draws, shape)), shape=shape),
    )


def _numbers(answer: Answer) -> Iterator[tuple[str, str]]:
    yield "chains × sweeps", f"{answer['num_chains']} × {answer['num_sweeps']}"
    yield "sweeps of the warm-up", number(answer["num_warmup_sweeps"])
    yield "sweeps left out as transient", number(answer["num_cut_sweeps"])
    yield "rungs", number(answer["num_rungs"])
    if answer["path_length"] is not None:
        yield "length of the ladder in √KL", number(answer["path_length"]["root_kl"], 1)
    errors = answer["errors"]
    if errors is not None:
        for name, about in _ERRORS.items():
            if errors[name] is not None:
                yield about, number(errors[name], 4)
    known = [rate for rate in answer["acceptance"] or () if rate is not None]
    if known:
        yield "moves accepted, by rung", f"{number(min(known), 2)} to {number(max(known), 2)}"
        yield "divergent trajectories", number(answer["num_divergent"])
    yield from _witness_numbers(answer.get("witnesses"))
    yield "evaluations of the density", number(answer["num_density_evaluations"])
    yield "evaluations of its gradient", number(answer["num_gradient_evaluations"])
    yield "seconds", number(answer["seconds"], 1)
    yield "seed", number(answer["seed"])


def _witness_numbers(check: Answer | None) -> Iterator[tuple[str, str]]:
    """What chains from witnesses found, where there were any."""
    if check is None:
        return
    yield "witnesses", number(check["num_witnesses"])
    for name, about in (("away", "witnesses"), ("own_away", "the run's own draws")):
        if check[name] is not None:
            share = f"{check[name]['num_away']} of {check[name]['num_chains']}"
            yield f"chains from {about} that never came to the base", share
    if check["missing"] is not None:
        low, share, high = (number(check["missing"][name], 2) for name in ("low", "share", "high"))
        yield "share of the mass that is missing", f"{share} ({low} to {high})"


def _command(answer: Answer) -> str:
    """The command line, or the call in Python as far as it can be known."""
    if answer["command"]:
        return answer["command"]
    settings = answer["settings"]
    told = ("num_chains", "num_sweeps", "num_rungs", "betas", "rung_weights", "warmup", "method", "target_error")
    words = [f"{name}={_literal(settings[name])}" for name in told if settings.get(name, "None") != "None"]
    words.append(f"seed={answer['seed']}")
    return f"tp.estimate(model, {', '.join(words)})"


def _literal(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return repr(text)
    return text
