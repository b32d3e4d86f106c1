"""Short runs of whole estimates, on models whose log Z is known: each must be as near as its own error says."""

from collections.abc import Iterator

import numpy as np

from tempering.api import compare, estimate
from tempering.bases import Normal
from tempering.estimators import LogZ
from tempering.ladder import uniform_betas
from tempering.models import Gaussian, Ising
from tempering.verification import enumerated as exact
from tempering.verification.check import Check, check_estimate

HOW = "a short run"
NUM_CHAINS, NUM_SWEEPS, NUM_RUNGS = 64, 1000, 13


def short_runs() -> Iterator[Check]:
    """Every method on an RBM of 5 × 3 units, and the default method on a lattice and on a density.

    Returns:
        One check for each.
    """
    rbm, betas = exact.small_rbm(), uniform_betas(NUM_RUNGS)
    path = rbm.path(exact.BASE_FREQUENCIES, betas)
    log_f = exact.log_densities(path)
    law = np.exp(log_f[:, -1] - np.logaddexp.reduce(log_f[:, -1]))
    rows = exact.patterns(5)[np.random.default_rng(0).choice(32, 500, p=law)]
    found = compare(
        rbm,
        exact.BASE_FREQUENCIES,
        data=rows,
        betas=betas,
        num_chains=NUM_CHAINS,
        num_sweeps=NUM_SWEEPS,
        progress=False,
    )
    truth = float(np.logaddexp.reduce(log_f[:, -1]))
    for entry in found.entries:
        yield _judged(entry.method.name, entry.answer, truth)
    for name, model in (
        ("Ising 3×4", Ising.square(3, 4, 0.4)),
        ("normal, 3-d, HMC", Gaussian([1.0, -0.5, 2.0], 0.3, base=Normal(np.zeros(3), 2.0), path="geometric")),
    ):
        result = estimate(model, num_chains=NUM_CHAINS, num_sweeps=300, progress=False)
        yield _judged(name, result.log_z_by_rung, float(model.quick_log_z() or np.nan))


def _judged(name: str, answer: LogZ, truth: float) -> Check:
    """Within its error, and the bias that it owns up to: that of the rule of thermodynamic integration."""
    return check_estimate(name, HOW, (answer.log_z, answer.std_error, answer.dof), truth, float(answer.biases[-1]))
