"""A density that is not finite in mid-run: the verdict says where, and the other chains go on."""

import jax
import jax.numpy as jnp
import numpy as np

import exact
import tempering as tp
from tempering.diagnosis import diagnose
from tempering.kernels import AbstractMove
from tempering.stats import Fault, TemperingRecord
from tempering.verdicts import Verdict

STEPS = 60


class Poisoned(AbstractMove):
    """Gibbs, which now and then leaves a field of NaN behind: its chain is lost from there on."""

    def __call__(self, key, path, rung, x):
        new = path.gibbs_sweep(key, rung, x)
        is_bad = jax.random.uniform(jax.random.fold_in(key, 7)) < 1 / 1000
        spoilt = jax.tree.map(lambda leaf: jnp.where(is_bad, jnp.nan, 1.0).astype(leaf.dtype) * leaf, new)
        return spoilt, tp.ladder.MoveInfo.accepted()


def blocks_of(block_steps):
    ladder = exact.small_ladder()
    rungs = jnp.arange(32, dtype=jnp.int32) % ladder.path.num_rungs
    states = tp.Position(exact.states_of(ladder.path, exact.patterns(5)), rungs)
    record, kernel = TemperingRecord.empty(ladder), tp.SimulatedTempering(Poisoned())
    how = {"num_steps": STEPS, "block_steps": block_steps}
    return states.rung, list(tp.run_chains(jax.random.key(2), ladder, kernel, record, states, **how))


def test_the_first_fault_is_named_and_the_other_chains_go_on():
    """Guards chain, rung and step of `Fault`: against blocks of one step each, of which every one can be seen."""
    rungs, single = blocks_of(1)
    is_bad = np.array([np.asarray(block.record.stats.num_nonfinite) for block in single]) > 0  # (step, chain)
    step = int(is_bad.any(axis=1).argmax())
    chain = int(is_bad[step].argmax())
    before = rungs if step == 0 else single[step - 1].states.rung
    assert step > 2  # beyond the first block of two steps
    assert is_bad.any(axis=0).sum() < 16  # only some chains
    for block_steps in (2, STEPS):
        recordings = [block.record.on_host() for block in blocks_of(block_steps)[1]]
        whole = recordings[0]
        for later in recordings[1:]:
            whole = whole.then(later)
        assert whole.stats.first_fault == Fault(chain, int(before[chain]), step)
        (finding,) = [found for found in diagnose(whole).findings if found.verdict is Verdict.NONFINITE]
        assert f"the first in chain {chain} at rung {int(before[chain])}, step {step}" in finding.seen
        used = (whole.stats.num_draws - whole.stats.num_unused).sum(axis=1)
        assert np.array_equal(used[~is_bad.any(axis=0)], np.full((~is_bad.any(axis=0)).sum(), STEPS))
        assert np.isfinite(tp.rts(whole.stats).log_z)
