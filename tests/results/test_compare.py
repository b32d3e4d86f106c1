"""Methods side by side: matched cost, shared runs, bounds, alarms, and bad cases that end in a verdict."""

import dataclasses
import json
import os
import signal
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import exact
import tempering as tp
from tempering.cli import common
from tempering.cli.compare import _findings, _print
from tempering.estimators.methods import METHODS, RunKind
from tempering.results import Comparison, Entry, SideBySide
from tempering.verdicts import Finding, Verdict

FIELDS = {"method", "log_z", "std_error", "interval", "verdict", "sweeps", "seconds"}
QUICK = {"num_chains": 40, "num_rungs": 5, "budget": 60}  # the same shapes in all runs, which then share programs


@pytest.fixture(scope="module")
def everything() -> Comparison:
    """All methods on the small RBM, from data."""
    rows = (np.random.default_rng(0).random((30, 5)) < exact.BASE_FREQUENCIES).astype(np.uint8)
    return tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, data=rows, **QUICK)


def test_every_method_answers_at_the_same_cost(everything):
    """Each within 6 of its own errors and what it owns up to of bias: 19 answers, of which most share their draws."""
    assert [entry.method.name for entry in everything.entries] == list(METHODS)
    for entry in everything.entries:
        answer = entry.answer
        assert entry.num_sweeps == 60, entry.method.name
        assert answer.method == entry.method.name
        assert 0 < answer.std_error < 1, entry.method.name
        off = abs(answer.log_z - everything.truth) - abs(answer.biases[-1])
        assert off < 6 * answer.std_error, entry.method.name
        assert entry.num_bytes > 0
        assert entry.seconds > 0
    assert everything.truth == pytest.approx(exact.small_rbm().exact_log_z())


def test_the_json_has_what_scripts_look_for(everything):
    found = json.loads(everything.to_json())
    assert {"methods", "lower_bound", "upper_bound", "agree", "truth"} <= set(found)
    assert len(found["methods"]) == len(METHODS)
    for method in found["methods"]:
        assert set(method) >= FIELDS
        assert len(method["interval"]) == 2
    by_name = {method["method"]: method for method in found["methods"]}
    assert found["lower_bound"] == by_name["ais"]["log_z"]
    assert found["upper_bound"] == by_name["raise"]["log_z"]


@pytest.mark.parametrize("width", [40, 200])
def test_a_comparison_is_whole_on_any_terminal(everything, width, monkeypatch, capsys):
    """Kills: a log Z of which a narrow terminal shows two digits, and flags that another command has."""
    coarse = Finding(Verdict.COARSE, "the rule is off", 'use `method="rts"`')
    entry = everything.entries[0]
    told = dataclasses.replace(entry, run_findings=(coarse,))
    side = SideBySide(0, (told, *everything.entries[1:]))
    monkeypatch.setattr(common, "table_console", lambda: Console(highlight=False, width=width, file=sys.stdout))
    _print(dataclasses.replace(everything, repeats=(side,)))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    for method in everything.entries:
        answer = method.answer
        said = f"{answer.log_z:.4f} {answer.std_error:.4f}", f"log Z {answer.log_z:.4f}, error {answer.std_error:.4f}"
        assert said[width == 40] in text, method.method.name
    assert "use --methods rts." in text


def test_methods_of_a_kind_share_one_run():
    """Three methods, two runs. Kills: a run per method."""
    seen = []

    def watch(progress):
        seen.append((progress.run, progress.stage, progress.done))

    tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts,ts,ais", watch=watch, **QUICK)
    sampled = [done for run, stage, done in seen if (run, stage) == (RunKind.TEMPERED.value, "sampling")]
    annealed = [done for run, _, done in seen if run == RunKind.ANNEALED.value]
    assert sampled == sorted(set(sampled))  # each step once
    assert annealed == sorted(set(annealed))
    assert {run for run, _, _ in seen} == {RunKind.TEMPERED.value, RunKind.ANNEALED.value}


