"""log Z of an RBM found from nothing: by annealing, and then tempering for as long as the verdict asks for."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from tempering._types import Key
from tempering.diagnosis import Diagnosis, diagnose
from tempering.estimators import LogZ, equilibrated_rts
from tempering.estimators.equilibration import equilibrated
from tempering.kernels import BlockGibbs
from tempering.ladder import Ladder
from tempering.sampling import Setup
from tempering.stats import BlockedStats
from tempering.verdicts import Finding, Verdict
from tempering.warmups import AnnealedStart

LOOK = 500  # sweeps between two verdicts
MOST = 4000  # sweeps after the warm-up


@dataclasses.dataclass(frozen=True)
class Anchor:
    """What is known of log Z at every rung, relative to the base, and where the chains then stand."""

    log_z: LogZ
    diagnosis: Diagnosis
    ladder: Ladder
    states: Any
    stats: BlockedStats  # of the part of the run that counts
    num_sweeps: int  # that each chain made, the warm-up included

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Empty where log Z was found; else why it was not, for a tracker to say."""
        if self.diagnosis.verdict.is_good:
            return ()
        seen = "; ".join(f"{finding.verdict.label}, {finding.seen}" for finding in self.diagnosis.findings)
        cure = "more chains, a base closer to the model, or patience: it is tried again"
        return (Finding(Verdict.LOST, f"{self.num_sweeps} sweeps did not find log Z: {seen}", cure),)


def left_out(stats: BlockedStats, num_groups: int) -> Float[np.ndarray, "group rung"]:
    """log Z_k by RTS from all chains but those of one group; chain c belongs to group c mod G."""
    log_sums = np.logaddexp.reduce(stats.log_sums, axis=1)
    groups = np.arange(len(log_sums)) % num_groups
    sums = np.stack([np.logaddexp.reduce(log_sums[groups != group], axis=0) for group in range(num_groups)])
    log_z = stats.log_z_guess - stats.log_prior + sums
    return log_z - log_z[:, :1]


def find_anew(key: Key, ladder: Ladder, num_chains: int, warmup: AnnealedStart) -> Anchor:
    """Chains that have just been annealed remember it, and err low with a small error: only the verdict tells."""
    setup = Setup(key, ladder, BlockGibbs(), num_chains, num_steps=MOST)
    stage = warmup.first(setup)
    while not stage.is_last:
        for reached in stage.walk(key, chunk_steps=stage.num_steps):
            stage = reached
        stage = warmup.after(setup, stage)
    diagnosis = None
    for reached in stage.walk(key, chunk_steps=LOOK):
        stage, diagnosis = reached, diagnose(reached.recording)
        if diagnosis.verdict.is_good:
            break
    assert diagnosis is not None
    answer, stats = equilibrated_rts(stage.recording), equilibrated(stage.recording.stats)
    return Anchor(answer, diagnosis, stage.ladder, stage.states, stats, stage.warmup_steps + stage.done)
