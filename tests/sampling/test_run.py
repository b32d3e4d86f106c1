"""The loop: the bits of a chain depend neither on its company, nor on where it is cut, nor on the devices."""

import json
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.kernels import AbstractMove, BlockGibbs, SimulatedTempering
from tempering.sampling import Setup, run_chains, side_by_side
from tempering.warmups import AnnealedStart, InitialIterations

KEY = jax.random.key(20160619)
BETAS = tp.ladder.geometric_betas(7, 0.1)
MANY = 120  # three groups of 50 on a CPU: two devices share them unevenly


def rbm_of(num_visible=37, num_hidden=23, seed=0, step_size=0.3) -> tp.RBM:
    """Odd sizes, so that matrix products that depend on the batch round differently."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, step_size, (num_visible, num_hidden))
    return tp.RBM(weights, rng.normal(-0.3, 0.5, num_visible), rng.normal(0.2, 0.5, num_hidden))


def ladder_of(rbm=None, guess=None) -> tp.Ladder:
    guess = np.linspace(0, 1.5, len(BETAS)) if guess is None else guess
    return tp.Ladder.create((rbm or rbm_of()).path("uniform", BETAS), None, guess)


def starts(ladder, num_chains):
    """States of `num_chains` chains, of which the first ones are the same for any number."""
    sample = eqx.filter_jit(ladder.path.sample_base)
    each = [sample(jax.random.fold_in(KEY, chain)) for chain in range(num_chains)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
    return tp.Position(stacked, jnp.arange(num_chains, dtype=jnp.int32) % len(BETAS))


def stats_only(ladder):
    return tp.TemperingStats.empty(ladder)


def everything(ladder):
    """All that can be kept of a block."""
    return tp.stats.TemperingRecord.empty(ladder, keep=tp.stats.Keep(transitions=True))


def walk(num_chains=8, *, states=None, ladder=None, move=None, record=stats_only, **how):
    """All blocks of a short run."""
    ladder = ladder or ladder_of()
    states = starts(ladder, num_chains) if states is None else states
    kernel = SimulatedTempering(move or BlockGibbs())
    how = {"num_steps": 40, "block_steps": 20, **how}
    return list(run_chains(KEY, ladder, kernel, record(ladder), states, **how))


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def first(tree, num_chains):
    return jax.tree.map(lambda leaf: leaf[:num_chains], tree)


@pytest.fixture(scope="module")
def many():
    """120 chains on both devices."""
    return walk(MANY, record=everything, devices=jax.devices()[:2])


def test_a_chain_does_not_depend_on_its_company(many):
    """Guards the fixed lane groups and the keys by chain: among 3, 8 or 120 chains."""
    among_eight, among_three = walk(8, record=everything), walk(3, record=everything)
    for block, eight, three in zip(many, among_eight, among_three, strict=True):
        assert bits(first((block.states, block.record), 8)) == bits((eight.states, eight.record))
        assert bits(first((eight.states, eight.record), 3)) == bits((three.states, three.record))


def test_one_or_two_devices_give_the_same_bits(many, monkeypatch):
    """Guards sharding: states and records, also once these are on the host, where estimates are made.

    One device on one core, where all chains are one part. Kills: chains that are numbered anew in each part.
    """
    assert len(jax.devices()) == 2
    monkeypatch.setattr(side_by_side, "num_cores", lambda: 1)
    one = walk(MANY, record=everything, devices=jax.devices()[:1])
    assert bits(one) == bits(many)
    assert bits([block.record.on_host() for block in one]) == bits([block.record.on_host() for block in many])


def test_chains_differ_from_one_another():
    """Guards against keys that forget the chain or the step, with which the other tests here would pass."""
    same_start = jax.tree.map(lambda leaf: np.repeat(leaf, 8, axis=0), starts(ladder_of(), 1))
    blocks = walk(states=same_start, block_steps=1, num_steps=4)
    assert len({v.tobytes() for block in blocks for v in np.asarray(block.states.x.v)}) == 8 * 4


@pytest.mark.parametrize(
    "warmup", [AnnealedStart(anneal_steps=20), InitialIterations(steps=20)], ids=lambda w: type(w).__name__
)
def test_a_start_does_not_depend_on_its_company(warmup):
    """Guards the start states: a batched product over another number of chains must not change their bits."""
    ladder = ladder_of(rbm_of(300, 77))
    few, many = (warmup.first(Setup(KEY, ladder, BlockGibbs(), n)).states.x for n in (3, MANY))
    assert bits(few.v) == bits(many.v[:3])
    assert bits(few.field) == bits(many.field[:3])


def test_two_halves_are_one_run():
    """Guards resuming: the keys of a step come from its number, not from where the run was cut."""
    whole = walk()
    (half,) = walk(num_steps=20)
    (rest,) = walk(states=half.states, first_step=20)
    assert [block.num_steps for block in whole] == [half.num_steps, rest.num_steps] == [20, 40]
    assert bits(whole) == bits([half, rest])


@pytest.mark.parametrize("block_steps", [1, 7, 40, 250])
def test_states_do_not_depend_on_the_length_of_blocks(block_steps):
    """Guards the loop's bounds, with a last block that is shorter than the others."""
    blocks = walk(block_steps=block_steps)
    assert [block.num_steps for block in blocks] == [*range(block_steps, 40, block_steps), 40]
    assert bits(blocks[-1].states) == bits(walk()[-1].states)
    draws = np.sum([block.record.num_draws for block in blocks], axis=0)
    assert np.array_equal(draws, np.full(8, 40))


