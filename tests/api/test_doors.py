"""The doors of the library: every argument in the signature, and every mistake answered in one line."""

import inspect
import itertools
import subprocess
import sys

import pytest

import exact
import tempering as tp
from tempering.api import Settings
from tempering.api.settings import read_seconds
from tempering.estimators import methods

SIZES = itertools.count(1)
DOORS = (tp.estimate, tp.compare, tp.estimate_many, tp.log_ratio, tp.Tracker, tp.training.Trainer)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_signatures_are_explicit(door):
    """Kills: **settings, which no editor completes and no type checker reads."""
    for parameter in inspect.signature(door).parameters.values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL), parameter
        assert parameter.annotation is not parameter.empty, parameter
        assert parameter.name in (inspect.getdoc(door) or "") + (inspect.getdoc(door.__init__) or ""), parameter


def test_defaults_are_written_once():
    shown = inspect.signature(tp.estimate).parameters
    for name in Settings.__dataclass_fields__:
        assert shown[name].default == getattr(Settings, name), name
    assert (shown["num_chains"].default, shown["num_sweeps"].default, shown["num_rungs"].default) == (100, None, None)
    assert (shown["warmup"].default, shown["method"].default) == ("sequential", "auto")
    for door in (tp.compare, tp.estimate_many):  # all their runs have one length
        assert inspect.signature(door).parameters["num_sweeps"].default == 1000, door.__name__


def model():
    return exact.small_rbm()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: tp.estimate(model(), num_chain=10), "`num_chains`"),
    (lambda: tp.estimate(model(), chains=10), "`num_chains`"),
    (lambda: tp.estimate(model(), sweep=10), "Did you mean `num_sweeps`"),
    (lambda: tp.estimate(model(), prior="ends"), "`rung_weights`"),
    (lambda: tp.estimate(model(), verbose=True), "Did you mean `progress`"),
    (lambda: tp.estimate(model(), zzz=1), "It takes: model, base, data"),
    (lambda: tp.estimate(model(), resume=True), "`out`"),
    (lambda: tp.estimate(model(), target_error=0.1, max_seconds="soon"), '"10m"'),
    (lambda: tp.estimate(model(), max_seconds="later"), '"10m"'),
    (lambda: tp.estimate(model(), num_sweeps=10, max_sweeps=100), "`target_error`"),
    (lambda: tp.estimate(model(), num_chains=True), "whole number"),
    (lambda: tp.compare(model(), method="rts"), "`methods`"),
    (lambda: tp.compare(model(), target_error=0.1), "`budget`"),
    (lambda: tp.estimate_many(model(), seeds=[0], seed=1), "`seeds`"),
    (lambda: tp.estimate_many(model(), seeds=[0], target_error=0.1), "one length"),
    (lambda: tp.estimate_many(model(), seeds=[0], progress=True), "one by one"),
])  # fmt: skip
def test_mistakes_are_one_line_with_a_cure(call, words):
    """What fell through before: tracebacks from inside, or arguments that were silently ignored."""
    with pytest.raises(tp.InputError) as refused:
        call()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


WRONG_KINDS = """
import numpy as np
import tempering as tp

rbm, frequencies = tp.load_example()
calls = {
    "tp.LogDensity(function, base=": lambda: tp.estimate(lambda x: -(x**2)),
    "tp.load('rbm.npz')": lambda: tp.estimate("rbm.npz"),
    "tp.RBM": lambda: tp.estimate(np.eye(3)),
    "tp.HMC()": lambda: tp.estimate(rbm, move="hmc"),
    "tp.RandomWalk()": lambda: tp.compare(rbm, move="hmc"),
    "tp.SequentialStart()": lambda: tp.estimate(rbm, warmup=3),
    "Estimate both": lambda: tp.log_ratio(rbm, rbm),
}
for words, call in calls.items():
    try:
        call()
    except tp.InputError as refused:
        assert words in str(refused), (words, str(refused))
    else:
        raise AssertionError(words)
"""


