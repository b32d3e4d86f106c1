"""A whole training run: pretraining, updates, checks, early stopping; kept in a directory, and resumed to the bit."""

import dataclasses
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.estimators import Annealed
from tempering.models import RBM
from tempering.models.rbm.batch import Parameters, product
from tempering.results import MeanLogLikelihood
from tempering.sampling.directory import RunDirectory, filled
from tempering.training.annealed_check import annealed_log_z
from tempering.training.metrics import Metrics
from tempering.training.settings import TrainSettings
from tempering.training.tracker import Tracked, as_rbm
from tempering.training.trainer import Trainer, TrainingUpdate
from tempering.verdicts import Finding, Verdict

SAVE_SECONDS = 30.0  # between two checkpoints
_CHECKS = 2**30  # part of the random key, far from the numbers of updates


@dataclasses.dataclass(frozen=True)
class Row:
    """What is known after an update. Likelihoods are those of the parameters before it, which the draws speak of."""

    num_updates: int
    train: MeanLogLikelihood | None = None
    valid: MeanLogLikelihood | None = None
    tracked: Tracked | None = None
    ais_check: Annealed | None = None  # log Z by AIS, where it was due
    is_pretraining: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a line of JSON."""
        found: dict[str, Any] = {"update": self.num_updates}
        for name, likelihood in (("train", self.train), ("valid", self.valid)):
            if likelihood is not None:
                low, high = likelihood.interval
                found |= {name: likelihood.value, f"{name}_low": low, f"{name}_high": high}
        if self.tracked is not None:
            found |= {"log_z": self.tracked.log_z, "std_error": self.tracked.std_error}
            found |= {"verdict": self.tracked.verdict.label, "anchored": self.tracked.is_anchored}
        if self.ais_check is not None:
            found |= {"ais_log_z": self.ais_check.log_z, "ais_std_error": self.ais_check.std_error}
        return {name: _plain(value) for name, value in found.items()}


@dataclasses.dataclass(frozen=True)
class Best:
    """The parameters with the highest likelihood of the validation rows so far, and its band."""

    num_updates: int
    value: float
    interval: tuple[float, float]
    parameters: Parameters


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What training came to."""

    rbm: RBM  # as it is at the end, or was before it diverged
    best: RBM  # by validation, or the last where there is none
    best_update: int
    stopped_early: bool
    rows: list[dict[str, Any]]
    findings: tuple[Finding, ...]