def test_without_a_budget_others_get_what_tempering_takes():
    settings = {"num_chains": 40, "num_rungs": 5, "num_sweeps": 10, "warmup": tp.AnnealedStart(4, (3,))}
    found = tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, methods=["ais", "rts"], **settings)
    assert [entry.num_sweeps for entry in found.entries] == [17, 17]
    iterated = tp.compare(
        exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts,ais",
        **settings | {"warmup": tp.InitialIterations(steps=5, max_iterations=2)},
    )  # fmt: skip
    tempered, annealed = iterated.entries
    assert tempered.num_sweeps == annealed.num_sweeps > 10


@pytest.mark.parametrize("warmup", ["sams", "wang_landau", "iterations"])
def test_any_warmup_can_stand_before_a_comparison(warmup):
    """Adjusting leaves no statistics that `mixed` could take. Kills: every stage but annealing taken for tempered."""
    found = tp.compare(
        exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts,mixed", warmup=warmup, num_chains=40, num_rungs=5,
        num_sweeps=20,
    )  # fmt: skip
    assert [np.isfinite(entry.answer.log_z) for entry in found.entries] == [True, True]


def test_reverse_annealing_is_no_better_than_the_run_it_starts_from(hard):
    """Where no chain reached the target its draws are not the target's. Kills: its own findings alone."""
    found = tp.compare(tp.load(hard), "uniform", methods="rts,reverse_ais", num_chains=20, num_rungs=3, budget=20)
    tempered, reverse = found.entries
    assert not tempered.verdict.is_good
    assert {f.verdict for f in tempered.run_findings} <= {f.verdict for f in reverse.findings}


def test_a_continuous_chain_that_is_stuck_ends_in_a_verdict():
    """On a narrow posterior. Kills: an error, because the density r(β) at the rungs does not add up to 1."""
    model = tp.Posterior(lambda x: -50 * jnp.sum((x - 0.7) ** 2), tp.Normal(jnp.zeros(30)))
    found = tp.compare(model, methods="continuous", num_chains=10, num_rungs=20, budget=60)
    assert found.entries[0].verdict in (Verdict.STUCK, Verdict.KNOT, Verdict.UNREACHED)


@pytest.mark.slow  # test_base_is_target.py has a density; one with β continuous runs above
def test_a_density_that_is_its_base_is_exact_by_every_run():
    """Its tuned move gives controls. Kills: controls asked of a continuous β, or of walkers that carry no gradients."""
    model = tp.LogDensity(lambda x: -jnp.sum(x**2) / 2, tp.Normal(jnp.zeros(2)))
    methods = "auto,mixed,ti_corrected,continuous,sams,ais"
    found = tp.compare(model, methods=methods, num_chains=40, num_rungs=5, budget=400)
    assert found.verdict is Verdict.GOOD
    for entry in found.entries:
        assert entry.verdict is Verdict.GOOD, entry
        assert entry.answer.log_z == pytest.approx(np.log(2 * np.pi), abs=1e-5)
        assert entry.answer.std_error < 1e-5


def test_repeats_count_errors_against_the_truth():
    found = tp.compare(
        exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts,ais", repeats=3, truth=2.0, **QUICK, seed=5
    )
    assert [side.seed for side in found.repeats] == [5, 6, 7]
    values = np.array([side.entry("rts").answer.log_z for side in found.repeats])
    assert len(set(values)) == 3
    summary = found.summary("rts")
    assert summary["rmse"] == pytest.approx(np.sqrt(np.mean((values - 2.0) ** 2)))
    assert summary["bias"] == pytest.approx(values.mean() - 2.0)
    alone = tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts", **QUICK, seed=6)
    assert alone.entries[0].answer.log_z == values[1]  # a repeat is what a run of its own with that seed would be
    assert json.loads(found.to_json())["methods"][0]["summary"]["rmse"] == summary["rmse"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"methods": "rts,nothing"}, "got nothing"),
        ({"methods": ""}, "must be all, or some of"),
        ({"methods": "raise"}, "starts from rows of data"),
        ({"budget": 3}, "4 or more"),
        ({"repeats": 0}, "1 or more"),
    ],
)
def test_what_cannot_be_compared_is_refused(wrong, message):
    with pytest.raises(tp.InputError, match=message):
        tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, **wrong)


