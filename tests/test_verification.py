"""`tempering verify` passes on a right program, and names what is wrong with a mutant."""

import dataclasses
import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from tempering import InputError, cli
from tempering.estimators import _pool, tempered, thermodynamic
from tempering.kernels import AnnealUp, BlockGibbs, ClimbUp
from tempering.models import RBMPath
from tempering.verification import Check, checks
from tempering.verification.identities import identities
from tempering.verification.invariance import kernel_checks


def verified(monkeypatch, capsys, parts) -> tuple[int, list[str]]:
    """The exit status of `tempering verify` with only these parts, and the names that it gives."""
    monkeypatch.setattr(sys, "argv", ["tempering", "verify", "--json", "--no-cache"])
    monkeypatch.setattr("tempering.cli.common.use_cores", lambda devices: None)
    monkeypatch.setattr("tempering.verification.verify", lambda: (check for part in parts for check in part()))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0, json.loads(capsys.readouterr().out)["failed"]


def test_a_right_program_holds_without_runs(monkeypatch, capsys):
    assert verified(monkeypatch, capsys, [identities, kernel_checks]) == (0, [])


@pytest.mark.slow  # a minute of short runs, which is what the command itself does
def test_a_right_program_holds():
    assert [check for check in checks.verify() if not check.is_passed] == []


# Mutants, each by one line of the package.


def test_the_sign_of_the_rung_weights_is_seen(monkeypatch, capsys):
    def mutant(stats, log_c):
        log_z = stats.log_z_guess + stats.log_prior + log_c
        return log_z - log_z[0]

    monkeypatch.setattr(tempered, "log_ratios", mutant)
    status, names = verified(monkeypatch, capsys, [identities])
    assert status == 1
    assert {"rts", "ts"} <= set(names)
    assert not {"mbar", "ti_trapezoid", "ais", "sams"} & set(names)


def test_a_wrong_factor_of_an_integration_rule_is_seen(monkeypatch, capsys):
    right = thermodynamic._integrated
    monkeypatch.setattr(
        thermodynamic, "_integrated", lambda rule, *curve: right(rule, *curve) * (1.5 if rule == "trapezoid" else 1)
    )
    status, names = verified(monkeypatch, capsys, [identities])
    assert (status, names) == (1, ["ti_trapezoid", "ti_rb"])


def test_counts_of_mbar_that_are_all_the_same_are_seen(monkeypatch, capsys):
    right = _pool.Pool.counts.func if hasattr(_pool.Pool.counts, "func") else _pool.Pool.counts.fget

    def mutant(pool):
        counts = right(pool)
        return np.full_like(counts, counts.mean())

    monkeypatch.setattr(_pool.Pool, "counts", property(mutant))
    status, names = verified(monkeypatch, capsys, [identities])
    assert status == 1
    assert set(names) == {"bar", "mbar"}


def test_annealing_weights_upside_down_are_seen(monkeypatch, capsys):
    right = AnnealUp.__call__

    def mutant(self, key, ladder, state):
        moved, log_increment = right(self, key, ladder, state)
        return moved, -log_increment

    monkeypatch.setattr(AnnealUp, "__call__", mutant)
    status, names = verified(monkeypatch, capsys, [kernel_checks])
    assert (status, names) == (1, ["annealing up"])


@pytest.mark.parametrize(("kernel", "name"), [(AnnealUp, "annealing up"), (ClimbUp, "sequential Monte Carlo")])
def test_weights_at_the_state_after_the_move_are_seen(monkeypatch, capsys, kernel, name):
    right = kernel.__call__

    def mutant(self, key, ladder, state):
        moved, _ = right(self, key, ladder, state)
        return moved, right(self, key, ladder, dataclasses.replace(state, x=moved.x))[1]

    monkeypatch.setattr(kernel, "__call__", mutant)
    assert verified(monkeypatch, capsys, [kernel_checks]) == (1, [name])


def test_a_wrong_log_z_of_the_base_is_seen(monkeypatch, capsys):
    """Every run is then wrong by as much, and none of them is to blame."""
    right = RBMPath.log_z_base
    monkeypatch.setattr(RBMPath, "log_z_base", lambda path: right(path) + 0.1)
    assert verified(monkeypatch, capsys, [kernel_checks]) == (1, ["log Z of the base"])


def test_a_program_that_breaks_down_is_named_after_what_it_got_wrong(monkeypatch, capsys):
    """A move that is wrong can break a whole run. Kills: a status 2 with the message of that run, and no culprit."""

    def broken():
        yield Check("one run", "itself", True, "")
        raise InputError("rungs must rise")

    monkeypatch.setattr(checks, "identities", lambda: iter([Check("rts", "exact statistics", False, "off by 1")]))
    monkeypatch.setattr(checks, "kernel_checks", broken)
    monkeypatch.setattr(checks, "short_runs", lambda: iter([Check("ais", "a short run", False, "off by 2")]))
    assert verified(monkeypatch, capsys, [checks.verify]) == (1, ["rts", "moves", "ais"])


def test_a_move_that_is_not_invariant_is_seen(monkeypatch, capsys):
    right = BlockGibbs.__call__

    def mutant(self, key, path, rung, x):
        return right(self, key, path, jnp.where(rung == 2, 1, rung), x)  # the target's sweep at the rung below

    monkeypatch.setattr(BlockGibbs, "__call__", mutant)
    status, names = verified(monkeypatch, capsys, [kernel_checks])
    assert status == 1
    assert names[0] == "block Gibbs, rung 2"
    assert not {"block Gibbs, rung 0", "block Gibbs, rung 1", "HMC"} & set(names)


def test_every_method_is_checked():
    from tempering.estimators.methods import METHODS

    assert {check.name for check in identities()} == set(METHODS)