@pytest.mark.parametrize("block_steps", [0, 251])
def test_blocks_that_are_too_long_are_refused(block_steps):
    """Guards float32 sums and the room for a block's rungs, which are made for at most 250 steps."""
    with pytest.raises(tp.InputError, match="between 1 and 250"):
        walk(block_steps=block_steps)


def test_a_run_that_is_done_gives_nothing():
    """Guards resuming a finished stage."""
    assert walk(first_step=40) == []


TRACES = []


class CountedMove(AbstractMove):
    """Gibbs that counts how often JAX traces it."""

    def __call__(self, key, path, rung, x):
        TRACES.append(1)
        return path.gibbs_sweep(key, rung, x), tp.ladder.MoveInfo.accepted()


def test_new_weights_and_new_guesses_do_not_recompile():
    """Guards paths and ladders as arguments: new W (training) or Ẑ (warm-up) trace nothing again."""
    TRACES.clear()

    def go(**changes):
        before = len(TRACES)
        (block,) = walk(ladder=ladder_of(**changes), move=CountedMove(), num_steps=3)
        return len(TRACES) - before, bits(block.states)

    first_traces, reference = go()
    assert first_traces >= 1
    assert go() == (0, reference)
    assert go(guess=np.linspace(0, -3, len(BETAS)))[0] == 0
    for seed in range(1, 4):
        traces, states = go(rbm=rbm_of(seed=seed))
        assert traces == 0
        assert states != reference


def test_a_second_estimate_compiles_nothing_new():
    """Guards the whole of `estimate`: likelihoods tracked through training must not compile at every call."""
    compiled = []

    def listen(event, duration, **about):
        if event.endswith("backend_compile_duration"):
            compiled.append(about)

    def go(seed):
        warmup = AnnealedStart(anneal_steps=5, equilibration_steps=(5,))
        return tp.estimate(rbm_of(seed=seed), num_chains=4, num_sweeps=6, num_rungs=5, warmup=warmup)

    reference = go(0)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        assert go(1).log_z != reference.log_z
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


GLOBALS = """
import contextlib, io, json, logging, random, sys
import numpy as np
import jax

def state():
    config = {name: repr(value) for name, value in jax.config.values.items()}
    root = logging.getLogger()
    return config | {
        "errors": np.geterr(), "print": np.get_printoptions(),
        "level": root.level, "root": str(root.handlers), "jax": str(logging.getLogger("jax").handlers),
        "random": str(random.getstate()), "numpy random": str(np.random.get_state()),
    }

import equinox  # defines options of its own
before = state()
with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
    import tempering as tp
    heavy = [m for m in ("matplotlib", "scipy.stats", "torch", "h5py", "rich", "typer") if m in sys.modules]
    rbm = tp.RBM(np.eye(6, 4), np.arange(6) / 9, np.ones(4))
    tp.estimate(rbm, num_chains=4, num_sweeps=5, num_rungs=4, warmup=tp.AnnealedStart(5, (5,)))
after = state()
changed = [name for name in after if after[name] != before[name]]
print(json.dumps({"heavy": heavy, "printed": printed.getvalue(), "changed": changed}))
"""


def test_the_library_leaves_no_trace_in_the_process():
    """Guards importers: jax.config, errstate, logging and random state stay, no output, nothing heavy."""
    done = subprocess.run([sys.executable, "-c", GLOBALS], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"heavy": [], "printed": "", "changed": []}
    assert done.stderr == ""
