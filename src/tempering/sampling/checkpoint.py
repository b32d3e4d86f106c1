"""The whole state of an estimate on disk: a stage in, the same stage out."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tempering.estimators import Annealed
from tempering.kernels import Position, SimulatedTempering
from tempering.ladder import Ladder, PathLength
from tempering.sampling.directory import RunDirectory, filled
from tempering.sampling.stage import Stage
from tempering.stats import JUST_RTS, Keep

_PLAIN = ("name", "number", "num_steps", "block_steps", "done", "is_equilibrated", "warmup_steps")
_NESTED = {"annealed": Annealed, "length": PathLength}


class StageDirectory(RunDirectory):
    """The directory of an estimate.

    ```python
    with StageDirectory(path, identity, resume=True) as directory:
        stage = directory.restore(template)    # None: nothing to resume, begin
        directory.save(stage, seconds)
    ```
    """

    def __enter__(self) -> "StageDirectory":
        """As any directory of a run."""
        super().__enter__()
        return self

    def save(self, stage: Stage, seconds: float) -> None:
        """Replace what was saved."""
        about = {name: getattr(stage, name) for name in _PLAIN}
        for name in _NESTED:
            value = getattr(stage, name)
            about[name] = None if value is None else dataclasses.asdict(value)
        self.write(about | {"seconds": seconds}, _parts(stage))

    def restore(self, like: "StageTemplate") -> tuple[Stage, float] | None:
        """The saved stage and the seconds it had taken; None where there is nothing to resume."""
        return self.read(lambda about, arrays: _restored(like, about, arrays))


def _restored(like: "StageTemplate", about: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Stage, float]:
    stage = like.stage(about["name"], **{name: about[name] for name in _PLAIN[1:]})
    parts = {part: filled(part, tree, arrays) for part, tree in _parts(stage).items()}
    nested = {name: None if about[name] is None else kind(**about[name]) for name, kind in _NESTED.items()}
    betas, *rest = parts.pop("law")
    path = stage.ladder.with_betas(np.asarray(betas, np.float64)).path  # the warm-up may have chosen other rungs
    log_prior, log_z_guess, ends = (jax.numpy.asarray(array) for array in rest)
    ladder = Ladder(path, log_prior, log_z_guess, ends, stage.ladder.is_continuous)
    sizes = jax.tree.map(jax.numpy.asarray, parts.pop("kernel"))  # the move's, as far as it was tuned
    kernel = eqx.combine(sizes, stage.kernel)
    return dataclasses.replace(stage, ladder=ladder, kernel=kernel, **nested, **parts), about["seconds"]


class StageTemplate:
    """Makes stages of the right structure, to be filled from a checkpoint."""

    def __init__(self, beginnings: list[Stage], ladder: Ladder, keep: Keep = JUST_RTS):
        """`beginnings` are the run's first stages; `ladder` is that of all tempered ones."""
        self.beginnings, self.ladder, self.keep = {stage.name: stage for stage in beginnings}, ladder, keep

    def stage(self, name: str, **plain: Any) -> Stage:
        """A stage of that name with states and a recording of the right structure, their values not yet right."""
        if name in self.beginnings:
            stage = dataclasses.replace(self.beginnings[name], **plain)
        else:
            kernel = SimulatedTempering(next(iter(self.beginnings.values())).move)
            is_tuning = name != "sample" and "tune" in self.beginnings
            center = np.zeros(1, np.float32) if is_tuning else None
            stage = Stage(name, ladder=self.ladder, kernel=kernel, states=self._positions(), center=center, **plain)
        one_chain = jax.tree.map(lambda leaf: np.asarray(leaf)[None], stage.empty_record(self.keep))
        return dataclasses.replace(stage, recording=one_chain.on_host())

    def _positions(self) -> Position:
        x = jax.eval_shape(self.ladder.path.sample_base, jax.random.key(0))
        return Position(x, jax.numpy.zeros((), jax.numpy.int32))


def _parts(stage: Stage) -> dict[str, Any]:
    """What of a stage is arrays; the rest of its ladder is made again from the model."""
    return {
        "law": (stage.ladder.path.betas, stage.ladder.log_prior, stage.ladder.log_z_guess, stage.ladder.ends),
        "kernel": eqx.filter(stage.kernel, eqx.is_array),
        "center": stage.center,
        "states": stage.states,
        "recording": stage.recording,
    }
