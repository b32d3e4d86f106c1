"""Every verdict is provoked once, by the least that provokes it, and says its cause, what was seen and what to do."""

import dataclasses
import inspect
import re

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from samples import (
    BLOCKS,
    CHAINS,
    RUNGS,
    changed,
    cut_tours,
    few_crossings,
    gaussian_draws,
    healthy,
    log_sums_that_drift,
    noisy_slope_stats,
    noisy_step_stats,
    one_chain,
)
from tempering import Finding, Verdict
from tempering.api import Settings
from tempering.diagnosis import Away, Goal, Look, MissingMass, WitnessCheck, diagnose, missed, unequilibrated
from tempering.diagnosis.stopping import too_short
from tempering.estimators import Annealed, _mbar_solver
from tempering.stats import MoveCounts, Tours
from tempering.training.doubts import doubts_of
from tempering.training.tempered import Reading


def of_run(recording, annealed=None):
    return diagnose(recording, annealed).findings


def frozen():
    moves = MoveCounts(np.full(RUNGS, 500.0), np.array([500.0, 300.0, 4.0]), np.zeros(RUNGS))
    return of_run(dataclasses.replace(healthy(), moves=moves))


def divergent():
    """A fifth of the trajectories at the target and none below it."""
    moves = MoveCounts(np.full(RUNGS, 500.0), np.full(RUNGS, 300.0), np.array([0.0, 0.0, 100.0]))
    return of_run(dataclasses.replace(healthy(), moves=moves))


def knotted():
    """Two halves of a ladder that one chain in thousands passes between, and chains that hardly travel."""
    counts = np.zeros((60, 60), np.int64)
    for rung in range(59):
        counts[rung, rung + 1] = counts[rung + 1, rung] = 5 if rung == 36 else 40_000
    stats = healthy().stats
    wide = {n: np.repeat(getattr(stats, n), 20, axis=2) for n in ("log_sums", "visits")}
    law = {"betas": np.linspace(0, 1, 60), "log_prior": np.full(60, -np.log(60)), "log_z_guess": np.zeros(60)}
    long = dataclasses.replace(stats, travel=few_crossings(), **wide, **law)
    return of_run(dataclasses.replace(healthy(), stats=long, transition_counts=counts[None]))


def unsure():
    """Of forty tours one saw the target."""
    rows = np.zeros((40, 2))
    rows[:, 0], rows[0, 1] = 1.0, 40.0
    products = np.array([[40.0, 40.0, 1600.0]])
    none = np.zeros((1, 2))
    tours = Tours(none, none, np.ones(1, bool), np.array([40.0]), rows.sum(axis=0)[None], products, np.zeros(1, bool))
    return of_run(dataclasses.replace(healthy(), tours=tours))


def caught():
    """Twelve chains end in a long tour, and none begins in one."""
    return of_run(dataclasses.replace(healthy(), tours=cut_tours(np.zeros(12), np.arange(12) + 5.0)))


def no_overlap():
    stats = noisy_step_stats()
    steps = stats.log_steps.copy()
    steps[:, :, 2, 0] = -np.inf
    return tp.estimators.stepping_stone(dataclasses.replace(stats, log_steps=steps), "up").findings


def unconverged(monkeypatch):
    monkeypatch.setattr(_mbar_solver, "_MAX_STEPS", 1)
    return tp.estimators.mbar(gaussian_draws(np.random.default_rng(3), (400,))[0]).findings


def heavy():
    few = np.where(np.arange(100) < 7, 0.0, -30.0)
    return tp.estimators.ais(np.column_stack([np.zeros(100), few])).findings


def short():
    finding = too_short(Look(1000, 0, 0.2, ()), Goal(0.05, 1000))
    return () if finding is None else (finding,)


def missing():
    mass = MissingMass(0.5, 0.4, 0.6, -0.7, 0.05, Away(50, 50))
    finding = missed(WitnessCheck(1, 0, 500, Away(50, 50), Away(0, 100), mass), -0.7, 0.01)
    return () if finding is None else (finding,)


