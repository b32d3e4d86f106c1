"""Many runs at once: on a CPU the bits of single runs, in one program the same numbers but for rounding."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.api import replicates
from tempering.api.job import Job
from tempering.api.settings import Settings
from tempering.sampling import AbstractWarmup, Sampling, Setup, Stage, chains, driver, walk_stages
from tempering.sampling.replicates import walk_together
from tempering.warmups.annealed_start import Equilibrating


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


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "one or two iterations")) for n in MODELS]
)
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
    model, base, settings = MODELS["one or two iterations"]()
    monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
    monkeypatch.setattr(replicates, "_MOST_AT_ONCE", 2)
    assert [r.seed for r in tp.estimate_many(model, base, seeds=range(3), **settings)] == [0, 1, 2]


@pytest.mark.slow  # all at once is as one by one above; test_tensor_cores.py has the form
def test_runs_that_share_a_program_have_the_bits_of_single_ones_on_a_gpu():
    """The form of an RBM for tensor cores, three runs filled up to five.

    Kills: the plain form in place of it, runs that fill up in place of real ones, the rungs of one run for another's.
    """
    rbm, base = tp.load_example()
    job = Job(rbm, base, Settings(num_chains=6, num_rungs=5, num_sweeps=12, warmup=tp.AnnealedStart(4, (3, 4))))
    setups = [job.setup(seed) for seed in (3, 11, 4)]
    begun = [next(s for s in walk_stages(job.warmup, setup, job.keep) if s.is_sampling) for setup in setups]
    betas = [np.linspace(0, 1, 5) ** power for power in (1, 2, 3)]
    begun = [
        dataclasses.replace(stage, ladder=dataclasses.replace(stage.ladder, path=stage.ladder.path.with_betas(b)))
        for stage, b in zip(begun, betas, strict=True)
    ]
    keys = [setup.key for setup in setups]
    together = walk_together(begun, keys, job.keep, size=5, platform="gpu")
    assert len(together) == 3
    for key, stage, ended in zip(keys, begun, together, strict=True):
        record, numbers = stage.empty_record(job.keep), jnp.arange(6)[None]
        states = jax.tree.map(lambda leaf: leaf[None], stage.states)
        key = jax.random.fold_in(key, stage.number)
        alone = []
        for start in range(stage.num_steps):
            bounds = jnp.array([start, start + 1], jnp.int32)
            states, filled = chains._walk("gpu", key, stage.ladder, stage.kernel, record, numbers, states, bounds)
            alone.append(jax.tree.map(lambda leaf: leaf[0], jax.device_get(filled)).on_host().stats.log_sums)
        np.testing.assert_array_equal(ended.states.x.v, states.x.v[0])
        np.testing.assert_array_equal(ended.states.x.field, states.x.field[0])
        assert stage.block_steps == 1
        np.testing.assert_array_equal(ended.recording.stats.log_sums, np.concatenate(alone, axis=1))


def test_runs_that_are_ahead_wait_for_the_others(monkeypatch):
    """Two runs that climb, one that is tempered, one that samples. Kills: all of them in one party, the last first."""
    monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
    job = Job(*tp.load_example(), Settings(num_chains=2, num_rungs=3, warmup=tp.AnnealedStart(6)))
    climbing = job.warmup.first(job.setup())
    longer = dataclasses.replace(climbing, num_steps=7)
    tempered, sampling = (dataclasses.replace(climbing, kind=kind) for kind in (Equilibrating(), Sampling()))
    assert driver._parties({0: sampling, 1: climbing, 2: tempered, 3: climbing, 4: longer}) == [[1, 3], [4]]
    assert driver._parties({0: sampling, 2: tempered}) == [[2]]
    assert driver._parties({0: sampling, 5: sampling}) == [[0, 5]]


def test_as_many_runs_at_once_as_their_records_allow(monkeypatch):
    """Kills: rungs that do not count, runs with very many chains in one program, several at once on a CPU."""
    rbm, base = tp.load_example()

    def number(**settings):
        return replicates.num_at_once(Job(rbm, base, Settings(**settings)))

    assert number() == 1
    monkeypatch.setattr(jax, "default_backend", lambda: "an accelerator")
    assert number(num_chains=100, num_rungs=100) == 100
    assert number(num_chains=100, num_rungs=1000) == 10
    assert number(num_chains=2000, num_rungs=10) == 1


def test_a_target_error_is_refused():
    rbm, base = tp.load_example()
    with pytest.raises(tp.InputError, match="one length"):
        list(tp.estimate_many(rbm, base, seeds=(1,), target_error=0.1))
