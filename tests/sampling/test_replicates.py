"""Many runs at once: on a CPU the bits of single runs, in one program the same numbers but for rounding."""

import dataclasses

import jax
import numpy as np
import pytest

import tempering as tp
from tempering.api import replicates
from tempering.sampling import AbstractWarmup, Setup, Stage


@dataclasses.dataclass(frozen=True)
class OnceOrTwice(AbstractWarmup):
    """One iteration for odd seeds, two for even ones: runs that are not at the same stage."""

    def first(self, setup: Setup) -> Stage:
        return self._iterations(setup).first(setup)

    def after(self, setup: Setup, stage: Stage) -> Stage:
        return self._iterations(setup).after(setup, stage)

    def _iterations(self, setup: Setup) -> tp.InitialIterations:
        number = 2 - int(jax.random.key_data(setup.key)[-1]) % 2
        return tp.InitialIterations(20, max_iterations=number, min_iterations=number)


SMALL = {"num_chains": 10, "num_sweeps": 60, "num_rungs": 8, "warmup": tp.AnnealedStart(20, (10, 20))}
MODELS = {
    "rbm": lambda: (*tp.load_example(), SMALL),
    "tuned and respaced": lambda: (
        tp.GaussianMixture([1.0, 2.0], np.array([[0.0], [3.0]]), np.ones((2, 1, 1))),
        None,
        SMALL,
    ),
    "one or two iterations": lambda: (*tp.load_example(), SMALL | {"warmup": OnceOrTwice()}),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * n.startswith("tuned")) for n in MODELS])
def test_all_at_once_is_as_one_by_one(name, monkeypatch):
    # Kills: one key for all, the ladder or the states of the first for all, chains numbered through, a block walked
    # twice, finished runs walked again with those that are not, runs at different stages in one party.
    model, base, settings = MODELS[name]()
    single = [tp.estimate(model, base, seed=seed, keep_draws=False, **settings) for seed in (3, 11, 4)]
    one_by_one = list(tp.estimate_many(model, base, seeds=(3, 11, 4), **settings))
    monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
    together = list(tp.estimate_many(model, base, seeds=(3, 11, 4), **settings))
    for a, b, c in zip(single, one_by_one, together, strict=True):
        assert (a.seed, b.seed, c.seed) == (a.seed,) * 3
        assert a.num_warmup_sweeps == b.num_warmup_sweeps == c.num_warmup_sweeps
        np.testing.assert_array_equal(a.log_z_by_rung.values, b.log_z_by_rung.values)
        np.testing.assert_allclose(c.log_z_by_rung.values, a.log_z_by_rung.values, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(c.log_z_by_rung.std_errors, a.log_z_by_rung.std_errors, rtol=1e-3, atol=1e-5)
        assert c.verdict is a.verdict
    assert len({result.log_z for result in single}) == 3
    if name.startswith("one or two"):
        assert [result.num_warmup_sweeps for result in together] == [20, 20, 40]


def test_parties_follow_one_another(monkeypatch):
    model, base, settings = MODELS["rbm"]()
    monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
    monkeypatch.setattr(replicates, "_AT_ONCE", 2)
    assert [r.seed for r in tp.estimate_many(model, base, seeds=range(3), **settings)] == [0, 1, 2]


def test_a_target_error_is_refused():
    rbm, base = tp.load_example()
    with pytest.raises(tp.InputError, match="one length"):
        list(tp.estimate_many(rbm, base, seeds=(1,), target_error=0.1))
