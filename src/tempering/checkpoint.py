"""A run's whole state on disk: written atomically, checked when read, locked while in use."""

import dataclasses
import hashlib
import io
import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import equinox as eqx
import filelock
import jax
import numpy as np

from tempering._errors import InputError
from tempering.estimators import Annealed
from tempering.kernels import Position, SimulatedTempering
from tempering.ladder import Ladder
from tempering.spacing import PathLength
from tempering.stats import JUST_RTS, Keep
from tempering.warmup import Stage

_MAGIC = b"tempering checkpoint 1 "
# What zipfile, NumPy, JSON and a stage that does not fit raise on a body that nobody here wrote.
_MALFORMED = (OSError, ValueError, TypeError, LookupError, AttributeError, EOFError, MemoryError, zipfile.BadZipFile)
_PLAIN = ("name", "number", "num_steps", "block_steps", "done", "is_settled", "warmup_steps")
_NESTED = {"annealed": Annealed, "length": PathLength}


class CheckpointError(InputError):
    """A directory that cannot be used as asked; one line with the cause and the cure."""


class RunDirectory:
    """The directory of one run. While it is open no other run can enter it.

    ```python
    with RunDirectory(path, identity, resume=True) as directory:
        stage = directory.restore(template)    # None: nothing to resume, begin
        directory.save(stage, seconds)
    ```
    """

    def __init__(self, path: str | os.PathLike, identity: dict[str, Any], *, resume: bool):
        """`identity` is what must not change between a run and its continuation, as JSON values."""
        self.path = Path(path)
        self.identity = identity
        self.resume = resume
        self.checkpoint = self.path / "checkpoint"
        self._lock = filelock.FileLock(self.path / "lock", timeout=0)

    def __enter__(self) -> "RunDirectory":
        """Make the directory, lock it, and refuse it if it holds a run that was not asked for."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except filelock.Timeout:
            raise CheckpointError(f"{self.path} is in use by another run. Choose another directory.") from None
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be used as a directory: {error.strerror}.") from None
        if self.checkpoint.exists() and not self.resume:
            self._lock.release()
            raise CheckpointError(f"{self.path} already holds a run. Resume it, or choose another directory.")
        return self

    def __exit__(self, *_) -> None:
        """Let others in."""
        self._lock.release()

    def save(self, stage: Stage, seconds: float) -> None:
        """Replace the checkpoint; a kill at any moment leaves the old one or the new one, whole."""
        about = {name: getattr(stage, name) for name in _PLAIN}
        for name in _NESTED:
            value = getattr(stage, name)
            about[name] = None if value is None else dataclasses.asdict(value)
        about |= {"seconds": seconds, "identity": self.identity}
        arrays = {f"{part}.{i}": leaf for part, tree in _parts(stage).items() for i, leaf in enumerate(_leaves(tree))}
        payload = io.BytesIO()
        np.savez(payload, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
        body = payload.getvalue()
        write_atomically(self.checkpoint, _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    def restore(self, like: "StageTemplate") -> tuple[Stage, float] | None:
        """The saved stage and the seconds it had taken; None where there is nothing to resume."""
        if not self.checkpoint.exists():
            return None
        try:
            return self._restored(like)
        except CheckpointError:
            raise
        except _MALFORMED as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
            raise CheckpointError(f"{self.checkpoint} cannot be read ({why}). Choose another directory.") from error

    def _restored(self, like: "StageTemplate") -> tuple[Stage, float]:
        arrays = self._read()
        about = json.loads(arrays.pop("about").tobytes())
        self._check_identity(about["identity"])
        stage = like.stage(about["name"], **{name: about[name] for name in _PLAIN[1:]})
        parts = {part: _filled(part, tree, arrays) for part, tree in _parts(stage).items()}
        nested = {name: None if about[name] is None else kind(**about[name]) for name, kind in _NESTED.items()}
        betas, *rest = parts.pop("law")
        path = stage.ladder.at(np.asarray(betas, np.float64)).path  # the warm-up may have chosen other rungs
        log_prior, log_z_guess, ends = (jax.numpy.asarray(array) for array in rest)
        ladder = Ladder(path, log_prior, log_z_guess, ends, stage.ladder.is_continuous)
        sizes = jax.tree.map(jax.numpy.asarray, parts.pop("kernel"))  # the move's, as far as it was tuned
        kernel = eqx.combine(sizes, stage.kernel)
        return dataclasses.replace(stage, ladder=ladder, kernel=kernel, **nested, **parts), about["seconds"]

    def _read(self) -> dict[str, np.ndarray]:
        data = self.checkpoint.read_bytes()
        head, _, body = data.partition(b"\n")
        if not head.startswith(_MAGIC):
            raise CheckpointError(f"{self.checkpoint} is not a checkpoint of this version. Choose another directory.")
        if hashlib.sha256(body).hexdigest().encode() != head.removeprefix(_MAGIC):
            raise CheckpointError(f"{self.checkpoint} is damaged: its checksum is wrong. Choose another directory.")
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            return dict(archive)

    def _check_identity(self, saved: dict[str, Any]) -> None:
        mine = json.loads(json.dumps(self.identity))
        differing = [name for name in sorted(mine.keys() | saved.keys()) if mine.get(name) != saved.get(name)]
        if differing:
            listing = ", ".join(f"{name} ({saved.get(name)} there, {mine.get(name)} here)" for name in differing)
            raise CheckpointError(f"{self.path} holds another run; it differs in {listing}.")


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


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the target, flush to disk, then rename over it."""
    beside = path.with_name(path.name + ".new")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise CheckpointError(f"{path} cannot be written: {error.strerror}. Make room, then resume.") from error


def _parts(stage: Stage) -> dict[str, Any]:
    """What of a stage is arrays; the rest of its ladder is made again from the model."""
    return {
        "law": (stage.ladder.path.betas, stage.ladder.log_prior, stage.ladder.log_z_guess, stage.ladder.ends),
        "kernel": eqx.filter(stage.kernel, eqx.is_array),
        "center": stage.center,
        "states": stage.states,
        "recording": stage.recording,
    }


def _leaves(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree)


def _filled(part: str, tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree with the saved values in place of its own."""
    leaves = [_fitting(arrays[f"{part}.{i}"], leaf) for i, leaf in enumerate(_leaves(tree))]
    return jax.tree.unflatten(jax.tree.structure(tree), leaves)


def _fitting(saved: np.ndarray, like: Any) -> Any:
    """A saved leaf, once its kind is that of the leaf it replaces; plain numbers come back plain."""
    kind = np.dtype(getattr(like, "dtype", type(like))).kind
    if saved.dtype.kind != kind:
        raise TypeError(f"found dtype {saved.dtype} where kind {kind!r} belongs")
    return saved.item() if isinstance(like, int) else saved
