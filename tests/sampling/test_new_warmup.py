"""A new warm-up costs one file: this one, with a kind of stage and a record of its own, estimated and resumed."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import exact
import tempering as tp
from tempering.kernels import SimulatedTempering
from tempering.sampling import AbstractStageKind, AbstractWarmup
from tempering.warmups.starts import base_positions


class MeanLogF(eqx.Module):
    total: jnp.ndarray  # Σ log f_k(x) of one chain at every rung

    def update(self, ladder, draw):
        return MeanLogF(self.total + draw.log_f)

    def on_host(self):
        return MeanLogF(np.asarray(self.total, np.float64))

    def then(self, later):
        return MeanLogF(self.total + later.total)


class Piloting(AbstractStageKind):
    label: ClassVar[str] = "piloting"

    def empty_record(self, stage, keep):
        return MeanLogF(jnp.zeros(stage.ladder.path.num_rungs))


@dataclasses.dataclass(frozen=True)
class MeanField(AbstractWarmup):
    """log Ẑ_k = log Z_0 + the mean of log f_k − log f_0 over a short run: crude, and better than nothing."""

    steps: int = 40

    def first(self, setup):
        starts = base_positions(setup.key, setup.ladder.path, np.arange(setup.num_chains) % 3)
        return tp.sampling.Stage.first(Piloting(), setup.ladder, SimulatedTempering(setup.move), starts, self.steps)

    def after(self, setup, stage):
        guess = stage.recording.total.mean(axis=0) / self.steps
        return setup.sampling_after(stage, setup.ladder.with_log_z(guess), stage.states)


def test_it_is_estimated_with_watched_and_resumed(tmp_path):
    how = dict(num_chains=40, num_sweeps=300, num_rungs=7, warmup=MeanField(), base=exact.BASE_FREQUENCIES)
    seen = []
    whole = tp.estimate(exact.small_rbm(), **how, watch=lambda progress: seen.append(progress.stage))
    assert seen[0] == "piloting" and seen[-1] == "sampling" and whole.num_warmup_sweeps == 40  # noqa: PT018
    assert abs(whole.log_z - exact.small_rbm().exact_log_z()) < 5.5 * whole.std_error
    part = dict(out=tmp_path, watch=lambda progress: progress.stage == "sampling")
    assert not tp.estimate(exact.small_rbm(), **how, **part).is_complete
    assert tp.estimate(exact.small_rbm(), **how, out=tmp_path, resume=True).log_z == whole.log_z
