"""log Z of an RBM found from nothing: by annealing, and then tempering for as long as the verdict asks for."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from tempering._types import Key
from tempering.diagnosis import Diagnosis, diagnose
from tempering.estimators import LogZ, equilibrated_rts, with_shared_starts
from tempering.estimators.equilibration import equilibrated
from tempering.kernels import BlockGibbs
from tempering.ladder import Ladder
from tempering.sampling import Setup, walk_stages
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
    """Anneal, then temper until the run's own verdict is good, or for `MOST` sweeps.

    Chains that have just been annealed still remember it: their estimate is too low and its error too small. Only the
    verdict on a tempered run tells when that is over.

    Args:
        key: The random key.
        ladder: The ladder of the RBM as it is now.
        num_chains: Independent chains.
        warmup: The annealing pass, and the tempered runs that follow it.

    Returns:
        log Z at every rung, where the chains then stand, and what the verdict was.
    """
    setup = Setup(key, ladder, BlockGibbs(), num_chains, num_steps=MOST)
    for stage in walk_stages(warmup, setup, chunk_steps=LOOK):
        if not (stage.is_sampling and stage.done):
            continue
        diagnosis = diagnose(stage.recording)
        if diagnosis.verdict.is_good or stage.is_finished:
            answer = with_shared_starts(equilibrated_rts(stage.recording), stage.families)
            stats = equilibrated(stage.recording.stats)
            num_sweeps = stage.warmup.num_steps + stage.done
            return Anchor(answer, diagnosis, stage.ladder, stage.states, stats, num_sweeps)
    raise AssertionError("a run ends with sampling")