def test_things_of_the_wrong_kind():
    """In a process of its own: here the types of arguments are checked before the library sees them."""
    subprocess.run([sys.executable, "-c", WRONG_KINDS], check=True)


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, None), (90, 90.0), ("90", 90.0), ("10m", 600.0), ("0.5h", 1800.0)]
)
def test_times_in_words(given, seconds):
    assert read_seconds(given) == seconds


def test_tuning_keeps_an_adaptive_ladder():
    """`warmup=Tuned(AnnealedStart())` respaces as AnnealedStart() alone does. Kills: a capability of the class only."""
    for warmup in (tp.AnnealedStart(), tp.warmups.Tuned(tp.AnnealedStart())):
        assert Settings(warmup=warmup).with_spacing("adaptive").betas == "adaptive"
    tuned = Settings(warmup=tp.warmups.Tuned(tp.AnnealedStart()), betas="adaptive", num_rungs=100).make_warmup()
    assert tuned == tp.warmups.Tuned(tp.AnnealedStart(respaces=True))
    free = Settings(warmup=tp.warmups.Tuned(tp.AnnealedStart()), betas="adaptive").make_warmup()
    assert free == tp.warmups.Tuned(Settings(warmup="annealed", betas="adaptive").make_warmup())
    assert Settings(warmup="iterations").with_spacing("adaptive").betas == "power"


def test_an_estimate_on_the_way_costs_nothing_unless_looked_at(monkeypatch):
    """Kills: solving MBAR at every chunk for a bar that nobody sees."""
    calls = []
    original = methods.METHODS["ts"].answer

    def counted(*arguments, **base):
        calls.append(1)
        return original(*arguments, **base)

    counting = methods.dataclasses.replace(methods.METHODS["ts"], answer=counted)
    monkeypatch.setitem(methods.METHODS, "ts", counting)
    how = dict(num_chains=10, num_sweeps=40, num_rungs=5, method="ts", warmup=tp.AnnealedStart(8, (4,)))
    seen = []
    tp.estimate(model(), exact.BASE_FREQUENCIES, watch=seen.append, **how)
    assert len(calls) == 1  # the answer itself
    assert seen[-1].estimate is seen[-1].estimate is not None
    assert len(calls) == 2  # kept once it is known
    assert "sampling: 40 of 40 sweeps" in str(seen[-1])


def test_results_print_as_a_line_or_a_table():
    how = dict(num_chains=20, num_sweeps=40, num_rungs=5, warmup=tp.AnnealedStart(8, (4,)))
    found = tp.compare(model(), exact.BASE_FREQUENCIES, methods="rts,ais", **how)
    lines = str(found).splitlines()
    assert lines[0].split()[:4] == ["method", "log", "Z", "error"]
    assert [line.split()[0] for line in lines[1:]] == ["rts", "ais", "verdict"]
    assert len(repr(found)) < 120
    a, b = (tp.estimate(model(), exact.BASE_FREQUENCIES, seed=seed, **how) for seed in (0, 1))
    assert str(tp.log_ratio(a, b)).startswith("log ratio = ")


@pytest.mark.parametrize(("expect", "words"), [
    (lambda x: "word", "it raises TypeError"),
    (lambda x: None, "it raises "),
    (lambda x: x.nothing, "it raises AttributeError: .*nothing"),
    (lambda x: x.v[:0], "an empty one of shape"),
    (lambda x: x.v + 1j, "got complex64"),
    (lambda x: x.v[: next(SIZES)], "of one shape; got .1,. and then .2,."),
])  # fmt: skip
def test_what_cannot_be_expected(expect, words):
    """Kills: a mean of the real part alone, one number given for three, and errors of JAX's."""
    with pytest.raises(tp.InputError, match=words):
        tp.estimate(exact.small_rbm(), exact.BASE_FREQUENCIES, expect=expect, num_rungs=5)