def _entry(name: str, log_z: float, std_error: float, bias: float = 0.0, *findings: Finding) -> Entry:
    none = np.zeros(2)
    answer = tp.LogZ(
        name, np.array([0.0, log_z]), np.array([0.0, std_error]), np.array([0.0, bias]), none, 99, findings
    )
    return Entry(METHODS[name], answer, (), 100, 1.0, 8)


def _comparison(*entries: Entry, truth: float | None = None) -> Comparison:
    return Comparison((SideBySide(0, entries),), truth, 100)


def test_answers_beyond_their_errors_raise_an_alarm():
    """4 standard errors, after the biases that both own up to. Kills: errors added instead of in quadrature."""
    assert _comparison(_entry("rts", 10.0, 0.3), _entry("ais", 11.9, 0.4)).agree
    assert not _comparison(_entry("rts", 10.0, 0.3), _entry("ais", 12.1, 0.4)).agree
    assert _comparison(_entry("rts", 10.0, 0.3), _entry("ti_riemann", 12.1, 0.4, 0.2)).agree
    assert _comparison(_entry("rts", 10.0, 0.3), _entry("mbar", 50.0, np.inf)).agree  # it claims nothing
    apart = _comparison(_entry("rts", 10.0, 0.1), _entry("ts", 10.1, 0.1), _entry("ais", 12.0, 0.1))
    assert apart.verdict is Verdict.DISAGREES
    (one, two, errors), _ = apart.repeats[0].disagreements
    assert (one.method.name, two.method.name) == ("rts", "ais")
    assert errors == pytest.approx(2.0 / np.hypot(0.1, 0.1))


def test_one_good_method_that_nobody_contradicts_is_enough():
    coarse = Finding(Verdict.COARSE, "seen", "cure")
    heavy = Finding(Verdict.HEAVY_TAILS, "seen", "cure")
    good, poor = _entry("rts", 10.0, 0.1), _entry("ti_riemann", 10.1, 0.1, 0.0, coarse)
    assert _comparison(good, poor).verdict is Verdict.GOOD
    assert _comparison(poor).verdict is Verdict.COARSE
    assert _comparison(poor, _entry("ais", 10.1, 0.1, 0.0, heavy)).verdict is Verdict.COARSE
    once = Comparison((SideBySide(0, (good,)), SideBySide(1, (_entry("rts", 10, 0.1, 0.0, heavy),))), None, 100)
    assert once.verdict is Verdict.HEAVY_TAILS  # not good with every seed


def test_the_verdict_says_whose_it_is():
    """Kills: a good method that speaks for rts, a method that is left out without a word."""
    heavy = Finding(Verdict.HEAVY_TAILS, "seen", "cure")
    found = _comparison(_entry("rts", 10.0, 0.1, 0.0, heavy), _entry("ais", 10.1, 0.1))
    assert (found.verdict, found.judge) == (Verdict.HEAVY_TAILS, "rts")
    assert "the verdict of rts" in found.in_words()
    assert found.to_dict()["verdict_of"] == "rts"
    assert _comparison(_entry("rts", 10.0, 0.1, 0.0, heavy), _entry("auto", 10.1, 0.1)).verdict.is_good
    without = dataclasses.replace(found, left_out={"raise": "it needs `data`"})
    assert "raise was left out: it needs `data`." in str(without)
    assert str(without).splitlines()[3].split() == ["raise", "left", "out"]
    assert without.to_dict()["left_out"] == [{"method": "raise", "why": "it needs `data`"}]