def uneven():
    log_sums = healthy().stats.log_sums.copy()
    log_sums[:, :, 2] -= 3.0
    return of_run(changed(log_sums=log_sums))


def unreached():
    visits = healthy().stats.visits.copy()
    visits[:, :, 1] = 0
    return of_run(changed(visits=visits))


def lost():
    few, news, none = jnp.float32(0.04), jnp.float32(1.5), jnp.zeros(20)
    return doubts_of(
        Reading(jnp.zeros(9), none, news, none, jnp.ones(9), few, jnp.float32(3.0), jnp.int32(0), jnp.int32(0))
    )


ARGUMENTS = {*inspect.signature(tp.estimate).parameters, *(field.name for field in dataclasses.fields(Settings))}
PROVOKED = {
    Verdict.SHORT: (short, "0.2 after 1000 sweeps, 0.05 was asked for", "`max_sweeps=20000`"),
    Verdict.UNSURE: (unsure, "by tours", "`num_sweeps=800`"),
    Verdict.UNEQUILIBRATED: (lambda: (unequilibrated(),), "ran out of sweeps", "leave `warmup` out"),
    Verdict.COARSE: (lambda: tp.estimators.ti(noisy_slope_stats(most=400), "riemann").findings, "", "rungs"),
    Verdict.RELAXING: (
        lambda: of_run(changed(log_sums=log_sums_that_drift())),
        "second half differs",
        "`num_sweeps=800`",
    ),
    Verdict.UNEVEN: (uneven, "rung 2 of 2", "warm-up"),
    Verdict.HEAVY_TAILS: (heavy, "count as 7", ""),
    Verdict.DISAGREES: (lambda: of_run(healthy(), Annealed(5.0, 0.1, 0.5)), "by annealing", "`num_sweeps=800`"),
    Verdict.CAPTURED: (caught, "of the 12 chains that are away from the base for longest", "`num_sweeps=800`"),
    Verdict.MISSED: (missing, "about 0.5 of the mass is missing, at least 0.4", "`base` that covers the witnesses"),
    Verdict.NO_OVERLAP: (no_overlap, "none of", "rungs"),
    Verdict.UNCONVERGED: (None, "", ""),  # with a monkeypatch, below
    Verdict.LOST: (lost, "of the chains effective; log Z runs 1.5 nats behind", "learning rate"),
    Verdict.DIVERGENT: (divergent, "0.2 of the trajectories at the target diverged, 0 at the middle", "tp.HMC(0.01)"),
    Verdict.FROZEN: (frozen, "0.008 of the moves at rung 2", "tp.HMC"),
    Verdict.STUCK: (
        lambda: of_run(changed(travel=few_crossings())),
        "0.075 round trips per chain",
        "`num_sweeps=9700`",
    ),
    Verdict.KNOT: (knotted, "a knot at β = 0.6", "`num_sweeps=9700`"),
    Verdict.UNREACHED: (unreached, "the first of them rung 1", "`num_sweeps=4000`"),
    Verdict.NO_ERROR: (lambda: of_run(one_chain()), "could not be estimated", "`num_sweeps=800`"),
    Verdict.NONFINITE: (
        lambda: of_run(changed(num_nonfinite=np.full((CHAINS, BLOCKS), 2))),
        "320 of 8000 draws",
        "overflow",
    ),
}


def test_no_verdict_is_left_out():
    assert {*PROVOKED, Verdict.GOOD} == set(Verdict)
    assert of_run(healthy()) == ()


@pytest.mark.parametrize("verdict", PROVOKED, ids=lambda verdict: verdict.label)
def test_it_says_what_it_is_what_was_seen_and_what_to_do(verdict, monkeypatch):
    make, seen, cure = PROVOKED[verdict]
    findings: tuple[Finding, ...] = unconverged(monkeypatch) if make is None else make()
    (found,) = [finding for finding in findings if finding.verdict is verdict]
    assert seen in found.seen
    assert cure in found.cure
    assert found.seen
    assert found.cure
    assert ": " in verdict.value  # a name, then the cause in words
    assert not verdict.is_good
    assert str(found) == f"{found.seen}; {found.cure}."
    assert not any(text.endswith(".") for text in (found.seen, found.cure))
    assert "--" not in found.cure  # in Python's words; the command line translates arguments into options
    assert {name for name in re.findall(r"`(\w+)=", found.cure)} <= ARGUMENTS


