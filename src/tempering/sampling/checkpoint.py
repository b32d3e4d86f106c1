"""The whole state of an estimate on disk: a stage in, the same stage out."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tempering.estimators import Annealed
from tempering.kernels import Evaluations
from tempering.ladder import Ladder, PathLength
from tempering.sampling.directory import RunDirectory, filled
from tempering.sampling.stage import Sampling, Stage, WarmupSummary
from tempering.sampling.warmup import AbstractWarmup, Setup
from tempering.stats import JUST_RTS, Keep

_PLAIN = ("number", "num_steps", "block_steps", "done")


class StageDirectory(RunDirectory):
    """The directory of an estimate.

    ```python
    with StageDirectory(path, identity, resume=True) as directory:
        found = directory.restore(checkpoint_templates(warmup, setup))    # None: nothing to resume, begin
        directory.save(stage, seconds)
    ```
    """

    def __enter__(self) -> "StageDirectory":
        super().__enter__()
        return self

    def save(self, stage: Stage, seconds: float) -> None:
        """Replace what was saved."""
        about = {name: getattr(stage, name) for name in _PLAIN}
        about |= {"kind": type(stage.kind).__name__, "warmup": dataclasses.asdict(stage.warmup), "seconds": seconds}
        self.write(about, _parts(stage))

    def restore(self, templates: Sequence[Stage], keep: Keep = JUST_RTS) -> tuple[Stage, float] | None:
        """The saved stage and the seconds it had taken; None where there is nothing to resume.

        Args:
            templates: A stage of each kind and form that may have been saved, see `checkpoint_templates`.
            keep: What the run keeps, as it did when the stage was saved.
        """
        by_form = {_form(stage): stage for stage in templates}

        def restored(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Stage, float]:
            num_arrays = sum(name.startswith("kernel.") for name in arrays)
            return _restored(by_form[about["kind"], num_arrays], keep, about, arrays)

        return self.read(restored)


def checkpoint_templates(warmup: AbstractWarmup, setup: Setup) -> list[Stage]:
    """A stage of every kind and form that a run may pass through, to be filled with what was saved."""
    before = warmup.templates(setup)
    moves = {_form(stage)[1]: stage.move for stage in before}.values()
    return [*before, *(dataclasses.replace(setup, move=move).tempered_template(Sampling()) for move in moves)]


def _form(stage: Stage) -> tuple[str, int]:
    """The kind of a stage, and how many arrays its kernel has: a move may be tuned with or without correlations."""
    return type(stage.kind).__name__, len(jax.tree.leaves(eqx.filter(stage.kernel, eqx.is_array)))


def _restored(like: Stage, keep: Keep, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Stage, float]:
    kind = filled("kind", like.kind, arrays)
    stage = dataclasses.replace(like, kind=kind, **{name: about[name] for name in _PLAIN})
    one_chain = jax.tree.map(lambda leaf: np.asarray(leaf)[None], stage.empty_record(keep))
    stage = dataclasses.replace(stage, recording=one_chain.on_host(), warmup=_summary(about["warmup"]))
    parts = {part: filled(part, tree, arrays) for part, tree in _parts(stage).items() if part != "kind"}
    betas, *rest = parts.pop("law")
    path = stage.ladder.with_betas(np.asarray(betas, np.float64)).path  # the warm-up may have chosen other rungs
    log_prior, log_z_guess, ends = (jax.numpy.asarray(array) for array in rest)
    ladder = Ladder(path, log_prior, log_z_guess, ends, stage.ladder.is_continuous)
    step_sizes = jax.tree.map(jax.numpy.asarray, parts.pop("kernel"))  # the move's, as far as it was tuned
    kernel = eqx.combine(step_sizes, stage.kernel)
    return dataclasses.replace(stage, ladder=ladder, kernel=kernel, **parts), about["seconds"]


def _summary(saved: dict[str, Any]) -> WarmupSummary:
    annealed, length = saved["annealed"], saved["length"]
    return WarmupSummary(
        annealed=None if annealed is None else Annealed(**annealed),
        length=None if length is None else PathLength(**length),
        is_equilibrated=saved["is_equilibrated"],
        families=None if saved["families"] is None else tuple(saved["families"]),
        num_steps=saved["num_steps"],
        evaluations=Evaluations(*saved["evaluations"]),
    )


def _parts(stage: Stage) -> dict[str, Any]:
    """What of a stage is arrays; the rest of its ladder is made again from the model."""
    return {
        "kind": stage.kind,
        "law": (stage.ladder.path.betas, stage.ladder.log_prior, stage.ladder.log_z_guess, stage.ladder.ends),
        "kernel": eqx.filter(stage.kernel, eqx.is_array),
        "states": stage.states,
        "recording": stage.recording,
    }