def test_a_finding_is_printed_once():
    """Kills: the same words once for every method of a run."""
    stuck, coarse = Finding(Verdict.STUCK, "no trips", "more"), Finding(Verdict.COARSE, "wide", "narrow")
    entries = [dataclasses.replace(_entry(name, 10.0, 0.1, 0.0, stuck, coarse), run_findings=(stuck,))
               for name in ("rts", "ts")]  # fmt: skip
    found = _findings(SideBySide(0, tuple(entries)))
    assert found == {"no trips; more.": ["simulated tempering"], "wide; narrow.": ["rts", "ts"]}


def test_coverage_and_bounds_are_those_of_the_entries():
    sides = [SideBySide(i, (_entry("ais", 10 + i, 0.5), _entry("raise", 12.0, 0.1))) for i in range(4)]
    found = Comparison(tuple(sides), 10.4, 100)
    assert found.summary("ais")["coverage"] == pytest.approx(0.5)  # 10 and 11 are within 1.99 · 0.5
    assert (found.lower_bound, found.upper_bound) == (11.5, 12.0)
    assert _comparison(good := _entry("rts", 1.0, 0.1)).lower_bound is None
    assert _comparison(good, _entry("reverse_ais", 3.0, 0.1)).upper_bound == 3.0


@pytest.fixture
def tempering(tempering, monkeypatch):
    """The command line, with the devices that there are."""
    monkeypatch.setattr("tempering.cli.common.use_cores", lambda devices: None)
    return tempering