def nearly_enough():
    """35 crossings of 20 chains: 0.875 round trips per chain, 17.5 in all."""
    return dataclasses.replace(few_crossings(), num_crossings=np.where(np.arange(CHAINS) < 15, 2, 1))


def test_chains_that_nearly_travelled_enough_are_told_how_many_sweeps_would_do():
    """By the model too, whose own advice stands behind the number. Kills: a cure of the model in its place."""
    travel = nearly_enough()
    (stuck,) = [finding for finding in of_run(changed(travel=travel)) if finding.verdict is Verdict.STUCK]
    assert stuck.seen.startswith("0.88 round trips per chain")
    assert stuck.cure == "run more sweeps, about `num_sweeps=570`"  # (1 + 1/√17.5) / 0.875 of 400, rounded up
    posterior = tp.Posterior(lambda x: -jnp.sum(x**2), tp.Normal(jnp.zeros(2)))
    for found in (stuck, *(f for f in knotted() if f.verdict in (Verdict.STUCK, Verdict.KNOT))):
        advised = found.with_cure(posterior.advice(found.verdict)).cure
        assert "`num_sweeps=" in advised
        assert "non-centre" in advised


def test_chains_that_never_crossed_need_ten_times_as_many_sweeps():
    none = dataclasses.replace(few_crossings(), num_crossings=np.zeros(CHAINS, np.int64))
    (stuck,) = [finding for finding in of_run(changed(travel=none)) if finding.verdict is Verdict.STUCK]
    assert stuck.cure == "run ten times as many sweeps, `num_sweeps=4000`"


def test_advice_replaces_cures_and_nothing_else():
    """Kills: advice where it is None, a verdict that changes."""
    recording = changed(num_nonfinite=np.full((CHAINS, BLOCKS), 1), travel=few_crossings())
    diagnosis = diagnose(recording)
    advised = diagnosis.with_advice({Verdict.STUCK: "take another base"}.get)
    assert [(f.verdict, f.seen) for f in advised.findings] == [(f.verdict, f.seen) for f in diagnosis.findings]
    general = {f.verdict: f.cure for f in diagnosis.findings}
    changes = {f.verdict: f.cure for f in set(advised.findings) - set(diagnosis.findings)}
    assert changes == {Verdict.STUCK: f"{general[Verdict.STUCK]}, or take another base"}  # the number of sweeps stays
    plain = Finding(Verdict.KNOT, "seen", "general").with_cure("the model's own")
    assert plain.cure == "the model's own"


def test_an_answer_that_is_known_is_not_made_again(monkeypatch):
    """The same diagnosis, bit by bit, without a second estimate."""
    recording, annealed = changed(travel=few_crossings()), Annealed(5.0, 0.1, 0.5)
    answer = tp.estimators.equilibrated_rts(recording, log_z_base=0.3)
    expected = diagnose(recording, annealed, log_z_base=0.3)
    monkeypatch.setattr("tempering.diagnosis.checks.equilibrated_rts", None)
    found = diagnose(recording, annealed, log_z_base=0.3, answer=answer)
    assert (found.findings, found.drift) == (expected.findings, expected.drift)
    assert Verdict.DISAGREES in {finding.verdict for finding in found.findings}


def test_a_diagnosis_is_a_line():
    assert repr(diagnose(healthy())).startswith("good; 4 round trips per chain, drift ")
    stuck = diagnose(changed(travel=few_crossings()))
    assert repr(stuck).startswith("stuck; 0.075 round trips per chain")
    assert "\n" not in repr(stuck.rung_chain)
