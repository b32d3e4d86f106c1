"""A base that is the target: log Z is known exactly, and nothing may be found about the run."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering._logspace import rounding_of
from tempering.estimators import Annealed, LogZ
from tempering.models import BoltzmannMachine, CategoricalRBM, Gaussian, GaussianRBM, Potts

RNG = np.random.default_rng(3)
VBIAS, HBIAS = RNG.normal(size=6), RNG.normal(size=4)
NORMAL = tp.Normal(np.array([0.3, -1.0]), np.array([0.5, 2.0]))
MODELS = {
    "nothing": (tp.RBM(np.zeros((6, 4)), np.zeros(6), np.zeros(4)), 10 * np.log(2)),
    "RBM": (tp.RBM(np.zeros((6, 4)), VBIAS, HBIAS), np.log1p(np.exp(VBIAS)).sum() + np.log1p(np.exp(HBIAS)).sum()),
    "GaussianRBM": (GaussianRBM(np.zeros((6, 4)), VBIAS, HBIAS, 1.5), None),
    "CategoricalRBM": (CategoricalRBM(np.zeros((3, 2, 4)), VBIAS.reshape(3, 2), HBIAS), None),
    "Potts": (Potts.square(3, 3, 3, 0.0), 9 * np.log(3)),
    "BoltzmannMachine": (BoltzmannMachine(np.zeros(3), np.zeros(4), edges=[[0, 1], [1, 2], [2, 3]]), 4 * np.log(2)),
    "Gaussian": (Gaussian(np.zeros(3), 1.0), 1.5 * np.log(2 * np.pi)),
    "Ising": (tp.Ising.square(4, 3, 0.0), 12 * np.log(2)),
    "LogDensity": (tp.LogDensity(lambda x: NORMAL.log_density(x) + 3.5, base=NORMAL), NORMAL.log_z() + 3.5),
    "Posterior": (tp.Posterior(lambda x: 1e4 + 0 * jnp.sum(x), prior=NORMAL), 1e4),
}


OFTEN = ("nothing", "RBM", "Ising", "LogDensity")  # the others see the same in `make study`


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in OFTEN)) for n in MODELS])
def test_it_is_exact_and_good(name):
    """Kills: a division of 0 by 0, and rounding that is called a disagreement."""
    model, expected = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tp.estimate(model, num_chains=20, num_rungs=5)
    assert result.verdict.is_good, str(result.diagnosis.findings)
    expected = model.quick_log_z() if expected is None else expected
    assert abs(result.log_z - expected) <= rounding_of(expected)


def test_rounding_alone_excuses_nothing_that_can_be_seen():
    """Kills: an allowance that hides a disagreement of two certain answers."""
    answer = LogZ("rts", np.array([0.0, 10.0]), np.zeros(2), np.zeros(2), np.zeros(2), 9)
    assert Annealed(10.0 + 1e-6, 0.0, 0.0).disagreement(answer) == 0
    assert Annealed(10.0 + 1e-4, 0.0, 0.0).disagreement(answer) == np.inf
    assert Annealed(10.0 + 1e-4, 1e-5, 0.0).disagreement(answer) == pytest.approx(10.0, rel=1e-6)