@pytest.fixture(scope="module")
def hard(tmp_path_factory) -> str:
    """An RBM so cold that base and target share nothing."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("models") / "hard.npz"
    np.savez(file, W=rng.normal(0, 30, (12, 6)), vbias=rng.normal(0, 30, 12), hbias=rng.normal(0, 30, 6))
    return str(file)


def test_the_command_prints_a_table_and_a_sandwich(tempering):
    status, out, err = tempering(
        "compare", "--methods", "rts,ais,reverse_ais", "--budget", 200, "--rungs", 10, "--chains", 40
    )
    assert (status, err) == (0, "")
    for word in (
        "log Z",
        "low",
        "high",
        "memory",
        "200",
        "true log Z  68.4033",
        "sandwich",
        "Good, by rts:",
    ):
        assert word in out
    status, out, _ = tempering(
        "compare", "--methods", "rts,ais", "--budget", 200, "--rungs", 10, "--chains", 40, "--repeats", 2
    )
    assert status == 0
    for word in ("RMSE", "covers", "2 of 2"):
        assert word in out


@pytest.mark.parametrize(("when", "status", "word"), [
    (RunKind.ANNEALED.value, 143, "ais was left out: the comparison was stopped before it was done."),
    (RunKind.TEMPERED.value, 130, ""),
])  # fmt: skip
def test_the_command_is_interrupted(tempering, monkeypatch, when, status, word):
    """Kills: a comparison that ends at Ctrl-C or SIGTERM without a word, or with a status of its own."""
    compare, number = tp.compare, signal.SIGTERM if status == 143 else signal.SIGINT

    def interrupted(*arguments, watch, **settings):
        def watching(progress):
            if progress.run == when:
                os.kill(os.getpid(), number)
            return watch(progress)

        return compare(*arguments, watch=watching, **settings)

    monkeypatch.setattr("tempering.compare", interrupted)
    found, out, err = tempering("compare", "--methods", "rts,ais", "--budget", 200, "--rungs", 10, "--chains", 40)
    assert found == status
    assert word in out
    assert ("rts" in out) == bool(word)
    assert err.endswith("Terminated. Start it again.\n" if status == 143 else "Interrupted. Start it again.\n")


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        (("--methods", "mbar", "--rungs", 2, "--budget", 40), "no_overlap"),
        (("--methods", "bar", "--rungs", 2, "--budget", 40), "no_overlap"),
        (("--methods", "ais", "--budget", 5), "heavy_tails"),
        pytest.param(("--methods", "ti_trapezoid", "--rungs", 3, "--budget", 40), None, marks=pytest.mark.slow),
    ],
)
def test_bad_cases_end_in_a_verdict_and_status_3(tempering, hard, arguments, verdict):
    """Two rungs that do not overlap, five annealing steps, an integral over three points: not a number alone."""
    status, out, _ = tempering("compare", hard, "--base", "uniform", "--chains", 20, *arguments, "--json")
    assert status == 3
    found = json.loads(out)
    (method,) = found["methods"]
    assert found["verdict"] != "good"
    assert verdict is None or verdict in [finding["verdict"] for finding in method["findings"]]
    assert all(finding["seen"] and finding["cure"] for finding in method["findings"])


@pytest.mark.slow  # five steps on the hard model above have the same verdict
def test_ais_with_five_rungs_on_the_large_rbm_is_not_called_good(shared_data, tempering):
    status, out, _ = tempering(
        "compare", shared_data / "rbm_mnist_cd25_500.npz", "--base", "bias", "--methods", "ais", "--budget", 5, "--json"
    )
    assert status == 3
    (method,) = json.loads(out)["methods"]
    assert method["verdict"] != "good"


def test_a_base_without_a_normaliser_is_refused_at_the_door():
    """An improper base: log Z_0 is infinite. Every method that needs it says so in one line, before anything runs."""

    class Improper(tp.Unnormalised):
        def log_z(self) -> float:
            return float("inf")

    base = Improper(lambda x: 0.0 * x, lambda key: key)
    with pytest.raises(tp.InputError, match="improper"):
        tp.paths.GeometricPath.create(lambda x: -(x**2), base, np.array([0.0, 1.0]))


def test_a_finding_of_the_run_counts_for_each_of_its_methods():
    stuck = Finding(Verdict.STUCK, "seen", "cure")
    entry = dataclasses.replace(_entry("rts", 1.0, 0.1), run_findings=(stuck,))
    assert entry.verdict is Verdict.STUCK
    assert entry.to_dict()["findings"] == [{"verdict": "stuck", "seen": "seen", "cure": "cure"}]


@pytest.mark.parametrize(("repeat", "run", "num_seeds", "methods"), [
    (0, RunKind.ANNEALED.value, 1, ["rts", "ts"]),  # in the first seed
    (1, RunKind.TEMPERED.value, 1, ["rts", "ts", "ais"]),  # in the second, which is then left out
])  # fmt: skip
def test_a_comparison_that_is_stopped_has_what_was_done(repeat, run, num_seeds, methods):
    """Kills: a `watch` that is not listened to, and seeds with different methods."""
    found = tp.compare(
        exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts,ts,ais", repeats=2,
        watch=lambda progress: (progress.repeat, progress.run) == (repeat, run), **QUICK,
    )  # fmt: skip
    assert [[entry.method.name for entry in side.entries] for side in found.repeats] == [methods] * num_seeds
    assert set(found.left_out) == {"rts", "ts", "ais"} - set(methods)
    assert found.to_dict()["is_complete"] is False
    assert "was stopped before its end" in str(found)


def test_a_comparison_that_is_stopped_before_any_method_is_done():
    with pytest.raises(tp.Interrupted, match="before any method"):
        tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, methods="rts", watch=lambda progress: True, **QUICK)


@pytest.mark.parametrize(("argument", "line"), [
    ({"truth": np.nan}, "`truth` must be a finite number, the true log Z; got nan"),
    ({"methods": ","}, "got none"),
    ({"methods": "raise"}, "RAISE starts from rows of data"),
])  # fmt: skip
def test_what_a_comparison_refuses(argument, line):
    """Kills: a true log Z of NaN, next to a verdict of good."""
    with pytest.raises(tp.InputError, match=line):
        tp.compare(exact.small_rbm(), exact.BASE_FREQUENCIES, **{"methods": "rts"} | QUICK | argument)