class TrainingRun:
    """Training from its beginning, or from where it was, to its end.

    ```python
    with TrainingRun(data, valid, settings=TrainSettings(num_hidden=100), directory="run") as run:
        for row in run:
            print(row.num_updates, row.train, row.valid)
        run.outcome().best
    ```
    """

    def __init__(
        self,
        data: Any,
        valid: Any = None,
        *,
        settings: TrainSettings,
        directory: str | Path | None = None,
        resume: bool = False,
        log_events: bool = False,
    ):
        """With a `directory`, metrics.jsonl and checkpoints go there, and TensorBoard's events if asked for."""
        self.data, self.valid, self.settings = np.asarray(data), valid, settings
        self.stopped_early = self.has_diverged = False
        self.best: Best | None = None
        self.findings: tuple[Finding, ...] = ()
        self._sound: Parameters | None = None  # the last that were finite, for sure
        self.metrics = Metrics(None if directory is None else Path(directory), log_events)
        self._directory = None
        if directory is not None:
            self._directory = RunDirectory(directory, _identity(self.data, valid, settings), resume=resume)
        self._kept: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._saved_at = time.monotonic()

    def __enter__(self) -> "TrainingRun":
        """Take the directory, and what it holds of this run."""
        if self._directory is not None:
            self._directory.__enter__()
        try:
            self.is_pretraining = self.settings.pretrain is not None
            self.trainer = self._trainer(self.settings.before() if self.is_pretraining else self.settings)
            if self._directory is not None:
                self._directory.read(self._recall)
            self.metrics.open(0 if self.is_pretraining else self.trainer.num_updates)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        """Keep where training stands, and let others into the directory."""
        try:
            self._save()
        finally:
            self.metrics.close()
            if self._directory is not None:
                self._directory.__exit__()

    def __iter__(self) -> Iterator[Row]:
        """The rows of the updates that are left."""
        if self.is_pretraining:
            for progress in self.trainer.run():
                self._keep()
                yield Row(progress.num_updates, is_pretraining=True)
            self.is_pretraining = False
            self.trainer = self._trainer(self.settings, self.trainer.rbm)
        while self.trainer.num_updates < self.settings.num_updates and not (self.stopped_early or self.has_diverged):
            row = self._row(self.trainer.step())
            self._keep()
            yield row

    def _row(self, progress: TrainingUpdate) -> Row:
        row = Row(progress.num_updates, progress.train, progress.valid, progress.tracked, self._checked(progress))
        if row.tracked is not None:
            self.findings = row.tracked.findings
            self.has_diverged = row.tracked.verdict is Verdict.NONFINITE  # from where no gradient leads back
            self.metrics.add(row.to_dict())
            if not self.has_diverged:
                self._sound = progress.parameters
        if row.valid is not None and row.tracked is not None and row.tracked.verdict is Verdict.GOOD:
            low, high = row.valid.interval
            if self.best is None or row.valid.value > self.best.value:
                self.best = Best(row.num_updates, row.valid.value, (low, high), progress.parameters)
            self.stopped_early = self.settings.early_stop and high < self.best.interval[0]
        return row

    def _checked(self, progress: TrainingUpdate) -> Annealed | None:
        checking = self.settings.checking
        if checking is None or progress.num_updates % checking.every:
            return None
        key = jax.random.fold_in(self.trainer.key, _CHECKS + progress.num_updates)
        return annealed_log_z(key, as_rbm(progress.parameters), self.data.mean(axis=0), checking)

    def samples(self, num: int) -> np.ndarray:
        """Probabilities of the visible units of some chains near the target, as pictures show them best."""
        state = self.trainer.state
        if state.followed is not None:
            rungs = np.asarray(state.followed.positions.rung).ravel()
            v = np.asarray(state.followed.positions.x.v).reshape(len(rungs), -1)[np.argsort(-rungs, kind="stable")]
        else:
            v = self.data if state.phase is None else np.asarray(state.phase)
        rbm = state.parameters
        h = jax.nn.sigmoid(product(jnp.asarray(v[:num], jnp.float32), rbm.weights) + rbm.hbias)
        return np.asarray(jax.nn.sigmoid(product(h, rbm.weights.T) + rbm.vbias))

    def outcome(self) -> Outcome:
        """As far as training has come."""
        last = as_rbm(self._sound) if self.has_diverged and self._sound is not None else self.trainer.rbm
        best, update = (last, self.trainer.num_updates) if self.best is None else (
            as_rbm(self.best.parameters), self.best.num_updates
        )  # fmt: skip
        return Outcome(last, best, update, self.stopped_early, self.metrics.rows, self.findings)

    def save_model(self, path: str | Path) -> None:
        """W, vbias and hbias of the best parameters, as `tempering.load` takes them."""
        weights, vbias, hbias = self.outcome().best.on_host()
        np.savez(path, W=weights, vbias=vbias, hbias=hbias)

    def _trainer(self, settings: TrainSettings, rbm: RBM | None = None) -> Trainer:
        plain = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
        return Trainer(self.data, valid=self.valid, rbm=rbm, **plain)

    def _keep(self) -> None:
        """Remember where all is whole, by reference; on disk once in a while."""
        if self._directory is None or not self.trainer.is_whole:
            return
        about: dict[str, Any] = {"is_pretraining": self.is_pretraining, "stopped_early": self.stopped_early}
        about |= {"trainer": self.trainer.memory, "best": None, "has_diverged": self.has_diverged}
        about["findings"] = [[finding.verdict.name, finding.seen, finding.cure] for finding in self.findings]
        trees: dict[str, Any] = {"state": self.trainer.state}
        if self._sound is not None:
            trees["sound"] = self._sound
        if self.best is not None:
            about["best"] = {"num_updates": self.best.num_updates, "value": self.best.value}
            about["best"]["interval"] = list(self.best.interval)
            trees["best"] = self.best.parameters
        self._kept = about, trees
        if time.monotonic() - self._saved_at > SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        if self._directory is not None and self._kept is not None:
            self.metrics.flush()
            self._directory.write(*self._kept)
            self._kept, self._saved_at = None, time.monotonic()

    def _recall(self, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Go on from what was written."""
        if self.is_pretraining and not about["is_pretraining"]:
            self.is_pretraining, self.trainer = False, self._trainer(self.settings)
        self.trainer.recall(about["trainer"], lambda state: filled("state", state, arrays))
        self.stopped_early, self.has_diverged = about["stopped_early"], about["has_diverged"]
        self.findings = tuple(Finding(Verdict[name], seen, cure) for name, seen, cure in about["findings"])
        if "sound.0" in arrays:
            self._sound = filled("sound", self.trainer.state.parameters, arrays)
        if about["best"] is not None:
            parameters = filled("best", self.trainer.state.parameters, arrays)
            low, high = about["best"]["interval"]
            self.best = Best(about["best"]["num_updates"], about["best"]["value"], (low, high), parameters)


def _identity(data: np.ndarray, valid: Any, settings: TrainSettings) -> dict[str, Any]:
    """What must be the same when a run goes on; how long it is to be may change."""
    plain = {field.name: str(getattr(settings, field.name)) for field in dataclasses.fields(settings)}
    plain.pop("num_updates")
    rows = {"data": data} if valid is None else {"data": data, "valid": np.asarray(valid)}
    hashes = {
        name: hashlib.sha256(np.ascontiguousarray(rows, np.float32).tobytes()).hexdigest()[:16]
        for name, rows in rows.items()
    }
    return plain | hashes


def _plain(value: Any) -> Any:
    """Infinite and undefined numbers are not JSON."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value
